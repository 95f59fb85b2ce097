// One contract, run on every policy of the table with every schedule that it
// goes with.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "scheduler/passes/assign_versions.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/testing/programs.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

using testing::MustCompile;
using testing::SegmentOf;

void ForEachPair(
    const std::function<void(const Recipe&, const Policy&)>& body) {
  for (const ScheduleEntry& schedule : Schedules()) {
    for (const absl::string_view weights : schedule.weights) {
      CAPTURE(std::string(schedule.name), std::string(weights));
      body({std::string(schedule.name), std::string(weights)},
           **FindPolicy(weights));
    }
  }
}

// 72 units, and microbatches that any schedule has an order for.
Segment LongSegment(const Recipe& recipe, int accumulate) {
  if (!TakesMicrobatches(recipe.schedule)) return SegmentOf(72, 1, accumulate);
  return SegmentOf(3 * accumulate, 24, accumulate);
}

// Runs a row as a weight store would and returns the most versions it held.
// Fails when an action asks for a version that the policy let go.
int64_t MostVersionsHeld(const Row& row, const Policy& policy) {
  int64_t newest = 0;
  int64_t oldest = 0;  // kept: oldest..newest
  int64_t most = 1;
  std::map<int64_t, int64_t> read;  // unit -> version, in flight
  const std::vector<WeightVersion> to_come = OldestToCome(row);
  for (size_t i = 0; i < row.actions.size(); ++i) {
    const Action& action = row.actions[i];
    const int64_t version = action.version.value();
    switch (action.kind) {
      case ActionKind::kForward:
        read[action.number] = version;
        [[fallthrough]];
      case ActionKind::kBackward:
      case ActionKind::kWeightGradient:
        CHECK(version >= std::min(oldest, newest));
        CHECK(version <= newest);
        break;
      case ActionKind::kRelease:
        read.erase(action.number);
        break;
      case ActionKind::kUpdate: {
        Flight flight;
        flight.newest = WeightVersion{newest};
        for (const auto& [unit, in_flight] : read) {
          flight.forward_reads.push_back(WeightVersion{in_flight});
        }
        flight.oldest_to_come = to_come[i];
        oldest =
            std::min(newest + 1, policy.OldestStillAskedFor(flight).value());
        ++newest;
        CHECK(version == newest);
        most = std::max(most, newest - oldest + 1);
        break;
      }
      default:
        break;
    }
  }
  return most;
}

TEST_CASE(
    "policy: what it keeps is enough for all that is asked, and no more than "
    "it says") {
  ForEachPair([](const Recipe& recipe, const Policy& policy) {
    testing::ForEachShape(3, 3, [&](PipelineShape shape) {
      for (const int in_flight : {0, 2, 7}) {
        for (const int accumulate : {1, 3}) {
          shape.in_flight = in_flight;
          const Segment segment = LongSegment(recipe, accumulate);
          // Some schedules fix what is in flight, or want equal replicas.
          if (!CheckNumbers(recipe, shape, segment).ok()) continue;
          const Program program = MustCompile(recipe, shape, segment);
          for (const Row& row : program.rows) {
            CAPTURE(shape.replicas, in_flight, accumulate, row.stage.value());
            CHECK(MostVersionsHeld(row, policy) <=
                  policy.MostVersions(program.shape, row.stage, accumulate));
          }
        }
      }
    });
  });
}

TEST_CASE("policy: what it keeps is enough where replicas have shares") {
  ForEachPair([](const Recipe& recipe, const Policy& policy) {
    testing::ForEachShares(2, 3, 3, [&](PipelineShape shape) {
      for (const int in_flight : {0, 4}) {
        shape.in_flight = in_flight;
        const Segment segment = LongSegment(recipe, 1);
        if (!CheckNumbers(recipe, shape, segment).ok()) continue;
        CAPTURE(shape.replicas, shape.shares, in_flight);
        const auto program = Compile(recipe, shape, segment);
        REQUIRE(program.status() == absl::OkStatus());
        for (const Row& row : program->rows) {
          CAPTURE(row.stage.value());
          CHECK(MostVersionsHeld(row, policy) <=
                policy.MostVersions(program->shape, row.stage, 1));
        }
      }
    });
  });
}

TEST_CASE(
    "policy: the number of versions that it says is reached in a long run") {
  ForEachPair([](const Recipe& recipe, const Policy& policy) {
    testing::ForEachShape(4, 3, [&](const PipelineShape& shape) {
      for (const int accumulate : {1, 2}) {
        const Segment segment = LongSegment(recipe, accumulate);
        if (!CheckNumbers(recipe, shape, segment).ok()) continue;
        const Program program = MustCompile(recipe, shape, segment);
        std::vector<int64_t> most(shape.stages(), 0);
        for (const Row& row : program.rows) {
          int64_t& stage = most[row.stage.value()];
          stage = std::max(stage, MostVersionsHeld(row, policy));
        }
        for (int s = 0; s < shape.stages(); ++s) {
          CAPTURE(shape.replicas, s, accumulate);
          CHECK(most[s] ==
                policy.MostVersions(program.shape, StageId{s}, accumulate));
        }
      }
    });
  });
}

TEST_CASE("policy: what is read exists, and a backward reads nothing older") {
  for (const PolicyEntry& entry : Policies()) {
    CAPTURE(std::string(entry.name));
    const Policy& policy = *entry.get();
    for (int64_t newest = 3; newest < 8; ++newest) {
      for (int64_t at_entry = 3; at_entry <= newest; ++at_entry) {
        VersionQuery query;
        query.first = WeightVersion{3};
        query.newest = WeightVersion{newest};
        query.at_entry = WeightVersion{at_entry};
        query.applied_to = query.newest;
        query.forward_read = policy.ForForward(query);
        CHECK(query.forward_read >= query.first);
        CHECK(query.forward_read <= query.newest);
        query.newest = WeightVersion{newest + 2};
        const WeightVersion backward = policy.ForBackward(query);
        CHECK(backward >= query.forward_read);
        CHECK(backward <= query.newest);
      }
    }
  }
}

// A forward and a backward that read different weights are the mistake that
// stashing is there to avoid; only these two do not stash.
TEST_CASE("policy: a backward reads what its forward read, unless it is none") {
  for (const PolicyEntry& entry : Policies()) {
    VersionQuery query;
    query.newest = WeightVersion{9};
    query.forward_read = WeightVersion{4};
    const bool stashes = entry.name != "none" && entry.name != "flush";
    CAPTURE(std::string(entry.name));
    CHECK((entry.get()->ForBackward(query) == query.forward_read) == stashes);
  }
}

TEST_CASE(
    "policy: with nothing in flight and nothing to come the newest is "
    "overwritten, but for double buffers") {
  Flight flight;
  flight.newest = WeightVersion{6};
  for (const PolicyEntry& entry : Policies()) {
    CAPTURE(std::string(entry.name));
    const bool overwritten =
        entry.get()->OldestStillAskedFor(flight) > flight.newest;
    CHECK(overwritten == (entry.name != "two_version"));
  }
}

TEST_CASE("stash: a version is kept until the last backward that reads it") {
  const Policy& stash = **FindPolicy("stash");
  Flight flight;
  flight.newest = WeightVersion{6};
  flight.forward_reads = {WeightVersion{5}, WeightVersion{4}, WeightVersion{6}};
  CHECK(stash.OldestStillAskedFor(flight) == WeightVersion{4});
}

TEST_CASE("vertical_sync: a version that only units to come ask for is kept") {
  const Policy& vertical = **FindPolicy("vertical_sync");
  Flight flight;
  flight.newest = WeightVersion{6};
  flight.oldest_to_come = WeightVersion{3};
  CHECK(vertical.OldestStillAskedFor(flight) == WeightVersion{3});
  flight.forward_reads = {WeightVersion{2}};
  CHECK(vertical.OldestStillAskedFor(flight) == WeightVersion{2});
}

TEST_CASE("policy: an unknown name lists the known ones") {
  CHECK(FindPolicy("three").status().message() ==
        "weight policy \"three\" is not known; known policies: stash, "
        "vertical_sync, none, flush, two_version");
  CHECK(std::string(FindSchedule("2f2b").status().message())
            .find("schedule \"2f2b\" is not known; known schedules: 1f1b, "
                  "model_parallel, gpipe, flush, two_version") == 0);
}

}  // namespace
}  // namespace pipework
