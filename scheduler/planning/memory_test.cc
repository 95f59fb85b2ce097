#include "scheduler/planning/memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "scheduler/passes/assign_versions.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/testing/programs.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

Workload WorkOf(const ScheduleEntry& schedule, absl::string_view weights,
                int in_flight) {
  Workload work;
  work.recipe = {std::string(schedule.name), std::string(weights)};
  work.unit_is_microbatch = schedule.unit_is_microbatch;
  work.microbatches = schedule.unit_is_microbatch ? 36 : 1;
  PipelineShape limits;
  limits.in_flight = in_flight;
  work.in_flight = ShapeFor(work.recipe, limits).in_flight;
  return work;
}

// Most versions and units that a row holds, counted from its actions.
Holds Counted(const Row& row, const Policy& policy) {
  Holds most{1, 0};
  std::map<int64_t, WeightVersion> read;
  const std::vector<WeightVersion> to_come = OldestToCome(row);
  for (size_t i = 0; i < row.actions.size(); ++i) {
    const Action& action = row.actions[i];
    if (action.kind == ActionKind::kForward) {
      read[action.number] = action.version;
      most.activations =
          std::max(most.activations, static_cast<int>(read.size()));
    } else if (action.kind == ActionKind::kRelease) {
      read.erase(action.number);
    } else if (action.kind == ActionKind::kUpdate) {
      Flight flight;
      flight.newest = WeightVersion{action.version.value() - 1};
      for (const auto& [unit, version] : read) {
        flight.forward_reads.push_back(version);
      }
      flight.oldest_to_come = to_come[i];
      const int64_t oldest =
          std::min(action.version, policy.OldestStillAskedFor(flight)).value();
      most.versions = std::max(
          most.versions, static_cast<int>(action.version.value() - oldest + 1));
    }
  }
  return most;
}

// The partitioner is told what a stage holds; this is where the two meet.
TEST_CASE(
    "memory: what the partitioner is told is what every policy really holds") {
  for (const ScheduleEntry& schedule : Schedules()) {
    for (const absl::string_view weights : schedule.weights) {
      for (const int in_flight : {0, 1, 3, 9}) {
        const Workload work = WorkOf(schedule, weights, in_flight);
        const HoldsFn told = HoldsFor(work);
        const Policy& policy = **FindPolicy(weights);
        // Depends on how many replicas the first stage has, not on the workers
        // before this one alone.
        const bool exactly_told = weights != "vertical_sync";
        testing::ForEachShape(3, 3, [&](PipelineShape shape) {
          shape.in_flight = in_flight;
          const Segment segment =
              testing::SegmentOf(schedule.unit_is_microbatch ? 3 : 72,
                                 work.UnitsOf(shape.replicas[0]));
          if (!CheckNumbers(work.recipe, shape, segment).ok()) return;
          const Program program =
              testing::MustCompile(work.recipe, shape, segment);
          shape = program.shape;
          int before = 0;
          for (int s = 0; s < shape.stages(); ++s) {
            const int replicas = shape.replicas[s];
            const Holds partitioner = told(shape.workers(), before, replicas);
            const Holds exact = HoldsOf(work, shape, StageId{s});
            Holds held;
            for (int q = 0; q < replicas; ++q) {
              const Holds row =
                  Counted(program.row(StageId{s}, ReplicaId{q}), policy);
              held.versions = std::max(held.versions, row.versions);
              held.activations = std::max(held.activations, row.activations);
            }
            CAPTURE(work.recipe.schedule, in_flight, shape.replicas, s);
            CHECK(held.versions == exact.versions);
            CHECK(held.activations == exact.activations);
            CHECK(partitioner.versions >= held.versions);
            // In units of one size: those of several first replicas are
            // smaller.
            CHECK(partitioner.activations * exact.parts >=
                  held.activations * partitioner.parts);
            CHECK(exact.parts ==
                  (schedule.unit_is_microbatch ? shape.replicas[0] : 1));
            if (in_flight == 0) {
              if (exactly_told) {
                CHECK(partitioner.versions == held.versions);
              }
              if (exact.parts == partitioner.parts) {
                CHECK(partitioner.activations == held.activations);
              }
            }
            before += replicas;
          }
        });
      }
    }
  }
}

TEST_CASE(
    "memory: weights, other versions, units in flight and optimizer add up") {
  ChainProfile chain;
  for (int l = 0; l < 3; ++l) {
    LayerCost cost;
    cost.parameter_bytes = 100;
    cost.kept_bytes = 10;
    cost.workspace_bytes = 5 * (l + 1);
    chain.layers.push_back(cost);
  }
  chain.cut_bytes = {7, 8, 0};
  v1::OptimizerSpec optimizer;
  optimizer.set_name("sgd");
  StageMemory memory = MemoryOf(chain, 1, 2, {3, 2}, optimizer);
  CHECK(memory.weight_bytes == 200);
  CHECK(memory.stash_bytes == 400);
  CHECK(memory.activation_bytes == 2 * 20);
  CHECK(MemoryOf(chain, 1, 2, {3, 2, 4}, optimizer).activation_bytes == 10);
  CHECK(memory.optimizer_bytes == 200);
  CHECK(memory.workspace_bytes == 17);
  CHECK(memory.total() == 200 + 400 + 40 + 200 + 17);
  optimizer.set_momentum(0.9);
  CHECK(MemoryOf(chain, 1, 2, {1, 1}, optimizer).optimizer_bytes == 400);
  optimizer.set_name("adam");
  CHECK(MemoryOf(chain, 1, 2, {1, 1}, optimizer).optimizer_bytes == 600);
}

TEST_CASE("memory: what is received is kept where no layer keeps it instead") {
  // A linear layer, a ReLU that keeps its output, a linear layer that reads it,
  // a view, a linear layer that keeps its input.
  ChainProfile chain;
  const int64_t kept[] = {4, 9, 0, 0, 8};
  const int64_t parameters[] = {100, 0, 100, 0, 100};
  for (int l = 0; l < 5; ++l) {
    LayerCost cost;
    cost.kept_bytes = kept[l];
    cost.parameter_bytes = parameters[l];
    cost.output_bytes = 9;
    chain.layers.push_back(cost);
  }
  chain.cut_bytes = {9, 9, 8, 8, 0};
  const v1::OptimizerSpec optimizer;
  const auto activations = [&](int first, int last) {
    return MemoryOf(chain, first, last, {1, 1}, optimizer).activation_bytes;
  };
  CHECK(activations(0, 0) == 4);
  CHECK(activations(1, 2) == 9);   // the ReLU's output alone
  CHECK(activations(2, 2) == 9);   // its input, which the ReLU keeps too
  CHECK(activations(3, 4) == 8);   // through the view
  CHECK(activations(0, 4) == 21);  // every value once
  CHECK(MemoryOf(chain, 1, 2, {1, 1}, optimizer).workspace_bytes == 18);
  chain.outputs_kept = true;
  CHECK(activations(1, 2) == 9 + 9);  // nothing is known: with what it receives
}

TEST_CASE("memory: bytes are written with their unit") {
  CHECK(BytesText(512) == "512 B");
  CHECK(BytesText(1536) == "1.5 KiB");
  CHECK(BytesText(int64_t{19} << 30) == "19.0 GiB");
}

}  // namespace
}  // namespace pipework
