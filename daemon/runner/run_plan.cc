#include "daemon/runner/run_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

Leg Save() {
  Leg leg;
  leg.kind = LegKind::kSave;
  return leg;
}

Leg Finish(bool stopped, bool target_missed) {
  Leg leg;
  leg.kind = LegKind::kFinish;
  leg.stopped = stopped;
  leg.target_missed = target_missed;
  return leg;
}

// The first multiple of `every` after `step`.
int64_t NextMultiple(int64_t step, int64_t every) {
  return (step / every + 1) * every;
}

}  // namespace

RunRules RulesOf(const v1::JobSpec& spec, int64_t steps_per_epoch,
                 int64_t total_steps, bool evaluates) {
  RunRules rules;
  rules.steps_per_epoch = steps_per_epoch;
  rules.total_steps = total_steps;
  rules.evaluates = evaluates;
  rules.target_accuracy = spec.run().target_accuracy();
  rules.save_every_epochs = spec.checkpoint().every_epochs();
  rules.save_every_steps = spec.checkpoint().every_steps();
  rules.save_every_seconds = spec.checkpoint().every_seconds();
  return rules;
}

std::string ToString(const Leg& leg) {
  switch (leg.kind) {
    case LegKind::kTrain:
      return absl::StrCat("train ", leg.first_minibatch, "..",
                          leg.first_minibatch + leg.minibatches,
                          leg.save ? " and save" : "");
    case LegKind::kEvaluate:
      return "evaluate";
    case LegKind::kSave:
      return "save";
    case LegKind::kFinish:
      return leg.stopped         ? "stop"
             : leg.target_missed ? "finish below the target"
                                 : "finish";
  }
  return "unknown";
}

bool SaveIsDue(const RunRules& rules, const RunState& state) {
  return rules.save_every_seconds > 0 &&
         state.seconds_since_save >=
             static_cast<double>(rules.save_every_seconds);
}

Leg NextLeg(const RunRules& rules, const RunState& state) {
  const bool saved = state.saved_step == state.step;
  if (state.stop) {
    if (state.stop_saves && !saved) return Save();
    return Finish(/*stopped=*/true, /*target_missed=*/false);
  }

  const bool over = state.step >= rules.total_steps;
  const bool epoch_ends =
      state.step > 0 && state.step % rules.steps_per_epoch == 0;
  const bool evaluated = state.evaluated_step == state.step;
  if (rules.evaluates && (over || epoch_ends) && !evaluated) {
    Leg leg;
    leg.kind = LegKind::kEvaluate;
    return leg;
  }
  const bool has_target = rules.target_accuracy > 0;
  const bool reached =
      has_target && evaluated && state.test_accuracy >= rules.target_accuracy;
  if (over || reached) {
    if (!saved) return Save();
    return Finish(/*stopped=*/false, has_target && !reached);
  }

  const auto due = [&state](int64_t every) {
    return every > 0 && state.step > 0 && state.step % every == 0;
  };
  if (!saved && (due(rules.save_every_steps) ||
                 due(rules.save_every_epochs * rules.steps_per_epoch) ||
                 SaveIsDue(rules, state))) {
    return Save();
  }

  Leg leg;
  leg.kind = LegKind::kTrain;
  leg.first_minibatch = state.step;
  const int64_t epoch_end = NextMultiple(state.step, rules.steps_per_epoch);
  int64_t end = std::min(epoch_end, rules.total_steps);
  if (rules.save_every_steps > 0) {
    end = std::min(end, NextMultiple(state.step, rules.save_every_steps));
    // Where it is evaluated too, the save comes after that.
    leg.save = end % rules.save_every_steps == 0 && end != epoch_end &&
               end != rules.total_steps;
  }
  leg.minibatches = end - state.step;
  return leg;
}

}  // namespace pipework
