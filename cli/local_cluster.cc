#include "cli/local_cluster.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/client.h"
#include "cli/output.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr double kStartSeconds = 15;
constexpr int kMaxRestartsPerMinute = 5;

void SleepMilliseconds(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("killed by signal ", WTERMSIG(wait_status), " (",
                        strsignal(WTERMSIG(wait_status)), ")");
  }
  return absl::StrCat("exit ", WEXITSTATUS(wait_status));
}

}  // namespace

double MonotonicSeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

absl::StatusOr<std::string> SiblingBinary(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto path = self.parent_path() / name;
  if (access(path.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat(
        "pipectl: ", path.string(),
        " is not there or cannot be run; the four "
        "programs pipectl, pipecoord, piped and pipe-runner lie side by side: "
        "see tools/install"));
  }
  return path.string();
}

absl::Status LocalCluster::Options::Validate() const {
  if (nodes < 1 || nodes > 64) {
    return Mismatch("--nodes", "value", absl::StrCat(nodes), "1 to 64");
  }
  if (devices_per_node < 1 || devices_per_node > 64) {
    return Mismatch("--devices-per-node", "value",
                    absl::StrCat(devices_per_node), "1 to 64");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    Options options) {
  RETURN_IF_ERROR(options.Validate());
  ASSIGN_OR_RETURN(const std::string pipecoord, SiblingBinary("pipecoord"));
  ASSIGN_OR_RETURN(const std::string piped, SiblingBinary("piped"));
  RETURN_IF_ERROR(SiblingBinary("pipe-runner").status());

  std::error_code error;
  options.state_dir = std::filesystem::absolute(options.state_dir, error);
  std::filesystem::create_directories(options.state_dir, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state-dir: ", options.state_dir,
                     " cannot be made: ", error.message()));
  }
  std::filesystem::create_directories(options.state_dir + "/logs", error);

  std::unique_ptr<LocalCluster> cluster(new LocalCluster(options));
  Process coordinator;
  coordinator.name = "pipecoord";
  coordinator.arguments = {pipecoord, "--listen", options.listen, "--state-dir",
                           options.state_dir};
  coordinator.log = options.state_dir + "/logs/pipecoord.log";
  // What a coordinator before us left must not be taken for ours.
  std::filesystem::remove(options.state_dir + "/coordinator.address", error);
  cluster->processes_.push_back(coordinator);
  RETURN_IF_ERROR(cluster->Launch(&cluster->processes_[0]));
  RETURN_IF_ERROR(cluster->AwaitAddress());
  // Should it have to be started again, then on the same port.
  cluster->processes_[0].arguments[2] = cluster->server_;

  const std::vector<int> cores = AllowedCores();
  for (int n = 0; n < options.nodes; ++n) {
    // Cores are dealt out in turn; with more nodes than cores they share.
    std::vector<std::string> mine;
    for (size_t c = 0; c < cores.size(); ++c) {
      if (static_cast<int>(c) % options.nodes == n) {
        mine.push_back(absl::StrCat(cores[c]));
      }
    }
    if (mine.empty()) mine.push_back(absl::StrCat(cores[n % cores.size()]));
    Process node;
    node.name = absl::StrCat("piped n", n + 1);
    node.arguments = {piped,
                      "--coordinator",
                      cluster->server_,
                      "--name",
                      absl::StrCat("n", n + 1),
                      "--state-dir",
                      absl::StrCat(options.state_dir, "/nodes/n", n + 1),
                      "--devices",
                      absl::StrCat(options.devices_per_node),
                      "--cores",
                      absl::StrJoin(mine, ",")};
    node.log = absl::StrCat(options.state_dir, "/logs/n", n + 1, ".log");
    cluster->processes_.push_back(node);
    RETURN_IF_ERROR(cluster->Launch(&cluster->processes_.back()));
  }
  RETURN_IF_ERROR(cluster->AwaitNodes());
  return cluster;
}

absl::Status LocalCluster::Launch(Process* process) {
  int control[2];
  if (pipe2(control, O_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("pipectl: no pipe to be had: ", std::strerror(errno)));
  }
  const int log = open(process->log.c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) {
    close(control[0]);
    close(control[1]);
    return absl::UnavailableError(
        absl::StrCat("pipectl: ", process->log,
                     " cannot be written: ", std::strerror(errno)));
  }
  // The child keeps the number that the flag names.
  constexpr int kControlFd = 3;
  std::vector<std::string> arguments = process->arguments;
  arguments.push_back("--control-fd");
  arguments.push_back(absl::StrCat(kControlFd));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t pid = fork();
  if (pid == 0) {
    // A process group of its own: Ctrl-C on the terminal is for us to handle.
    setpgid(0, 0);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(log, 1);
    dup2(log, 2);
    if (control[0] == kControlFd) {
      fcntl(kControlFd, F_SETFD, 0);
    } else {
      dup2(control[0], kControlFd);
    }
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(log);
  close(control[0]);
  if (pid < 0) {
    close(control[1]);
    return absl::UnavailableError(
        absl::StrCat("pipectl: ", process->name,
                     " cannot be started: ", std::strerror(errno)));
  }
  process->pid = pid;
  process->control = control[1];
  process->started = MonotonicSeconds();
  return absl::OkStatus();
}

bool LocalCluster::HasEnded(Process* process, std::string* how) {
  if (process->pid < 0) return true;
  int status = 0;
  if (waitpid(process->pid, &status, WNOHANG) != process->pid) return false;
  *how = DescribeExit(status);
  process->pid = -1;
  close(process->control);
  process->control = -1;
  return true;
}

std::string LocalCluster::LastWords(const Process& process) const {
  std::ifstream in(process.log, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  const std::streamoff start = std::max<std::streamoff>(0, size - 2000);
  in.seekg(start);
  std::ostringstream text;
  text << in.rdbuf();
  const std::vector<std::string> lines =
      absl::StrSplit(text.str(), '\n', absl::SkipWhitespace());
  if (lines.empty()) return "";
  // Without time and level of the line.
  const std::string program = process.name.substr(0, process.name.find(' '));
  const size_t start_of_text = lines.back().find(program + ": ");
  return start_of_text == std::string::npos
             ? lines.back()
             : lines.back().substr(start_of_text + program.size() + 2);
}

absl::Status LocalCluster::EndedAtStart(const Process& process,
                                        const std::string& how) const {
  const std::string text =
      absl::StrCat(process.name, ": ended at start (", how,
                   "): ", LastWords(process), "; see ", process.log);
  // Exit 2 of a daemon: it refuses its flags or its folder.
  return how == DescribeExit(W_EXITCODE(2, 0))
             ? UsageError(absl::InvalidArgumentError(text))
             : absl::UnavailableError(text);
}

absl::Status LocalCluster::AwaitAddress() {
  const std::string file = options_.state_dir + "/coordinator.address";
  const double limit = MonotonicSeconds() + kStartSeconds;
  while (MonotonicSeconds() < limit) {
    std::ifstream in(file);
    std::string address;
    if (in && std::getline(in, address) && !address.empty()) {
      server_ = address;
      return absl::OkStatus();
    }
    std::string how;
    if (HasEnded(&processes_[0], &how)) {
      return EndedAtStart(processes_[0], how);
    }
    SleepMilliseconds(5);
  }
  return absl::UnavailableError(absl::StrCat("pipecoord: no address after ",
                                             kStartSeconds, " s; see ",
                                             processes_[0].log));
}

absl::Status LocalCluster::AwaitNodes() {
  Client client({server_, "", 5});
  const double limit = MonotonicSeconds() + kStartSeconds;
  int ready = 0;
  while (MonotonicSeconds() < limit) {
    const auto nodes = client.ListNodes();
    ready = 0;
    if (nodes.ok()) {
      for (const v1::Node& node : nodes->nodes()) {
        if (node.state() == "READY") ++ready;
      }
      if (ready >= options_.nodes) return absl::OkStatus();
    }
    for (Process& process : processes_) {
      std::string how;
      if (HasEnded(&process, &how)) return EndedAtStart(process, how);
    }
    SleepMilliseconds(20);
  }
  return absl::UnavailableError(
      absl::StrCat("local cluster: ", ready, " of ", options_.nodes,
                   " nodes are ready after ", kStartSeconds, " s; see ",
                   options_.state_dir, "/logs"));
}

absl::Status LocalCluster::Tend() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    std::string how;
    if (process.pid < 0 || !HasEnded(&process, &how)) continue;
    if (i > 0) {
      notes_.push_back(absl::StrCat(process.name, " ended: ", how));
      continue;
    }
    const double now = MonotonicSeconds();
    restarts_.push_back(now);
    const auto recent =
        std::count_if(restarts_.begin(), restarts_.end(),
                      [now](double at) { return at > now - 60; });
    if (recent > kMaxRestartsPerMinute) {
      return absl::UnavailableError(absl::StrCat("pipecoord: ended ", recent,
                                                 " times within a minute, "
                                                 "last with ",
                                                 how, ": ", LastWords(process),
                                                 "; see ", process.log));
    }
    notes_.push_back(absl::StrCat("pipecoord ended (", how,
                                  "); started again, the job goes on"));
    RETURN_IF_ERROR(Launch(&process));
  }
  return absl::OkStatus();
}

std::vector<std::string> LocalCluster::TakeNotes() {
  return std::exchange(notes_, {});
}

void LocalCluster::Stop(double seconds) {
  // Daemons first: they tell the coordinator that they leave.
  const double limit = MonotonicSeconds() + seconds;
  for (size_t i = processes_.size(); i-- > 0;) {
    if (processes_[i].pid > 0 && i > 0) kill(processes_[i].pid, SIGTERM);
  }
  const auto wait = [this, limit](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      std::string how;
      while (!HasEnded(&processes_[i], &how)) {
        if (MonotonicSeconds() > limit) {
          kill(processes_[i].pid, SIGKILL);
          int status = 0;
          waitpid(processes_[i].pid, &status, 0);
          close(processes_[i].control);
          processes_[i].pid = -1;
          break;
        }
        SleepMilliseconds(5);
      }
    }
  };
  wait(1, processes_.size());
  if (!processes_.empty() && processes_[0].pid > 0) {
    kill(processes_[0].pid, SIGTERM);
    wait(0, 1);
  }
  std::error_code error;
  std::filesystem::remove(options_.state_dir + "/coordinator.address", error);
}

LocalCluster::~LocalCluster() { Stop(15); }

}  // namespace pipework
