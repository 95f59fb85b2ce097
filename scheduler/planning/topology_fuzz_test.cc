// A cluster described by anybody, as text or in binary form, never does harm.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/check.h"
#include "scheduler/planning/devices.h"
#include "scheduler/planning/topology.h"

namespace {

// The parser would print every error.
class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, int /*column*/,
                const std::string& /*message*/) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  pipework::v1::Topology topology;
  google::protobuf::TextFormat::Parser parser;
  Silent silent;
  parser.RecordErrorsTo(&silent);
  parser.SetRecursionLimit(20);
  if (!parser.ParseFromString(bytes, &topology) &&
      !topology.ParsePartialFromString(bytes)) {
    return 0;
  }
  // Large clusters are no different, only slow.
  int64_t devices = 1;
  for (const auto& level : topology.levels()) {
    if (level.count() > 0) devices *= level.count();
    if (devices > 4096) return 0;
  }

  const auto expanded = pipework::ExpandTopology(topology);
  if (!expanded.ok()) {
    PIPE_CHECK(!expanded.status().message().empty());
    PIPE_CHECK(expanded.status().message().find('\n') ==
               absl::string_view::npos);
    return 0;
  }
  const pipework::DevicePool pool = pipework::MakePool(*expanded, 1);
  if (pool.size() == 0) return 0;
  PIPE_CHECK(pool.levels.size() >= 2);
  const int last = pool.size() - 1;
  pool.LinkBetween(0, last);
  pool.LinkOf({0, last / 2, last});
  pool.UniformCounts();
  std::vector<pipework::SeatRequest> stages(2);
  stages[0].replicas = (pool.size() + 1) / 2;
  stages[0].seconds = 1;
  const auto seats = pipework::AssignSeats(pool, stages, {});
  PIPE_CHECK(seats.ok() == (pool.size() > 1));
  return 0;
}
