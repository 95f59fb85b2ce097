#include "daemon/executor/executor_metrics.h"

#include <algorithm>

#include "daemon/base/clock.h"
#include "proto/metrics.pb.h"

namespace pipework {

const char* ExecutorStateName(ExecutorState state) {
  switch (state) {
    case ExecutorState::kWaiting:
      return "waiting";
    case ExecutorState::kFill:
      return "fill";
    case ExecutorState::kSteady:
      return "steady";
    case ExecutorState::kDrain:
      return "drain";
    case ExecutorState::kEvaluating:
      return "evaluating";
    case ExecutorState::kSaving:
      return "saving";
  }
  return "unknown";
}

ExecutorMetrics::ExecutorMetrics() : heard_(MonotonicNow()) {
  account_.Pause();
}

void ExecutorMetrics::SetState(ExecutorState state) {
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = state;
  heard_ = MonotonicNow();
}

void ExecutorMetrics::AddForward(absl::Duration time) {
  std::lock_guard<std::mutex> lock(mutex_);
  forward_seconds_.Add(absl::ToDoubleSeconds(time));
}

void ExecutorMetrics::AddBackward(absl::Duration time, int64_t staleness) {
  std::lock_guard<std::mutex> lock(mutex_);
  backward_seconds_.Add(absl::ToDoubleSeconds(time));
  staleness_ = std::max(staleness_, staleness);
}

void ExecutorMetrics::SetHeld(const Held& held) {
  std::lock_guard<std::mutex> lock(mutex_);
  held_ = held;
  heard_ = MonotonicNow();
}

void ExecutorMetrics::Fill(v1::StageMetrics* out) const {
  const Times times = account_.Total();
  out->set_utilisation(times.Share(Bucket::kCompute));
  v1::Shares* shares = out->mutable_shares();
  shares->set_compute(times.Share(Bucket::kCompute));
  shares->set_transfer(times.Share(Bucket::kTransfer));
  shares->set_wait_upstream(times.Share(Bucket::kWaitUpstream));
  shares->set_wait_downstream(times.Share(Bucket::kWaitDownstream));
  shares->set_other(times.Share(Bucket::kOther));

  std::lock_guard<std::mutex> lock(mutex_);
  out->set_forward_ms(forward_seconds_.Median() * 1e3);
  out->set_backward_ms(backward_seconds_.Median() * 1e3);
  out->set_forwards(forward_seconds_.count());
  out->set_backwards(backward_seconds_.count());
  out->set_staleness(static_cast<int32_t>(staleness_));
  out->set_versions_held(held_.peak_versions);
  out->set_weight_bytes(held_.version_bytes);
  out->set_stash_bytes((held_.peak_versions - 1) * held_.version_bytes);
  out->set_weight_version(held_.newest_version);
  out->set_activation_bytes(held_.peak_activation_bytes);
  out->set_bytes_sent(held_.bytes_sent);
  out->set_state(ExecutorStateName(state_));
  out->set_heard_seconds_ago(absl::ToDoubleSeconds(MonotonicNow() - heard_));
}

}  // namespace pipework
