// Interleaved 1F1B (Narayanan et al., "Efficient Large-Scale Language Model
// Training on GPU Clusters", SC 2021).
//
// Every stage has v chunks of layers; chunk c of stage s of p is virtual stage
// c p + s. A stage takes the microbatches p at a time through each of its
// chunks: step k is chunk (k mod p v) / p, the last one first in a backward, of
// microbatch (k / (p v)) p + k mod p. It runs min(2 (p - s - 1) + (v - 1) p, m
// v) forward steps first, or all where m = p, then alternates one forward with
// one backward. The bubble is that of 1F1B divided by v.
//
// With one chunk it is 1F1B itself, which holds fewer. With r replicas of every
// stage, each takes every r-th microbatch.
#include "scheduler/schedules/interleaved.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "scheduler/schedules/flush.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

// Forward steps before the first backward.
int WarmSteps(const PipelineShape& shape, StageId stage, int m) {
  const int p = shape.stages();
  const int v = shape.chunks;
  if (m == p) return m * v;
  return std::min(2 * (p - stage.value() - 1) + (v - 1) * p, m * v);
}

}  // namespace

std::vector<Action> Interleaved(const Program& program, StageId stage,
                                ReplicaId replica) {
  if (program.shape.chunks == 1) return Flush(program, stage, replica);
  const int p = program.shape.stages();
  const int v = program.shape.chunks;
  return RowOfFlushes(
      program, stage, replica,
      [&](const std::vector<int64_t>& units, std::vector<Action>* actions) {
        const int m = static_cast<int>(units.size());
        PIPE_CHECK(m % p == 0);
        const auto run = [&](ActionKind kind, int k) {
          const int turn = k % (p * v) / p;
          const int64_t unit = units[k / (p * v) * p + k % p];
          actions->push_back(UnitAction(kind, program, unit));
          actions->back().chunk =
              kind == ActionKind::kForward ? turn : v - 1 - turn;
        };
        const int warm = WarmSteps(program.shape, stage, m);
        for (int k = 0; k < warm; ++k) run(ActionKind::kForward, k);
        for (int k = 0; k < m * v; ++k) {
          if (warm + k < m * v) run(ActionKind::kForward, warm + k);
          run(ActionKind::kBackward, k);
        }
      });
}

int InterleavedInFlight(const PipelineShape& shape, const Segment& segment,
                        StageId stage) {
  const int m = MostOwned(shape, segment, stage);
  if (shape.chunks == 1) return std::min(Warmup(shape, stage) + 1, m);
  return std::min(WarmSteps(shape, stage, m) + 1, m * shape.chunks);
}

absl::Status CheckInterleaved(const PipelineShape& shape,
                              const Segment& segment) {
  constexpr absl::string_view kWho = "schedule \"interleaved\"";
  for (int s = 1; s < shape.stages(); ++s) {
    if (shape.replicas[s] == shape.replicas[0] &&
        !shape.has_shares(StageId{s}) && !shape.has_shares(StageId{0})) {
      continue;
    }
    return Mismatch(
        kWho, absl::StrCat("replicas of stage ", s),
        absl::StrCat(shape.replicas[s]),
        absl::StrCat(shape.replicas[0], ", as many as the first stage has"));
  }
  if (shape.chunks == 1) return absl::OkStatus();
  if (shape.in_flight > 0) {
    return Mismatch(kWho, "in_flight", absl::StrCat(shape.in_flight), "noam",
                    "its order fixes what is in flight");
  }
  const int round = shape.stages() * shape.replicas[0];
  if (segment.microbatches % round == 0) return absl::OkStatus();
  return Mismatch(kWho, "microbatches", absl::StrCat(segment.microbatches),
                  absl::StrCat("a multiple of ", round,
                               ", the stages times their replicas"));
}

}  // namespace pipework
