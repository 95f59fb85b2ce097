// EventLoop is one thread that does what others post to it, in order, and a
// tick between; WorkPool is a few threads for what takes long.
//
// Threads: any may post. std::mutex inside, no gRPC.
#ifndef PIPEWORK_DAEMON_BASE_EVENT_LOOP_H_
#define PIPEWORK_DAEMON_BASE_EVENT_LOOP_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/thread.h"

namespace pipework {

class EventLoop {
 public:
  // `tick` runs on the loop's thread at least every `period`, after what was
  // posted before it.
  EventLoop(const std::string& name, absl::Duration period,
            std::function<void()> tick);
  ~EventLoop() { Stop(); }

  // false: the loop has stopped, and `task` will not run.
  bool Post(std::function<void()> task);
  // Tasks that wait for their turn.
  size_t waiting() const;
  // Runs what was posted so far, then no more; joins the thread.
  void Stop();

  // Runs `task` on the loop and waits for what it returns, a Status or a
  // StatusOr. Unavailable: the loop has stopped. DeadlineExceeded: it has not
  // come to it; the task may still run.
  template <typename Result>
  Result Call(absl::Time deadline, std::function<Result()> task) {
    struct Slot {
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
      Result result = absl::UnknownError("not run");
    };
    auto slot = std::make_shared<Slot>();
    const bool posted = Post([slot, task = std::move(task)] {
      Result result = task();
      std::lock_guard<std::mutex> lock(slot->mutex);
      slot->result = std::move(result);
      slot->done = true;
      slot->changed.notify_all();
    });
    if (!posted) return absl::UnavailableError("the server is shutting down");
    std::unique_lock<std::mutex> lock(slot->mutex);
    if (!WaitUntil(slot->changed, lock, deadline, [&] { return slot->done; })) {
      return absl::DeadlineExceededError(
          "the server did not come to it in time");
    }
    return std::move(slot->result);
  }

 private:
  void Run();

  const absl::Duration period_;
  const std::function<void()> tick_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  Thread thread_;
};

class WorkPool {
 public:
  WorkPool(const std::string& name, int threads);
  ~WorkPool() { Stop(); }

  // Dropped when the pool has stopped.
  void Run(std::function<void()> job);
  // Waits for the jobs that run; those that wait are dropped.
  void Stop();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<Thread> threads_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_EVENT_LOOP_H_
