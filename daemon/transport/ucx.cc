#include "daemon/transport/ucx.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/clock.h"
#include "daemon/base/thread.h"
#include "daemon/base/unique_fd.h"
#include "daemon/transport/endpoint.h"
#include "daemon/transport/handshake.h"
#include "daemon/transport/socket.h"
#include "daemon/transport/ucx_wire.h"
#include "daemon/transport/ucx_worker.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A program has some tens of messages in flight to a peer; more than this is
// a peer that takes nothing, and memory must not grow with it.
constexpr int64_t kMostInFlight = 1 << 16;
constexpr absl::Duration kLinkLimit = absl::Seconds(5);
constexpr absl::Duration kLeaveLimit = absl::Seconds(2);
// UCX's connection may break a moment before ours shows why.
constexpr absl::Duration kBrokenLimit = absl::Milliseconds(500);

class UcxPlane final : public DataPlane {
 public:
  explicit UcxPlane(const DataPlaneOptions& options)
      : options_(options), key_(MakeWireKey(options)) {}
  ~UcxPlane() override;

  absl::Status Start();

  std::string address() const override { return address_; }
  absl::Status Connect(const std::vector<Seat>& seats,
                       absl::Time deadline) override;
  Transport& endpoint(SeatId seat) override;
  void OnPeerLost(std::function<void(const absl::Status&)> callback) override;
  void Abort(const absl::Status& cause) override;
  int64_t refused_messages() const override;

 private:
  enum class PeerState { kConnecting, kConnected, kGone };
  struct Peer {
    std::string address;
    std::vector<SeatId> seats;
    std::string name;  // "10.0.0.2:7001 (s1.r0, s2.r0)"
    // Guarded by mutex_.
    PeerState state = PeerState::kConnecting;
    absl::Status gone;
    // The communication thread's.
    UniqueFd socket;
    std::string unread;
    int endpoint = -1;
    uint64_t sent = 0;
    uint64_t received = 0;
    std::optional<uint64_t> goodbye;
    std::optional<absl::Time> broken_since;
    absl::Status broken;
  };
  struct Arrival {
    std::string header;
    uint64_t payload_bytes;
    UcxWorker::Payload payload;
  };

  absl::StatusOr<std::string> RunningInterface();

  // ---- any thread ----
  void Post(std::function<void()> command);
  absl::Status Route(Message message);
  absl::Status RouteToPeer(Peer& peer, Message message);
  absl::Status DialPeer(Peer& peer, absl::Time deadline);
  absl::Status Broken() const;  // REQUIRES: mutex_
  std::string Who() const {
    return absl::StrCat("job ", options_.job, " attempt ", options_.attempt,
                        ": runner at ", address_);
  }

  // ---- the communication thread ----
  void Loop();
  bool RunCommands();
  void Wait(bool work_is_left);
  void TakeHandshakes();
  void Adopt(Peer& peer, UniqueFd socket, const std::string& worker_address);
  void ReadPeer(Peer& peer);
  void HandleArrivals();
  void Arrived(Arrival arrival);
  void Fetch(WireHeader header, Inbox* inbox, const Arrival& arrival);
  void HandleBroken();
  void PeerLost(Peer& peer, absl::string_view how);
  void PeerLeft(Peer& peer);
  void CloseConnections(Peer& peer);
  void Refuse(absl::string_view from, absl::string_view why);
  bool Leave();

  const DataPlaneOptions options_;
  const WireKey key_;
  std::string address_;
  UniqueFd wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> commands_;  // guarded by mutex_
  std::vector<std::unique_ptr<Peer>> peers_;    // set once by Connect
  std::map<SeatId, std::unique_ptr<Endpoint>> endpoints_;  // likewise
  std::map<SeatId, Peer*> remote_;                         // likewise
  bool connecting_ = false;                                // guarded by mutex_
  absl::Status aborted_;                                   // guarded by mutex_
  absl::Status lost_;                                      // guarded by mutex_
  std::function<void(const absl::Status&)> on_lost_;       // guarded by mutex_
  std::atomic<int64_t> in_flight_{0};
  std::atomic<int64_t> refused_{0};

  // The communication thread's.
  std::unique_ptr<UcxWorker> worker_;
  std::unique_ptr<Handshakes> handshakes_;
  bool seats_known_ = false;  // Connect was called: the next ones are set
  std::vector<Peer*> known_peers_;
  std::vector<Arrival> arrivals_;
  std::vector<std::pair<int, absl::Status>> errors_;
  bool leaving_ = false;
  absl::Time leave_by_;
  enum class Leaving { kSending, kFlushing, kFlushed, kSaidGoodbye };
  Leaving leave_state_ = Leaving::kSending;

  Thread thread_;
};

// ---- life ----

absl::StatusOr<std::string> UcxPlane::RunningInterface() {
  // UCX passes over an interface that has no link just now, and would reach
  // nobody later on.
  const absl::Time deadline = MonotonicNow() + kLinkLimit;
  for (;;) {
    const Interface interface = InterfaceOf(options_.listen_host);
    if (interface.name.empty() || interface.running) return interface.name;
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(changed_, lock, MonotonicNow() + absl::Milliseconds(50),
              [] { return false; });
    if (MonotonicNow() < deadline) continue;
    return absl::UnavailableError(absl::StrCat(
        "data plane: interface ", interface.name, " of ", options_.listen_host,
        " has no link; check it, or listen elsewhere"));
  }
}

absl::Status UcxPlane::Start() {
  if (options_.allocator == nullptr) {
    return absl::InvalidArgumentError("data plane: it has no allocator");
  }
  const std::string advertised = options_.advertise_host.empty()
                                     ? options_.listen_host
                                     : options_.advertise_host;
  if (advertised == "0.0.0.0" || advertised == "::") {
    return Mismatch("data plane", "the host that peers dial", advertised,
                    "an address of this machine", "set the host to advertise");
  }
  if (options_.port_first > 0 && options_.port_last <= options_.port_first) {
    return Mismatch(
        "data plane", "the range of ports",
        absl::StrCat(options_.port_first, " to ", options_.port_last),
        "at least two ports for each runner on this machine");
  }
  ASSIGN_OR_RETURN(
      Listener listener,
      Listen(options_.listen_host, options_.port_first, options_.port_last));
  address_ = JoinHostPort(advertised, listener.port);
  ASSIGN_OR_RETURN(const std::string interface, RunningInterface());
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data plane: eventfd: ", std::strerror(errno)));
  }
  std::promise<absl::Status> started;
  thread_ = Thread("data-plane", [this, &started, &listener, &interface] {
    UcxWorker::Options worker;
    worker.interface = interface;
    worker.port_first = options_.port_first;
    worker.port_last = options_.port_last;
    UcxWorker::Callbacks callbacks;
    callbacks.on_message = [this](std::string header, uint64_t bytes,
                                  UcxWorker::Payload payload) {
      arrivals_.push_back({std::move(header), bytes, payload});
    };
    callbacks.on_endpoint_error = [this](int endpoint,
                                         const absl::Status& error) {
      errors_.emplace_back(endpoint, error);
    };
    auto made = UcxWorker::Create(worker, std::move(callbacks));
    if (!made.ok()) {
      started.set_value(made.status());
      return;
    }
    worker_ = std::move(*made);
    Hello self;
    self.job = options_.job;
    self.attempt = options_.attempt;
    self.nonce = options_.nonce;
    self.address = address_;
    self.worker_address = worker_->address();
    handshakes_ = std::make_unique<Handshakes>(std::move(listener.fd), self);
    started.set_value(absl::OkStatus());
    Loop();
    handshakes_.reset();
    worker_.reset();
  });
  return started.get_future().get();
}

UcxPlane::~UcxPlane() {
  if (thread_.running()) {
    Post([this] {
      leaving_ = true;
      bool in_order;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        in_order = aborted_.ok() && lost_.ok();
      }
      leave_by_ = MonotonicNow() + (in_order ? kLeaveLimit : absl::Duration());
    });
    thread_.Join();
  }
}

void UcxPlane::Post(std::function<void()> command) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    wake = commands_.empty();
    commands_.push_back(std::move(command));
  }
  if (!wake) return;
  const uint64_t one = 1;
  const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
  (void)ignored;
}

// ---- connecting ----

absl::Status UcxPlane::Broken() const {
  if (!aborted_.ok()) return aborted_;
  return lost_;
}

absl::Status UcxPlane::Connect(const std::vector<Seat>& seats,
                               absl::Time deadline) {
  std::map<std::string, std::vector<SeatId>> by_address;
  std::map<SeatId, std::string> addresses;
  for (const Seat& seat : seats) {
    RETURN_IF_ERROR(ParseHostPort(seat.address).status());
    if (!addresses.emplace(seat.seat, seat.address).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          Who(), ": ", ToString(seat.seat), " is in the seats twice"));
    }
    by_address[seat.address].push_back(seat.seat);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    PIPE_CHECK(!connecting_);
    connecting_ = true;
    for (const auto& [address, here] : by_address) {
      if (address == address_) {
        for (const SeatId seat : here) {
          auto endpoint = std::make_unique<Endpoint>(
              seat, EndpointName(options_, seat, address_),
              [this](Message m) { return Route(std::move(m)); });
          endpoint->inbox().SetAddresses(addresses);
          if (!aborted_.ok()) endpoint->Abort(aborted_);
          endpoints_.emplace(seat, std::move(endpoint));
        }
        continue;
      }
      auto peer = std::make_unique<Peer>();
      peer->address = address;
      peer->seats = here;
      std::vector<std::string> names;
      for (const SeatId seat : here) {
        names.push_back(ToString(seat));
        remote_.emplace(seat, peer.get());
      }
      peer->name = absl::StrCat(address, " (", absl::StrJoin(names, ", "), ")");
      peers_.push_back(std::move(peer));
    }
  }
  Post([this] {
    for (const auto& peer : peers_) known_peers_.push_back(peer.get());
    seats_known_ = true;
  });

  for (const auto& peer : peers_) {
    if (address_ < peer->address) RETURN_IF_ERROR(DialPeer(*peer, deadline));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto missing = [&] {
    std::vector<std::string> names;
    for (const auto& peer : peers_) {
      if (peer->state == PeerState::kConnecting) names.push_back(peer->name);
    }
    return names;
  };
  const bool done = WaitUntil(changed_, lock, deadline, [&] {
    return !Broken().ok() || missing().empty();
  });
  RETURN_IF_ERROR(Broken());
  if (!done) {
    return absl::DeadlineExceededError(absl::StrCat(
        Who(), ": waited to be dialled by ", absl::StrJoin(missing(), " and "),
        ", which did not happen by the deadline"));
  }
  return absl::OkStatus();
}

absl::Status UcxPlane::DialPeer(Peer& peer, absl::Time deadline) {
  Hello self;
  self.job = options_.job;
  self.attempt = options_.attempt;
  self.nonce = options_.nonce;
  self.address = address_;
  {
    // The worker's address is the communication thread's to read.
    std::promise<std::string> worker_address;
    Post([&] { worker_address.set_value(worker_->address()); });
    self.worker_address = worker_address.get_future().get();
  }
  absl::Status last;
  absl::Duration pause = absl::Milliseconds(20);
  for (;;) {
    auto dialled = DialAndGreet(peer.address, self, deadline);
    if (dialled.ok()) {
      auto socket = std::make_shared<UniqueFd>(std::move(dialled->socket));
      Post([this, &peer, socket, worker = dialled->hello.worker_address] {
        Adopt(peer, std::move(*socket), worker);
      });
      return absl::OkStatus();
    }
    last = dialled.status();
    if (last.code() == absl::StatusCode::kPermissionDenied ||
        last.code() == absl::StatusCode::kInvalidArgument) {
      return WithContext(absl::StrCat(Who(), " dialled ", peer.name), last);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(changed_, lock, std::min(deadline, MonotonicNow() + pause),
              [&] { return !Broken().ok(); });
    RETURN_IF_ERROR(Broken());
    if (MonotonicNow() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(Who(), " dialled ", peer.name,
                       " until the deadline, the last time: ", last.message()));
    }
    pause = std::min(pause * 2, absl::Milliseconds(200));
  }
}

void UcxPlane::Adopt(Peer& peer, UniqueFd socket,
                     const std::string& worker_address) {
  const auto endpoint = worker_->Connect(worker_address);
  if (!endpoint.ok()) {
    PeerLost(peer, endpoint.status().message());
    return;
  }
  peer.endpoint = *endpoint;
  peer.socket = std::move(socket);
  std::lock_guard<std::mutex> lock(mutex_);
  peer.state = PeerState::kConnected;
  changed_.notify_all();
}

void UcxPlane::TakeHandshakes() {
  for (const Handshakes::Refusal& refusal : handshakes_->TakeRefused()) {
    Refuse(refusal.from, refusal.why);
  }
  if (!seats_known_) return;
  for (Handshakes::Greeted& greeted : handshakes_->TakeGreeted()) {
    Peer* from = nullptr;
    for (Peer* const peer : known_peers_) {
      if (peer->address == greeted.hello.address) from = peer;
    }
    std::string why;
    if (from == nullptr) {
      why = absl::StrCat("its address ", greeted.hello.address,
                         " is not in the placement");
    } else if (from->address > address_) {
      why = absl::StrCat(greeted.hello.address, " shall wait to be dialled");
    } else if (from->endpoint >= 0) {
      why = absl::StrCat(greeted.hello.address, " is connected already");
    }
    if (!why.empty()) {
      handshakes_->Answer(greeted, EncodeRefusal(why));
      Refuse(greeted.from, why);
      continue;
    }
    if (handshakes_->Answer(greeted, EncodeHello(handshakes_->self()))) {
      Adopt(*from, std::move(greeted.socket), greeted.hello.worker_address);
    }
  }
}

// ---- sending ----

Transport& UcxPlane::endpoint(SeatId seat) {
  const auto it = endpoints_.find(seat);
  PIPE_CHECK(it != endpoints_.end());
  return *it->second;
}

absl::Status UcxPlane::Route(Message message) {
  const auto local = endpoints_.find(message.id.to);
  if (local != endpoints_.end()) {
    return local->second->inbox().Deliver(std::move(message));
  }
  const auto remote = remote_.find(message.id.to);
  if (remote == remote_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Who(), ": ", ToString(message.id), ": ",
                     ToString(message.id.to), " is not in the placement"));
  }
  return RouteToPeer(*remote->second, std::move(message));
}

absl::Status UcxPlane::RouteToPeer(Peer& peer, Message message) {
  const std::string what = absl::StrCat(Who(), ": ", ToString(message.id));
  if (message.tensor.shape().rank() > kMostDimensions ||
      static_cast<int64_t>(message.text.size()) > kMostTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": it has ", message.tensor.shape().rank(), " dimensions and ",
        message.text.size(), " bytes of text, expected at most ",
        kMostDimensions, " and ", kMostTextBytes));
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (peer.state == PeerState::kGone) return WithContext(what, peer.gone);
    RETURN_IF_ERROR(Broken());
    if (peer.state == PeerState::kConnecting) {
      return absl::UnavailableError(
          absl::StrCat(what, ": ", peer.name, " is not connected"));
    }
  }
  if (in_flight_.load() >= kMostInFlight) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", in_flight_.load(),
                     " messages are in flight, expected less than ",
                     kMostInFlight, "; ", peer.name, " takes nothing"));
  }
  ++in_flight_;
  // The completion holds the payload until UCX is done with it.
  Post([this, &peer,
        kept = std::make_shared<const Message>(std::move(message))] {
    if (peer.endpoint < 0) {  // it went meanwhile
      --in_flight_;
      return;
    }
    WireHeader header;
    header.id = kept->id;
    header.stop_before = kept->stop_before;
    header.has_tensor = !kept->tensor.empty();
    header.shape = kept->tensor.shape();
    header.dtype = kept->tensor.dtype();
    const void* payload = kept->tensor.raw();
    size_t bytes = 0;
    if (header.has_tensor) {
      bytes = static_cast<size_t>(kept->tensor.bytes());
    } else {
      payload = kept->text.data();
      bytes = kept->text.size();
    }
    ++peer.sent;
    worker_->Send(peer.endpoint, EncodeHeader(key_, header, bytes), payload,
                  bytes, [this, kept](const absl::Status&) {
                    // What goes wrong shows as an error of the endpoint.
                    --in_flight_;
                  });
  });
  return absl::OkStatus();
}

// ---- receiving ----

void UcxPlane::HandleArrivals() {
  std::vector<Arrival> arrivals;
  arrivals.swap(arrivals_);
  for (Arrival& arrival : arrivals) Arrived(std::move(arrival));
}

void UcxPlane::Arrived(Arrival arrival) {
  auto header = DecodeHeader(key_, arrival.header, arrival.payload_bytes);
  if (!header.ok()) {
    Refuse("an unknown runner", header.status().message());
    worker_->Release(arrival.payload);
    return;
  }
  const auto from =
      seats_known_ ? remote_.find(header->id.from) : remote_.end();
  const auto to =
      seats_known_ ? endpoints_.find(header->id.to) : endpoints_.end();
  if (!seats_known_ || from == remote_.end() || to == endpoints_.end()) {
    Refuse("a runner",
           absl::StrCat(ToString(header->id), " is not for this runner"));
    worker_->Release(arrival.payload);
    return;
  }
  ++from->second->received;
  Inbox* const inbox = &to->second->inbox();
  Inbox::Announcement announcement;
  announcement.id = header->id;
  announcement.has_tensor = header->has_tensor;
  announcement.shape = header->shape;
  announcement.dtype = header->dtype;
  const UcxWorker::Payload payload = arrival.payload;
  const absl::Status announced =
      inbox->Announce(announcement, /*prefetch=*/true,
                      [this, inbox, header = *header, arrival](bool fetch) {
                        Post([this, inbox, header, arrival, fetch] {
                          if (fetch) {
                            Fetch(header, inbox, arrival);
                          } else {
                            worker_->Release(arrival.payload);
                          }
                        });
                      });
  if (!announced.ok()) {
    spdlog::warn("{}", std::string(announced.message()));
    worker_->Release(payload);
  }
}

void UcxPlane::Fetch(WireHeader header, Inbox* inbox, const Arrival& arrival) {
  auto message = std::make_shared<Message>();
  message->id = header.id;
  message->stop_before = header.stop_before;
  void* into;
  if (header.has_tensor) {
    auto tensor = Tensor::Allocate(*options_.allocator, header.shape,
                                   header.dtype, MemoryUse::kMessages);
    if (!tensor.ok()) {
      worker_->Release(arrival.payload);
      inbox->Fail(header.id,
                  WithContext(absl::StrCat(Who(), ": ", ToString(header.id)),
                              tensor.status()));
      return;
    }
    message->tensor = *std::move(tensor);
    into = message->tensor.raw();
  } else {
    message->text.resize(arrival.payload_bytes);
    into = &message->text[0];
  }
  worker_->Fetch(
      arrival.payload, into, arrival.payload_bytes,
      [this, inbox, message](const absl::Status& status) {
        if (status.ok()) {
          inbox->Fulfil(std::move(*message));
        } else {
          inbox->Fail(
              message->id,
              WithContext(absl::StrCat(Who(), ": ", ToString(message->id)),
                          status));
        }
      });
}

void UcxPlane::Refuse(absl::string_view from, absl::string_view why) {
  const int64_t refused = ++refused_;
  // A stranger who keeps trying must not fill the log.
  if (refused <= 20 || refused % 1000 == 0) {
    spdlog::warn("{}: refused {}: {} ({} refused so far)", Who(),
                 std::string(from), std::string(why), refused);
  }
}

int64_t UcxPlane::refused_messages() const {
  int64_t refused = refused_.load();
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [seat, endpoint] : endpoints_) {
    refused += endpoint->inbox().refused();
  }
  return refused;
}

// ---- the ends ----

void UcxPlane::Abort(const absl::Status& cause) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_.ok()) aborted_ = cause;
  for (const auto& [seat, endpoint] : endpoints_) endpoint->Abort(aborted_);
  changed_.notify_all();
}

void UcxPlane::OnPeerLost(std::function<void(const absl::Status&)> callback) {
  absl::Status lost;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lost = lost_;
    if (lost.ok()) on_lost_ = std::move(callback);
  }
  if (!lost.ok())
    Post([callback = std::move(callback), lost] { callback(lost); });
}

void UcxPlane::ReadPeer(Peer& peer) {
  char bytes[512];
  ssize_t n;
  while ((n = ::recv(peer.socket.get(), bytes, sizeof bytes, 0)) > 0) {
    peer.unread.append(bytes, static_cast<size_t>(n));
    if (peer.unread.size() > kMostGreetingBytes) break;
  }
  const int error = errno;
  Greeting greeting;
  auto taken = TakeGreeting(&peer.unread, &greeting);
  if (taken.ok() && *taken) {
    const auto goodbye = greeting.kind == GreetingKind::kGoodbye
                             ? DecodeGoodbye(greeting.body)
                             : absl::InvalidArgumentError("a second hello");
    if (!goodbye.ok()) {
      PeerLost(peer, goodbye.status().message());
      return;
    }
    peer.goodbye = *goodbye;
  } else if (!taken.ok()) {
    PeerLost(peer, taken.status().message());
    return;
  }
  if (n > 0 || (n < 0 && (error == EAGAIN || error == EINTR))) return;
  if (peer.goodbye.has_value()) {
    // It does not wait for us any more; what it sent may still be coming.
    if (!peer.broken_since.has_value()) peer.broken_since = MonotonicNow();
    peer.socket.Close();
    return;
  }
  PeerLost(peer, n == 0 ? "it closed the connection" : std::strerror(error));
}

void UcxPlane::HandleBroken() {
  std::vector<std::pair<int, absl::Status>> errors;
  errors.swap(errors_);
  for (const auto& [endpoint, error] : errors) {
    for (Peer* const peer : known_peers_) {
      if (peer->endpoint != endpoint) continue;
      if (!peer->broken_since.has_value()) peer->broken_since = MonotonicNow();
      peer->broken = error;
      if (peer->socket.valid()) ReadPeer(*peer);
    }
  }
  for (Peer* const peer : known_peers_) {
    if (peer->endpoint < 0) continue;
    if (peer->goodbye.has_value() && peer->received >= *peer->goodbye) {
      PeerLeft(*peer);
    } else if (peer->broken_since.has_value() &&
               MonotonicNow() >= *peer->broken_since + kBrokenLimit) {
      if (peer->goodbye.has_value()) {
        PeerLeft(*peer);
      } else {
        PeerLost(*peer, peer->broken.message());
      }
    }
  }
}

void UcxPlane::CloseConnections(Peer& peer) {
  peer.socket.Close();
  if (peer.endpoint >= 0) worker_->Close(peer.endpoint);
  peer.endpoint = -1;
}

void UcxPlane::PeerLost(Peer& peer, absl::string_view how) {
  CloseConnections(peer);
  if (leaving_) {
    std::lock_guard<std::mutex> lock(mutex_);
    peer.state = PeerState::kGone;
    return;
  }
  const absl::Status cause = absl::UnavailableError(
      absl::StrCat(Who(), ": peer ", peer.name, " is gone: ", how));
  std::function<void(const absl::Status&)> callback;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    peer.state = PeerState::kGone;
    peer.gone = cause;
    if (!lost_.ok()) return;
    lost_ = cause;
    callback = std::move(on_lost_);
    for (const auto& [seat, endpoint] : endpoints_) endpoint->Abort(cause);
    changed_.notify_all();
  }
  if (callback) callback(cause);
}

void UcxPlane::PeerLeft(Peer& peer) {
  CloseConnections(peer);
  const absl::Status cause = absl::UnavailableError(
      absl::StrCat("peer ", peer.name, " has left, all it sent has come"));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    peer.state = PeerState::kGone;
    peer.gone = cause;
  }
  for (const auto& [seat, endpoint] : endpoints_) {
    for (const SeatId from : peer.seats) {
      endpoint->inbox().SenderGone(from, cause);
    }
  }
}

bool UcxPlane::Leave() {
  if (MonotonicNow() >= leave_by_) return true;
  if (leave_state_ == Leaving::kSending && in_flight_.load() == 0) {
    leave_state_ = Leaving::kFlushing;
    worker_->Flush(
        [this](const absl::Status&) { leave_state_ = Leaving::kFlushed; });
  }
  if (leave_state_ == Leaving::kFlushed) {
    leave_state_ = Leaving::kSaidGoodbye;
    for (Peer* const peer : known_peers_) {
      if (!peer->socket.valid()) continue;
      const std::string bytes = EncodeGoodbye(peer->sent);
      const ssize_t ignored =
          ::send(peer->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      (void)ignored;
    }
  }
  if (leave_state_ != Leaving::kSaidGoodbye) return false;
  // Each peer closes our connection when it has everything.
  for (Peer* const peer : known_peers_) {
    if (peer->socket.valid()) return false;
  }
  return true;
}

// ---- the communication thread ----

bool UcxPlane::RunCommands() {
  std::deque<std::function<void()>> commands;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
  return !commands.empty();
}

void UcxPlane::Loop() {
  for (int round = 0;; ++round) {
    bool busy = RunCommands();
    while (worker_->Progress()) busy = true;
    HandleArrivals();
    HandleBroken();
    TakeHandshakes();
    if (leaving_ && Leave()) break;
    // Under steady traffic the sockets are looked at now and then.
    if (busy && round % 64 != 0) continue;
    Wait(busy || !worker_->Arm());
  }
}

void UcxPlane::Wait(bool work_is_left) {
  std::vector<pollfd> entries = {{worker_->event_fd(), POLLIN, 0},
                                 {wake_.get(), POLLIN, 0}};
  const size_t first_peer = entries.size();
  for (Peer* const peer : known_peers_) {
    // poll(2) passes over a negative descriptor.
    entries.push_back({peer->socket.get(), POLLIN, 0});
  }
  const size_t first_stranger = entries.size();
  handshakes_->AddTo(&entries);

  absl::Time until = handshakes_->next_deadline();
  if (leaving_) until = std::min(until, leave_by_);
  for (const Peer* const peer : known_peers_) {
    if (peer->endpoint >= 0 && peer->broken_since.has_value()) {
      until = std::min(until, *peer->broken_since + kBrokenLimit);
    }
  }
  const int ready = ::poll(entries.data(), entries.size(),
                           work_is_left ? 0 : PollTimeout(until));
  if (ready < 0) return;
  if (entries[1].revents != 0) {
    uint64_t ignored_count;
    const ssize_t ignored =
        ::read(wake_.get(), &ignored_count, sizeof ignored_count);
    (void)ignored;
  }
  for (size_t i = first_peer; i < first_stranger; ++i) {
    Peer& peer = *known_peers_[i - first_peer];
    if (entries[i].revents != 0 && peer.socket.valid()) ReadPeer(peer);
  }
  handshakes_->Handle(
      {entries.data() + first_stranger, entries.size() - first_stranger});
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataPlane>> MakeUcxPlane(
    const DataPlaneOptions& options) {
  auto plane = std::make_unique<UcxPlane>(options);
  RETURN_IF_ERROR(plane->Start());
  return plane;
}

}  // namespace pipework
