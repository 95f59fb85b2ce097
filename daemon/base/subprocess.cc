#include "daemon/base/subprocess.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/paths.h"
#include "proto/check.h"

extern char** environ;

namespace pipework {
namespace {

// PR_SET_PDEATHSIG fires when the *thread* that forked ends, so every child is
// forked by this one thread, which lives as long as the process.
class Forker {
 public:
  static Forker& The() {
    static Forker* const forker = new Forker;  // never destroyed, see above
    return *forker;
  }

  // Runs `job` on the forking thread and waits for it.
  void Run(const std::function<void()>& job) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool done = false;
    jobs_.push_back([&] {
      job();
      std::lock_guard<std::mutex> inner(mutex_);
      done = true;
      changed_.notify_all();
    });
    changed_.notify_all();
    changed_.wait(lock, [&] { return done; });
  }

 private:
  Forker() : thread_("forker", [this] { Loop(); }) {}

  void Loop() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  Thread thread_;
};

// What the child does between fork and exec, made beforehand: after the fork
// of a program with threads only async-signal-safe calls are allowed.
struct ChildPlan {
  const char* program;
  std::vector<char*> argv;
  std::vector<char*> envp;
  int channel = -1;
  int input = -1;
  int output = -1;
  int error_pipe = -1;
  bool dies_with_parent;
  bool own_group;
  pid_t parent;
};

constexpr int kChannelFd = 3;
constexpr int kErrorFd = 4;

[[noreturn]] void RunChild(const ChildPlan& plan) {
  // All of these descriptors are above kErrorFd (see MoveUp).
  int error = 0;
  if (plan.dies_with_parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) error = errno;
    if (::getppid() != plan.parent) _exit(127);  // it ended before the prctl
  }
  if (plan.own_group) ::setpgid(0, 0);
  if (::dup2(plan.input, STDIN_FILENO) < 0) error = errno;
  if (plan.output >= 0 && (::dup2(plan.output, STDOUT_FILENO) < 0 ||
                           ::dup2(plan.output, STDERR_FILENO) < 0)) {
    error = errno;
  }
  if (plan.channel >= 0 && ::dup2(plan.channel, kChannelFd) < 0) error = errno;
  if (::dup3(plan.error_pipe, kErrorFd, O_CLOEXEC) < 0) error = errno;
  ::syscall(SYS_close_range, kErrorFd + 1, ~0U, 0);
  if (plan.channel < 0) ::close(kChannelFd);

  // Ignored signals and the mask are inherited: start as a shell would.
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  for (int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {
    ::sigaction(number, &plain, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  if (error == 0) {
    ::execve(plan.program, plan.argv.data(), plan.envp.data());
    error = errno;
  }
  const ssize_t ignored = ::write(kErrorFd, &error, sizeof error);
  (void)ignored;
  _exit(127);
}

// The same descriptor with a number that the child's dup2 calls do not hit.
absl::StatusOr<UniqueFd> MoveUp(UniqueFd fd) {
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 10));
  if (!moved.valid()) return ErrnoStatus("duplicate", "a descriptor", errno);
  return moved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Spawn(Options options) {
  std::unique_ptr<Subprocess> process(new Subprocess);
  const std::string& program = options.program;
  ChildPlan plan;
  plan.program = program.c_str();
  plan.dies_with_parent = options.dies_with_parent;
  plan.own_group = options.own_group;
  plan.parent = ::getpid();

  UniqueFd child_channel, child_output;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view name = absl::string_view(*entry).substr(
        0, absl::string_view(*entry).find('='));
    bool replaced = name == options.channel_variable;
    for (const std::string& extra : options.extra_environment) {
      replaced = replaced || absl::StartsWith(extra, absl::StrCat(name, "="));
    }
    if (!replaced) environment.emplace_back(*entry);
  }
  for (const std::string& extra : options.extra_environment) {
    environment.push_back(extra);
  }
  if (!options.channel_variable.empty()) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
      return ErrnoStatus("socketpair for", program, errno);
    }
    process->channel_ = UniqueFd(pair[0]);
    auto moved = MoveUp(UniqueFd(pair[1]));
    if (!moved.ok()) return moved.status();
    child_channel = std::move(*moved);
    plan.channel = child_channel.get();
    environment.push_back(
        absl::StrCat(options.channel_variable, "=", kChannelFd));
  }
  if (options.output_file == "-") {
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) {
      return ErrnoStatus("pipe for", program, errno);
    }
    process->output_ = UniqueFd(pipe_ends[0]);
    child_output = UniqueFd(pipe_ends[1]);
  } else if (!options.output_file.empty()) {
    child_output =
        UniqueFd(::open(options.output_file.c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!child_output.valid()) {
      return ErrnoStatus("open", options.output_file, errno);
    }
  }
  if (child_output.valid()) {
    auto moved = MoveUp(std::move(child_output));
    if (!moved.ok()) return moved.status();
    child_output = std::move(*moved);
    plan.output = child_output.get();
  }
  auto input = MoveUp(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  if (!input.ok()) return input.status();
  plan.input = input->get();
  int error_ends[2];
  if (::pipe2(error_ends, O_CLOEXEC) != 0) {
    return ErrnoStatus("pipe for", program, errno);
  }
  UniqueFd error_read(error_ends[0]);
  auto error_write = MoveUp(UniqueFd(error_ends[1]));
  if (!error_write.ok()) return error_write.status();
  plan.error_pipe = error_write->get();

  plan.argv.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& arg : options.args) {
    plan.argv.push_back(const_cast<char*>(arg.c_str()));
  }
  plan.argv.push_back(nullptr);
  for (const std::string& entry : environment) {
    plan.envp.push_back(const_cast<char*>(entry.c_str()));
  }
  plan.envp.push_back(nullptr);

  pid_t pid = -1;
  int fork_error = 0;
  Forker::The().Run([&] {
    pid = ::fork();
    if (pid == 0) RunChild(plan);
    if (pid < 0) fork_error = errno;
  });
  if (pid < 0) return ErrnoStatus("fork for", program, fork_error);

  // The write end is close-on-exec: end of file means that exec worked.
  error_write->Close();
  int child_error = 0;
  ssize_t n;
  do {
    n = ::read(error_read.get(), &child_error, sizeof child_error);
  } while (n < 0 && errno == EINTR);
  if (n == sizeof child_error) {
    ::waitpid(pid, nullptr, 0);
    return ErrnoStatus("run", program, child_error);
  }

  process->pid_ = pid;
  process->on_exit_ = std::move(options.on_exit);
  Subprocess* const self = process.get();
  process->reaper_ = Thread("reaper", [self] { self->Reap(); });
  return process;
}

void Subprocess::Reap() {
  // WNOWAIT: until the mutex is held the process id stays taken, so that
  // Signal() cannot hit a stranger.
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) !=
             0 &&
         errno == EINTR) {
  }
  int wait_status = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ::waitpid(pid_, &wait_status, 0);
    status_ = wait_status;
    ended_.notify_all();
  }
  if (on_exit_) on_exit_(wait_status);
}

Subprocess::~Subprocess() {
  Signal(SIGKILL);
  reaper_.Join();
}

std::optional<int> Subprocess::exit_status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

absl::StatusOr<int> Subprocess::Wait(absl::Time deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!WaitUntil(ended_, lock, deadline, [&] { return status_.has_value(); })) {
    return absl::DeadlineExceededError(
        absl::StrCat("process ", pid_, ": still runs at the deadline"));
  }
  return *status_;
}

void Subprocess::Signal(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.has_value() && pid_ > 0) ::kill(pid_, number);
}

int Subprocess::Stop(absl::Duration grace) {
  Signal(SIGTERM);
  auto status = Wait(MonotonicNow() + grace);
  if (status.ok()) return *status;
  Signal(SIGKILL);
  status = Wait(absl::InfiniteFuture());
  PIPE_CHECK(status.ok());
  return *status;
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return absl::StrCat("exit ", WEXITSTATUS(wait_status));
  }
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return absl::StrCat("signal ", number, " (", ::strsignal(number), ")");
  }
  return absl::StrCat("wait status ", wait_status);
}

}  // namespace pipework
