#include "scheduler/passes/validate.h"

#include <catch2/catch.hpp>
#include <utility>

#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

std::vector<Program> Samples() {
  PipelineShape residual = ChainOf({1, 2, 1});
  residual.edges = {{StageId{0}, StageId{1}, true},
                    {StageId{0}, StageId{2}, false},
                    {StageId{1}, StageId{2}, true}};
  Segment saving = SegmentOf(5);
  saving.save = true;
  saving.first_minibatch = 3;
  Segment evaluation = SegmentOf(4);
  evaluation.evaluation = true;
  return {
      MustCompile("1f1b", ChainOf({1}), SegmentOf(3)),
      MustCompile("1f1b", ChainOf({1, 1, 1}), SegmentOf(5)),
      MustCompile("1f1b", ChainOf({2, 1}), SegmentOf(5, 1, 2)),
      MustCompile("1f1b", residual, saving),
      MustCompile("1f1b", residual, evaluation),
      MustCompile("1f1b", ChainOf({1, 1}, 1), SegmentOf(4)),
      MustCompile("flush", ChainOf({1, 1}), SegmentOf(2, 3)),
      MustCompile("flush", ChainOf({2, 3}), SegmentOf(3, 4, 2)),
  };
}

TEST_CASE("validate: a program without any of its actions is refused") {
  for (const Program& program : Samples()) {
    for (size_t row = 0; row < program.rows.size(); ++row) {
      for (size_t i = 0; i < program.rows[row].actions.size(); ++i) {
        Program broken = program;
        auto& actions = broken.rows[row].actions;
        actions.erase(actions.begin() + i);
        CAPTURE(ToString(program, true), row, i);
        CHECK_FALSE(Validate(broken).ok());
      }
    }
  }
}

TEST_CASE("validate: a program with any action twice is refused") {
  for (const Program& program : Samples()) {
    for (size_t row = 0; row < program.rows.size(); ++row) {
      for (size_t i = 0; i < program.rows[row].actions.size(); ++i) {
        for (const size_t at :
             {size_t{0}, i, program.rows[row].actions.size()}) {
          Program broken = program;
          auto& actions = broken.rows[row].actions;
          actions.insert(actions.begin() + at, actions[i]);
          CAPTURE(ToString(program, true), row, i, at);
          CHECK_FALSE(Validate(broken).ok());
        }
      }
    }
  }
}

TEST_CASE(
    "validate: a program with any two actions of a row swapped is refused") {
  for (const Program& program : Samples()) {
    for (size_t row = 0; row < program.rows.size(); ++row) {
      const size_t size = program.rows[row].actions.size();
      for (size_t i = 0; i < size; ++i) {
        for (size_t j = i + 1; j < size; ++j) {
          Program broken = program;
          std::swap(broken.rows[row].actions[i], broken.rows[row].actions[j]);
          CAPTURE(ToString(program, true), row, i, j);
          CHECK_FALSE(Validate(broken).ok());
        }
      }
    }
  }
}

TEST_CASE("validate: any field of any action that is changed is refused") {
  const std::vector<void (*)(Action*)> changes = {
      [](Action* a) { ++a->number; },
      [](Action* a) { a->minibatch = MinibatchId{a->minibatch.value() + 1}; },
      [](Action* a) {
        a->microbatch = MicrobatchId{a->microbatch.value() + 1};
      },
      [](Action* a) { a->peer_stage = StageId{a->peer_stage.value() + 1}; },
      [](Action* a) {
        a->peer_replica = ReplicaId{a->peer_replica.value() + 1};
      },
      [](Action* a) { a->evaluation = !a->evaluation; },
      [](Action* a) { ++a->chunk; },
      [](Action* a) { a->version = WeightVersion{a->version.value() + 1}; },
      [](Action* a) { a->version = WeightVersion{a->version.value() - 1}; },
  };
  for (const Program& program : Samples()) {
    for (size_t row = 0; row < program.rows.size(); ++row) {
      for (size_t i = 0; i < program.rows[row].actions.size(); ++i) {
        for (size_t change = 0; change < changes.size(); ++change) {
          Program broken = program;
          changes[change](&broken.rows[row].actions[i]);
          CAPTURE(ToString(program, true), row, i, change);
          CHECK_FALSE(Validate(broken).ok());
        }
      }
    }
  }
}

TEST_CASE("validate: a missing, doubled or foreign row is refused") {
  const Program program = MustCompile("1f1b", ChainOf({2, 1}), SegmentOf(4));
  Program broken = program;
  broken.rows.pop_back();
  CHECK_FALSE(Validate(broken).ok());
  broken = program;
  broken.rows.push_back(program.rows.back());
  CHECK_FALSE(Validate(broken).ok());
  broken = program;
  std::swap(broken.rows[0].actions, broken.rows[1].actions);
  CHECK_FALSE(Validate(broken).ok());
}

TEST_CASE(
    "validate: a row that waits for ever is shown with its action in "
    "brackets") {
  Program program = MustCompile("1f1b", ChainOf({1, 1, 1}), SegmentOf(4));
  // The middle stage wants a gradient that its own next forward leads to.
  auto& actions = program.rows[1].actions;
  std::vector<Action> early;
  for (const Action& action : actions) {
    if (action.number == 1 && (action.kind == ActionKind::kReceiveForward ||
                               action.kind == ActionKind::kForward ||
                               action.kind == ActionKind::kSendForward)) {
      continue;
    }
    early.push_back(action);
    if (action.kind == ActionKind::kBackward && action.number == 1) break;
  }
  actions = early;
  CHECK(CheckProgress(program).message() ==
        "schedule: stage 0 waits for ever at <B1; the row is\n"
        "    s0  ... F2 >F2 <B0 B0 R0 U0 F3 >F3 [<B1] B1 R1 U1 <B2 B2 R2 "
        "U2 <B3 ...");
}

TEST_CASE(
    "validate: what is wrong is said of the stage, with what is expected") {
  Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(2));
  std::swap(program.rows[1].actions[2], program.rows[1].actions[3]);
  CHECK(Validate(program).message() ==
        "schedule: stage 1 has >B0 out of place; the row is\n"
        "    s1  <F0 F0 [>B0] B0 R0 U0 <F1 F1 B1 >B1 R1 ...");
}

TEST_CASE("validate: a message that nobody receives is refused") {
  Program program = MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(1));
  program.rows[1].actions.clear();
  Action drain;
  drain.kind = ActionKind::kDrain;
  program.rows[1].actions = {drain};
  program.rows[0].actions.resize(2);
  program.rows[0].actions.push_back(drain);
  CHECK(CheckProgress(program).message() ==
        "schedule: stage 1 never receives what stage 0 sends of unit 0");
}

TEST_CASE("validate: an all-reduce and a drain wait for every replica") {
  for (const ActionKind kind : {ActionKind::kAllReduce, ActionKind::kDrain}) {
    Program program = MustCompile("1f1b", ChainOf({3}), SegmentOf(3));
    auto& actions = program.rows[2].actions;
    for (size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind == kind) actions.erase(actions.begin() + i--);
    }
    CHECK_FALSE(CheckProgress(program).ok());
  }
}

}  // namespace
}  // namespace pipework
