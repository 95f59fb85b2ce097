// Replicas of one stage that run different numbers of units.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "scheduler/compile.h"
#include "scheduler/passes/validate.h"
#include "scheduler/program.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ActionsOf;
using testing::ChainOf;
using testing::MustCompile;
using testing::RowText;
using testing::SegmentOf;

PipelineShape SharesOf(const std::vector<std::vector<int>>& shares) {
  PipelineShape shape;
  for (const std::vector<int>& stage : shares) {
    shape.replicas.push_back(static_cast<int>(stage.size()));
    shape.shares.push_back(NormalShares(stage));
  }
  return shape;
}

std::vector<int> Turns(const std::vector<int>& shares) {
  return TurnsOf(SharesOf({shares}), StageId{0});
}

TEST_CASE("shares: what they have in common does not count") {
  CHECK(NormalShares({4, 2}) == std::vector<int>{2, 1});
  CHECK(NormalShares({3, 3, 3}).empty());
  CHECK(NormalShares({1}).empty());
  CHECK(NormalShares({}).empty());
  CHECK(NormalShares({2, 0}) == std::vector<int>{2, 0});
  CHECK(RoundUnits(2, {4, 2}) == 3);
  CHECK(RoundUnits(2, {}) == 2);
  CHECK(RoundUnits(2, {5, 5}) == 2);
  CHECK(RoundUnits(0, {}) == 1);
  // Somebody else refuses these.
  CHECK(RoundUnits(2, {3}) == 2);
  CHECK(RoundUnits(2, {3, -3}) == 2);
}

TEST_CASE("turns: every replica is spread evenly, the first one at ties") {
  CHECK(Turns({1, 1, 1}) == std::vector<int>{0, 1, 2});
  CHECK(Turns({2, 1}) == std::vector<int>{0, 1, 0});
  CHECK(Turns({1, 2}) == std::vector<int>{1, 0, 1});
  CHECK(Turns({3, 1}) == std::vector<int>{0, 0, 1, 0});
  CHECK(Turns({3, 2}) == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(Turns({2, 1, 1}) == std::vector<int>{0, 1, 2, 0});
}

TEST_CASE(
    "turns: the beginning of a round is within a unit of everybody's share") {
  testing::ForEachShares(1, 3, 5, [](const PipelineShape& shape) {
    const std::vector<int> turns = TurnsOf(shape, StageId{0});
    const int round = shape.round(StageId{0});
    REQUIRE(static_cast<int>(turns.size()) == round);
    for (int q = 0; q < shape.replicas[0]; ++q) {
      const int share = shape.share(StageId{0}, ReplicaId{q});
      int had = 0;
      for (int i = 0; i < round; ++i) {
        had += turns[i] == q;
        CAPTURE(shape.shares, q, i);
        CHECK(std::abs(had * round - share * (i + 1)) < round);
      }
      CHECK(had == share);
    }
  });
}

TEST_CASE("shares of one each are replicas in turn, as without shares") {
  PipelineShape shape = ChainOf({3, 2});
  const Program program = MustCompile("1f1b", shape, SegmentOf(12));
  shape.shares = {{1, 1, 1}, {1, 1}};
  const Program shared = MustCompile("1f1b", shape, SegmentOf(12));
  CHECK(ToString(shared, true) == ToString(program, true));
  CHECK(NormalShares({1, 1, 1}).empty());
}

TEST_CASE("shares: rows of two to one") {
  const PipelineShape shape = SharesOf({{2, 1}, {1}});
  const Program program = MustCompile("1f1b", shape, SegmentOf(6));
  CHECK(RowText(program, 0, 0) ==
        "F0 >F0 F2 >F2 F3 >F3 <B0 B0 R0 F5 >F5 <B2 B2 R2 A0 U0 <B3 B3 R3 "
        "<B5 B5 R5 A1 U1 D");
  CHECK(RowText(program, 0, 1) ==
        "F1 >F1 F4 >F4 <B1 B1 R1 A0 U0 <B4 B4 R4 A1 U1 D");
  CHECK(ToString(MustCompile("flush", shape, SegmentOf(1, 6))) ==
        "s0.r0  F0 F2 F3 B0 F5 B2 B3 B5\n"
        "s0.r1  F1 F4 B1 B4\n"
        "s1     F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5\n");
  Segment evaluation = SegmentOf(4);
  evaluation.evaluation = true;
  CHECK(ToString(MustCompile("1f1b", shape, evaluation)) ==
        "s0.r0  E0 E2 E3\n"
        "s0.r1  E1\n"
        "s1     E0 E1 E2 E3\n");
}

TEST_CASE("shares: an update sums accumulate rounds, from where it began") {
  Segment segment = SegmentOf(11, 1, 2);
  segment.first_minibatch = 7;
  segment.first_versions = {4};
  const Program program = MustCompile("1f1b", SharesOf({{2, 1}}), segment);
  CHECK(program.updates(StageId{0}) == 2);
  CHECK(program.units_of_update(StageId{0}, 4).begin == 7);
  CHECK(program.units_of_update(StageId{0}, 4).end == 13);
  CHECK(program.units_of_update(StageId{0}, 5).end == 18);
  // Any six units in a row have four of replica 0.
  int first = 0;
  for (int64_t unit = 7; unit < 13; ++unit) {
    first += program.owner(StageId{0}, unit) == ReplicaId{0};
  }
  CHECK(first == 4);
}

TEST_CASE("shares: with one in flight every stage finishes what it begins") {
  testing::ForEachShares(2, 3, 3, [](PipelineShape shape) {
    shape.in_flight = 1;
    for (int s = 0; s < shape.stages(); ++s) {
      CHECK(Lead(shape, StageId{s}) == 0);
      CHECK(Warmup(shape, StageId{s}) == 0);
      CHECK(Versions(shape, StageId{s}) == 1);
    }
  });
}

TEST_CASE("shares: a smaller and a larger limit are what the plan says of it") {
  testing::ForEachShares(2, 3, 3, [](PipelineShape shape) {
    // What a plan writes down compiles to the same rows.
    const std::string rows =
        ToString(MustCompile("1f1b", shape, SegmentOf(12)), true);
    shape.in_flight = RoundsInFlight(shape);
    CHECK(ToString(MustCompile("1f1b", shape, SegmentOf(12)), true) == rows);
    int before = 0;
    for (int n = 1; n < 8; ++n) {
      shape.in_flight = n;
      CHECK(Lead(shape, StageId{0}) >= before);
      before = Lead(shape, StageId{0});
    }
  });
}

// Compile validates: owners, versions, in-flight bounds, and nobody waits for
// ever on a transport without buffers.
TEST_CASE("shares: up to two stages of up to three replicas run to their end") {
  testing::ForEachShares(2, 3, 3, [](PipelineShape shape) {
    for (const int in_flight : {0, 2, 5}) {
      shape.in_flight = in_flight;
      for (int units = 1; units <= 12; ++units) {
        Segment segment = SegmentOf(units);
        segment.first_minibatch = units % 5;
        CAPTURE(shape.replicas, shape.shares, in_flight, units);
        CHECK(Compile({"1f1b", ""}, shape, segment).status() ==
              absl::OkStatus());
        if (in_flight == 5) continue;
        segment = SegmentOf(2, units, 1 + units % 2);
        CHECK(Compile({"flush", ""}, shape, segment).status() ==
              absl::OkStatus());
      }
    }
  });
}

TEST_CASE("shares: three stages of up to three replicas run to their end") {
  int every = 0;  // a fifth of them here, lengths take turns
  testing::ForEachShares(3, 3, 3, [&every](PipelineShape shape) {
    if (shape.stages() < 3 || ++every % 5 != 0) return;
    const int units = 1 + every % 12;
    Segment segment = SegmentOf(units + 12, 1, 1 + every % 3);
    segment.first_minibatch = every % 7;
    shape.in_flight = every % 11 == 0 ? 3 : 0;
    CAPTURE(shape.replicas, shape.shares, units);
    CHECK(Compile({"1f1b", ""}, shape, segment).status() == absl::OkStatus());
    if (every % 4 == 1) {
      CHECK(Compile({"flush", ""}, shape, SegmentOf(1, units)).status() ==
            absl::OkStatus());
    }
  });
}

TEST_CASE("shares: every shape of up to three stages, every length", "[.]") {
  testing::ForEachShares(3, 3, 3, [](const PipelineShape& shape) {
    for (int units = 1; units <= 12; ++units) {
      CAPTURE(shape.replicas, shape.shares, units);
      CHECK(Compile({"1f1b", ""}, shape, SegmentOf(units)).status() ==
            absl::OkStatus());
      CHECK(Compile({"flush", ""}, shape, SegmentOf(1, units)).status() ==
            absl::OkStatus());
    }
  });
}

TEST_CASE("shares: the bounds of a stage are reached") {
  testing::ForEachShares(2, 2, 3, [](const PipelineShape& shape) {
    for (int s = 0; s < shape.stages(); ++s) {
      int most = 0;
      int versions = 0;
      for (int64_t first = 0; first < shape.round(StageId{s}); ++first) {
        Segment segment = SegmentOf(48);
        segment.first_minibatch = first;
        const Program program = MustCompile("1f1b", shape, segment);
        for (int q = 0; q < shape.replicas[s]; ++q) {
          int begun = 0;
          int64_t newest = 0;
          std::multiset<int64_t> reads;
          std::vector<int64_t> read_of(first + 48, 0);
          for (const Action& action :
               ActionsOf(program, s, q,
                         {ActionKind::kForward, ActionKind::kBackward,
                          ActionKind::kUpdate})) {
            if (action.kind == ActionKind::kForward) {
              most = std::max(most, ++begun);
              read_of[action.number] = newest;
              reads.insert(newest);
            } else if (action.kind == ActionKind::kBackward) {
              --begun;
              reads.erase(reads.find(read_of[action.number]));
            } else {
              ++newest;
              const int64_t oldest = reads.empty() ? newest : *reads.begin();
              versions =
                  std::max(versions, static_cast<int>(newest - oldest + 1));
            }
          }
        }
      }
      CAPTURE(shape.replicas, shape.shares, s);
      CHECK(most == Warmup(shape, StageId{s}) + 1);
      CHECK(versions == Versions(shape, StageId{s}));
    }
  });
}

TEST_CASE("shares: what cannot be is refused in one line") {
  const auto message = [](const PipelineShape& shape) {
    const auto program = Compile({"1f1b", ""}, shape, SegmentOf(3));
    REQUIRE_FALSE(program.ok());
    return std::string(program.status().message());
  };
  PipelineShape shape = ChainOf({1, 2});
  shape.shares = {{}, {2}};
  CHECK(message(shape) ==
        "schedule: stage 1: the number of shares is 1, expected 2, one for "
        "each replica");
  shape.shares = {{}, {2, 0}};
  CHECK(message(shape) ==
        "schedule: stage 1: a share is 0, expected 1 or more");
  shape.shares = {{}, {4096, 1}};
  CHECK(message(shape) ==
        "schedule: stage 1: the sum of the shares is 4097, expected at most "
        "4096");
  shape.shares = {{}, {}, {1}};
  CHECK(message(shape) ==
        "schedule: the number of stages with shares is 3, expected at most 2");
}

TEST_CASE("shares: a plan's are those of the shape, without what they share") {
  v1::Graph graph;
  graph.add_layers()->set_name("a");
  graph.add_layers()->set_name("b");
  v1::Plan plan;
  for (int s = 0; s < 2; ++s) {
    v1::PlanStage* stage = plan.add_stages();
    stage->set_first_layer(s);
    stage->set_end_layer(s + 1);
    stage->set_replicas(2);
    stage->add_shares(s == 0 ? 4 : 3);
    stage->add_shares(s == 0 ? 2 : 3);
  }
  const PipelineShape shape = ShapeOf(graph, plan);
  CHECK(shape.shares == std::vector<std::vector<int>>{{2, 1}, {}});
  CHECK(shape.round(StageId{0}) == 3);
  CHECK(shape.round(StageId{1}) == 2);
  // One too few stays as it is, for Compile to refuse.
  plan.mutable_stages(1)->mutable_shares()->RemoveLast();
  CHECK_FALSE(Compile({"1f1b", ""}, ShapeOf(graph, plan), SegmentOf(3)).ok());
}

}  // namespace
}  // namespace pipework
