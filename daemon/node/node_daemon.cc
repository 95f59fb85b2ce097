#include "daemon/node/node_daemon.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/event_loop.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/lock_file.h"
#include "daemon/base/paths.h"
#include "daemon/base/shutdown.h"
#include "daemon/base/thread.h"
#include "daemon/base/unique_fd.h"
#include "daemon/node/coordinator_client.h"
#include "daemon/node/inventory.h"
#include "daemon/node/report_log.h"
#include "daemon/node/runner_process.h"
#include "daemon/spec/data_facts.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "proto/version.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

constexpr size_t kMostAnswers = 10000;
constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kLastRetry = absl::Seconds(2);

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> SplitHostPort(const std::string& option,
                                       const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return Mismatch(option, "address", absl::StrCat("\"", text, "\""),
                    "HOST:PORT with a port from 1 to 65535",
                    "such as 127.0.0.1:7070");
  }
  return HostPort{text.substr(0, colon), text.substr(colon + 1)};
}

bool IsLoopbackHost(absl::string_view host) {
  return host == "localhost" || absl::StartsWith(host, "127.") ||
         host == "::1" || host == "[::1]";
}

// Address that this machine uses towards `at`: the kernel's choice of route,
// asked with a socket that sends nothing.
absl::StatusOr<std::string> SourceAddress(const HostPort& at) {
  absl::string_view host = at.host;
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int failed =
      ::getaddrinfo(std::string(host).c_str(), at.port.c_str(), &hints, &list);
  if (failed != 0) {
    return absl::UnavailableError(
        absl::StrCat("--coordinator: host ", at.host,
                     " is not known here: ", ::gai_strerror(failed)));
  }
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  UniqueFd fd(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  char text[INET6_ADDRSTRLEN + 1] = {};
  if (!fd.valid() ||
      ::connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) !=
          0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text,
                    sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return ErrnoStatus("find the way to", at.host, errno);
  }
  return std::string(text);
}

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') {
    return "node";
  }
  // Up to the first dot, and only what a node's name may have.
  std::string clean;
  for (const char* c = name; *c != '\0' && *c != '.'; ++c) {
    clean += absl::ascii_isalnum(static_cast<unsigned char>(*c)) ? *c : '-';
  }
  return clean;
}

struct PortRange {
  int first = 0;
  int last = 0;
};

absl::StatusOr<PortRange> ParsePorts(const std::string& text) {
  PortRange range;
  if (text.empty()) return range;
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &range.first) ||
      !absl::SimpleAtoi(ends[1], &range.last) || range.first < 1 ||
      range.last > 65535 || range.first > range.last) {
    return Mismatch("--data-ports", "range", absl::StrCat("\"", text, "\""),
                    "FIRST-LAST within 1 to 65535", "such as 41000-41015");
  }
  return range;
}

std::string Label(const v1::RunnerRef& ref) {
  return ref.attempt() == 0
             ? absl::StrCat("job ", ref.job(), " profile")
             : absl::StrCat("job ", ref.job(), " attempt ", ref.attempt());
}

// Job ids become folder names.
bool GoodJobId(absl::string_view id) {
  return !id.empty() && id.size() <= 64 &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-';
         });
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCores(const std::string& text) {
  std::set<int> cores;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends[0], &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first ||
        last > 4095) {
      return Mismatch("--cores", "list", absl::StrCat("\"", text, "\""),
                      "core numbers", "such as 0-3,8");
    }
    for (int core = first; core <= last; ++core) cores.insert(core);
  }
  return std::vector<int>(cores.begin(), cores.end());
}

absl::Status NodeDaemon::Options::Validate() const {
  ASSIGN_OR_RETURN(const HostPort at,
                   SplitHostPort("--coordinator", coordinator));
  if (devices < 1 || devices > 1024) {
    return Mismatch("--devices", "number", absl::StrCat(devices), "1 to 1024");
  }
  if (state_dir.empty()) {
    return Mismatch("--state-dir", "folder", "\"\"", "a path");
  }
  // As the coordinator has it: it would refuse any other for ever.
  const bool good_name =
      name.size() <= 63 && name != "." && name != ".." &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
      });
  if (!good_name) {
    return Mismatch("--name", "name", absl::StrCat("\"", name, "\""),
                    "1 to 63 letters, digits, '-', '_' or '.'");
  }
  if (device_kind.size() > 63 ||
      !std::all_of(device_kind.begin(), device_kind.end(),
                   [](unsigned char c) { return absl::ascii_isprint(c); })) {
    return Mismatch("--device-kind", "name",
                    absl::StrCat("\"", absl::CHexEscape(device_kind), "\""),
                    "at most 63 printable characters");
  }
  RETURN_IF_ERROR(ParsePorts(data_ports).status());
  const std::vector<int> allowed = AllowedCores();
  for (int core : cores) {
    if (std::find(allowed.begin(), allowed.end(), core) == allowed.end()) {
      return Mismatch("--cores", "list", absl::StrCat("with core ", core),
                      absl::StrCat("among those this process may use: ",
                                   absl::StrJoin(allowed, ",")));
    }
  }
  if (token_file.empty() &&
      (!IsLoopbackHost(at.host) ||
       (!advertise.empty() && !IsLoopbackHost(advertise)))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--coordinator: ", coordinator,
        " is on another machine; give --token-file with the coordinator's "
        "token"));
  }
  return absl::OkStatus();
}

class NodeDaemon::Impl final : private SessionHandler {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> Start(Options options);
  ~Impl() override { Stop(/*polite=*/false); }

  void WaitUntilStopped();
  void Stop(bool polite);
  const std::string& name() const { return options_.name; }

 private:
  struct Runner {
    v1::RunnerRef ref;
    std::string folder;
    std::unique_ptr<RunnerProcess> process;  // null while it is being prepared
    bool started = false;                    // RunnerCommand.Start was given
    // A runner that measures belongs to no attempt and reports to nobody: what
    // it finds answers a command.
    bool measures = false;
    int64_t question = 0;  // the command that waits for its answer
    std::string error;     // what it said at its end
    bool gone = false;
    bool killed = false;  // before there was a process
  };
  using Key = std::pair<std::string, int>;  // job, attempt

  explicit Impl(Options options) : options_(std::move(options)) {}

  // SessionHandler, on the session's threads.
  void OnMessage(v1::CoordinatorMessage message) override;
  bool Next(v1::NodeMessage* message) override;
  void OnEnd() override;

  void RunSessions();
  void RunHeartbeats();
  v1::Hello MakeHello();

  // On the loop.
  void OnWelcome(const v1::CoordinatorMessage::Welcome& welcome);
  void OnCommand(const v1::CoordinatorMessage& message);
  void Answer(int64_t command, const absl::Status& status);
  void Answer(v1::NodeMessage::Answer answer);
  void StartRunner(int64_t command, v1::RunnerSetup setup);
  void RunProfile(int64_t command, const v1::RunnerProfile& profile);
  void ListenLinks(int64_t command, v1::RunnerLinks links);
  void MeasureLinks(int64_t command,
                    const v1::CoordinatorMessage::MeasureLinks& message);
  void StartMeasuring(int64_t command, const std::string& job,
                      const std::string& what, const v1::RunnerCommand& first);
  void OnMeasured(Runner& runner, const v1::RunnerReport& report);
  void OnReport(const v1::RunnerRef& ref, v1::RunnerReport report);
  void OnGone(const v1::RunnerRef& ref, int wait_status,
              const std::string& last_words);
  void Upload(const v1::RunnerRef& ref, v1::RunnerReport::ShardReady ready);
  void Sweep();
  Runner* Find(const v1::RunnerRef& ref);
  RunnerProcess::Options ProcessOptions(const v1::RunnerRef& ref,
                                        const std::string& folder);
  std::string JobFolder(const std::string& job) const {
    return absl::StrCat(options_.state_dir, "/jobs/", job);
  }

  Options options_;
  std::string token_;
  PortRange ports_;
  std::string data_host_;
  v1::Inventory inventory_;
  uint64_t incarnation_ = 0;
  std::unique_ptr<LockFile> lock_;
  std::unique_ptr<CoordinatorClient> client_;
  ReportLog reports_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;     // guarded by mutex_
  absl::Time heard_;          // guarded by mutex_: from the coordinator
  bool in_session_ = false;   // guarded by mutex_
  absl::Duration heartbeat_;  // guarded by mutex_
  std::atomic<bool> stopped_{false};
  std::atomic<int> alive_{0};    // runners
  std::atomic<int> uploads_{0};  // shards on their way

  // The loop's.
  std::map<Key, std::unique_ptr<Runner>> runners_;
  std::map<int64_t, v1::NodeMessage::Answer> answers_;
  std::set<int64_t> doing_;

  std::unique_ptr<WorkPool> pool_;
  std::unique_ptr<EventLoop> loop_;
  Thread session_;
  Thread heartbeats_;
};

absl::StatusOr<std::unique_ptr<NodeDaemon::Impl>> NodeDaemon::Impl::Start(
    Options options) {
  if (options.name.empty()) options.name = HostName();
  RETURN_IF_ERROR(options.Validate());
  options.state_dir = AbsolutePath(options.state_dir);
  std::unique_ptr<Impl> impl(new Impl(options));
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(const std::string text,
                     ReadFile(options.token_file, 1 << 16));
    impl->token_ = std::string(absl::StripAsciiWhitespace(
        absl::string_view(text).substr(0, text.find('\n'))));
    // gRPC ends the process on what a header cannot hold.
    if (impl->token_.empty() || impl->token_.size() > 4096 ||
        !std::all_of(impl->token_.begin(), impl->token_.end(),
                     absl::ascii_isgraph)) {
      return Mismatch("--token-file", "file", options.token_file,
                      "a token of printable characters in its first line");
    }
  }
  ASSIGN_OR_RETURN(impl->ports_, ParsePorts(options.data_ports));
  ASSIGN_OR_RETURN(const HostPort at,
                   SplitHostPort("--coordinator", options.coordinator));
  ASSIGN_OR_RETURN(impl->data_host_, SourceAddress(at));
  if (impl->options_.advertise.empty()) {
    impl->options_.advertise = impl->data_host_;
  }
  if (impl->options_.runner.empty()) {
    ASSIGN_OR_RETURN(impl->options_.runner, SiblingBinary("pipe-runner"));
  }
  RETURN_IF_ERROR(MakeFolders(options.state_dir));
  auto lock = LockFile::Acquire(JoinPath(options.state_dir, "lock"));
  RETURN_IF_ERROR(WithContext(absl::StrCat("--state-dir ", options.state_dir),
                              lock.status()));
  impl->lock_ = std::make_unique<LockFile>(std::move(*lock));
  impl->Sweep();
  InventoryOptions inventory;
  inventory.runner = impl->options_.runner;
  inventory.devices = options.devices;
  inventory.cores = options.cores;
  inventory.memory_bytes = options.memory_bytes;
  inventory.kind = options.device_kind;
  ASSIGN_OR_RETURN(impl->inventory_, TakeInventory(inventory));
  impl->incarnation_ = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
  impl->heartbeat_ = options.heartbeat_period;
  impl->client_ =
      std::make_unique<CoordinatorClient>(options.coordinator, impl->token_);
  impl->pool_ = std::make_unique<WorkPool>("work", 3);
  impl->loop_ = std::make_unique<EventLoop>("node", absl::Seconds(1), [] {});
  Impl* const self = impl.get();
  impl->session_ = Thread("session", [self] { self->RunSessions(); });
  impl->heartbeats_ = Thread("heartbeat", [self] { self->RunHeartbeats(); });
  spdlog::info("node {}: offers {} devices to {}", impl->options_.name,
               impl->inventory_.devices_size(), options.coordinator);
  return impl;
}

// A daemon's runners die with it, so files of jobs are leftovers at its start.
void NodeDaemon::Impl::Sweep() {
  const absl::Status status = RemoveTree(options_.state_dir + "/jobs");
  if (!status.ok()) {
    spdlog::warn("leftovers stay: {}", std::string(status.message()));
  }
}

// ---- session ----

v1::Hello NodeDaemon::Impl::MakeHello() {
  v1::Hello hello;
  hello.set_node(options_.name);
  hello.set_incarnation(incarnation_);
  *hello.mutable_devices() = inventory_.devices();
  hello.set_address(options_.advertise);
  hello.set_version(kVersion);
  hello.set_first_sequence(reports_.first_sequence());
  const absl::Status asked = loop_->Call<absl::Status>(
      MonotonicNow() + absl::Seconds(10), [this, &hello] {
        for (const auto& [key, runner] : runners_) {
          if (!runner->gone) *hello.add_runners() = runner->ref;
        }
        return absl::OkStatus();
      });
  if (!asked.ok()) spdlog::warn("hello: {}", std::string(asked.message()));
  return hello;
}

void NodeDaemon::Impl::RunSessions() {
  std::mt19937 random(static_cast<uint32_t>(incarnation_));
  absl::Duration wait = kFirstRetry;
  std::string last_problem;
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      heard_ = MonotonicNow();
      in_session_ = true;
    }
    const absl::Time began = MonotonicNow();
    const absl::Status status = client_->RunSession(MakeHello(), *this);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      in_session_ = false;
      if (stopping_) return;
    }
    const std::string problem = status.ok()
                                    ? "the coordinator closed the session"
                                    : std::string(status.message());
    if (problem != last_problem) {
      spdlog::warn("coordinator {}: {}; dialling again", options_.coordinator,
                   problem);
    }
    last_problem = problem;
    // A session that lived begins the waits anew.
    if (MonotonicNow() - began > absl::Seconds(5)) {
      wait = kFirstRetry;
      last_problem.clear();
    }
    if (absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status)) {
      wait = kLastRetry;
    }
    const double jitter =
        0.5 + std::uniform_real_distribution<double>(0, 1)(random);
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(changed_, lock, MonotonicNow() + wait * jitter,
              [this] { return stopping_; });
    wait = std::min(wait * 2, kLastRetry);
  }
}

void NodeDaemon::Impl::RunHeartbeats() {
  for (;;) {
    bool cut = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (WaitUntil(changed_, lock, MonotonicNow() + heartbeat_,
                    [this] { return stopping_; })) {
        return;
      }
      cut = in_session_ && MonotonicNow() - heard_ > options_.silence_limit;
      if (cut) heard_ = MonotonicNow();
    }
    if (cut) {
      spdlog::warn("coordinator {}: silent for {}; dialling again",
                   options_.coordinator,
                   absl::FormatDuration(options_.silence_limit));
      client_->CutSession();
      continue;
    }
    v1::NodeMessage heartbeat;
    heartbeat.set_heartbeat(true);
    reports_.AddOnce(std::move(heartbeat));
  }
}

void NodeDaemon::Impl::OnMessage(v1::CoordinatorMessage message) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    heard_ = MonotonicNow();
    if (message.has_welcome() && message.welcome().heartbeat_seconds() > 0) {
      heartbeat_ =
          std::min(options_.heartbeat_period,
                   absl::Seconds(message.welcome().heartbeat_seconds()));
    }
  }
  if (message.has_welcome()) {
    spdlog::info("coordinator {}: registered", options_.coordinator);
    // Before any report is sent, so that none is of a runner that must end.
    const absl::Status done =
        loop_->Call<absl::Status>(MonotonicNow() + absl::Seconds(30),
                                  [this, welcome = message.welcome()] {
                                    OnWelcome(welcome);
                                    return absl::OkStatus();
                                  });
    if (!done.ok()) spdlog::warn("welcome: {}", std::string(done.message()));
    reports_.BeginSession(message.welcome().acknowledged());
    return;
  }
  if (message.acknowledged() > 0) reports_.Acknowledge(message.acknowledged());
  if (message.command() == 0) return;
  loop_->Post([this, message = std::move(message)] { OnCommand(message); });
}

bool NodeDaemon::Impl::Next(v1::NodeMessage* message) {
  return reports_.Take(message, absl::InfiniteFuture());
}

void NodeDaemon::Impl::OnEnd() { reports_.EndSession(); }

// ---- commands ----

void NodeDaemon::Impl::OnWelcome(
    const v1::CoordinatorMessage::Welcome& welcome) {
  std::set<Key> wanted;
  for (const v1::RunnerRef& ref : welcome.runners()) {
    wanted.insert({ref.job(), ref.attempt()});
  }
  for (const auto& [key, runner] : runners_) {
    // A profile's runner answers for itself.
    if (runner->gone || key.second == 0 || wanted.count(key) > 0) continue;
    spdlog::warn("{}: the coordinator has gone on without it; ended",
                 Label(runner->ref));
    if (runner->process != nullptr) runner->process->Kill();
  }
}

void NodeDaemon::Impl::Answer(v1::NodeMessage::Answer answer) {
  const int64_t command = answer.command();
  doing_.erase(command);
  answers_[command] = answer;
  if (answers_.size() > kMostAnswers) answers_.erase(answers_.begin());
  v1::NodeMessage message;
  *message.mutable_answer() = std::move(answer);
  reports_.AddOnce(std::move(message));
}

void NodeDaemon::Impl::Answer(int64_t command, const absl::Status& status) {
  v1::NodeMessage::Answer answer;
  answer.set_command(command);
  answer.set_code(static_cast<int>(status.code()));
  answer.set_message(std::string(status.message()));
  Answer(std::move(answer));
}

void NodeDaemon::Impl::OnCommand(const v1::CoordinatorMessage& message) {
  const int64_t command = message.command();
  // Sent again: done once, answered again.
  const auto known = answers_.find(command);
  if (known != answers_.end()) {
    v1::NodeMessage again;
    *again.mutable_answer() = known->second;
    reports_.AddOnce(std::move(again));
    return;
  }
  if (!doing_.insert(command).second) return;

  switch (message.body_case()) {
    case v1::CoordinatorMessage::kStartRunner:
      StartRunner(command, message.start_runner().setup());
      return;
    case v1::CoordinatorMessage::kToRunner: {
      const auto& to = message.to_runner();
      Runner* runner = Find(to.runner());
      if (runner == nullptr || runner->gone || runner->process == nullptr) {
        Answer(command, absl::NotFoundError(absl::StrCat(
                            Label(to.runner()), ": has no runner here")));
        return;
      }
      // A coordinator that was started again gives this command once more.
      if (to.command().has_start() && std::exchange(runner->started, true)) {
        Answer(command, absl::OkStatus());
        return;
      }
      Answer(command, runner->process->Send(to.command()));
      return;
    }
    case v1::CoordinatorMessage::kKillRunner: {
      Runner* runner = Find(message.kill_runner().runner());
      if (runner == nullptr) {
        Answer(command, absl::NotFoundError(
                            absl::StrCat(Label(message.kill_runner().runner()),
                                         ": has no runner here")));
        return;
      }
      runner->killed = true;
      if (!runner->gone && runner->process != nullptr) {
        spdlog::info("{}: ended by force: {}", Label(runner->ref),
                     message.kill_runner().reason());
        runner->process->Kill();
      }
      Answer(command, absl::OkStatus());
      return;
    }
    case v1::CoordinatorMessage::kCheckData: {
      pool_->Run([this, command, spec = message.check_data().spec()] {
        auto facts = DataFactsOf(spec);
        loop_->Post([this, command, facts] {
          if (!facts.ok()) {
            Answer(command, facts.status());
            return;
          }
          v1::NodeMessage::Answer answer;
          answer.set_command(command);
          *answer.mutable_data() = *facts;
          Answer(std::move(answer));
        });
      });
      return;
    }
    case v1::CoordinatorMessage::kRunProfile:
      RunProfile(command, message.run_profile());
      return;
    case v1::CoordinatorMessage::kListenLinks:
      ListenLinks(command, message.listen_links());
      return;
    case v1::CoordinatorMessage::kMeasureLinks:
      MeasureLinks(command, message.measure_links());
      return;
    case v1::CoordinatorMessage::kForgetJob: {
      const std::string job = message.forget_job().job();
      if (!GoodJobId(job)) {
        Answer(command, absl::InvalidArgumentError("forget: no job id"));
        return;
      }
      for (const auto& [key, runner] : runners_) {
        if (key.first == job && !runner->gone) {
          Answer(command, absl::FailedPreconditionError(absl::StrCat(
                              Label(runner->ref), ": still runs")));
          return;
        }
      }
      for (auto it = runners_.begin(); it != runners_.end();) {
        it = it->first.first == job ? runners_.erase(it) : std::next(it);
      }
      Answer(command, RemoveTree(JobFolder(job)));
      return;
    }
    default:
      Answer(command, absl::UnimplementedError("command is not known here"));
  }
}

NodeDaemon::Impl::Runner* NodeDaemon::Impl::Find(const v1::RunnerRef& ref) {
  const auto it = runners_.find({ref.job(), ref.attempt()});
  return it == runners_.end() ? nullptr : it->second.get();
}

RunnerProcess::Options NodeDaemon::Impl::ProcessOptions(
    const v1::RunnerRef& ref, const std::string& folder) {
  RunnerProcess::Options process;
  process.program = options_.runner;
  process.who = Label(ref);
  process.folder = folder;
  process.on_report = [this, ref](v1::RunnerReport report) {
    loop_->Post([this, ref, report = std::move(report)]() mutable {
      OnReport(ref, std::move(report));
    });
  };
  process.on_gone = [this, ref](int wait_status,
                                const std::string& last_words) {
    loop_->Post([this, ref, wait_status, last_words] {
      OnGone(ref, wait_status, last_words);
    });
  };
  return process;
}

void NodeDaemon::Impl::StartRunner(int64_t command, v1::RunnerSetup setup) {
  v1::RunnerRef ref;
  ref.set_job(setup.job());
  ref.set_attempt(setup.attempt());
  if (!GoodJobId(ref.job()) || ref.attempt() < 1) {
    Answer(command, absl::InvalidArgumentError("start: no job and attempt"));
    return;
  }
  if (Find(ref) != nullptr) {
    // Started before a coordinator's restart; its reports tell the rest.
    Answer(command, absl::OkStatus());
    return;
  }
  auto runner = std::make_unique<Runner>();
  runner->ref = ref;
  runner->folder =
      absl::StrCat(JobFolder(ref.job()), "/attempt-", ref.attempt());
  setup.set_folder(runner->folder);
  setup.set_data_host(data_host_);
  setup.set_advertise_host(options_.advertise);
  setup.set_data_port_first(ports_.first);
  setup.set_data_port_last(ports_.last);
  const std::string from = setup.resume_folder();
  if (setup.has_resume()) {
    setup.set_resume_folder(
        absl::StrCat(JobFolder(ref.job()), "/resume-", setup.resume().step()));
  }
  runners_[{ref.job(), ref.attempt()}] = std::move(runner);
  // Shards can be large, and processes slow to start: on a worker.
  pool_->Run([this, command, ref, setup = std::move(setup), from] {
    absl::Status status = MakeFolders(setup.folder());
    if (status.ok() && setup.has_resume()) {
      status = MakeFolders(setup.resume_folder());
      for (const v1::Shard& shard : setup.resume().shards()) {
        const std::string path = JoinPath(setup.resume_folder(), shard.file());
        if (!status.ok() || FileExists(path)) continue;
        status = client_->GetShard(from, shard, path);
      }
    }
    if (status.ok()) status = FAILPOINT("node.start_runner");
    loop_->Post([this, command, ref, setup, status] {
      Runner* runner = Find(ref);
      if (runner == nullptr) return;
      absl::Status result = status;
      if (result.ok() && runner->killed) {
        result = absl::CancelledError(
            absl::StrCat(Label(ref), ": was killed before it started"));
      }
      if (result.ok()) {
        v1::RunnerCommand first;
        *first.mutable_setup() = setup;
        auto process =
            RunnerProcess::Start(ProcessOptions(ref, setup.folder()), first);
        result = process.status();
        if (process.ok()) {
          runner->process = *std::move(process);
          ++alive_;
          spdlog::info("{}: runner started, process {}", Label(ref),
                       runner->process->pid());
        }
      }
      if (!result.ok()) runners_.erase({ref.job(), ref.attempt()});
      Answer(command, result);
    });
  });
}

void NodeDaemon::Impl::StartMeasuring(int64_t command, const std::string& job,
                                      const std::string& what,
                                      const v1::RunnerCommand& first) {
  v1::RunnerRef ref;
  ref.set_job(job);
  const Runner* busy = Find(ref);
  if (!GoodJobId(job) || (busy != nullptr && !busy->gone)) {
    Answer(command, absl::FailedPreconditionError(absl::StrCat(
                        Label(ref), ": is being made here already")));
    return;
  }
  auto runner = std::make_unique<Runner>();
  runner->ref = ref;
  runner->measures = true;
  runner->question = command;
  // Beside the job's own folder, which an attempt may be making just now.
  runner->folder = absl::StrCat(JobFolder(job), ".", what);
  auto process =
      RunnerProcess::Start(ProcessOptions(ref, runner->folder), first);
  if (!process.ok()) {
    Answer(command, process.status());
    return;
  }
  runner->process = *std::move(process);
  ++alive_;
  runners_[{job, 0}] = std::move(runner);
}

void NodeDaemon::Impl::RunProfile(int64_t command,
                                  const v1::RunnerProfile& profile) {
  v1::RunnerCommand first;
  *first.mutable_profile() = profile;
  StartMeasuring(command, profile.job(), "profile", first);
}

void NodeDaemon::Impl::ListenLinks(int64_t command, v1::RunnerLinks links) {
  links.set_data_host(data_host_);
  links.set_advertise_host(options_.advertise);
  links.set_data_port_first(ports_.first);
  links.set_data_port_last(ports_.last);
  v1::RunnerCommand first;
  *first.mutable_links() = std::move(links);
  StartMeasuring(command, first.links().job(), "links", first);
}

void NodeDaemon::Impl::MeasureLinks(
    int64_t command, const v1::CoordinatorMessage::MeasureLinks& message) {
  Runner* runner = Find(message.runner());
  if (runner == nullptr || runner->gone || !runner->measures ||
      runner->question != 0) {
    Answer(command,
           absl::NotFoundError(absl::StrCat("links ", message.runner().job(),
                                            ": nobody listens here")));
    return;
  }
  runner->question = command;
  v1::RunnerCommand start;
  *start.mutable_start()->mutable_placement() = message.placement();
  const absl::Status sent = runner->process->Send(start);
  // One that is gone is told by OnGone.
  if (!sent.ok()) runner->error = std::string(sent.message());
}

// ---- reports ----

void NodeDaemon::Impl::OnReport(const v1::RunnerRef& ref,
                                v1::RunnerReport report) {
  Runner* runner = Find(ref);
  if (runner == nullptr) return;
  if (runner->measures) {
    OnMeasured(*runner, report);
    return;
  }
  if (report.has_shard()) {
    Upload(ref, report.shard());
    return;
  }
  v1::NodeMessage message;
  *message.mutable_report()->mutable_runner() = ref;
  *message.mutable_report()->mutable_report() = std::move(report);
  reports_.Add(std::move(message));
}

void NodeDaemon::Impl::OnMeasured(Runner& runner,
                                  const v1::RunnerReport& report) {
  if (report.has_ended()) runner.error = report.ended().message();
  v1::NodeMessage::Answer answer;
  if (report.has_profile()) {
    *answer.mutable_profile() = report.profile();
  } else if (report.has_ready()) {
    answer.set_data_address(report.ready().data_address());
  } else if (report.has_links()) {
    *answer.mutable_links() = report.links().links();
  } else {
    return;
  }
  if (runner.question == 0) return;
  answer.set_command(std::exchange(runner.question, 0));
  Answer(std::move(answer));
}

void NodeDaemon::Impl::OnGone(const v1::RunnerRef& ref, int wait_status,
                              const std::string& last_words) {
  Runner* runner = Find(ref);
  if (runner == nullptr) return;
  const std::string how = DescribeWaitStatus(wait_status);
  spdlog::info("{}: runner ended with {}", Label(ref), how);
  runner->gone = true;
  // Last: whoever waits for its end finds what is said of it on its way.
  const absl::Cleanup counted = [this] {
    --alive_;
    std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  };
  if (runner->measures) {
    if (runner->question != 0) {
      Answer(runner->question,
             absl::UnavailableError(
                 runner->error.empty()
                     ? absl::StrCat("the profiler ended with ", how,
                                    last_words.empty() ? "" : ": ",
                                    absl::StripAsciiWhitespace(last_words))
                     : runner->error));
    }
    const absl::Status tidy = RemoveTree(runner->folder);
    if (!tidy.ok()) spdlog::warn("{}", std::string(tidy.message()));
    runners_.erase({ref.job(), 0});
    return;
  }
  v1::NodeMessage message;
  auto* gone = message.mutable_gone();
  *gone->mutable_runner() = ref;
  gone->set_wait_status(wait_status);
  gone->set_how(how);
  gone->set_last_words(last_words);
  reports_.Add(std::move(message));
}

// Until the coordinator has it, or does not want it any more.
void NodeDaemon::Impl::Upload(const v1::RunnerRef& ref,
                              v1::RunnerReport::ShardReady ready) {
  ++uploads_;
  pool_->Run([this, ref, ready = std::move(ready)] {
    // However this ends, whoever waits for uploads looks again.
    const absl::Cleanup done = [this] {
      std::lock_guard<std::mutex> lock(mutex_);
      --uploads_;
      changed_.notify_all();
    };
    const absl::Time begin = MonotonicNow();
    absl::Duration wait = kFirstRetry;
    for (;;) {
      absl::Status status = FAILPOINT("node.upload");
      if (status.ok()) {
        status =
            client_->PutShard(ref, ready.step(), ready.shard(), ready.path());
      }
      if (status.ok()) {
        ::unlink(ready.path().c_str());
        return;
      }
      const bool later =
          absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsCancelled(status) || absl::IsResourceExhausted(status);
      std::unique_lock<std::mutex> lock(mutex_);
      const bool stopping = stopping_;
      if (!later || stopping) {
        lock.unlock();
        spdlog::warn("{}: shard {} of step {} is not uploaded: {}", Label(ref),
                     ready.shard().file(), ready.step(),
                     std::string(status.message()));
        return;
      }
      WaitUntil(changed_, lock, MonotonicNow() + wait,
                [this] { return stopping_; });
      lock.unlock();
      wait = std::min(wait * 2, kLastRetry);
      if (MonotonicNow() - begin > absl::Minutes(1)) {
        Upload(ref, ready);  // the pool is small: give others a turn
        return;
      }
    }
  });
}

// ---- end ----

void NodeDaemon::Impl::WaitUntilStopped() {
  const ShutdownSignal& signal = ShutdownSignal::Install();
  for (;;) {
    pollfd entries[2] = {{signal.fd(), POLLIN, 0},
                         {options_.control_fd, POLLIN, 0}};
    const nfds_t count = options_.control_fd >= 0 ? 2 : 1;
    const int ready = ::poll(entries, count, 60000);
    if (ready < 0 && errno == EINTR) continue;
    if (signal.requested()) {
      spdlog::info("stops: signal {}", signal.signal_number());
      Stop(/*polite=*/true);
      return;
    }
    if (count == 2 && entries[1].revents != 0) {
      char buffer[256];
      const ssize_t n = ::read(entries[1].fd, buffer, sizeof buffer);
      if (n > 0) continue;
      spdlog::info("stops: whoever started it is gone");
      Stop(/*polite=*/false);
      return;
    }
  }
}

void NodeDaemon::Impl::Stop(bool polite) {
  if (stopped_.exchange(true) || loop_ == nullptr) return;
  if (polite && alive_ > 0) {
    v1::NodeMessage leaving;
    leaving.set_leaving("the daemon was asked to stop");
    reports_.AddOnce(std::move(leaving));
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(changed_, lock, MonotonicNow() + options_.leave_limit,
              [this] { return alive_ == 0; });
  } else {
    v1::NodeMessage leaving;
    leaving.set_leaving("the daemon stops");
    reports_.AddOnce(std::move(leaving));
  }
  const absl::Status killed =
      loop_->Call<absl::Status>(MonotonicNow() + absl::Seconds(5), [this] {
        for (const auto& [key, runner] : runners_) {
          if (!runner->gone && runner->process != nullptr) {
            runner->process->Kill();
          }
        }
        return absl::OkStatus();
      });
  (void)killed;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(changed_, lock, MonotonicNow() + absl::Seconds(3),
              [this] { return alive_ == 0; });
  }
  // What they said last is worth a moment, where somebody listens.
  bool connected = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    connected = in_session_;
  }
  if (connected) {
    std::unique_lock<std::mutex> lock(mutex_);
    WaitUntil(changed_, lock,
              MonotonicNow() + (polite ? absl::Seconds(5) : absl::Seconds(1)),
              [this] { return uploads_ == 0; });
    lock.unlock();
    reports_.AwaitEmpty(MonotonicNow() + absl::Seconds(2));
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  reports_.EndSession();
  client_->EndSessions();
  session_.Join();
  heartbeats_.Join();
  pool_->Stop();
  loop_->Stop();
  runners_.clear();
  Sweep();
}

NodeDaemon::NodeDaemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodeDaemon::~NodeDaemon() = default;

absl::StatusOr<std::unique_ptr<NodeDaemon>> NodeDaemon::Start(Options options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::Start(std::move(options)));
  return std::unique_ptr<NodeDaemon>(new NodeDaemon(std::move(impl)));
}

const std::string& NodeDaemon::name() const { return impl_->name(); }
void NodeDaemon::WaitUntilStopped() { impl_->WaitUntilStopped(); }
void NodeDaemon::Stop(bool polite) { impl_->Stop(polite); }

}  // namespace pipework
