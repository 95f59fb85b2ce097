// Transport carries tensors between the executors of one attempt of a job.
//
// Every message is found by its identity, never by its order of arrival. A
// send never waits for the receiver: the tensor is handed over and is on its
// way, and what is in flight is bounded by the program (the executor receives
// a backward before it admits more forwards). A transport may have no buffer
// at all: then the message stays with the sender's side until it is received.
//
// Threads: each executor has an endpoint of its own. Any thread may call it;
// only one at a time waits for the same message.
#ifndef PIPEWORK_DAEMON_TRANSPORT_TRANSPORT_H_
#define PIPEWORK_DAEMON_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/tensor.h"
#include "proto/ids.h"

namespace pipework {

// A stage replica.
struct SeatId {
  StageId stage;
  ReplicaId replica;

  friend bool operator==(SeatId a, SeatId b) {
    return a.stage == b.stage && a.replica == b.replica;
  }
  friend bool operator<(SeatId a, SeatId b) {
    return a.stage != b.stage ? a.stage < b.stage : a.replica < b.replica;
  }
};
// s1.r0
std::string ToString(SeatId seat);

enum class Channel {
  kForward,   // activations, labels
  kBackward,  // gradients of activations
  kEvaluate,  // activations of an evaluation
  kReduce,    // parts of an all-reduce
  kControl,   // between leader and executors: `text` only
};

// What makes a message itself, within a job's attempt.
struct MessageId {
  Channel channel = Channel::kForward;
  SeatId from;
  SeatId to;
  int tensor = 0;      // index in the edge's list of tensors; part of a reduce
  int64_t number = 0;  // unit, update, or sequence number of a control message

  friend bool operator==(const MessageId& a, const MessageId& b);
  template <typename H>
  friend H AbslHashValue(H h, const MessageId& id) {
    return H::combine(std::move(h), static_cast<int>(id.channel), id.from.stage,
                      id.from.replica, id.to.stage, id.to.replica, id.tensor,
                      id.number);
  }
};
// forward s1.r0 -> s2.r1 tensor 0 unit 41
std::string ToString(const MessageId& id);

constexpr int64_t kNoStop = std::numeric_limits<int64_t>::max();

struct Message {
  MessageId id;
  // Units from this one on will not be run: how a stop travels. See executor.
  int64_t stop_before = kNoStop;
  Tensor tensor;     // empty for control messages
  std::string text;  // control messages
};

// The endpoint of one executor.
class Transport {
 public:
  virtual ~Transport() = default;

  // Takes the message; its tensor must not be written again by anyone.
  // Unavailable: the peer is gone or the transport was aborted; names both
  // ends. InvalidArgument: not from this endpoint, or to a seat that is not
  // in the placement. ResourceExhausted: far more is in flight than a program
  // has. AlreadyExists: sent before (where the receiver is in this process).
  virtual absl::Status Send(Message message) = 0;

  // Waits until the message is there. DeadlineExceeded names both ends and
  // the message. Unavailable: the peer is gone, or aborted with that cause.
  // InvalidArgument: what came has another type or size than `expected`
  // (checked before any allocation where the transport can); pass nullptr
  // for control messages.
  struct Expected {
    Shape shape;
    DType dtype;
  };
  virtual absl::StatusOr<Message> Receive(const MessageId& id,
                                          const Expected* expected,
                                          absl::Time deadline) = 0;

  // Whether the message has arrived: Receive needs nothing more from the
  // sender's executor (a large payload may still have to be fetched).
  virtual bool Ready(const MessageId& id) = 0;

  // Ends every wait, now and later, with `cause`. The first cause stays.
  virtual void Abort(const absl::Status& cause) = 0;

  // Bytes of payload sent so far to other executors.
  virtual int64_t bytes_sent() const = 0;
};

// The data plane of one runner: the endpoints of its executors.
class DataPlane {
 public:
  virtual ~DataPlane() = default;

  // host:port that peers dial; "" where there is only one runner.
  virtual std::string address() const = 0;

  // Connects to every other runner. `addresses` gives each seat's host:port;
  // seats with this plane's own address are local. DeadlineExceeded and
  // Unavailable name who dialled whom.
  struct Seat {
    SeatId seat;
    std::string address;
  };
  virtual absl::Status Connect(const std::vector<Seat>& seats,
                               absl::Time deadline) = 0;

  // The endpoint of a local seat; lives as long as the plane.
  virtual Transport& endpoint(SeatId seat) = 0;

  // Called once, from a thread of the plane, when a peer runner is gone.
  virtual void OnPeerLost(
      std::function<void(const absl::Status&)> callback) = 0;

  // Ends every wait of every endpoint.
  virtual void Abort(const absl::Status& cause) = 0;

  // What was refused: messages of a wrong job, attempt, nonce, size or seat, or
  // repeated ones; connections of strangers.
  virtual int64_t refused_messages() const = 0;
};

// What a plane is made from.
struct DataPlaneOptions {
  std::string job;
  int attempt = 1;
  uint64_t nonce = 0;
  std::string listen_host = "127.0.0.1";
  std::string advertise_host;  // empty: listen_host
  int port_first = 0;          // 0: any free port
  int port_last = 0;
  std::shared_ptr<Allocator> allocator;  // for what is received
};

// `name` is in_process (one runner only), ucx (local seats in process, others
// over UCX), or one of the tests' planes: zero_buffer, one_slot. NotFound lists
// the known names.
absl::StatusOr<std::unique_ptr<DataPlane>> MakeDataPlane(
    const std::string& name, const DataPlaneOptions& options);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_TRANSPORT_H_
