// A named thread that is joined when its handle dies.
#ifndef PIPEWORK_DAEMON_BASE_THREAD_H_
#define PIPEWORK_DAEMON_BASE_THREAD_H_

#include <functional>
#include <string>
#include <thread>

namespace pipework {

class Thread {
 public:
  Thread() = default;
  // Starts `body`. At most 15 characters of the name show in ps and gdb. The
  // caller sees to it that `body` ends before the handle dies.
  Thread(const std::string& name, std::function<void()> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other);
  ~Thread() { Join(); }

  bool running() const { return thread_.joinable(); }
  // Waits for the end; nothing when there is no thread (any more).
  void Join();

 private:
  std::thread thread_;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_BASE_THREAD_H_
