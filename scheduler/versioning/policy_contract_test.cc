// One contract, run on every policy of the table with every schedule that it
// goes with.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "scheduler/schedules/schedule.h"
#include "scheduler/testing/programs.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

void ForEachPair(
    const std::function<void(const ScheduleEntry&, const Policy&)>& body) {
  for (const ScheduleEntry& schedule : Schedules()) {
    for (const absl::string_view weights : schedule.weights) {
      CAPTURE(std::string(schedule.name), std::string(weights));
      body(schedule, **FindPolicy(weights));
    }
  }
}

// Runs a row as a weight store would and returns the most versions it held.
// Fails when an action asks for a version that the policy let go.
int64_t MostHeld(const Row& row, const Policy& policy, int64_t first_version) {
  int64_t newest = first_version;
  int64_t oldest = first_version;  // kept: oldest..newest
  int64_t most = 1;
  std::map<int64_t, int64_t> read;  // unit -> version, in flight
  for (const Action& action : row.actions) {
    const int64_t version = action.version.value();
    switch (action.kind) {
      case ActionKind::kForward:
        read[action.number] = version;
        [[fallthrough]];
      case ActionKind::kBackward:
        CHECK(version >= oldest);
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
        oldest = policy.OldestStillAskedFor(flight).value();
        CHECK(oldest <= newest + 1);
        ++newest;
        CHECK(version == newest);
        most = std::max(most, newest - std::min(oldest, newest) + 1);
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
  ForEachPair([](const ScheduleEntry& schedule, const Policy& policy) {
    testing::ForEachShape(3, 3, [&](PipelineShape shape) {
      for (const int in_flight : {0, 2, 7}) {
        for (const int accumulate : {1, 3}) {
          shape.in_flight = in_flight;
          const int microbatches = schedule.unit_is_microbatch ? 4 : 1;
          const Program program =
              MustCompile(std::string(schedule.name), shape,
                          SegmentOf(36, microbatches, accumulate));
          for (const Row& row : program.rows) {
            CAPTURE(shape.replicas, in_flight, accumulate, row.stage.value());
            const int64_t most = MostHeld(row, policy, 0);
            CHECK(most <= policy.MostVersions(shape, row.stage, accumulate));
          }
        }
      }
    });
  });
}

TEST_CASE("policy: what it keeps is enough where replicas have shares") {
  ForEachPair([](const ScheduleEntry& schedule, const Policy& policy) {
    testing::ForEachShares(2, 3, 3, [&](PipelineShape shape) {
      for (const int in_flight : {0, 4}) {
        shape.in_flight = in_flight;
        const Program program =
            MustCompile(std::string(schedule.name), shape,
                        SegmentOf(24, schedule.unit_is_microbatch ? 5 : 1));
        for (const Row& row : program.rows) {
          CAPTURE(shape.replicas, shape.shares, in_flight, row.stage.value());
          CHECK(MostHeld(row, policy, 0) <=
                policy.MostVersions(shape, row.stage, 1));
        }
      }
    });
  });
}

TEST_CASE(
    "policy: the number of versions that it says is reached in a long run") {
  ForEachPair([](const ScheduleEntry& schedule, const Policy& policy) {
    testing::ForEachShape(4, 3, [&](const PipelineShape& shape) {
      const Program program =
          MustCompile(std::string(schedule.name), shape,
                      SegmentOf(36, schedule.unit_is_microbatch ? 4 : 1));
      for (const Row& row : program.rows) {
        CAPTURE(shape.replicas, row.stage.value());
        CHECK(MostHeld(row, policy, 0) ==
              policy.MostVersions(shape, row.stage, 1));
      }
    });
  });
}

TEST_CASE(
    "policy: a forward reads what exists, a backward what its forward read") {
  ForEachPair([](const ScheduleEntry&, const Policy& policy) {
    for (int64_t newest = 0; newest < 5; ++newest) {
      VersionQuery query;
      query.newest = WeightVersion{newest};
      query.at_entry = WeightVersion{newest};
      query.forward_read = policy.ForForward(query);
      CHECK(query.forward_read <= query.newest);
      CHECK(policy.ForBackward(query) == query.forward_read);
    }
  });
}

TEST_CASE("policy: with nothing in flight the newest is overwritten in place") {
  Flight flight;
  flight.newest = WeightVersion{6};
  for (const PolicyEntry& entry : Policies()) {
    CAPTURE(std::string(entry.name));
    CHECK(entry.get()->OldestStillAskedFor(flight) == WeightVersion{7});
  }
}

TEST_CASE("stash: a version is kept until the last backward that reads it") {
  const Policy& stash = **FindPolicy("stash");
  Flight flight;
  flight.newest = WeightVersion{6};
  flight.forward_reads = {WeightVersion{5}, WeightVersion{4}, WeightVersion{6}};
  CHECK(stash.OldestStillAskedFor(flight) == WeightVersion{4});
}

TEST_CASE("policy: an unknown name lists the known ones") {
  CHECK(FindPolicy("two_version").status().message() ==
        "weight policy \"two_version\" is not known; known policies: stash, "
        "flush");
  CHECK(FindSchedule("gpipe").status().message() ==
        "schedule \"gpipe\" is not known; known schedules: 1f1b, flush");
}

}  // namespace
}  // namespace pipework
