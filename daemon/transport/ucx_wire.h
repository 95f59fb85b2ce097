// What two runners say to each other, byte for byte. Pure.
//
// On the runner's own socket, before anything else:
//   greeting := "PWH1" kind:u8 length:u32 body
//   kind 'H' := a Hello; kind 'R' := text, why the hello was refused;
//   kind 'B' := count:u64, good-bye: so many messages have been sent
// Then each tensor or text is one UCX active message with a WireHeader before
// its payload. All numbers are little-endian.
#ifndef PIPEWORK_DAEMON_TRANSPORT_UCX_WIRE_H_
#define PIPEWORK_DAEMON_TRANSPORT_UCX_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/transport/transport.h"

namespace pipework {

// ---- greetings ----

constexpr char kGreetingMagic[] = "PWH1";
constexpr size_t kGreetingHeadBytes = 9;
constexpr size_t kMostGreetingBytes = 64 << 10;

enum class GreetingKind : char {
  kHello = 'H',
  kRefused = 'R',
  kGoodbye = 'B',
};

// First message of a connection, in both directions.
struct Hello {
  std::string job;
  int attempt = 0;
  uint64_t nonce = 0;
  std::string address;         // host:port that the sender is dialled at
  std::string worker_address;  // of its UCX worker
};

std::string EncodeHello(const Hello& hello);
std::string EncodeRefusal(absl::string_view why);
std::string EncodeGoodbye(uint64_t messages);

// Cuts a greeting off the front of `bytes`; false while it is not whole.
// InvalidArgument: this is no greeting (found out at its first wrong byte).
struct Greeting {
  GreetingKind kind;
  std::string body;
};
absl::StatusOr<bool> TakeGreeting(std::string* bytes, Greeting* greeting);
absl::StatusOr<Hello> DecodeHello(absl::string_view body);
absl::StatusOr<uint64_t> DecodeGoodbye(absl::string_view body);

// ---- messages ----

// What tells the messages of one attempt from all others.
struct WireKey {
  uint64_t job_hash = 0;
  int attempt = 0;
  uint64_t nonce = 0;
};
WireKey MakeWireKey(const DataPlaneOptions& options);

struct WireHeader {
  MessageId id;
  int64_t stop_before = kNoStop;
  bool has_tensor = false;
  Shape shape;
  DType dtype = DType::kF32;
};

// REQUIRES: at most kMostDimensions dimensions.
constexpr int kMostDimensions = 16;
constexpr int64_t kMostTextBytes = 1 << 20;
std::string EncodeHeader(const WireKey& key, const WireHeader& header,
                         uint64_t payload_bytes);

// InvalidArgument: another magic, version, job, attempt or nonce, a number out
// of its range, or a payload that is not as long as shape and type say.
absl::StatusOr<WireHeader> DecodeHeader(const WireKey& key,
                                        absl::string_view bytes,
                                        uint64_t payload_bytes);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_UCX_WIRE_H_
