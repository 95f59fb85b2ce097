// What one executor measures of itself.
//
// Threads: the executor's thread writes, any thread takes a snapshot.
#ifndef PIPEWORK_DAEMON_EXECUTOR_EXECUTOR_METRICS_H_
#define PIPEWORK_DAEMON_EXECUTOR_EXECUTOR_METRICS_H_

#include <cstdint>
#include <mutex>

#include "absl/time/time.h"
#include "daemon/metrics/quantiles.h"
#include "daemon/metrics/time_account.h"

namespace pipework {

namespace v1 {
class StageMetrics;
}  // namespace v1

enum class ExecutorState {
  kWaiting,  // between segments
  kFill,
  kSteady,
  kDrain,
  kEvaluating,
  kSaving,
};
// waiting, fill, steady, drain, evaluating, saving.
const char* ExecutorStateName(ExecutorState state);

class ExecutorMetrics {
 public:
  ExecutorMetrics();

  // Counts only between Resume and Pause: training.
  TimeAccount& account() { return account_; }

  void SetState(ExecutorState state);
  void AddForward(absl::Duration time);
  void AddBackward(absl::Duration time, int64_t staleness);
  // Values that the stores keep; maxima where the name says peak.
  struct Held {
    int peak_versions = 1;
    int64_t version_bytes = 0;
    int64_t newest_version = 0;
    int64_t peak_activation_bytes = 0;
    int64_t bytes_sent = 0;
  };
  void SetHeld(const Held& held);

  // Fills in all but stage, replica, device, layers, waiting_for and
  // planned_ms.
  void Fill(v1::StageMetrics* out) const;

 private:
  TimeAccount account_;
  mutable std::mutex mutex_;
  // All below guarded by mutex_.
  ExecutorState state_ = ExecutorState::kWaiting;
  Quantiles forward_seconds_;
  Quantiles backward_seconds_;
  int64_t staleness_ = 0;
  Held held_;
  absl::Time heard_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_EXECUTOR_METRICS_H_
