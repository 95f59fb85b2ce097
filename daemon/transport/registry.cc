// The data planes. To add one: a file here, a line in the table, and its name
// in transport_contract_test.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/transport/in_process.h"
#include "daemon/transport/transport.h"
#include "daemon/transport/ucx.h"

namespace pipework {
namespace {

using MakeFn =
    absl::StatusOr<std::unique_ptr<DataPlane>> (*)(const DataPlaneOptions&);

template <Buffering kBuffering>
absl::StatusOr<std::unique_ptr<DataPlane>> MakeInProcess(
    const DataPlaneOptions& options) {
  return std::make_unique<InProcessPlane>(options, kBuffering);
}

struct Entry {
  const char* name;
  const char* summary;
  MakeFn make;
};

constexpr Entry kPlanes[] = {
    {"in_process", "hand-over between executors of one runner",
     &MakeInProcess<Buffering::kUnbounded>},
    {"ucx", "in process within a runner, UCX between runners", &MakeUcxPlane},
    {"zero_buffer", "for tests: messages stay with the sender until asked for",
     &MakeInProcess<Buffering::kZero>},
    {"one_slot", "for tests: one message of each sender goes ahead",
     &MakeInProcess<Buffering::kOneSlot>},
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataPlane>> MakeDataPlane(
    const std::string& name, const DataPlaneOptions& options) {
  std::vector<std::string> known;
  for (const Entry& entry : kPlanes) {
    if (entry.name == name) return entry.make(options);
    known.push_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat(
      "data plane \"", name,
      "\" is not known; known data planes: ", absl::StrJoin(known, ", ")));
}

}  // namespace pipework
