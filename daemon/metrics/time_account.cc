#include "daemon/metrics/time_account.h"

#include <utility>

namespace pipework {

const char* BucketName(Bucket bucket) {
  switch (bucket) {
    case Bucket::kCompute:
      return "compute";
    case Bucket::kTransfer:
      return "transfer";
    case Bucket::kWaitUpstream:
      return "wait_upstream";
    case Bucket::kWaitDownstream:
      return "wait_downstream";
    case Bucket::kOther:
      return "other";
  }
  return "unknown";
}

absl::Duration Times::Wall() const {
  absl::Duration sum;
  for (const absl::Duration part : in) sum += part;
  return sum;
}

double Times::Share(Bucket bucket) const {
  const absl::Duration wall = Wall();
  if (wall <= absl::ZeroDuration()) return 0;
  return absl::FDivDuration(Of(bucket), wall);
}

TimeAccount::TimeAccount(const Clock& clock)
    : clock_(clock), since_(clock.Now()) {}

void TimeAccount::Charge() const {
  const absl::Time now = clock_.Now();
  if (!paused_) total_.in[static_cast<int>(current_)] += now - since_;
  since_ = now;
}

Bucket TimeAccount::Switch(Bucket to) {
  std::lock_guard<std::mutex> lock(mutex_);
  Charge();
  return std::exchange(current_, to);
}

TimeAccount::Scope TimeAccount::In(Bucket bucket) {
  return Scope(this, Switch(bucket));
}

TimeAccount::Scope::Scope(Scope&& other) noexcept
    : account_(std::exchange(other.account_, nullptr)),
      before_(other.before_) {}

TimeAccount::Scope::~Scope() {
  if (account_ != nullptr) account_->Switch(before_);
}

void TimeAccount::Pause() {
  std::lock_guard<std::mutex> lock(mutex_);
  Charge();
  paused_ = true;
}

void TimeAccount::Resume() {
  std::lock_guard<std::mutex> lock(mutex_);
  Charge();
  paused_ = false;
}

Times TimeAccount::Total() const {
  std::lock_guard<std::mutex> lock(mutex_);
  Charge();
  return total_;
}

Times TimeAccount::Window() {
  std::lock_guard<std::mutex> lock(mutex_);
  Charge();
  Times window = total_;
  for (int i = 0; i < kBuckets; ++i) window.in[i] -= window_start_.in[i];
  window_start_ = total_;
  return window;
}

}  // namespace pipework
