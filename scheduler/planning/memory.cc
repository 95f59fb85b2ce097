#include "scheduler/planning/memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/check.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/versioning/policy.h"

namespace pipework {

namespace {

// The part of what a stage receives that it keeps beside what its layers keep.
// A profile counts a value once, at the layer that keeps it first, such as a
// ReLU its output; where the cut lies behind that layer both sides keep it.
int64_t KeptOfReceived(const ChainProfile& chain, int first, int last) {
  if (first == 0) return 0;
  const int64_t received = chain.cut_bytes[first - 1];
  if (chain.outputs_kept) return received;
  for (int l = first; l <= last; ++l) {
    const LayerCost& cost = chain.layers[l];
    if (cost.kept_bytes > 0) {
      return std::max<int64_t>(0, received - cost.kept_bytes);
    }
    if (cost.parameter_bytes > 0) return received;  // for its weight gradient
  }
  return 0;
}

}  // namespace

StageMemory MemoryOf(const ChainProfile& chain, int first, int last,
                     const Holds& holds, const v1::OptimizerSpec& optimizer) {
  StageMemory memory;
  const LayerCost cost = chain.CostOf(first, last);
  const int64_t kept = cost.kept_bytes + KeptOfReceived(chain, first, last);
  memory.weight_bytes = cost.parameter_bytes;
  int64_t read = first > 0 ? chain.cut_bytes[first - 1] : chain.x_bytes;
  for (int l = first; l <= last; ++l) {
    const LayerCost& layer = chain.layers[l];
    // What a layer reads and writes is there while it runs.
    const int64_t now = chain.outputs_kept ? 0 : read + layer.output_bytes;
    memory.workspace_bytes =
        std::max(memory.workspace_bytes, layer.workspace_bytes + now);
    read = layer.output_bytes;
  }
  // Gradients, and the optimizer's state: two moments, one, or none.
  const int copies = optimizer.name() == "adam"    ? 3
                     : optimizer.momentum() != 0.0 ? 2
                                                   : 1;
  memory.stash_bytes = (holds.versions - 1) * memory.weight_bytes;
  memory.activation_bytes =
      (holds.activations * kept + holds.parts - 1) / holds.parts;
  memory.optimizer_bytes = copies * memory.weight_bytes;
  return memory;
}

Holds HoldsOf(const Workload& work, const PipelineShape& shape, StageId stage) {
  const absl::StatusOr<const Policy*> policy = FindPolicy(work.recipe.weights);
  PIPE_CHECK(policy.ok());  // the recipe has been checked
  Holds holds;
  holds.versions = (*policy)->MostVersions(shape, stage, work.accumulate);
  const absl::StatusOr<const ScheduleEntry*> schedule =
      FindSchedule(work.recipe.schedule);
  PIPE_CHECK(schedule.ok());
  Segment segment;
  const int round = shape.round(StageId{0});
  segment.microbatches = work.UnitsOf(round);
  segment.accumulate = work.accumulate;
  holds.activations = (*schedule)->in_flight(shape, segment, stage);
  holds.parts = work.PartsOf(round);
  return holds;
}

HoldsFn HoldsFor(const Workload& work) {
  return [&work](int workers, int before, int replicas) {
    const bool vertical = work.recipe.weights == "vertical_sync";
    const int behind = workers - before - replicas;
    // Any pipeline with these three numbers holds the same under NOAM, and with
    // one in flight. But microbatches are largest where the first stage has one
    // replica.
    PipelineShape shape;
    shape.in_flight = work.in_flight == 1 ? 1 : 0;
    const int first_of_before = work.unit_is_microbatch ? 1 : before;
    if (before > 0) shape.replicas.push_back(first_of_before);
    if (before > first_of_before) {
      shape.replicas.push_back(before - first_of_before);
    }
    StageId stage{shape.stages()};
    shape.replicas.push_back(replicas);
    if (behind > 0) shape.replicas.push_back(behind);
    // Or, where all stages have as many replicas, there is only one such.
    const auto schedule = FindSchedule(work.recipe.schedule);
    const bool equal = schedule.ok() && (*schedule)->equal_replicas;
    if (equal) {
      shape.replicas.assign(std::max(1, workers / replicas), replicas);
      stage = StageId{std::min(before / replicas, shape.stages() - 1)};
    }
    Holds holds = HoldsOf(work, shape, stage);
    // But vertical sync also asks how many of them are the first stage's.
    for (int first = 1; first < before && vertical; ++first) {
      PipelineShape other = shape;
      other.replicas[0] = before - first;
      other.replicas.insert(other.replicas.begin(), first);
      holds.versions =
          std::max(holds.versions, HoldsOf(work, other, StageId{2}).versions);
    }
    if (work.in_flight <= 1) return holds;
    // Deeper than NOAM: no more than all units that the first stage admits,
    // and it has no more replicas than there are workers before this one.
    const int first = before > 0 && !equal ? first_of_before : replicas;
    const int deepest = work.in_flight * first / replicas + 1;
    if (behind > 0) holds.activations = std::max(holds.activations, deepest);
    if (vertical) {
      holds.versions = std::max(holds.versions, deepest + 1);
    } else if (behind > 0 && work.recipe.weights == "stash") {
      holds.versions = std::max(holds.versions, deepest);
    }
    return holds;
  };
}

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  int unit = -1;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace pipework
