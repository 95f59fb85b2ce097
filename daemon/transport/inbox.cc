#include "daemon/transport/inbox.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A program has at most some thousands of messages in flight to one executor:
// more is a broken peer, and memory must not grow with it.
constexpr size_t kMostEntries = 1 << 16;
constexpr size_t kMostSeen = 1 << 14;

int64_t Bytes(const Transport::Expected& expected) {
  return expected.shape.elements() * DTypeBytes(expected.dtype);
}

std::string TypeText(const Shape& shape, DType dtype) {
  return absl::StrCat(DTypeName(dtype), shape.ToString());
}

}  // namespace

void Inbox::SetAddresses(std::map<SeatId, std::string> addresses) {
  std::lock_guard<std::mutex> lock(mutex_);
  addresses_ = std::move(addresses);
}

std::string Inbox::Where(SeatId seat) const {
  const auto it = addresses_.find(seat);
  if (it == addresses_.end() || it->second.empty()) return ToString(seat);
  return absl::StrCat(ToString(seat), " at ", it->second);
}

absl::Status Inbox::Admit(const MessageId& id) {
  if (!seen_.insert(id).second) {
    ++refused_;
    return absl::AlreadyExistsError(
        absl::StrCat(who_, ": ", ToString(id), " came a second time from ",
                     Where(id.from), ", expected once; it is dropped"));
  }
  if (entries_.size() >= kMostEntries) {
    ++refused_;
    return absl::ResourceExhaustedError(absl::StrCat(
        who_, ": ", entries_.size(), " messages wait to be received, ",
        ToString(id), " from ", Where(id.from), " is dropped"));
  }
  seen_order_.push_back(id);
  if (seen_order_.size() > kMostSeen) {
    // What has not been received yet must stay known.
    if (entries_.contains(seen_order_.front())) {
      seen_order_.push_back(seen_order_.front());
    } else {
      seen_.erase(seen_order_.front());
    }
    seen_order_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status Inbox::Deliver(Message message) {
  std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(Admit(message.id));
  Entry& entry = entries_[message.id];
  entry.state = State::kHere;
  entry.message = std::move(message);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status Inbox::Announce(const Announcement& announcement, bool prefetch,
                             Settle settle) {
  const MessageId& id = announcement.id;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    RETURN_IF_ERROR(Admit(id));
    Entry& entry = entries_[id];
    entry.announcement = announcement;
    if (prefetch && !announcement.has_tensor) {
      entry.state = State::kComing;
    } else if (prefetch) {
      const auto it = largest_.find({id.channel, id.from, id.tensor});
      const int64_t bytes = Bytes({announcement.shape, announcement.dtype});
      if (it != largest_.end() && it->second.dtype == announcement.dtype &&
          it->second.bytes >= bytes) {
        entry.state = State::kComing;
      } else {
        entry.state = State::kAnnounced;
      }
    } else {
      entry.state = State::kAnnounced;
    }
    if (entry.state == State::kAnnounced) {
      entry.settle = std::move(settle);
      changed_.notify_all();
      return absl::OkStatus();
    }
  }
  settle(true);
  return absl::OkStatus();
}

void Inbox::Fulfil(Message message) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(message.id);
  if (it == entries_.end()) return;  // its wait has ended
  it->second.state = State::kHere;
  it->second.message = std::move(message);
  changed_.notify_all();
}

void Inbox::Fail(const MessageId& id, const absl::Status& cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  it->second.state = State::kFailed;
  it->second.failure = cause;
  changed_.notify_all();
}

void Inbox::Learn(const MessageId& id, const Transport::Expected& expected) {
  const int64_t bytes = Bytes(expected);
  Largest& largest = largest_
                         .try_emplace({id.channel, id.from, id.tensor},
                                      Largest{expected.dtype, bytes})
                         .first->second;
  if (largest.dtype == expected.dtype && largest.bytes < bytes) {
    largest.bytes = bytes;
  }
}

absl::Status Inbox::Wrong(const MessageId& id,
                          const Transport::Expected* expected, bool has_tensor,
                          const Shape& shape, DType dtype) const {
  const bool fits =
      expected == nullptr
          ? !has_tensor
          : has_tensor && shape == expected->shape && dtype == expected->dtype;
  if (fits) return absl::OkStatus();
  return Mismatch(who_, absl::StrCat(ToString(id), " from ", Where(id.from)),
                  has_tensor ? TypeText(shape, dtype) : "without a tensor",
                  expected == nullptr
                      ? "no tensor"
                      : TypeText(expected->shape, expected->dtype));
}

absl::StatusOr<Message> Inbox::Receive(const MessageId& id,
                                       const Transport::Expected* expected,
                                       absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const absl::Time start = MonotonicNow();
  if (expected != nullptr) Learn(id, *expected);
  for (;;) {
    if (!aborted_.ok()) return aborted_;
    const auto it = entries_.find(id);
    if (it != entries_.end() && it->second.state == State::kHere) {
      Message message = std::move(it->second.message);
      entries_.erase(it);
      const bool has_tensor = !message.tensor.empty();
      const absl::Status wrong =
          Wrong(id, expected, has_tensor, message.tensor.shape(),
                message.tensor.dtype());
      if (!wrong.ok()) {
        ++refused_;
        return wrong;
      }
      return message;
    }
    if (it != entries_.end() && it->second.state == State::kFailed) {
      const absl::Status failure = it->second.failure;
      entries_.erase(it);
      return failure;
    }
    if (it != entries_.end() && it->second.state == State::kAnnounced) {
      const Announcement& known = it->second.announcement;
      const absl::Status wrong =
          Wrong(id, expected, known.has_tensor, known.shape, known.dtype);
      const Settle settle = std::move(it->second.settle);
      if (wrong.ok()) {
        it->second.state = State::kComing;
      } else {
        entries_.erase(it);
        ++refused_;
      }
      lock.unlock();
      settle(wrong.ok());
      if (!wrong.ok()) return wrong;
      lock.lock();
      continue;
    }
    if (it == entries_.end()) {
      const auto gone = gone_.find(id.from);
      if (gone != gone_.end()) {
        return absl::Status(gone->second.code(),
                            absl::StrCat(who_, ": waits for ", ToString(id),
                                         ": ", gone->second.message()));
      }
    }
    // Something may have changed while the lock was open: look before waiting.
    const State before =
        it == entries_.end() ? State::kAnnounced : it->second.state;
    const bool was_there = it != entries_.end();
    const bool changed = WaitUntil(changed_, lock, deadline, [&] {
      if (!aborted_.ok()) return true;
      const auto now = entries_.find(id);
      if (now == entries_.end()) return !was_there && gone_.count(id.from) > 0;
      return !was_there || now->second.state != before;
    });
    if (!changed) {
      return absl::DeadlineExceededError(absl::StrCat(
          who_, ": waited ",
          absl::FormatDuration(
              absl::Trunc(MonotonicNow() - start, absl::Milliseconds(1))),
          " for ", ToString(id), " from ", Where(id.from), ": ",
          was_there ? "its payload did not come whole" : "nothing came",
          " by the deadline"));
    }
  }
}

bool Inbox::Ready(const MessageId& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  return entries_.contains(id);
}

void Inbox::SenderGone(SeatId seat, const absl::Status& cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  gone_.try_emplace(seat, cause);
  changed_.notify_all();
}

void Inbox::Abort(const absl::Status& cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_.ok()) aborted_ = cause;
  changed_.notify_all();
}

int Inbox::PendingFrom(SeatId seat) {
  std::lock_guard<std::mutex> lock(mutex_);
  int pending = 0;
  for (const auto& [id, entry] : entries_) {
    if (id.from == seat) ++pending;
  }
  return pending;
}

}  // namespace pipework
