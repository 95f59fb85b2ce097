#include "daemon/node/coordinator_client.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/paths.h"
#include "daemon/base/thread.h"
#include "daemon/base/unique_fd.h"
#include "proto/errors.h"
#include "proto/node.grpc.pb.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr int kMostMessageBytes = 64 << 20;
// A shard is sent within this, or at 1 MiB/s where it is large.
constexpr int64_t kLeastShardSeconds = 60;

absl::Status ToAbsl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

std::string Sha256Hex(EVP_MD_CTX* hash) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(hash, digest, &size);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace

struct CoordinatorClient::Stub {
  std::string token;
  std::unique_ptr<v1::NodeControl::Stub> node;
  std::mutex mutex;
  grpc::ClientContext* session = nullptr;  // the one that runs
  bool no_more = false;                    // no other session may begin

  void Prepare(grpc::ClientContext* context) const {
    if (!token.empty()) {
      context->AddMetadata("authorization", absl::StrCat("Bearer ", token));
    }
  }
  void Limit(int64_t bytes, grpc::ClientContext* context) const {
    context->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::seconds(kLeastShardSeconds + (bytes >> 20)));
  }
};

CoordinatorClient::CoordinatorClient(const std::string& address,
                                     const std::string& token)
    : stub_(std::make_unique<Stub>()) {
  stub_->token = token;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  arguments.SetMaxSendMessageSize(kMostMessageBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 256 << 10);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  stub_->node = v1::NodeControl::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

CoordinatorClient::~CoordinatorClient() = default;

absl::Status CoordinatorClient::PutShard(const v1::RunnerRef& runner,
                                         int64_t step, const v1::Shard& shard,
                                         const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  grpc::ClientContext context;
  stub_->Prepare(&context);
  stub_->Limit(shard.bytes(), &context);
  v1::PutShardResponse response;
  auto writer = stub_->node->PutShard(&context, &response);
  bool first = true;
  std::string buffer(kChunkBytes, '\0');
  for (;;) {
    const ssize_t n = ::read(fd.get(), &buffer[0], buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      context.TryCancel();
      writer->Finish();
      return ErrnoStatus("read", path, errno);
    }
    if (n == 0 && !first) break;
    v1::ShardChunk chunk;
    if (first) {
      chunk.set_job(runner.job());
      chunk.set_attempt(runner.attempt());
      chunk.set_step(step);
      *chunk.mutable_shard() = shard;
      first = false;
    }
    chunk.set_data(buffer.data(), static_cast<size_t>(n));
    if (!writer->Write(chunk) || n == 0) break;
  }
  writer->WritesDone();
  return ToAbsl(writer->Finish());
}

absl::Status CoordinatorClient::GetShard(const std::string& folder,
                                         const v1::Shard& shard,
                                         const std::string& path) {
  grpc::ClientContext context;
  stub_->Prepare(&context);
  stub_->Limit(shard.bytes(), &context);
  v1::GetShardRequest request;
  request.set_folder(folder);
  request.set_file(shard.file());
  const std::string temporary = path + ".part";
  UniqueFd fd(::open(temporary.c_str(),
                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus("open", temporary, errno);
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(),
                                                          &EVP_MD_CTX_free);
  EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr);
  auto reader = stub_->node->GetShard(&context, request);
  v1::ShardChunk chunk;
  int64_t bytes = 0;
  absl::Status status;
  while (status.ok() && reader->Read(&chunk)) {
    EVP_DigestUpdate(hash.get(), chunk.data().data(), chunk.data().size());
    bytes += static_cast<int64_t>(chunk.data().size());
    absl::string_view rest = chunk.data();
    while (!rest.empty()) {
      const ssize_t n = ::write(fd.get(), rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        status = ErrnoStatus("write", temporary, errno);
        context.TryCancel();
        break;
      }
      rest.remove_prefix(static_cast<size_t>(n));
    }
  }
  const absl::Status finished = ToAbsl(reader->Finish());
  if (status.ok()) status = finished;
  if (status.ok() &&
      (bytes != shard.bytes() || Sha256Hex(hash.get()) != shard.sha256())) {
    status = absl::DataLossError(
        absl::StrCat("shard ", shard.file(), " of ", folder, ": ", bytes,
                     " bytes came with another hash than its manifest has"));
  }
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("rename to", path, errno);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

absl::Status CoordinatorClient::RunSession(const v1::Hello& hello,
                                           SessionHandler& handler) {
  grpc::ClientContext context;
  stub_->Prepare(&context);
  {
    std::lock_guard<std::mutex> lock(stub_->mutex);
    if (stub_->no_more) return absl::CancelledError("sessions are over");
    stub_->session = &context;
  }
  auto stream = stub_->node->Session(&context);
  v1::NodeMessage first;
  *first.mutable_hello() = hello;
  std::string refused;
  v1::CoordinatorMessage message;
  Thread writer;
  if (stream->Write(first)) {
    while (stream->Read(&message)) {
      if (message.has_refused()) {
        refused = message.refused();
        break;
      }
      const bool welcome = message.has_welcome();
      handler.OnMessage(std::move(message));
      message.Clear();
      if (!welcome || writer.running()) continue;
      writer = Thread("session-writer", [&] {
        v1::NodeMessage out;
        while (handler.Next(&out)) {
          if (!stream->Write(out)) return;
        }
        stream->WritesDone();
      });
    }
  }
  {
    std::lock_guard<std::mutex> lock(stub_->mutex);
    stub_->session = nullptr;
  }
  handler.OnEnd();
  // A Write that hangs returns. Not otherwise: the stream's own status would
  // give way to "cancelled".
  if (writer.running() || !refused.empty()) context.TryCancel();
  writer.Join();
  const absl::Status status = ToAbsl(stream->Finish());
  if (!refused.empty()) return absl::FailedPreconditionError(refused);
  return status;
}

void CoordinatorClient::CutSession() {
  std::lock_guard<std::mutex> lock(stub_->mutex);
  if (stub_->session != nullptr) stub_->session->TryCancel();
}

void CoordinatorClient::EndSessions() {
  std::lock_guard<std::mutex> lock(stub_->mutex);
  stub_->no_more = true;
  if (stub_->session != nullptr) stub_->session->TryCancel();
}

}  // namespace pipework
