#include "daemon/runner/run_plan.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_join.h"

namespace pipework {
namespace {

// The legs of a whole run whose evaluations give `accuracies` in turn.
std::vector<std::string> Legs(const RunRules& rules,
                              const std::vector<double>& accuracies = {},
                              RunState state = {}) {
  std::vector<std::string> legs;
  size_t evaluations = 0;
  for (int guard = 0; guard < 100; ++guard) {
    const Leg leg = NextLeg(rules, state);
    legs.push_back(ToString(leg));
    switch (leg.kind) {
      case LegKind::kTrain:
        REQUIRE(leg.minibatches > 0);
        REQUIRE(leg.first_minibatch == state.step);
        state.step += leg.minibatches;
        if (leg.save) state.saved_step = state.step;
        break;
      case LegKind::kEvaluate:
        state.evaluated_step = state.step;
        state.test_accuracy =
            evaluations < accuracies.size() ? accuracies[evaluations] : 0;
        ++evaluations;
        break;
      case LegKind::kSave:
        state.saved_step = state.step;
        state.seconds_since_save = 0;
        break;
      case LegKind::kFinish:
        return legs;
    }
  }
  FAIL("the run does not end");
  return legs;
}

std::string Join(const std::vector<std::string>& legs) {
  return absl::StrJoin(legs, ", ");
}

RunRules Rules(int64_t per_epoch, int64_t total) {
  RunRules rules;
  rules.steps_per_epoch = per_epoch;
  rules.total_steps = total;
  rules.evaluates = true;
  return rules;
}

}  // namespace

TEST_CASE("run plan: train an epoch, evaluate, and save at the end") {
  CHECK(Join(Legs(Rules(10, 20))) ==
        "train 0..10, evaluate, train 10..20, evaluate, save, finish");
}

TEST_CASE("run plan: without test samples nothing is evaluated") {
  RunRules rules = Rules(10, 20);
  rules.evaluates = false;
  CHECK(Join(Legs(rules)) == "train 0..10, train 10..20, save, finish");
}

TEST_CASE("run plan: a run by steps ends within an epoch, and is evaluated") {
  CHECK(Join(Legs(Rules(10, 14))) ==
        "train 0..10, evaluate, train 10..14, evaluate, save, finish");
}

TEST_CASE("run plan: saves by epochs come after the evaluation") {
  RunRules rules = Rules(10, 40);
  rules.save_every_epochs = 2;
  CHECK(Join(Legs(rules)) ==
        "train 0..10, evaluate, train 10..20, evaluate, save, train 20..30, "
        "evaluate, train 30..40, evaluate, save, finish");
}

TEST_CASE("run plan: saves by steps cut the epochs") {
  RunRules rules = Rules(10, 20);
  rules.save_every_steps = 5;
  CHECK(Join(Legs(rules)) ==
        "train 0..5 and save, train 5..10, evaluate, save, train 10..15 and "
        "save, train 15..20, evaluate, save, finish");
  rules.save_every_steps = 7;
  CHECK(Join(Legs(rules)) ==
        "train 0..7 and save, train 7..10, evaluate, train 10..14 and save, "
        "train 14..20, evaluate, save, finish");
}

TEST_CASE("run plan: the target ends the run early, or fails it at the end") {
  RunRules rules = Rules(10, 30);
  rules.target_accuracy = 0.9;
  CHECK(Join(Legs(rules, {0.5, 0.9, 0.95})) ==
        "train 0..10, evaluate, train 10..20, evaluate, save, finish");
  CHECK(Join(Legs(rules, {0.5, 0.7, 0.8})) ==
        "train 0..10, evaluate, train 10..20, evaluate, train 20..30, "
        "evaluate, save, finish below the target");
}

TEST_CASE("run plan: a stop ends it, with a save where there is what to save") {
  RunState state;
  state.stop = true;
  state.stop_saves = true;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) == "stop");
  state.step = 7;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) == "save, stop");
  state.saved_step = 7;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) == "stop");
  state.saved_step = 0;
  state.stop_saves = false;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) == "stop");
}

TEST_CASE("run plan: a save that is due by time comes at the next drain") {
  RunRules rules = Rules(10, 20);
  rules.save_every_seconds = 30;
  RunState state;
  state.step = 4;
  state.seconds_since_save = 29;
  CHECK_FALSE(SaveIsDue(rules, state));
  CHECK(ToString(NextLeg(rules, state)) == "train 4..10");
  state.seconds_since_save = 30;
  CHECK(SaveIsDue(rules, state));
  CHECK(ToString(NextLeg(rules, state)) == "save");
}

TEST_CASE("run plan: a run goes on where its checkpoint was taken") {
  RunState state;
  state.step = 13;
  state.saved_step = 13;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) ==
        "train 13..20, evaluate, save, finish");
  // Taken after an evaluation, at the end of an epoch.
  state.step = 10;
  state.saved_step = 10;
  state.evaluated_step = 10;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) ==
        "train 10..20, evaluate, save, finish");
  // Of a run that was already over.
  state.step = 20;
  state.saved_step = 20;
  state.evaluated_step = 20;
  CHECK(Join(Legs(Rules(10, 20), {}, state)) == "finish");
}

}  // namespace pipework
