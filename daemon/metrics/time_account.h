// Where the time of one executor goes: five buckets that add up to the wall
// time, each from its own readings of the clock.
//
//   auto forward = account.In(Bucket::kCompute);   // until it dies
//
// Cost: two clock readings a scope. Threads: one thread opens and closes
// scopes; any thread may read.
#ifndef PIPEWORK_DAEMON_METRICS_TIME_ACCOUNT_H_
#define PIPEWORK_DAEMON_METRICS_TIME_ACCOUNT_H_

#include <array>
#include <mutex>

#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace pipework {

enum class Bucket {
  kCompute,         // forward, backward, update
  kTransfer,        // sending and receiving, all-reduce included
  kWaitUpstream,    // for an activation; stage 0: for data
  kWaitDownstream,  // for a gradient
  kOther,           // while no scope is open
};
constexpr int kBuckets = 5;
// compute, transfer, wait_upstream, wait_downstream, other.
const char* BucketName(Bucket bucket);

struct Times {
  std::array<absl::Duration, kBuckets> in{};

  absl::Duration Of(Bucket bucket) const {
    return in[static_cast<int>(bucket)];
  }
  absl::Duration Wall() const;
  // Part of the wall time, 0 to 1; all 0 where there is no wall time.
  double Share(Bucket bucket) const;
};

class TimeAccount {
 public:
  // Borrows `clock` for its life. Counts from now on.
  explicit TimeAccount(const Clock& clock = Clock::Real());

  // Time goes to the bucket until the scope dies; an inner scope suspends the
  // one around it. Scopes die in the reverse order.
  class Scope {
   public:
    Scope(Scope&& other) noexcept;
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    friend class TimeAccount;
    Scope(TimeAccount* account, Bucket before)
        : account_(account), before_(before) {}
    TimeAccount* account_;
    Bucket before_;
  };
  [[nodiscard]] Scope In(Bucket bucket);

  // Between Pause and Resume (evaluation, saving) nothing is counted, scopes
  // or not. Starts resumed.
  void Pause();
  void Resume();

  // Since the start.
  Times Total() const;
  // Since the last Window() of any thread, or the start.
  Times Window();

 private:
  Bucket Switch(Bucket to);
  void Charge() const;  // REQUIRES: mutex_

  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable absl::Time since_;
  mutable Times total_;
  Times window_start_;
  Bucket current_ = Bucket::kOther;
  bool paused_ = false;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_METRICS_TIME_ACCOUNT_H_
