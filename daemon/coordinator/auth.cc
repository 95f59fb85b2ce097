#include "daemon/coordinator/auth.h"

#include <grpcpp/support/server_interceptor.h>
#include <sys/stat.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/paths.h"
#include "google/protobuf/message.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr size_t kLeastTokenBytes = 16;

// As long for a wrong token as for a right one.
bool SameToken(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

class GateInterceptor final : public grpc::experimental::Interceptor {
 public:
  GateInterceptor(const TokenGate& gate,
                  grpc::experimental::ServerRpcInfo* info)
      : gate_(gate), info_(info) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(Hook::POST_RECV_INITIAL_METADATA)) {
      refused_ = !gate_.Admits(info_->server_context()->client_metadata());
    }
    if (refused_ &&
        batch->QueryInterceptionHookPoint(Hook::POST_RECV_MESSAGE)) {
      auto* message =
          static_cast<google::protobuf::Message*>(batch->GetRecvMessage());
      if (message != nullptr) message->Clear();
    }
    if (refused_ && batch->QueryInterceptionHookPoint(Hook::PRE_SEND_STATUS)) {
      batch->ModifySendStatus(
          grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                       "a token is required; give --token-file"));
    }
    batch->Proceed();
  }

 private:
  const TokenGate& gate_;
  grpc::experimental::ServerRpcInfo* const info_;
  bool refused_ = false;
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(const TokenGate& gate) : gate_(gate) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (!absl::StartsWith(info->method(), "/grpc.reflection.")) return nullptr;
    return std::make_unique<GateInterceptor>(gate_, info).release();
  }

 private:
  const TokenGate& gate_;
};

}  // namespace

bool TokenGate::Admits(
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) const {
  if (token_.empty()) return true;
  const auto range = metadata.equal_range("authorization");
  if (range.first == range.second || std::next(range.first) != range.second) {
    return false;
  }
  const grpc::string_ref value = range.first->second;
  return SameToken(absl::string_view(value.data(), value.size()),
                   absl::StrCat("Bearer ", token_));
}

absl::Status TokenGate::Check(const grpc::ServerContextBase& context) const {
  if (Admits(context.client_metadata())) return absl::OkStatus();
  return absl::UnauthenticatedError(
      context.client_metadata().count("authorization") == 0
          ? "no token came with the call; give --token-file"
          : "the token is not the server's; give its --token-file");
}

void TokenGate::Guard(grpc::ServerBuilder* builder) const {
  if (open()) return;
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      factories;
  factories.push_back(std::make_unique<Factory>(*this));
  builder->experimental().SetInterceptorCreators(std::move(factories));
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 16));
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & 0077) != 0) {
    return Mismatch("--token-file", absl::StrCat("the mode of ", path),
                    absl::StrFormat("%04o", info.st_mode & 0777), "0600",
                    absl::StrCat("run chmod 600 ", path));
  }
  const std::string token(absl::StripAsciiWhitespace(
      absl::string_view(text).substr(0, text.find('\n'))));
  if (token.size() < kLeastTokenBytes) {
    return Mismatch("--token-file", absl::StrCat("the token in ", path),
                    absl::StrCat(token.size(), " characters long"),
                    absl::StrCat("at least ", kLeastTokenBytes),
                    "make one with: openssl rand -hex 32");
  }
  return token;
}

}  // namespace pipework
