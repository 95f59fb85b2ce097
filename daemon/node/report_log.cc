#include "daemon/node/report_log.h"

#include <algorithm>
#include <utility>

#include "daemon/base/clock.h"

namespace pipework {
namespace {

using Body = v1::RunnerReport::BodyCase;

Body KindOf(const v1::NodeMessage& message) {
  return message.has_report() ? message.report().report().body_case()
                              : v1::RunnerReport::BODY_NOT_SET;
}

bool SameRunner(const v1::NodeMessage& a, const v1::NodeMessage& b) {
  return a.report().runner().job() == b.report().runner().job() &&
         a.report().runner().attempt() == b.report().runner().attempt();
}

}  // namespace

// Puts `message` into one that waits, when that changes nothing for the
// reader. What was ever sent stays as it is: the coordinator may have it, and
// would take the changed one for a repetition.
bool ReportLog::Join(v1::NodeMessage& message) {
  const Body kind = KindOf(message);
  if (kind != v1::RunnerReport::kProgress &&
      kind != v1::RunnerReport::kStages) {
    return false;
  }
  for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
    if (it->sequence() <= ever_sent_) return false;
    if (!it->has_report() || !SameRunner(*it, message)) continue;
    if (KindOf(*it) != kind) {
      // Metrics are independent of everything; progress must not overtake.
      if (kind == v1::RunnerReport::kStages &&
          KindOf(*it) == v1::RunnerReport::kProgress) {
        continue;
      }
      if (kind == v1::RunnerReport::kProgress &&
          KindOf(*it) == v1::RunnerReport::kStages) {
        continue;
      }
      return false;
    }
    v1::RunnerReport& old = *it->mutable_report()->mutable_report();
    v1::RunnerReport& fresh = *message.mutable_report()->mutable_report();
    if (kind == v1::RunnerReport::kStages) {
      old.Swap(&fresh);
      return true;
    }
    // The end of an epoch stays a message of its own.
    if (old.progress().has_epoch()) return false;
    v1::RunnerReport::Progress joined = old.progress();
    for (v1::StepMetrics& step : *fresh.mutable_progress()->mutable_steps()) {
      *joined.add_steps() = std::move(step);
    }
    fresh.mutable_progress()->mutable_steps()->Swap(joined.mutable_steps());
    old.Swap(&fresh);
    return true;
  }
  return false;
}

void ReportLog::Add(v1::NodeMessage message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Join(message)) return;
  if (kept_.size() >= kMostReports) {
    const auto oldest = std::find_if(
        kept_.begin(), kept_.end(), [](const v1::NodeMessage& each) {
          return KindOf(each) == v1::RunnerReport::kLog;
        });
    if (oldest != kept_.end()) kept_.erase(oldest);
  }
  message.set_sequence(next_sequence_++);
  kept_.push_back(std::move(message));
  changed_.notify_all();
}

void ReportLog::AddOnce(v1::NodeMessage message) {
  std::lock_guard<std::mutex> lock(mutex_);
  message.set_sequence(0);
  // One sign of life at a time is enough.
  if (message.has_heartbeat()) {
    for (const v1::NodeMessage& each : once_) {
      if (each.has_heartbeat()) return;
    }
    once_.push_front(std::move(message));
  } else {
    once_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void ReportLog::BeginSession(int64_t acknowledged) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    in_session_ = true;
    sent_ = 0;
  }
  Acknowledge(acknowledged);
}

void ReportLog::EndSession() {
  std::lock_guard<std::mutex> lock(mutex_);
  in_session_ = false;
  changed_.notify_all();
}

void ReportLog::Acknowledge(int64_t sequence) {
  std::lock_guard<std::mutex> lock(mutex_);
  while (!kept_.empty() && kept_.front().sequence() <= sequence) {
    kept_.pop_front();
  }
  changed_.notify_all();
}

bool ReportLog::Take(v1::NodeMessage* message, absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_report = [this] {
    return !kept_.empty() && kept_.back().sequence() > sent_;
  };
  WaitUntil(changed_, lock, deadline,
            [&] { return !in_session_ || !once_.empty() || has_report(); });
  if (!in_session_) return false;
  if (!once_.empty()) {
    *message = std::move(once_.front());
    once_.pop_front();
    return true;
  }
  if (!has_report()) return false;
  const auto next =
      std::upper_bound(kept_.begin(), kept_.end(), sent_,
                       [](int64_t sent, const v1::NodeMessage& each) {
                         return sent < each.sequence();
                       });
  *message = *next;
  sent_ = next->sequence();
  ever_sent_ = std::max(ever_sent_, sent_);
  return true;
}

int64_t ReportLog::first_sequence() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kept_.empty() ? next_sequence_ : kept_.front().sequence();
}

bool ReportLog::AwaitEmpty(absl::Time deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitUntil(changed_, lock, deadline, [this] { return kept_.empty(); });
}

size_t ReportLog::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return kept_.size();
}

}  // namespace pipework
