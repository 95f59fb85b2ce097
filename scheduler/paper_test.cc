// One test for each claim of the papers that we rely on.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "scheduler/compile.h"
#include "scheduler/passes/simulate.h"
#include "scheduler/passes/validate.h"
#include "scheduler/testing/programs.h"
#include "scheduler/testing/scalar_chain.h"

namespace pipework {
namespace {

using testing::ActionsOf;
using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

std::vector<int> VersionsOf(std::vector<int> replicas) {
  const PipelineShape shape = ChainOf(std::move(replicas));
  std::vector<int> versions;
  for (int s = 0; s < shape.stages(); ++s) {
    versions.push_back(Versions(shape, StageId{s}));
  }
  return versions;
}

// Stage s holds ceil((N - sum over t < s of r_t) / r_s) weight versions; in a
// straight pipeline that is its distance from the end.
TEST_CASE("paper: versions of a stage by its replicas and those before it") {
  using List = std::vector<int>;
  CHECK(VersionsOf({1, 1, 1, 1}) == List{4, 3, 2, 1});
  CHECK(VersionsOf({2, 1}) == List{2, 1});
  CHECK(VersionsOf({15, 1}) == List{2, 1});
  CHECK(VersionsOf({2, 1, 1}) == List{2, 2, 1});
  CHECK(VersionsOf({3, 1}) == List{2, 1});
}

// The start-up admits NOAM minibatches; then every stage alternates one
// forward with one backward.
TEST_CASE(
    "paper: the order of operations of four stages and eight minibatches") {
  CHECK(ToString(MustCompile("1f1b", ChainOf({1, 1, 1, 1}), SegmentOf(8))) ==
        "s0  F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
        "s1  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
        "s2  F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
        "s3  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
}

// Weight stashing: minibatch k reads version max(0, k - (P - 1 - s)) on stage
// s, forward and backward, and after it version k + 1 exists.
TEST_CASE("paper: the version that each minibatch reads under stashing") {
  for (int P = 1; P <= 8; ++P) {
    const Program program =
        MustCompile("1f1b", ChainOf(std::vector<int>(P, 1)), SegmentOf(20));
    for (int s = 0; s < P; ++s) {
      for (const Action& action : ActionsOf(
               program, s, 0, {ActionKind::kForward, ActionKind::kBackward})) {
        const int64_t k = action.number;
        CHECK(action.version.value() == std::max<int64_t>(0, k - (P - 1 - s)));
      }
      for (const Action& update :
           ActionsOf(program, s, 0, {ActionKind::kUpdate})) {
        CHECK(update.number == update.minibatch.value());
        CHECK(update.version.value() == update.number + 1);
      }
    }
  }
}

// Replicated: the same with the local index, one update for r_s minibatches.
TEST_CASE("paper: a replica's j-th minibatch reads version j - warm(s)") {
  testing::ForEachShape(3, 4, [](const PipelineShape& shape) {
    const Program program = MustCompile("1f1b", shape, SegmentOf(24));
    for (const Row& row : program.rows) {
      int64_t j = 0;
      for (const Action& action : row.actions) {
        if (action.kind != ActionKind::kForward) continue;
        CHECK(action.version.value() ==
              std::max<int64_t>(0, j - Warmup(shape, row.stage)));
        ++j;
      }
    }
  });
}

// Live versions never exceed P - s, the newest included, and activations in
// flight never warm(s) + 1; both limits are reached.
TEST_CASE(
    "paper: live versions and units in flight reach their limits and no more") {
  testing::ForEachShape(4, 3, [](const PipelineShape& shape) {
    const Program program = MustCompile("1f1b", shape, SegmentOf(40));
    for (const Row& row : program.rows) {
      std::multiset<int64_t> read;  // by units in flight
      size_t most_versions = 1;
      size_t most_in_flight = 0;
      std::map<int64_t, int64_t> version_of;
      for (const Action& action : row.actions) {
        if (action.kind == ActionKind::kForward) {
          version_of[action.number] = action.version.value();
          read.insert(action.version.value());
          most_in_flight = std::max(most_in_flight, read.size());
        } else if (action.kind == ActionKind::kRelease) {
          read.erase(read.find(version_of[action.number]));
        } else if (action.kind == ActionKind::kUpdate) {
          std::set<int64_t> live(read.begin(), read.end());
          live.insert(action.version.value());
          most_versions = std::max(most_versions, live.size());
        }
      }
      CHECK(most_in_flight ==
            static_cast<size_t>(Warmup(shape, row.stage)) + 1);
      CHECK(most_versions == static_cast<size_t>(Versions(shape, row.stage)));
    }
  });
}

// The other order, releasing after the update, peaks at one version more.
TEST_CASE(
    "paper: the last stage updates in place because releases come first") {
  const Program program =
      MustCompile("1f1b", ChainOf({1, 1, 1, 1}), SegmentOf(8));
  for (const Row& row : program.rows) {
    std::set<int64_t> in_flight;
    for (const Action& action : row.actions) {
      if (action.kind == ActionKind::kForward) in_flight.insert(action.number);
      if (action.kind == ActionKind::kRelease) in_flight.erase(action.number);
      if (action.kind != ActionKind::kUpdate) continue;
      CHECK(in_flight.count(action.number) == 0);
      if (row.stage == StageId{3}) CHECK(in_flight.empty());
    }
  }
}

TEST_CASE(
    "paper: the last stage alternates from the start, without staleness") {
  for (int P = 1; P <= 6; ++P) {
    const Program program =
        MustCompile("1f1b", ChainOf(std::vector<int>(P, 1)), SegmentOf(9));
    int64_t turn = 0;
    for (const Action& action :
         ActionsOf(program, P - 1, 0,
                   {ActionKind::kForward, ActionKind::kBackward})) {
      CHECK(action.kind ==
            (turn % 2 == 0 ? ActionKind::kForward : ActionKind::kBackward));
      CHECK(action.version.value() == turn / 2);
      ++turn;
    }
  }
}

// Draining after each minibatch makes every mode plain SGD: minibatch k reads
// version k everywhere. So does one unit in flight.
TEST_CASE(
    "paper: plain SGD when drained after each minibatch, or one in flight") {
  const PipelineShape shape = ChainOf({1, 1, 1, 1});
  for (int64_t k = 0; k < 5; ++k) {
    Segment segment = SegmentOf(1);
    segment.first_minibatch = k;
    segment.first_versions.assign(4, k);
    const Program program = MustCompile("1f1b", shape, segment);
    for (int s = 0; s < 4; ++s) {
      for (const Action& action : ActionsOf(
               program, s, 0, {ActionKind::kForward, ActionKind::kBackward})) {
        CHECK(action.version.value() == k);
      }
    }
    CHECK(program.last_versions() == std::vector<int64_t>(4, k + 1));
  }
  const Program one =
      MustCompile("1f1b", ChainOf({1, 1, 1, 1}, 1), SegmentOf(9));
  for (int s = 0; s < 4; ++s) {
    for (const Action& action :
         ActionsOf(one, s, 0, {ActionKind::kForward, ActionKind::kBackward})) {
      CHECK(action.version.value() == action.number);
    }
  }
}

// 1F1B-RR: minibatch k of stage s is on replica k mod r_s, in both directions;
// the last, partial group updates with the replicas that are present.
TEST_CASE("paper: a minibatch goes back through the replicas it came through") {
  testing::ForEachShape(3, 4, [](const PipelineShape& shape) {
    const Program program = MustCompile("1f1b", shape, SegmentOf(11));
    std::map<std::pair<int, int64_t>, int> seen;
    for (const Row& row : program.rows) {
      const int r = shape.replicas[row.stage.value()];
      int64_t updates = 0;
      for (const Action& action : row.actions) {
        if (action.kind == ActionKind::kForward ||
            action.kind == ActionKind::kBackward) {
          CHECK(row.replica.value() == action.number % r);
          ++seen[{row.stage.value(), action.number}];
        } else if (IsTransfer(action.kind)) {
          CHECK(action.peer_replica.value() ==
                action.number % shape.replicas[action.peer_stage.value()]);
        } else if (action.kind == ActionKind::kUpdate) {
          ++updates;
        }
      }
      CHECK(updates == (11 + r - 1) / r);
    }
    CHECK(seen.size() == shape.replicas.size() * 11);
    for (const auto& [unit, times] : seen) CHECK(times == 2);
  });
}

// Forward and backward agree for the first minibatches of a second epoch too.
// The public code does not re-align its ring and reads older versions there.
TEST_CASE("paper: the first minibatches of the second epoch read one version") {
  const PipelineShape shape = ChainOf({1, 1, 1, 1});
  std::vector<int64_t> versions(4, 0);
  for (int epoch = 0; epoch < 3; ++epoch) {
    Segment segment = SegmentOf(10);
    segment.first_minibatch = epoch * 10;
    segment.first_versions = versions;
    const Program program = MustCompile("1f1b", shape, segment);
    for (int s = 0; s < 4; ++s) {
      std::map<int64_t, int64_t> read;
      for (const Action& action : ActionsOf(
               program, s, 0, {ActionKind::kForward, ActionKind::kBackward})) {
        const int64_t k = action.number - epoch * 10;
        CHECK(action.version.value() ==
              versions[s] + std::max<int64_t>(0, k - (3 - s)));
        if (action.kind == ActionKind::kForward) {
          read[action.number] = action.version.value();
        } else {
          CHECK(read[action.number] == action.version.value());
        }
      }
    }
    versions = program.last_versions();
  }
  CHECK(versions == std::vector<int64_t>(4, 30));
}

// ---- the golden trajectory
// ---------------------------------------------------

std::array<double, 3> Walk(const Program& program) {
  std::array<double, 3> last;
  for (int s = 0; s < 3; ++s) {
    last[s] = testing::WalkScalarChain(program)[s].back();
  }
  return last;
}

TEST_CASE("paper: the golden trajectory of weight stashing") {
  const std::array<double, 3> weights =
      Walk(MustCompile("1f1b", ChainOf({1, 1, 1}), SegmentOf(6)));
  CHECK(std::abs(weights[0] - 0.6510573865) < 1e-10);
  CHECK(std::abs(weights[1] - 0.6466756523) < 1e-10);
  CHECK(std::abs(weights[2] - 0.6418621748) < 1e-10);
}

TEST_CASE(
    "paper: the golden trajectory of plain SGD, by one in flight and by "
    "flush") {
  for (const Program& program :
       {MustCompile("1f1b", ChainOf({1, 1, 1}, 1), SegmentOf(6)),
        MustCompile("flush", ChainOf({1, 1, 1}), SegmentOf(6))}) {
    for (const double weight : Walk(program)) {
      CHECK(std::abs(weight - 0.6541776133) < 1e-10);
    }
  }
}

// ---- deadlocks
// ---------------------------------------------------------------

// The public code's order: the gradient leaves after the all-reduce.
Program SendAfterUpdate(Program program) {
  for (Row& row : program.rows) {
    std::vector<Action> actions;
    std::vector<Action> held;
    for (size_t i = 0; i < row.actions.size(); ++i) {
      const Action& action = row.actions[i];
      if (action.kind == ActionKind::kSendBackward) {
        held.push_back(action);
        continue;
      }
      actions.push_back(action);
      const bool updates_next =
          i + 1 < row.actions.size() &&
          (row.actions[i + 1].kind == ActionKind::kAllReduce ||
           row.actions[i + 1].kind == ActionKind::kUpdate);
      if (action.kind == ActionKind::kUpdate ||
          (action.kind == ActionKind::kRelease && !updates_next)) {
        actions.insert(actions.end(), held.begin(), held.end());
        held.clear();
      }
    }
    row.actions = std::move(actions);
  }
  return program;
}

// Sending the input gradient before the all-reduce, none of the 340
// configurations of up to 4 stages with up to 4 replicas hangs; after it, 60
// do.
TEST_CASE("paper: gradients leave before the all-reduce, or 60 of 340 hang") {
  int shapes = 0;
  int hang = 0;
  std::set<std::vector<int>> hanging;
  testing::ForEachShape(4, 4, [&](const PipelineShape& shape) {
    const Program program = MustCompile("1f1b", shape, SegmentOf(96));
    CHECK(CheckProgress(program).ok());
    ++shapes;
    if (!CheckProgress(SendAfterUpdate(program)).ok()) {
      ++hang;
      hanging.insert(shape.replicas);
    }
  });
  CHECK(shapes == 340);
  CHECK(hang == 60);
  CHECK(hanging.count({1, 3, 1}) == 1);
  CHECK(hanging.count({1, 3, 4}) == 1);
  CHECK(hanging.count({2, 3, 1}) == 1);
  CHECK(hanging.count({3, 4, 1}) == 1);
}

TEST_CASE("paper: 1-3-1, 2-3-1 and 3-4-1 run, and hang in the other order") {
  for (const std::vector<int>& replicas :
       std::vector<std::vector<int>>{{1, 3, 1}, {2, 3, 1}, {3, 4, 1}}) {
    CAPTURE(replicas);
    const Program program =
        MustCompile("1f1b", ChainOf(replicas), SegmentOf(48));
    CHECK(Validate(program).ok());
    const Program late = SendAfterUpdate(program);
    const absl::Status status = CheckProgress(late);
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).find("waits for ever at ") !=
          std::string::npos);
    CHECK_FALSE(Validate(late).ok());
  }
}

// Eight single stages, then 3, then 1: GNMT on 12 machines.
TEST_CASE(
    "paper: GNMT's eight singles, three and one hang in the other order") {
  const PipelineShape shape = ChainOf({1, 1, 1, 1, 1, 1, 1, 1, 3, 1});
  const Program program = MustCompile("1f1b", shape, SegmentOf(60));
  CHECK(CheckProgress(program).ok());
  CHECK_FALSE(CheckProgress(SendAfterUpdate(program)).ok());
}

// ---- time
// --------------------------------------------------------------------

ActionTimes EqualTimes(int stages) {
  ActionTimes times;
  times.forward_seconds.assign(stages, 1);
  times.backward_seconds.assign(stages, 2);
  return times;
}

// Synchronous 1F1B with equal stages takes (m + P - 1)(F + B), and idles
// (P - 1) / (m + P - 1) of it.
TEST_CASE("paper: makespan and bubble of synchronous 1F1B with equal stages") {
  const std::vector<std::array<int, 3>> golden = {
      {4, 4, 21}, {4, 8, 33}, {8, 8, 45}, {8, 32, 117}};
  for (const auto& [P, m, makespan] : golden) {
    const Program program =
        MustCompile("flush", ChainOf(std::vector<int>(P, 1)), SegmentOf(1, m));
    const auto timeline = Simulate(program, EqualTimes(P));
    REQUIRE(timeline.ok());
    CHECK(timeline->makespan == makespan);
    CHECK(timeline->bubble() == Approx((P - 1.0) / (m + P - 1)));
  }
}

// At most min(P - s, m) microbatches are in flight at stage s.
TEST_CASE("paper: flush keeps at most its distance from the end in flight") {
  for (int P = 1; P <= 6; ++P) {
    for (int m = 1; m <= 8; ++m) {
      const Program program = MustCompile(
          "flush", ChainOf(std::vector<int>(P, 1)), SegmentOf(2, m));
      for (int s = 0; s < P; ++s) {
        int in_flight = 0;
        int most = 0;
        for (const Action& action : ActionsOf(
                 program, s, 0, {ActionKind::kForward, ActionKind::kRelease})) {
          in_flight += action.kind == ActionKind::kForward ? 1 : -1;
          most = std::max(most, in_flight);
        }
        CHECK(most == std::min(P - s, m));
      }
    }
  }
}

// Minibatches per time in the middle of a long run, on stage 0.
double Period(const PipelineShape& shape, const ActionTimes& times) {
  const Program program = MustCompile("1f1b", shape, SegmentOf(200));
  const auto timeline = Simulate(program, times);
  REQUIRE(timeline.ok());
  std::map<int64_t, double> end;
  for (const Timeline::Span& span : timeline->spans) {
    if (span.row == 0 && span.kind == ActionKind::kBackward) {
      end[span.unit] = span.end;
    }
  }
  return (end[140] - end[60]) / 80;
}

// The steady period is the slowest stage's F + B with free transfers, and with
// one-way transfers of c the largest of (sum(F + B) + 2 (l - 1) c) / l over
// runs of l neighbours; a deeper warm-up hides them.
TEST_CASE("paper: the steady period with free, slow and hidden transfers") {
  const PipelineShape shape = ChainOf({1, 1, 1, 1});
  ActionTimes times = EqualTimes(4);
  CHECK(Period(shape, times) == Approx(3));
  const std::vector<std::pair<double, double>> golden = {
      {1, 4.5}, {2, 6}, {3, 7.5}};
  for (const auto& [c, period] : golden) {
    times.transfer_seconds.assign(3, c);
    CHECK(Period(shape, times) == Approx(period));
  }
  times.transfer_seconds.assign(3, 1);
  CHECK(Period(ChainOf({1, 1, 1, 1}, 7), times) == Approx(3));
}

TEST_CASE(
    "paper: one in flight is model parallelism, every stage's time and all "
    "transfers") {
  ActionTimes times = EqualTimes(4);
  times.transfer_seconds.assign(3, 0.5);
  CHECK(Period(ChainOf({1, 1, 1, 1}, 1), times) == Approx(4 * 3 + 2 * 3 * 0.5));
}

}  // namespace
}  // namespace pipework
