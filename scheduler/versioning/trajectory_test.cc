// What each policy makes of the smallest network: the published trajectories,
// and the recurrences that they come from.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "scheduler/testing/programs.h"
#include "scheduler/testing/scalar_chain.h"

namespace pipework {
namespace {

using testing::ActionsOf;
using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;
using testing::WalkScalarChain;

using Weights = std::vector<double>;

// Of three stages after six minibatches.
Weights Last(const Recipe& recipe) {
  Weights last;
  for (const Weights& stage :
       WalkScalarChain(MustCompile(recipe, ChainOf({1, 1, 1}), SegmentOf(6)))) {
    last.push_back(stage.back());
  }
  return last;
}

void CheckNear(const Weights& got, const Weights& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i, got[i], wanted[i]);
    CHECK(std::abs(got[i] - wanted[i]) < 1e-10);
  }
}

TEST_CASE("trajectory: weight stashing") {
  CheckNear(Last({"1f1b", "stash"}),
            {0.6510573865, 0.6466756523, 0.6418621748});
}

TEST_CASE("trajectory: vertical sync") {
  CheckNear(Last({"1f1b", "vertical_sync"}),
            {0.6400060011, 0.6400060011, 0.6400060011});
}

TEST_CASE("trajectory: no stashing") {
  CheckNear(Last({"1f1b", "none"}), {0.6566551386, 0.6467877549, 0.6419685983});
}

TEST_CASE("trajectory: plain SGD, by whatever keeps nothing in flight") {
  const Weights plain(3, 0.6541776133);
  CheckNear(Last({"model_parallel", ""}), plain);
  CheckNear(Last({"gpipe", ""}), plain);
  CheckNear(Last({"flush", ""}), plain);
}

// Vertical sync is plain SGD with gradients that are P - 1 updates late.
TEST_CASE("trajectory: vertical sync is delayed SGD") {
  for (int P = 1; P <= 6; ++P) {
    const auto walked = WalkScalarChain(
        MustCompile(Recipe{"1f1b", "vertical_sync"},
                    ChainOf(std::vector<int>(P, 1)), SegmentOf(15)));
    Weights w = {0.5};
    for (int k = 0; k < 15; ++k) {
      const double read = w[std::max(0, k - (P - 1))];
      const double gradient = (std::pow(read, P) - 1) * std::pow(read, P - 1);
      w.push_back(w.back() - 0.1 * gradient);
    }
    for (const Weights& stage : walked) CheckNear(stage, w);
  }
}

// W(t + 1) = W(t) - nu grad f(W(t - 1)), W(0) used twice, whatever m is.
TEST_CASE("trajectory: two versions, of one step late") {
  const Weights golden = {0.5, 0.521875, 0.54375, 0.5671142687, 0.5919273627};
  for (const int m : {3, 4, 8}) {
    for (const Weights& stage : WalkScalarChain(
             MustCompile("two_version", ChainOf({1, 1, 1}), SegmentOf(4, m)))) {
      CheckNear(stage, golden);
    }
  }
}

// Counted from 0 and from the last drain, microbatch j reads
// max(floor(j / m) - 1, 0), forward and backward, on every stage.
TEST_CASE("two_version: the version that each microbatch reads") {
  for (int P = 1; P <= 6; ++P) {
    Segment segment = SegmentOf(6, 6);
    segment.first_minibatch = 10;
    segment.first_versions.assign(P, 40);
    const Program program =
        MustCompile("two_version", ChainOf(std::vector<int>(P, 1)), segment);
    for (int s = 0; s < P; ++s) {
      for (const Action& action : ActionsOf(
               program, s, 0, {ActionKind::kForward, ActionKind::kBackward})) {
        const int64_t batch = action.number / 6 - 10;
        CHECK(action.version.value() == 40 + std::max<int64_t>(batch - 1, 0));
      }
    }
  }
}

// Minibatch k reads max(0, k - (P - 1)) everywhere under vertical sync; without
// stashing its forward reads max(0, k - (P - 1 - s)) and its backward k.
TEST_CASE("versions of vertical sync and of no stashing in a straight chain") {
  for (int P = 1; P <= 8; ++P) {
    const PipelineShape shape = ChainOf(std::vector<int>(P, 1));
    const Program vertical =
        MustCompile(Recipe{"1f1b", "vertical_sync"}, shape, SegmentOf(20));
    const Program none =
        MustCompile(Recipe{"1f1b", "none"}, shape, SegmentOf(20));
    for (int s = 0; s < P; ++s) {
      for (const ActionKind kind :
           {ActionKind::kForward, ActionKind::kBackward}) {
        for (const Action& action : ActionsOf(vertical, s, 0, {kind})) {
          CHECK(action.version.value() ==
                std::max<int64_t>(0, action.number - (P - 1)));
        }
        for (const Action& action : ActionsOf(none, s, 0, {kind})) {
          const int64_t late = kind == ActionKind::kForward ? P - 1 - s : 0;
          CHECK(action.version.value() ==
                std::max<int64_t>(0, action.number - late));
        }
      }
    }
  }
}

// With replicas the tag counts minibatches that stage 0 has absorbed, and a
// stage with r_s replicas reads version floor(tag / r_s).
TEST_CASE("vertical_sync: with replicas all stages read the same minibatches") {
  testing::ForEachShape(3, 4, [](const PipelineShape& shape) {
    const Program program =
        MustCompile(Recipe{"1f1b", "vertical_sync"}, shape, SegmentOf(48));
    std::vector<int64_t> tag(48);
    for (const Row& row : program.rows) {
      const int64_t r = shape.replicas[row.stage.value()];
      for (const Action& action : row.actions) {
        if (action.kind != ActionKind::kForward) continue;
        const int64_t version = action.version.value();
        if (row.stage == StageId{0}) tag[action.number] = version * r;
        CAPTURE(shape.replicas, row.stage.value(), action.number);
        CHECK(version == tag[action.number] / r);
      }
    }
  });
}

// m = d - 2 asks for a version that does not exist yet, so fewer microbatches
// than stages are refused.
TEST_CASE("two_version: fewer microbatches than stages are refused") {
  const PipelineShape four = ChainOf({1, 1, 1, 1});
  CHECK(Compile({"two_version", ""}, four, SegmentOf(3, 4)).ok());
  CHECK(
      Compile({"two_version", ""}, four, SegmentOf(3, 3)).status().message() ==
      "schedule \"two_version\": microbatches is 3, expected 4 "
      "or more, the depth of the pipeline; use more microbatches, or fewer "
      "stages");
  CHECK(Compile({"two_version", ""}, four, SegmentOf(4, 2, 2)).ok());
  // Two replicas of every stage: each pipeline has its own m.
  const PipelineShape twice = ChainOf({2, 2, 2, 2});
  CHECK_FALSE(Compile({"two_version", ""}, twice, SegmentOf(3, 7)).ok());
  CHECK(Compile({"two_version", ""}, twice, SegmentOf(3, 8)).ok());
}

}  // namespace
}  // namespace pipework
