#include "daemon/transport/ucx_wire.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr uint32_t kMessageMagic = 0x314d5750;  // PWM1
constexpr uint16_t kVersion = 1;

class Writer {
 public:
  template <typename T>
  void Put(T value) {
    // All machines that UCX runs on and we build for are little-endian.
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void PutText(absl::string_view text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_.append(text.data(), text.size());
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  std::string GetText() {
    const uint32_t size = Get<uint32_t>();
    if (bytes_.size() < size) ok_ = false;
    if (!ok_) return "";
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  // Everything was there, and nothing more.
  bool Done() const { return ok_ && bytes_.empty(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

std::string Greet(GreetingKind kind, absl::string_view body) {
  std::string bytes(kGreetingMagic);
  bytes += static_cast<char>(kind);
  const uint32_t length = static_cast<uint32_t>(body.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes.append(body.data(), body.size());
  return bytes;
}

// FNV-1a: the same on every machine and in every build.
uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::string EncodeHello(const Hello& hello) {
  Writer out;
  out.Put(kVersion);
  out.Put(static_cast<int32_t>(hello.attempt));
  out.Put(hello.nonce);
  out.PutText(hello.job);
  out.PutText(hello.address);
  out.PutText(hello.worker_address);
  return Greet(GreetingKind::kHello, out.Take());
}

std::string EncodeRefusal(absl::string_view why) {
  return Greet(GreetingKind::kRefused, why);
}

std::string EncodeGoodbye(uint64_t messages) {
  Writer out;
  out.Put(messages);
  return Greet(GreetingKind::kGoodbye, out.Take());
}

absl::StatusOr<bool> TakeGreeting(std::string* bytes, Greeting* greeting) {
  const absl::string_view magic(kGreetingMagic);
  const size_t known = std::min(bytes->size(), magic.size());
  if (absl::string_view(*bytes).substr(0, known) != magic.substr(0, known)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the first bytes are \"", absl::CHexEscape(bytes->substr(0, 16)),
        "\", expected a greeting"));
  }
  if (bytes->size() < kGreetingHeadBytes) return false;
  const char kind = (*bytes)[magic.size()];
  if (kind != static_cast<char>(GreetingKind::kHello) &&
      kind != static_cast<char>(GreetingKind::kRefused) &&
      kind != static_cast<char>(GreetingKind::kGoodbye)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the kind of a greeting is \"",
                     absl::CHexEscape(std::string(1, kind)), "\""));
  }
  uint32_t length;
  std::memcpy(&length, bytes->data() + magic.size() + 1, sizeof length);
  if (length > kMostGreetingBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a greeting has ", length,
                                                   " bytes, expected at most ",
                                                   kMostGreetingBytes));
  }
  if (bytes->size() < kGreetingHeadBytes + length) return false;
  greeting->kind = static_cast<GreetingKind>(kind);
  greeting->body = bytes->substr(kGreetingHeadBytes, length);
  bytes->erase(0, kGreetingHeadBytes + length);
  return true;
}

absl::StatusOr<Hello> DecodeHello(absl::string_view body) {
  Reader in(body);
  const uint16_t version = in.Get<uint16_t>();
  Hello hello;
  hello.attempt = in.Get<int32_t>();
  hello.nonce = in.Get<uint64_t>();
  hello.job = in.GetText();
  hello.address = in.GetText();
  hello.worker_address = in.GetText();
  if (!in.Done()) {
    return absl::InvalidArgumentError("the body of the hello is malformed");
  }
  if (version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the version of the data plane is ", version, ", expected ", kVersion));
  }
  return hello;
}

absl::StatusOr<uint64_t> DecodeGoodbye(absl::string_view body) {
  Reader in(body);
  const uint64_t messages = in.Get<uint64_t>();
  if (!in.Done()) {
    return absl::InvalidArgumentError("the body of the good-bye is malformed");
  }
  return messages;
}

WireKey MakeWireKey(const DataPlaneOptions& options) {
  return WireKey{StableHash(options.job), options.attempt, options.nonce};
}

std::string EncodeHeader(const WireKey& key, const WireHeader& header,
                         uint64_t payload_bytes) {
  PIPE_CHECK(header.shape.rank() <= kMostDimensions);
  const MessageId& id = header.id;
  Writer out;
  out.Put(kMessageMagic);
  out.Put(kVersion);
  out.Put(static_cast<uint8_t>(header.has_tensor ? 1 : 0));
  out.Put(static_cast<uint8_t>(header.has_tensor ? header.shape.rank() : 0));
  out.Put(key.job_hash);
  out.Put(key.nonce);
  out.Put(static_cast<int32_t>(key.attempt));
  out.Put(static_cast<uint8_t>(id.channel));
  out.Put(static_cast<uint8_t>(header.dtype));
  for (const SeatId seat : {id.from, id.to}) {
    out.Put(static_cast<int32_t>(seat.stage.value()));
    out.Put(static_cast<int32_t>(seat.replica.value()));
  }
  out.Put(static_cast<int32_t>(id.tensor));
  out.Put(id.number);
  out.Put(header.stop_before);
  out.Put(payload_bytes);
  if (header.has_tensor) {
    for (const int64_t dim : header.shape.dims()) out.Put(dim);
  }
  return out.Take();
}

absl::StatusOr<WireHeader> DecodeHeader(const WireKey& key,
                                        absl::string_view bytes,
                                        uint64_t payload_bytes) {
  const auto refuse = [](absl::string_view what, auto got, auto wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message's ", what, " is ", got, ", expected ", wanted));
  };
  Reader in(bytes);
  if (in.Get<uint32_t>() != kMessageMagic) {
    return refuse("first bytes", "another", "a Pipework header");
  }
  const uint16_t version = in.Get<uint16_t>();
  if (version != kVersion) return refuse("version", version, kVersion);
  WireHeader header;
  const int has_tensor = in.Get<uint8_t>();
  header.has_tensor = has_tensor == 1;
  const int rank = in.Get<uint8_t>();
  if (in.Get<uint64_t>() != key.job_hash) {
    return refuse("job", "another", "this one");
  }
  // The nonce is a secret: it is not put into words.
  if (in.Get<uint64_t>() != key.nonce) {
    return refuse("nonce", "another", "the one of this attempt");
  }
  const int attempt = in.Get<int32_t>();
  if (attempt != key.attempt) return refuse("attempt", attempt, key.attempt);
  const int channel = in.Get<uint8_t>();
  const int dtype = in.Get<uint8_t>();
  const auto get_seat = [&in] {
    const int32_t stage = in.Get<int32_t>();
    const int32_t replica = in.Get<int32_t>();
    return SeatId{StageId(stage), ReplicaId(replica)};
  };
  header.id.from = get_seat();
  header.id.to = get_seat();
  header.id.tensor = in.Get<int32_t>();
  header.id.number = in.Get<int64_t>();
  header.stop_before = in.Get<int64_t>();
  const uint64_t announced = in.Get<uint64_t>();
  std::vector<int64_t> dims;
  for (int i = 0; i < rank && i <= kMostDimensions; ++i) {
    dims.push_back(in.Get<int64_t>());
  }
  if (has_tensor > 1 || rank > kMostDimensions ||
      (has_tensor == 0 && rank > 0) || !in.Done()) {
    return refuse("header", "malformed", "that of this version");
  }
  if (channel > static_cast<int>(Channel::kControl)) {
    return refuse("channel", channel, "0 to 4");
  }
  header.id.channel = static_cast<Channel>(channel);
  if (dtype > static_cast<int>(DType::kI32)) {
    return refuse("type", dtype, "0 or 1");
  }
  header.dtype = static_cast<DType>(dtype);
  if (announced != payload_bytes) {
    return refuse("payload", absl::StrCat(payload_bytes, " bytes"),
                  absl::StrCat(announced, " bytes, as its header says"));
  }
  if (!header.has_tensor) {
    if (payload_bytes > static_cast<uint64_t>(kMostTextBytes)) {
      return refuse("text", absl::StrCat(payload_bytes, " bytes"),
                    absl::StrCat("at most ", kMostTextBytes, " bytes"));
    }
    return header;
  }
  // A product of the dimensions alone could overflow, with a 0 behind it.
  int64_t wanted = DTypeBytes(header.dtype);
  bool fits = true;
  for (const int64_t dim : dims) {
    fits = fits && dim >= 0 && !__builtin_mul_overflow(wanted, dim, &wanted);
  }
  if (!fits || static_cast<uint64_t>(wanted) != payload_bytes) {
    return refuse("payload", absl::StrCat(payload_bytes, " bytes"),
                  absl::StrCat("that of ", DTypeName(header.dtype),
                               Shape(dims).ToString()));
  }
  header.shape = Shape(std::move(dims));
  return header;
}

}  // namespace pipework
