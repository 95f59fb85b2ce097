// Inbox: what has come for one executor, found by identity.
//
// A message is delivered whole, or announced first: then its payload stays
// where it is (with the sender, or in a transport's buffer) until the executor
// has asked for it and its type and size are known to be right. From then on
// what is no larger on the same stream is fetched when it is announced.
//
// Threads: any.
#ifndef PIPEWORK_DAEMON_TRANSPORT_INBOX_H_
#define PIPEWORK_DAEMON_TRANSPORT_INBOX_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "daemon/transport/transport.h"

namespace pipework {

class Inbox {
 public:
  // `who` opens every error: "job j-1 attempt 1: s1.r0 at 127.0.0.1:7001".
  explicit Inbox(std::string who) : who_(std::move(who)) {}

  // Where the seats are, for error messages.
  void SetAddresses(std::map<SeatId, std::string> addresses);

  // AlreadyExists: this identity has come before; refused and counted.
  // ResourceExhausted: more than any program has in flight.
  absl::Status Deliver(Message message);

  // What is known of a message before its payload is here.
  struct Announcement {
    MessageId id;
    bool has_tensor = false;  // the rest counts only then
    Shape shape;
    DType dtype = DType::kF32;
  };
  // `settle(true)` is called once when the payload shall come; the transport
  // answers with Fulfil or Fail. `settle(false)`: it will not be asked for.
  // From any thread, without a lock held. `prefetch`: it may be asked for
  // before the executor does.
  using Settle = std::function<void(bool fetch)>;
  absl::Status Announce(const Announcement& announcement, bool prefetch,
                        Settle settle);
  void Fulfil(Message message);
  void Fail(const MessageId& id, const absl::Status& cause);

  // As Transport::Receive and Transport::Ready.
  absl::StatusOr<Message> Receive(const MessageId& id,
                                  const Transport::Expected* expected,
                                  absl::Time deadline);
  bool Ready(const MessageId& id);

  // Nothing more comes from `seat`: waits for its messages end with `cause`,
  // but for those that are here or announced.
  void SenderGone(SeatId seat, const absl::Status& cause);
  // Ends every wait, now and later. The first cause stays.
  void Abort(const absl::Status& cause);

  // Messages here or announced of that sender, not yet received.
  int PendingFrom(SeatId seat);
  int64_t refused() const { return refused_.load(); }

 private:
  enum class State { kHere, kAnnounced, kComing, kFailed };
  struct Entry {
    State state = State::kHere;
    Message message;            // kHere
    Announcement announcement;  // kAnnounced, kComing
    Settle settle;              // kAnnounced
    absl::Status failure;       // kFailed
  };
  // What one sender sends again and again.
  using Stream = std::tuple<Channel, SeatId, int>;
  struct Largest {
    DType dtype;
    int64_t bytes;
  };

  absl::Status Admit(const MessageId& id);  // REQUIRES: mutex_
  void Learn(const MessageId& id, const Transport::Expected& expected);
  absl::Status Wrong(const MessageId& id, const Transport::Expected* expected,
                     bool has_tensor, const Shape& shape, DType dtype) const;
  std::string Where(SeatId seat) const;

  const std::string who_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SeatId, std::string> addresses_;
  absl::flat_hash_map<MessageId, Entry> entries_;
  // The newest identities, for telling repeated messages.
  absl::flat_hash_set<MessageId> seen_;
  std::deque<MessageId> seen_order_;
  std::map<Stream, Largest> largest_;
  std::map<SeatId, absl::Status> gone_;
  absl::Status aborted_;
  std::atomic<int64_t> refused_{0};
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_INBOX_H_
