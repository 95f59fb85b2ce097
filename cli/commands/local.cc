#include "cli/commands/local.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/local_cluster.h"
#include "cli/report.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kUsage[] = "USAGE";

absl::StatusOr<LocalCluster::Options> OptionsOf(const Invocation& invocation) {
  LocalCluster::Options options;
  options.state_dir = StateDir(invocation);
  int64_t nodes = options.nodes;
  int64_t devices = options.devices_per_node;
  RETURN_IF_ERROR(invocation.GetInt("nodes", 1, &nodes));
  RETURN_IF_ERROR(invocation.GetInt("devices-per-node", 1, &devices));
  options.nodes = static_cast<int>(std::min<int64_t>(nodes, 1000));
  options.devices_per_node = static_cast<int>(std::min<int64_t>(devices, 1000));
  RETURN_IF_ERROR(options.Validate());
  return options;
}

void SleepMilliseconds(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// The cluster of `local up` writes its supervisor's pid here and holds a lock
// on the file while it lives: a pid without the lock is a stranger's.
std::string SupervisorFile(const std::string& state_dir) {
  return state_dir + "/local.pid";
}

// Pid of the living supervisor, -1: none.
pid_t SupervisorOf(const std::string& state_dir) {
  const int file = open(SupervisorFile(state_dir).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  pid_t pid = -1;
  if (flock(file, LOCK_SH | LOCK_NB) != 0) {
    char text[32] = {};
    const ssize_t got = read(file, text, sizeof(text) - 1);
    int number = 0;
    if (got > 0 && absl::SimpleAtoi(text, &number)) pid = number;
  }
  close(file);
  return pid;
}

// Follows the job; a Ctrl-C cancels it with a checkpoint, a second one at
// once.
absl::StatusOr<v1::Job> FollowAndCancel(LocalCluster& cluster, Client& client,
                                        const std::string& job,
                                        const std::string& metrics,
                                        const Output& out) {
  int handled = 0;
  const auto cancel = [&](bool now) {
    v1::CancelJobRequest request;
    request.set_job(job);
    request.set_now(now);
    request.set_reason("interrupted");
    const auto cancelled = client.CancelJob(request);
    if (!cancelled.ok()) out.Note(cancelled.status().message());
  };
  FollowOptions options;
  options.metrics_file = metrics;
  options.tend = [&]() -> absl::Status {
    RETURN_IF_ERROR(cluster.Tend());
    for (const std::string& note : cluster.TakeNotes()) out.Note(note);
    if (Interrupts() > handled) {
      handled = Interrupts();
      out.Note(handled == 1 ? "cancelling with a checkpoint; Ctrl-C again "
                              "stops at once"
                            : "stopping at once");
      cancel(handled > 1);
    }
    return absl::OkStatus();
  };
  return FollowJob(client, job, out, options);
}

}  // namespace

int LocalRun(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::CreateJobRequest request;
  std::string spec_file;
  if (const int code =
          LoadSpec(invocation, invocation.positionals[0],
                   request.mutable_spec(), &spec_file, DataHere::kNeeded)) {
    return code;
  }
  const auto options = OptionsOf(invocation);
  const std::string metrics = invocation.Get("metrics");
  const absl::Status usage =
      options.ok() ? CheckMetricsFile(metrics) : options.status();
  if (!usage.ok()) {
    return out.Error(kExitUsage, "USAGE", usage.message());
  }
  if (invocation.Has("name")) {
    request.mutable_spec()->set_name(invocation.Get("name"));
  }
  if (invocation.Has("from")) {
    const auto folder = FindCheckpoint(invocation, invocation.Get("from"));
    if (!folder.ok()) return out.Error(folder.status());
    request.set_from_checkpoint(*folder);
  }
  request.set_request_id(NewRequestId());
  request.set_spec_file(spec_file);
  if (SupervisorOf(options->state_dir) > 0) {
    return out.Error(
        kExitConflict, "CLUSTER_RUNNING",
        absl::StrCat("local run: ", options->state_dir,
                     " belongs to a running cluster; use pipectl submit, "
                     "pipectl local down, or another --state-dir"));
  }

  CatchInterrupts();
  if (!out.quiet) {
    out.Text(absl::StrCat("starting a coordinator and ", options->nodes,
                          " node daemon", options->nodes == 1 ? "" : "s",
                          " of ", options->devices_per_node, " CPU device",
                          options->devices_per_node == 1 ? "" : "s",
                          "; files in ", options->state_dir));
  }
  auto cluster = LocalCluster::Start(*options);
  if (!cluster.ok()) return out.Error(cluster.status());
  auto client =
      std::make_unique<Client>(Client::Options{(*cluster)->server(), "", 30});
  const auto created = client->CreateJob(request);
  if (!created.ok()) return SpecError(invocation, created.status());
  if (!out.quiet) {
    out.Text(
        absl::StrCat("submitted ", created->name(), " as ", created->id()));
  }
  auto job = FollowAndCancel(**cluster, *client, created->id(), metrics, out);
  // A connection that nobody attends holds up the coordinator's end.
  client.reset();
  (*cluster)->Stop(15);
  if (!job.ok()) {
    return Interrupts() > 0 ? out.Error(kExitInterrupted, "INTERRUPTED",
                                        job.status().message())
                            : out.Error(job.status());
  }
  out.Json(*job, "Job");
  if (out.format == OutputFormat::kName) {
    std::printf("job/%s\n", job->id().c_str());
  } else {
    std::string text = absl::StrCat("\n", JobSummary(*job, Output::Width()));
    if (!job->checkpoint().empty()) {
      absl::StrAppend(&text, "checkpoint ", job->checkpoint(),
                      "\nexport it: pipectl checkpoint export ",
                      job->checkpoint(), " --out ", job->name(),
                      ".safetensors\n");
    }
    out.Text(text);
  }
  return Interrupts() > 0 ? kExitInterrupted : VerdictCode(job->state());
}

int LocalUp(Invocation& invocation) {
  const Output& out = *invocation.out;
  auto options = OptionsOf(invocation);
  if (!options.ok()) {
    return out.Error(kExitUsage, "USAGE", options.status().message());
  }
  options->listen = invocation.Get("listen", "127.0.0.1:7070");
  std::error_code error;
  std::filesystem::create_directories(options->state_dir, error);
  const std::string pid_file = SupervisorFile(options->state_dir);
  const int lock = open(pid_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) {
    return out.Error(
        kExitUsage, "UNWRITABLE_STATE_DIR",
        absl::StrCat("local up: ", pid_file,
                     " cannot be written: ", std::strerror(errno)));
  }
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return out.Error(
        kExitConflict, "CLUSTER_RUNNING",
        absl::StrCat("local up: a cluster runs already in ", options->state_dir,
                     "; see pipectl local status"));
  }

  // A child in a session of its own keeps the cluster; through the pipe it
  // says how the start went.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    return out.Error(absl::UnavailableError(std::strerror(errno)));
  }
  const pid_t supervisor = fork();
  if (supervisor < 0) {
    return out.Error(absl::UnavailableError(absl::StrCat(
        "local up: no process to be had: ", std::strerror(errno))));
  }
  if (supervisor == 0) {
    setsid();
    close(report[0]);
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    const std::string pid = absl::StrCat(getpid(), "\n");
    if (ftruncate(lock, 0) != 0 || pwrite(lock, pid.data(), pid.size(), 0) !=
                                       static_cast<ssize_t>(pid.size())) {
      _exit(1);
    }
    CatchInterrupts();
    auto cluster = LocalCluster::Start(*options);
    const std::string answer =
        cluster.ok()
            ? absl::StrCat("ok ", (*cluster)->server())
            : absl::StrCat(
                  ReasonOf(cluster.status()) == kUsage ? "usage " : "error ",
                  cluster.status().message());
    (void)!write(report[1], answer.data(), answer.size());
    close(report[1]);
    if (!cluster.ok()) _exit(1);
    while (Interrupts() == 0 && (*cluster)->Tend().ok()) {
      (*cluster)->TakeNotes();
      SleepMilliseconds(100);
    }
    (*cluster)->Stop(15);
    std::filesystem::remove(pid_file, error);
    _exit(0);
  }
  close(report[1]);
  close(lock);
  std::string answer;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(report[0], buffer, sizeof(buffer))) > 0) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  close(report[0]);
  if (answer.rfind("usage ", 0) == 0) {
    return out.Error(kExitUsage, kUsage, answer.substr(6));
  }
  if (answer.rfind("ok ", 0) != 0) {
    return out.Error(absl::UnavailableError(
        answer.empty() ? "local up: the supervisor ended at start"
                       : answer.substr(6)));
  }
  const std::string server = answer.substr(3);
  out.RawJson(absl::StrCat(
      "{\n  \"kind\": \"LocalCluster\",\n  \"api_version\": \"pipework.v1\",\n"
      "  \"server\": \"",
      server, "\",\n  \"pid\": ", supervisor, "\n}"));
  out.Text(absl::StrCat("cluster up: coordinator ", server, ", ",
                        options->nodes, " nodes of ", options->devices_per_node,
                        " devices; pipectl submit SPEC, pipectl local down"));
  return kExitOk;
}

int LocalDown(Invocation& invocation) {
  const Output& out = *invocation.out;
  const std::string state_dir = StateDir(invocation);
  const pid_t pid = SupervisorOf(state_dir);
  if (pid < 0) {
    return out.Error(
        kExitNotFound, "NO_CLUSTER",
        absl::StrCat("local down: no cluster runs in ", state_dir));
  }
  kill(pid, SIGTERM);
  const double limit = MonotonicSeconds() + 40;
  while (SupervisorOf(state_dir) == pid) {
    if (MonotonicSeconds() > limit) {
      return out.Error(absl::DeadlineExceededError(absl::StrCat(
          "local down: process ", pid, " is still there after 40 s")));
    }
    SleepMilliseconds(20);
  }
  out.RawJson(
      "{\n  \"kind\": \"LocalCluster\",\n  \"api_version\": \"pipework.v1\",\n"
      "  \"server\": \"\",\n  \"pid\": 0\n}");
  out.Text("cluster down");
  return kExitOk;
}

int LocalStatus(Invocation& invocation) {
  const Output& out = *invocation.out;
  const std::string state_dir = StateDir(invocation);
  const pid_t pid = SupervisorOf(state_dir);
  if (pid < 0) {
    return out.Error(
        kExitNotFound, "NO_CLUSTER",
        absl::StrCat("local status: no cluster runs in ", state_dir,
                     "; start one with pipectl local "
                     "up"));
  }
  const auto client = MakeClient(invocation);
  if (!client.ok()) return out.Error(client.status());
  const auto info = (*client)->GetServerInfo();
  if (!info.ok()) return out.Error(info.status());
  const auto nodes = (*client)->ListNodes();
  if (!nodes.ok()) return out.Error(nodes.status());
  out.RawJson(absl::StrCat(
      "{\n  \"kind\": \"LocalCluster\",\n  \"api_version\": \"pipework.v1\",\n"
      "  \"server\": \"",
      (*client)->server(), "\",\n  \"pid\": ", pid,
      ",\n  \"ready_nodes\": ", info->ready_nodes(), "\n}"));
  out.Text(absl::StrCat("coordinator ", (*client)->server(), ", up ",
                        FormatSeconds(info->uptime_seconds()), ", ",
                        info->ready_nodes(), " of ", nodes->nodes_size(),
                        " nodes ready, pid ", pid, ", files in ", state_dir));
  return kExitOk;
}

}  // namespace pipework
