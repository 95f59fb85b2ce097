#include "daemon/coordinator/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/lock_file.h"
#include "daemon/base/paths.h"
#include "daemon/base/shutdown.h"
#include "daemon/base/unique_fd.h"
#include "daemon/coordinator/auth.h"
#include "daemon/coordinator/core.h"
#include "daemon/coordinator/services.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

constexpr int kMostMessageBytes = 64 << 20;
constexpr int kMostThreads = 2000;

struct HostPort {
  std::string host;
  int port = 0;
};

// "127.0.0.1:7070", "[::1]:0".
absl::StatusOr<HostPort> SplitListen(const std::string& text) {
  HostPort result;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &result.port) ||
      result.port < 0 || result.port > 65535) {
    return Mismatch("--listen", "address", absl::StrCat("\"", text, "\""),
                    "HOST:PORT with a port from 0 to 65535",
                    "such as 127.0.0.1:7070");
  }
  result.host = text.substr(0, colon);
  return result;
}

// gRPC tells why it cannot listen only in its own log, so try it first.
absl::Status TryBind(const HostPort& at) {
  absl::string_view host = at.host;
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed =
      ::getaddrinfo(std::string(host).c_str(), std::to_string(at.port).c_str(),
                    &hints, &list);
  if (failed != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: host ", at.host,
                     " is not known here: ", ::gai_strerror(failed)));
  }
  absl::Status status = absl::OkStatus();
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      ::listen(fd.get(), 1) != 0) {
    status = absl::UnavailableError(
        errno == EADDRINUSE
            ? absl::StrCat("--listen: port ", at.port, " of ", at.host,
                           " is in use by another process; stop it, or give "
                           "another port")
            : absl::StrCat("--listen: cannot listen on ", at.host, ":", at.port,
                           ": ", std::strerror(errno)));
  }
  ::freeaddrinfo(list);
  return status;
}

}  // namespace

absl::Status CoordinatorServer::Options::Validate() const {
  const absl::StatusOr<HostPort> at = SplitListen(listen);
  if (!at.ok()) return at.status();
  if (state_dir.empty()) {
    return Mismatch("--state-dir", "folder", "\"\"", "a path");
  }
  if (token_file.empty() && !IsLoopback(at->host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen: ", listen,
        " can be reached from other machines; give --token-file FILE, or "
        "listen on 127.0.0.1"));
  }
  return absl::OkStatus();
}

struct CoordinatorServer::State {
  explicit State(TokenGate g) : gate(std::move(g)) {}

  Options options;
  TokenGate gate;
  std::unique_ptr<LockFile> lock;
  std::unique_ptr<CoordinatorCore> core;
  std::unique_ptr<Services> services;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

CoordinatorServer::CoordinatorServer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

CoordinatorServer::~CoordinatorServer() { Stop(); }

const std::string& CoordinatorServer::address() const {
  return state_->address;
}

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    Options options, const Clock& clock) {
  RETURN_IF_ERROR(options.Validate());
  options.state_dir = AbsolutePath(options.state_dir);
  std::string token;
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(token, ReadTokenFile(options.token_file));
  }
  auto state = std::make_unique<State>(TokenGate(token));
  state->options = options;
  const absl::StatusOr<HostPort> at = SplitListen(options.listen);
  if (!at.ok()) return at.status();
  RETURN_IF_ERROR(TryBind(*at));
  RETURN_IF_ERROR(MakeFolders(options.state_dir));
  auto lock = LockFile::Acquire(JoinPath(options.state_dir, "lock"));
  RETURN_IF_ERROR(WithContext(absl::StrCat("--state-dir ", options.state_dir),
                              lock.status()));
  state->lock = std::make_unique<LockFile>(std::move(*lock));

  EngineOptions engine;
  engine.state_dir = options.state_dir;
  engine.leases = options.leases;
  ASSIGN_OR_RETURN(state->core, CoordinatorCore::Start(engine, clock));
  state->services = std::make_unique<Services>(*state->core, state->gate);

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(),
                           &port);
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  builder.SetMaxSendMessageSize(kMostMessageBytes);
  // Two servers on one port would share its calls in silence.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 256 << 10);
  builder.SetResourceQuota(
      grpc::ResourceQuota("pipecoord").SetMaxThreads(kMostThreads));
  state->services->Register(&builder);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("--listen: ", options.listen,
                     " was taken while the server started; give another port"));
  }
  state->address = absl::StrCat(at->host, ":", port);
  if (options.announce) {
    RETURN_IF_ERROR(
        WriteFileAtomically(JoinPath(options.state_dir, "coordinator.address"),
                            absl::StrCat(state->address, "\n")));
  }
  spdlog::info("listening on {}, state in {}", state->address,
               options.state_dir);
  return std::unique_ptr<CoordinatorServer>(
      new CoordinatorServer(std::move(state)));
}

void CoordinatorServer::WaitUntilStopped() {
  const ShutdownSignal& signal = ShutdownSignal::Install();
  for (;;) {
    pollfd entries[2] = {{signal.fd(), POLLIN, 0},
                         {state_->options.control_fd, POLLIN, 0}};
    const nfds_t count = state_->options.control_fd >= 0 ? 2 : 1;
    const int ready = ::poll(entries, count, 60000);
    if (ready < 0 && errno == EINTR) continue;
    if (signal.requested()) {
      spdlog::info("stops: signal {}", signal.signal_number());
      return;
    }
    if (count == 2 && entries[1].revents != 0) {
      char buffer[256];
      const ssize_t n = ::read(entries[1].fd, buffer, sizeof buffer);
      if (n > 0) continue;
      spdlog::info("stops: whoever started it is gone");
      return;
    }
  }
}

void CoordinatorServer::Stop() {
  if (state_->server == nullptr) return;
  state_->services->StopServing();
  // Streams see the closed board and end; what is left is cut.
  state_->core->EndCalls();
  state_->server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::seconds(5));
  state_->server->Wait();
  state_->core->Stop();
  state_->server.reset();
  if (state_->options.announce) {
    ::unlink(
        JoinPath(state_->options.state_dir, "coordinator.address").c_str());
  }
}

}  // namespace pipework
