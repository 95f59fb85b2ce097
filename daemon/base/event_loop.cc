#include "daemon/base/event_loop.h"

namespace pipework {

EventLoop::EventLoop(const std::string& name, absl::Duration period,
                     std::function<void()> tick)
    : period_(period), tick_(std::move(tick)) {
  thread_ = Thread(name, [this] { Run(); });
}

bool EventLoop::Post(std::function<void()> task) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  return true;
}

size_t EventLoop::waiting() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return tasks_.size();
}

void EventLoop::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.Join();
}

void EventLoop::Run() {
  absl::Time next = MonotonicNow();
  for (;;) {
    std::deque<std::function<void()>> tasks;
    bool stopping = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      WaitUntil(changed_, lock, next,
                [&] { return stopping_ || !tasks_.empty(); });
      tasks.swap(tasks_);
      stopping = stopping_;
    }
    for (const auto& task : tasks) task();
    if (stopping) return;
    // Everything that had come is done: leases are judged with all that was
    // heard.
    if (MonotonicNow() >= next || !tasks.empty()) {
      tick_();
      next = MonotonicNow() + period_;
    }
  }
}

WorkPool::WorkPool(const std::string& name, int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(name, [this] { Loop(); });
  }
}

void WorkPool::Run(std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void WorkPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  threads_.clear();
}

void WorkPool::Loop() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace pipework
