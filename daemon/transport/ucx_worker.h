// The part of UCX that the data plane uses: active messages over one worker,
// behind C++ types.
//
// Threads: one; the thread that called Create makes every call, and every
// callback comes from within Progress() or one of those calls.
#ifndef PIPEWORK_DAEMON_TRANSPORT_UCX_WORKER_H_
#define PIPEWORK_DAEMON_TRANSPORT_UCX_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipework {

class UcxWorker {
 public:
  struct Options {
    std::string interface;  // network interface; empty: UCX chooses
    int port_first = 0;     // of UCX's own listening sockets; 0: any
    int port_last = 0;
  };

  // A payload that has not been taken yet; settled once, by Fetch or Release.
  using Payload = int64_t;

  struct Callbacks {
    // Must not call the worker.
    std::function<void(std::string header, uint64_t payload_bytes,
                       Payload payload)>
        on_message;
    // The peer of that endpoint cannot be reached any more.
    std::function<void(int endpoint, const absl::Status&)> on_endpoint_error;
  };
  using Done = std::function<void(const absl::Status&)>;

  // Settings that the user has not made in the environment (UCX_TLS and
  // others) are put there for as long as this takes.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(
      const Options& options, Callbacks callbacks);
  virtual ~UcxWorker() = default;

  // What a peer's Connect takes.
  virtual const std::string& address() const = 0;

  // Number of a new endpoint. Does not wait for the peer.
  virtual absl::StatusOr<int> Connect(const std::string& address) = 0;
  // Gives up what is in flight on it.
  virtual void Close(int endpoint) = 0;

  // Borrows `payload` until `done`.
  virtual void Send(int endpoint, std::string header, const void* payload,
                    size_t payload_bytes, Done done) = 0;
  // Writes the payload to `into`, borrowed until `done`.
  virtual void Fetch(Payload payload, void* into, size_t bytes, Done done) = 0;
  virtual void Release(Payload payload) = 0;
  // `done` when everything sent so far has left this process.
  virtual void Flush(Done done) = 0;

  // True while there was something to do.
  virtual bool Progress() = 0;
  // True: event_fd() becomes readable with the next event. False: there is
  // work now, call Progress.
  virtual bool Arm() = 0;
  virtual int event_fd() const = 0;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_UCX_WORKER_H_
