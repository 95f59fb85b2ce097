// What a run does next, given where it stands. Pure.
//
// A run is cut into legs at its drains: train up to the end of the epoch, a
// checkpoint or the end of the run; evaluate; save; finish.
#ifndef PIPEWORK_DAEMON_RUNNER_RUN_PLAN_H_
#define PIPEWORK_DAEMON_RUNNER_RUN_PLAN_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace pipework {

struct RunRules {
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 0;
  bool evaluates = false;      // there are test samples
  double target_accuracy = 0;  // 0: none
  // At most one of the three; 0: not.
  int64_t save_every_epochs = 0;
  int64_t save_every_steps = 0;
  int64_t save_every_seconds = 0;
};

RunRules RulesOf(const v1::JobSpec& spec, int64_t steps_per_epoch,
                 int64_t total_steps, bool evaluates);

struct RunState {
  int64_t step = 0;               // minibatches trained
  int64_t evaluated_step = -1;    // step of the newest evaluation
  double test_accuracy = -1;      // its result
  int64_t saved_step = 0;         // step of the newest save, or of the start
  double seconds_since_save = 0;  // or since the start
  bool stop = false;              // asked to end early
  bool stop_saves = false;        // with a checkpoint
};

enum class LegKind { kTrain, kEvaluate, kSave, kFinish };

struct Leg {
  LegKind kind = LegKind::kFinish;
  // kTrain.
  int64_t first_minibatch = 0;
  int64_t minibatches = 0;
  bool save = false;  // ends with a save
  // kFinish.
  bool stopped = false;        // early, because it was asked to
  bool target_missed = false;  // trained to the end, below the target

  friend bool operator==(const Leg& a, const Leg& b) {
    return a.kind == b.kind && a.first_minibatch == b.first_minibatch &&
           a.minibatches == b.minibatches && a.save == b.save &&
           a.stopped == b.stopped && a.target_missed == b.target_missed;
  }
};

// train 0..45, evaluate, save, finish.
std::string ToString(const Leg& leg);

Leg NextLeg(const RunRules& rules, const RunState& state);

// Whether the leg in progress should end early for a save that is due by time.
bool SaveIsDue(const RunRules& rules, const RunState& state);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_RUN_PLAN_H_
