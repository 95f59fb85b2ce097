#include "daemon/coordinator/node_service.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/paths.h"
#include "daemon/base/thread.h"
#include "daemon/base/unique_fd.h"
#include "daemon/coordinator/call.h"
#include "daemon/coordinator/cluster.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
// A node that connects says hello at once.
constexpr int64_t kMostShardBytes = int64_t{1} << 40;

// "ipv4:10.0.0.7:4711" -> "10.0.0.7".
std::string PeerHost(const std::string& peer) {
  const size_t first = peer.find(':');
  const size_t last = peer.rfind(':');
  if (first == std::string::npos || last <= first) return peer;
  std::string host = peer.substr(first + 1, last - first - 1);
  // Brackets of IPv6 come percent-encoded.
  if (absl::StartsWith(host, "%5B")) {
    host = absl::StrCat("[", host.substr(3, host.size() - 6), "]");
  }
  return host;
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("write", path, errno);
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Status NodeServiceImpl::Session(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::NodeMessage>* stream) {
  PIPE_GATE(gate_, context);
  v1::NodeMessage message;
  if (!stream->Read(&message) || !message.has_hello()) {
    return ToRpc(absl::InvalidArgumentError(
        "session: the first message is no hello, expected one"));
  }
  const v1::Hello hello = message.hello();
  const std::string host = PeerHost(context->peer());
  const auto refuse = [&](const absl::Status& why) {
    spdlog::warn("node \"{}\" from {} is refused: {}", hello.node(),
                 context->peer(), std::string(why.message()));
    v1::CoordinatorMessage refusal;
    refusal.set_refused(std::string(why.message()));
    stream->Write(refusal);
    return ToRpc(why);
  };
  if (IsLoopback(hello.address()) && !IsLoopback(host)) {
    return refuse(Mismatch(absl::StrCat("node ", hello.node()),
                           "the address it advertises", hello.address(),
                           absl::StrCat("one that other machines reach, such "
                                        "as ",
                                        host),
                           "give it with --advertise"));
  }
  auto mailbox = std::make_shared<Mailbox>();
  const auto session = core_.OpenSession(hello, mailbox);
  if (!session.ok()) return refuse(session.status());

  // Reads stop when the mailbox closes: the engine ends a session so.
  mailbox->OnClose([context] { context->TryCancel(); });
  Thread writer("node-writer", [&] {
    v1::CoordinatorMessage out;
    for (;;) {
      if (mailbox->Take(&out, MonotonicNow() + absl::Seconds(2))) {
        if (!stream->Write(out)) break;
      } else if (mailbox->closed()) {
        break;
      } else {
        // A sign of life, so that a node tells a slow coordinator from none.
        v1::CoordinatorMessage heartbeat;
        heartbeat.set_heartbeat(true);
        if (!stream->Write(heartbeat)) break;
      }
    }
  });
  while (stream->Read(&message)) {
    core_.Deliver(hello.node(), *session, std::move(message));
    message.Clear();
  }
  mailbox->OnClose(nullptr);
  core_.CloseSession(hello.node(), *session);
  mailbox->Close();
  writer.Join();
  return grpc::Status::OK;
}

absl::Status NodeServiceImpl::ReceiveShard(
    grpc::ServerContext* context, grpc::ServerReader<v1::ShardChunk>* reader) {
  v1::ShardChunk chunk;
  if (!reader->Read(&chunk)) {
    return absl::InvalidArgumentError("PutShard: no chunk came");
  }
  const std::string job = chunk.job();
  const int attempt = chunk.attempt();
  const int64_t step = chunk.step();
  const absl::Status status = StoreShard(context, reader, std::move(chunk));
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
      core_.ShardRefused(job, attempt, step, status,
                         MonotonicNow() + absl::Seconds(30));
      return status;
    default:
      return status;
  }
}

absl::Status NodeServiceImpl::StoreShard(
    grpc::ServerContext* context, grpc::ServerReader<v1::ShardChunk>* reader,
    v1::ShardChunk chunk) {
  const std::string job = chunk.job();
  const int attempt = chunk.attempt();
  const int64_t step = chunk.step();
  const v1::Shard shard = chunk.shard();
  const std::string who =
      absl::StrCat("job ", job, ": shard ", shard.file(), " of step ", step);
  if (shard.bytes() < 0 || shard.bytes() > kMostShardBytes) {
    return Mismatch(who, "its size", absl::StrCat(shard.bytes(), " bytes"),
                    absl::StrCat("0 to ", kMostShardBytes));
  }
  ASSIGN_OR_RETURN(const std::string folder,
                   core_.BeginShard(job, attempt, step, shard,
                                    MonotonicNow() + absl::Seconds(30)));
  const std::string path = JoinPath(folder, shard.file());
  const std::string temporary = absl::StrCat(path, ".part");
  UniqueFd fd(::open(temporary.c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus("open", temporary, errno);
  // What came of a shard that is not whole must not keep a full disk full.
  absl::Cleanup remove = [&temporary] { ::unlink(temporary.c_str()); };
  int64_t bytes = 0;
  do {
    RETURN_IF_ERROR(FAILPOINT("put_shard.chunk"));
    bytes += static_cast<int64_t>(chunk.data().size());
    if (bytes > shard.bytes()) break;
    RETURN_IF_ERROR(WriteAll(fd.get(), temporary, chunk.data()));
  } while (reader->Read(&chunk));
  if (bytes != shard.bytes()) {
    return Mismatch(who, "what came", absl::StrCat(bytes, " bytes"),
                    absl::StrCat(shard.bytes()));
  }
  if (context->IsCancelled()) {
    return absl::CancelledError(absl::StrCat(who, ": the sender went away"));
  }
  RETURN_IF_ERROR(FAILPOINT("put_shard.before_sync"));
  if (::fsync(fd.get()) != 0) return ErrnoStatus("fsync", temporary, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus("rename to", path, errno);
  }
  std::move(remove).Cancel();
  RETURN_IF_ERROR(FsyncFolder(folder));
  RETURN_IF_ERROR(FAILPOINT("put_shard.stored"));
  return core_.ShardStored(job, attempt, step, shard,
                           MonotonicNow() + absl::Seconds(30));
}

grpc::Status NodeServiceImpl::PutShard(
    grpc::ServerContext* context, grpc::ServerReader<v1::ShardChunk>* reader,
    v1::PutShardResponse*) {
  PIPE_GATE(gate_, context);
  const absl::Status status = ReceiveShard(context, reader);
  // Here already: a sender that did not hear so asks again.
  if (absl::IsAlreadyExists(status)) return grpc::Status::OK;
  return ToRpc(status);
}

grpc::Status NodeServiceImpl::GetShard(
    grpc::ServerContext* context, const v1::GetShardRequest* request,
    grpc::ServerWriter<v1::ShardChunk>* writer) {
  PIPE_GATE(gate_, context);
  const auto path = core_.ShardPath(request->folder(), request->file());
  if (!path.ok()) return ToRpc(path.status());
  UniqueFd fd(::open(path->c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return ToRpc(
        WithReason(ErrnoStatus("open", *path, errno), "CHECKPOINT_NOT_FOUND"));
  }
  std::string buffer(kChunkBytes, '\0');
  for (;;) {
    const ssize_t n = ::read(fd.get(), &buffer[0], buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ToRpc(ErrnoStatus("read", *path, errno));
    if (n == 0) return grpc::Status::OK;
    v1::ShardChunk chunk;
    chunk.set_data(buffer.data(), static_cast<size_t>(n));
    if (!writer->Write(chunk)) return grpc::Status::CANCELLED;
  }
}

}  // namespace pipework
