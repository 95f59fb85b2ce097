#include "scheduler/compile.h"

#include <catch2/catch.hpp>

#include "scheduler/passes/validate.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/testing/programs.h"
#include "tools/bazel/golden.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::GoldenMismatch;
using testing::MustCompile;
using testing::RowText;
using testing::SegmentOf;

TEST_CASE("compile: 1f1b is valid over stages, units, replicas and limits") {
  // Straight pipelines, deep and short.
  for (int stages = 1; stages <= 8; ++stages) {
    for (int units = 1; units <= 20; ++units) {
      for (const int in_flight : {0, 1, 2, 3, 9, 20}) {
        for (const int accumulate : {1, 3}) {
          CAPTURE(stages, units, in_flight, accumulate);
          const auto program =
              Compile({"1f1b", "stash"},
                      ChainOf(std::vector<int>(stages, 1), in_flight),
                      SegmentOf(units, 1, accumulate));
          CHECK(program.status() == absl::OkStatus());
        }
      }
    }
  }
}

TEST_CASE("compile: 1f1b is valid with up to 4 replicas of up to 4 stages") {
  testing::ForEachShape(4, 4, [](PipelineShape shape) {
    for (const int in_flight : {0, 1, 2, 5, 8}) {
      for (const int64_t first : {0, 1, 7}) {
        for (const int units : {1, 5, 20}) {
          shape.in_flight = in_flight;
          Segment segment = SegmentOf(units);
          segment.first_minibatch = first;
          CAPTURE(shape.replicas, in_flight, first, units);
          const auto program = Compile({"1f1b", "stash"}, shape, segment);
          CHECK(program.status() == absl::OkStatus());
        }
      }
    }
  });
}

// Every schedule, straight and replicated, over numbers that it takes.
TEST_CASE("compile: every schedule and policy is valid over shapes and units") {
  int programs = 0;
  const auto check = [&programs](const Recipe& recipe,
                                 const PipelineShape& shape, int minibatches,
                                 int microbatches, int accumulate) {
    const Segment segment = SegmentOf(minibatches, microbatches, accumulate);
    // Fewer microbatches than a schedule asks for are refused.
    if (!CheckNumbers(recipe, shape, segment).ok()) return;
    CAPTURE(recipe.schedule, recipe.weights, shape.replicas, minibatches,
            microbatches, accumulate);
    CHECK(Compile(recipe, shape, segment).status() == absl::OkStatus());
    ++programs;
  };
  for (const ScheduleEntry& entry : Schedules()) {
    for (const absl::string_view weights : entry.weights) {
      const Recipe recipe = {std::string(entry.name), std::string(weights)};
      for (int stages = 1; stages <= 8; ++stages) {
        const PipelineShape straight = ChainOf(std::vector<int>(stages, 1));
        for (int units = 1; units <= 20; ++units) {
          if (entry.unit_is_microbatch) {
            check(recipe, straight, 1 + units % 3, units, 1 + units % 2);
          } else {
            check(recipe, straight, units, 1, 1 + units % 3);
          }
        }
      }
      testing::ForEachShape(4, 4, [&](const PipelineShape& shape) {
        for (const int units : {1, 5, 16, 20}) {
          if (entry.unit_is_microbatch) {
            check(recipe, shape, 3, units, 1 + units % 2);
          } else {
            check(recipe, shape, units, 1, 1 + units % 2);
          }
        }
      });
    }
  }
  CHECK(programs > 7000);
}

// What the planner counts memory with, against what programs do.
TEST_CASE("compile: what is held by closed form is what a long program holds") {
  for (const ScheduleEntry& entry : Schedules()) {
    for (const absl::string_view weights : entry.weights) {
      const Recipe recipe = {std::string(entry.name), std::string(weights)};
      testing::ForEachShape(4, 3, [&](const PipelineShape& shape) {
        const Segment segment =
            entry.unit_is_microbatch ? SegmentOf(3, 24) : SegmentOf(72);
        // Some schedules want equal replicas.
        if (!CheckNumbers(recipe, shape, segment).ok()) return;
        const Program program = MustCompile(recipe, shape, segment);
        std::vector<int> most(shape.stages(), 0);
        for (const Row& row : program.rows) {
          int units = 0;
          for (const Action& action : row.actions) {
            if (action.kind == ActionKind::kForward) ++units;
            if (action.kind == ActionKind::kRelease) --units;
            most[row.stage.value()] = std::max(most[row.stage.value()], units);
          }
        }
        for (int s = 0; s < shape.stages(); ++s) {
          const auto held = MostHeld(recipe, shape, segment, StageId{s});
          REQUIRE(held.ok());
          CAPTURE(recipe.schedule, recipe.weights, shape.replicas, s);
          CHECK(held->units == most[s]);
        }
      });
    }
  }
}

// Every stage, chunk and microbatch; what a table entry says is in flight.
TEST_CASE("compile: interleaved is valid and holds what it says") {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (const int rounds : {1, 2, 3}) {
        for (const int replicas : {1, 2}) {
          PipelineShape shape = ChainOf(std::vector<int>(stages, replicas));
          shape.chunks = chunks;
          const Segment segment = SegmentOf(2, rounds * stages * replicas);
          CAPTURE(stages, chunks, rounds, replicas);
          const auto program = Compile({"interleaved", ""}, shape, segment);
          REQUIRE(program.status() == absl::OkStatus());
          for (const Row& row : program->rows) {
            int units = 0;
            int most = 0;
            for (const Action& action : row.actions) {
              if (action.kind == ActionKind::kForward) ++units;
              if (action.kind == ActionKind::kRelease) --units;
              most = std::max(most, units);
            }
            CHECK(most ==
                  MostHeld({"interleaved", ""}, shape, segment, row.stage)
                      ->units);
          }
        }
      }
    }
  }
  PipelineShape shape = ChainOf({1, 1, 1, 1});
  shape.chunks = 2;
  // (4, 2, 8): 11, 9, 7, 5.
  std::vector<int> most;
  for (int s = 0; s < 4; ++s) {
    most.push_back(
        MostHeld({"interleaved", ""}, shape, SegmentOf(1, 8), StageId{s})
            ->units);
  }
  CHECK(most == std::vector<int>{11, 9, 7, 5});
  CHECK(
      Compile({"interleaved", ""}, shape, SegmentOf(1, 6)).status().message() ==
      "schedule \"interleaved\": microbatches is 6, expected a multiple of "
      "4, the stages times their replicas");
  CHECK_FALSE(Compile({"flush", ""}, shape, SegmentOf(1, 8)).ok());
}

TEST_CASE("compile: what executors cannot run yet is refused with the reason") {
  CHECK(CheckRunnable({"1f1b", ""}).ok());
  CHECK(CheckRunnable({"zb_h1", ""}).message() ==
        "schedule \"zb_h1\" cannot be run yet: layers compute the "
        "gradients of input and weights in one backward; run one of 1f1b, "
        "model_parallel, gpipe, flush, two_version");
}

TEST_CASE("compile: flush is valid over stages, microbatches and replicas") {
  testing::ForEachShape(4, 3, [](PipelineShape shape) {
    for (const int in_flight : {0, 1, 2}) {
      for (const int microbatches : {1, 2, 3, 8}) {
        for (const int accumulate : {1, 2}) {
          shape.in_flight = in_flight;
          CAPTURE(shape.replicas, in_flight, microbatches, accumulate);
          const auto program = Compile({"flush", "flush"}, shape,
                                       SegmentOf(3, microbatches, accumulate));
          CHECK(program.status() == absl::OkStatus());
        }
      }
    }
  });
}

// An epoch with fewer minibatches than the pipeline is deep once hung: the
// start-up asked for more units than there were.
TEST_CASE("compile: fewer units than stages end") {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int units = 0; units <= stages + 2; ++units) {
      const PipelineShape shape = ChainOf(std::vector<int>(stages, 1));
      CAPTURE(stages, units);
      CHECK(Compile({"1f1b", ""}, shape, SegmentOf(units)).ok());
      CHECK(Compile({"flush", ""}, shape, SegmentOf(units)).ok());
      if (units > 0) {
        CHECK(Compile({"flush", ""}, shape, SegmentOf(1, units)).ok());
      }
    }
  }
}

TEST_CASE("compile: golden programs", "[golden]") {
  const auto check = [](const std::string& name, const Program& program) {
    CHECK(GoldenMismatch("testdata/schedules/" + name + ".golden",
                         ToString(program, true)) == "");
  };
  const PipelineShape straight = ChainOf({1, 1, 1, 1});
  check("1f1b_4x6", MustCompile("1f1b", straight, SegmentOf(6)));
  check("flush_4x6", MustCompile("flush", straight, SegmentOf(1, 6)));
  check("gpipe_4x6", MustCompile("gpipe", straight, SegmentOf(1, 6)));
  check("model_parallel_4x3",
        MustCompile("model_parallel", straight, SegmentOf(3)));
  check("two_version_4x3x4",
        MustCompile("two_version", straight, SegmentOf(3, 4)));
  check("zb_h1_4x6", MustCompile("zb_h1", straight, SegmentOf(1, 6)));
  check("zb_h2_4x8", MustCompile("zb_h2", straight, SegmentOf(1, 8)));
  PipelineShape chunks = ChainOf({1, 1});
  chunks.chunks = 2;
  check("interleaved_2x2x4",
        MustCompile("interleaved", chunks, SegmentOf(1, 4)));
  check("1f1b_2-1_x5", MustCompile("1f1b", ChainOf({2, 1}), SegmentOf(5)));
  check("flush_2-3_x2x5",
        MustCompile("flush", ChainOf({2, 3}), SegmentOf(2, 5)));
}

TEST_CASE(
    "compile: a tensor that skips stages goes straight, labels alone come back "
    "no way") {
  PipelineShape shape = ChainOf({1, 1, 1});
  shape.edges = {{StageId{0}, StageId{1}, true},
                 {StageId{1}, StageId{2}, true},
                 {StageId{0}, StageId{2}, false}};
  const Program program = MustCompile("1f1b", shape, SegmentOf(1));
  CHECK(RowText(program, 0) == "F0 >F0 >F0@2 <B0 B0 R0 U0 D");
  CHECK(RowText(program, 1) == "<F0 F0 >F0 <B0 B0 >B0 R0 U0 D");
  CHECK(RowText(program, 2) == "<F0@0 <F0 F0 B0 >B0 R0 U0 D");
}

TEST_CASE("compile: a residual that skips a stage comes back the same way") {
  PipelineShape shape = ChainOf({1, 1, 1});
  shape.edges = {{StageId{0}, StageId{1}, true},
                 {StageId{1}, StageId{2}, true},
                 {StageId{0}, StageId{2}, true}};
  const Program program = MustCompile("1f1b", shape, SegmentOf(1));
  CHECK(RowText(program, 0) == "F0 >F0 >F0@2 <B0 <B0@2 B0 R0 U0 D");
  CHECK(RowText(program, 2) == "<F0@0 <F0 F0 B0 >B0@0 >B0 R0 U0 D");
}

TEST_CASE(
    "compile: an evaluation runs minibatches on their replica, and no update") {
  Segment segment = SegmentOf(3, 4);
  segment.evaluation = true;
  segment.first_minibatch = 90;  // of no account: units start at 0
  segment.first_versions = {5, 9};
  for (const std::string schedule : {"1f1b", "flush"}) {
    if (schedule == "1f1b") segment.microbatches = 1;
    const Program program = MustCompile(schedule, ChainOf({2, 1}), segment);
    CHECK(RowText(program, 0, 0) == "E0 >E0 E2 >E2");
    CHECK(RowText(program, 0, 1) == "E1 >E1");
    CHECK(RowText(program, 1, 0) == "<E0 E0 <E1 E1 <E2 E2");
    CHECK(program.rows[0].actions[0].version == WeightVersion{5});
    CHECK(program.rows[2].actions[1].version == WeightVersion{9});
    CHECK(program.last_versions() == segment.first_versions);
    segment.microbatches = 4;
  }
}

TEST_CASE("compile: a segment without units drains and saves") {
  Segment segment = SegmentOf(0);
  segment.save = true;
  CHECK(RowText(MustCompile("1f1b", ChainOf({1, 1}), segment), 1) == "D S");
}

TEST_CASE("compile: an update knows the last minibatch that it sums") {
  Segment segment = SegmentOf(5);
  segment.first_minibatch = 10;
  const Program program = MustCompile("1f1b", ChainOf({2}), segment);
  std::vector<int64_t> last;
  for (const Action& update :
       testing::ActionsOf(program, 0, 0, {ActionKind::kUpdate})) {
    last.push_back(update.minibatch.value());
  }
  CHECK(last == std::vector<int64_t>{11, 13, 14});
}

TEST_CASE(
    "compile: pairs and numbers that make no sense are refused in one line") {
  const PipelineShape chain = ChainOf({1, 1});
  const auto message = [](const absl::StatusOr<Program>& program) {
    REQUIRE_FALSE(program.ok());
    return std::string(program.status().message());
  };
  CHECK(message(Compile({"2f2b", ""}, chain, SegmentOf(1))) ==
        std::string(FindSchedule("2f2b").status().message()));
  CHECK(message(Compile({"1f1b", "noone"}, chain, SegmentOf(1))) ==
        "weight policy \"noone\" is not known; known policies: stash, "
        "vertical_sync, none, flush, two_version");
  CHECK(message(Compile({"1f1b", "flush"}, chain, SegmentOf(1))) ==
        "schedule \"1f1b\": weights is \"flush\", expected stash or "
        "vertical_sync or none; it updates while other minibatches are in "
        "flight: never a flush, and not once for several microbatches");
  CHECK(message(Compile({"flush", "stash"}, chain, SegmentOf(1))) ==
        "schedule \"flush\": weights is \"stash\", expected flush; it updates "
        "only while nothing is in flight, so there is never a second version");
  CHECK(message(Compile({"model_parallel", ""}, ChainOf({1, 1}, 2),
                        SegmentOf(1))) ==
        "schedule \"model_parallel\": in_flight is 2, expected 1; 1f1b takes "
        "any number");
  CHECK(message(Compile({"1f1b", ""}, chain, SegmentOf(1, 2))) ==
        "schedule \"1f1b\": microbatches is 2, expected 1; it takes whole "
        "minibatches; use schedule flush to split them");
  CHECK(message(Compile({"1f1b", ""}, ChainOf({1, 0}), SegmentOf(1))) ==
        "schedule: replicas of stage 1 is 0, expected 1 to 4096");
  CHECK(message(Compile({"1f1b", ""}, ChainOf({}), SegmentOf(1))) ==
        "schedule: the number of stages is 0, expected 1 to 4096");
  CHECK_FALSE(Compile({"1f1b", ""}, ChainOf({1}, -1), SegmentOf(1)).ok());
  CHECK_FALSE(Compile({"1f1b", ""}, chain, SegmentOf(-1)).ok());
  CHECK_FALSE(Compile({"1f1b", ""}, chain, SegmentOf(INT64_MAX)).ok());
  CHECK_FALSE(Compile({"flush", ""}, chain, SegmentOf(1, 0)).ok());
  CHECK_FALSE(Compile({"1f1b", ""}, chain, SegmentOf(1, 1, 0)).ok());
  Segment segment = SegmentOf(1);
  segment.first_versions = {1};
  CHECK_FALSE(Compile({"1f1b", ""}, chain, segment).ok());
  PipelineShape backwards = chain;
  backwards.edges = {{StageId{1}, StageId{0}, true}};
  CHECK_FALSE(Compile({"1f1b", ""}, backwards, SegmentOf(1)).ok());
}

TEST_CASE("stage edges: by who reads what, the label from stage 0") {
  v1::Graph graph;
  const auto add = [&graph](const std::string& name,
                            std::vector<std::string> inputs) {
    v1::Layer* layer = graph.add_layers();
    layer->set_name(name);
    for (const std::string& input : inputs) layer->add_inputs(input);
  };
  add("a", {});  // reads x
  add("b", {});  // reads a
  add("c", {"b"});
  add("d", {"c", "a"});  // a residual from a
  add("loss", {});       // reads d and y
  v1::Plan plan;
  for (const auto& [first, end] :
       std::vector<std::pair<int, int>>{{0, 1}, {1, 3}, {3, 4}, {4, 5}}) {
    v1::PlanStage* stage = plan.add_stages();
    stage->set_first_layer(first);
    stage->set_end_layer(end);
    stage->set_replicas(first + 1);
  }
  plan.set_in_flight(3);
  std::string text;
  for (const StageEdge& edge : StageEdges(graph, plan)) {
    text += std::to_string(edge.from.value()) + ">" +
            std::to_string(edge.to.value()) + (edge.has_gradient ? " " : "! ");
  }
  CHECK(text == "0>1 0>2 0>3! 1>2 2>3 ");
  const PipelineShape shape = ShapeOf(graph, plan);
  CHECK(shape.replicas == std::vector<int>{1, 2, 4, 5});
  CHECK(shape.in_flight == 3);
}

}  // namespace
}  // namespace pipework
