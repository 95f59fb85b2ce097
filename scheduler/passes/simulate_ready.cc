#include "scheduler/passes/simulate_ready.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// Microbatches, the smallest first.
using Ready = std::priority_queue<int, std::vector<int>, std::greater<>>;

class ReadySimulation {
 public:
  ReadySimulation(const ReadyRule& rule, const ReadyTimes& times)
      : rule_(rule), times_(times), stages_(times.forward_seconds.size()) {
    run_.in_flight.assign(stages_.size(), 0);
    run_.timeline.busy_seconds.assign(stages_.size(), 0);
  }

  ReadyRun Run() {
    const int microbatches = static_cast<int>(times_.forward_seconds[0].size());
    for (int j = 0; j < microbatches; ++j) stages_[0].forward.push(j);
    StartAll();
    while (!events_.empty()) {
      // Everything that happens now, before anybody chooses.
      now_ = std::get<0>(events_.top());
      while (!events_.empty() && std::get<0>(events_.top()) == now_) {
        const auto [time, stamp, stage, kind, microbatch] = events_.top();
        events_.pop();
        Handle(stage, kind, microbatch);
      }
      StartAll();
    }
    run_.timeline.makespan = now_;
    return std::move(run_);
  }

 private:
  struct Stage {
    Ready forward;
    Ready backward;
    Ready weight;
    bool busy = false;
    bool after_backward = false;  // the round goes on with a forward
    int in_flight = 0;
    double begin = 0;
  };
  // kReceive..: the input has come. Otherwise the task ends.
  using Event = std::tuple<double, int64_t, int, ActionKind, int>;

  void Push(double time, int stage, ActionKind kind, int microbatch) {
    events_.emplace(time, ++stamps_, stage, kind, microbatch);
  }

  void Handle(int index, ActionKind kind, int microbatch) {
    Stage& stage = stages_[index];
    switch (kind) {
      case ActionKind::kReceiveForward:
        stage.forward.push(microbatch);
        return;
      case ActionKind::kReceiveBackward:
        stage.backward.push(microbatch);
        return;
      default:
        break;
    }
    stage.busy = false;
    const int last = static_cast<int>(stages_.size()) - 1;
    const double arrival = now_ + times_.transfer_seconds;
    run_.timeline.spans.push_back(
        {static_cast<size_t>(index), kind, microbatch, stage.begin, now_});
    run_.timeline.busy_seconds[index] += now_ - stage.begin;
    if (kind == ActionKind::kForward) {
      if (index == last) {
        stage.backward.push(microbatch);
      } else {
        Push(arrival, index + 1, ActionKind::kReceiveForward, microbatch);
      }
    } else if (kind == ActionKind::kBackward) {
      --stage.in_flight;
      if (index > 0) {
        Push(arrival, index - 1, ActionKind::kReceiveBackward, microbatch);
      }
      if (rule_.hint == ReadyHint::kBackwardForwardWeight) {
        stage.weight.push(microbatch);
      }
    }
  }

  void StartAll() {
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (!stages_[s].busy) Start(static_cast<int>(s));
    }
  }

  // Picks what the idle stage runs next, if anything is ready.
  void Start(int index) {
    Stage& stage = stages_[index];
    const bool backward = !stage.backward.empty();
    const bool forward =
        !stage.forward.empty() &&
        (rule_.limits.empty() || stage.in_flight < rule_.limits[index]);
    bool forward_first = false;
    switch (rule_.hint) {
      case ReadyHint::kBackwardForward:
      case ReadyHint::kBackwardForwardWeight:
        forward_first = stage.after_backward;
        break;
      case ReadyHint::kBackwardPriority:
        break;
      case ReadyHint::kForwardPriority:
        forward_first = true;
        break;
    }
    stage.after_backward = false;
    if (forward && (forward_first || !backward)) {
      ++stage.in_flight;
      run_.in_flight[index] = std::max(run_.in_flight[index], stage.in_flight);
      Begin(index, ActionKind::kForward, &stage.forward,
            times_.forward_seconds);
    } else if (backward) {
      stage.after_backward = true;
      Begin(index, ActionKind::kBackward, &stage.backward,
            times_.backward_seconds);
    } else if (!stage.weight.empty()) {
      Begin(index, ActionKind::kWeightGradient, &stage.weight,
            times_.weight_gradient_seconds);
    }
  }

  void Begin(int index, ActionKind kind, Ready* ready,
             const std::vector<std::vector<double>>& seconds) {
    const int microbatch = ready->top();
    ready->pop();
    stages_[index].busy = true;
    stages_[index].begin = now_;
    Push(now_ + seconds[index][microbatch], index, kind, microbatch);
  }

  const ReadyRule& rule_;
  const ReadyTimes& times_;
  std::vector<Stage> stages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t stamps_ = 0;
  double now_ = 0;
  ReadyRun run_;
};

absl::Status CheckSeconds(absl::string_view what,
                          const std::vector<std::vector<double>>& seconds,
                          size_t stages, size_t microbatches) {
  if (seconds.size() != stages) {
    return Mismatch("readiness", absl::StrCat("the length of ", what),
                    absl::StrCat(seconds.size()), absl::StrCat(stages));
  }
  for (const std::vector<double>& stage : seconds) {
    if (stage.size() != microbatches) {
      return Mismatch("readiness", absl::StrCat("a stage's ", what),
                      absl::StrCat(stage.size()),
                      absl::StrCat(microbatches, " microbatches"));
    }
    for (const double number : stage) {
      if (!std::isfinite(number) || number < 0) {
        return Mismatch("readiness", absl::StrCat("an entry of ", what),
                        absl::StrCat(number), "0 or more");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

ReadyTimes ReadyTimes::Equal(int stages, int microbatches,
                             double forward_seconds, double backward_seconds,
                             double weight_gradient_seconds) {
  const auto all = [&](double seconds) {
    return std::vector<std::vector<double>>(
        stages, std::vector<double>(microbatches, seconds));
  };
  ReadyTimes times;
  times.forward_seconds = all(forward_seconds);
  times.backward_seconds = all(backward_seconds);
  times.weight_gradient_seconds = all(weight_gradient_seconds);
  return times;
}

absl::StatusOr<ReadyRun> SimulateReady(const ReadyRule& rule,
                                       const ReadyTimes& times) {
  const size_t stages = times.forward_seconds.size();
  if (stages == 0) {
    return Mismatch("readiness", "the number of stages", "0", "1 or more");
  }
  const size_t microbatches = times.forward_seconds[0].size();
  RETURN_IF_ERROR(CheckSeconds("forward_seconds", times.forward_seconds, stages,
                               microbatches));
  RETURN_IF_ERROR(CheckSeconds("backward_seconds", times.backward_seconds,
                               stages, microbatches));
  if (rule.hint == ReadyHint::kBackwardForwardWeight) {
    RETURN_IF_ERROR(CheckSeconds("weight_gradient_seconds",
                                 times.weight_gradient_seconds, stages,
                                 microbatches));
  }
  if (!std::isfinite(times.transfer_seconds) || times.transfer_seconds < 0) {
    return Mismatch("readiness", "transfer_seconds",
                    absl::StrCat(times.transfer_seconds), "0 or more");
  }
  if (!rule.limits.empty() && rule.limits.size() != stages) {
    return Mismatch("readiness", "the length of limits",
                    absl::StrCat(rule.limits.size()), absl::StrCat(stages));
  }
  for (const int limit : rule.limits) {
    if (limit < 1) {
      return Mismatch("readiness", "a limit", absl::StrCat(limit), "1 or more");
    }
  }
  return ReadySimulation(rule, times).Run();
}

}  // namespace pipework
