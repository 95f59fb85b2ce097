#include "scheduler/passes/network.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

absl::Status CheckLength(absl::string_view what, size_t got, size_t wanted) {
  if (got == 0 || got == wanted) return absl::OkStatus();
  return Mismatch("simulation", absl::StrCat("the length of ", what),
                  absl::StrCat(got), absl::StrCat(wanted));
}

absl::Status CheckNumber(absl::string_view what, double number) {
  if (std::isfinite(number) && number >= 0) return absl::OkStatus();
  return Mismatch("simulation", what, absl::StrCat(number), "0 or more");
}

absl::Status CheckLink(const Link& link) {
  RETURN_IF_ERROR(CheckNumber("bytes_per_second", link.bytes_per_second));
  return CheckNumber("latency_seconds", link.latency_seconds);
}

}  // namespace

Route RouteOf(const Network& network, size_t from_row, size_t to_row) {
  const std::vector<int>& from = network.row_path[from_row];
  const std::vector<int>& to = network.row_path[to_row];
  Route route;
  for (int k = static_cast<int>(network.levels.size()) - 1; k >= 0; --k) {
    if (from[k] == to[k]) continue;
    route = {k, from[k], to[k], network.levels[k]};
    for (const Network::Pair& pair : network.pairs) {
      if (pair.level != k) continue;
      if ((pair.a == from[k] && pair.b == to[k]) ||
          (pair.b == from[k] && pair.a == to[k])) {
        route.link = pair.link;
      }
    }
    return route;
  }
  return route;
}

absl::Status CheckNetwork(const Network& network, const Program& program) {
  const int levels = static_cast<int>(network.levels.size());
  const size_t stages = program.shape.replicas.size();
  const size_t edges = EdgesOf(program.shape).size();
  RETURN_IF_ERROR(
      CheckLength("forward_bytes", network.forward_bytes.size(), edges));
  RETURN_IF_ERROR(
      CheckLength("backward_bytes", network.backward_bytes.size(), edges));
  RETURN_IF_ERROR(
      CheckLength("all_reduce_bytes", network.all_reduce_bytes.size(), stages));
  if (levels > 0 && network.row_path.size() != program.rows.size()) {
    return Mismatch("simulation", "the length of row_path",
                    absl::StrCat(network.row_path.size()),
                    absl::StrCat(program.rows.size()));
  }
  for (const std::vector<int>& path : network.row_path) {
    if (static_cast<int>(path.size()) != levels) {
      return Mismatch("simulation", "the length of a row's path",
                      absl::StrCat(path.size()),
                      absl::StrCat(levels, " levels"));
    }
    for (const int component : path) {
      if (component < 0) {
        return Mismatch("simulation", "a component of a row's path",
                        absl::StrCat(component), "0 or more");
      }
    }
  }
  for (const Link& link : network.levels) RETURN_IF_ERROR(CheckLink(link));
  for (const Network::Pair& pair : network.pairs) {
    if (pair.level < 0 || pair.level >= levels) {
      return Mismatch("simulation", "the level of a pair",
                      absl::StrCat(pair.level), absl::StrCat("below ", levels));
    }
    RETURN_IF_ERROR(CheckLink(pair.link));
  }
  for (const std::vector<double>* list :
       {&network.forward_bytes, &network.backward_bytes,
        &network.all_reduce_bytes}) {
    for (const double bytes : *list) {
      RETURN_IF_ERROR(CheckNumber("bytes of a message", bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
