#include "partitioner/algorithms/partitioner.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {

int PartitionInput::workers() const {
  int workers = 1;
  for (const Level& level : levels) workers *= level.components;
  return workers;
}

namespace {

// Sums and products of so much stay finite.
constexpr double kMostCost = 1e100;
constexpr double kMostWorkers = 1 << 20;

absl::Status CheckPredecessors(const std::vector<int>& inside, int state) {
  int last = -1;
  for (const int other : inside) {
    if (other <= last || other >= state) {
      return Mismatch(
          "partitioner", absl::StrCat("a predecessor of state ", state),
          absl::StrCat(other), absl::StrCat(last + 1, " to ", state - 1));
    }
    last = other;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPartitionInput(const PartitionInput& input) {
  if (input.layers() == 0) {
    return Mismatch("partitioner", "the number of layers", "0", "1 or more");
  }
  const bool chain = input.predecessors.empty();
  const std::vector<double>& seconds =
      chain ? input.layer_seconds : input.state_seconds;
  const std::vector<double>& weights =
      chain ? input.weight_bytes : input.state_weight_bytes;
  const size_t layers = input.layers();
  if (seconds.size() != layers || weights.size() != layers ||
      input.cut_bytes.size() != layers) {
    return Mismatch("partitioner", "the number of seconds, weights or cuts",
                    absl::StrCat(seconds.size(), ", ", weights.size(), " or ",
                                 input.cut_bytes.size()),
                    absl::StrCat(layers, " as of layers"));
  }
  for (size_t l = 0; l < layers; ++l) {
    for (const double value : {seconds[l], weights[l], input.cut_bytes[l]}) {
      if (!(value >= 0 && value <= kMostCost)) {
        return Mismatch("partitioner", absl::StrCat("a cost of layer ", l),
                        absl::StrCat(value),
                        absl::StrCat("a number from 0 to ", kMostCost));
      }
    }
    if (!chain) RETURN_IF_ERROR(CheckPredecessors(input.predecessors[l], l));
  }
  double workers = 1;
  for (const Level& level : input.levels) {
    if (level.components < 1) {
      return Mismatch("partitioner", "the components of a level",
                      absl::StrCat(level.components), "1 or more");
    }
    const Link& link = level.link;
    for (const double value :
         {link.bytes_per_second, link.latency_seconds, link.compute_share}) {
      if (!(value >= 0 && value <= kMostCost)) {
        return Mismatch("partitioner",
                        "a bandwidth, latency or share of a level",
                        absl::StrCat(value),
                        absl::StrCat("a number from 0 to ", kMostCost));
      }
    }
    workers *= level.components;
  }
  if (workers > kMostWorkers) {
    return Mismatch("partitioner", "the number of devices",
                    absl::StrCat(workers),
                    absl::StrCat("at most ", kMostWorkers));
  }
  if (input.levels.empty() || input.cost_model == nullptr) {
    return Mismatch("partitioner", "levels or cost model", "missing",
                    "one level at least, and a cost model");
  }
  return absl::OkStatus();
}

}  // namespace pipework
