#include "daemon/transport/ucx_wire.h"

#include <catch2/catch.hpp>
#include <limits>

#include "absl/strings/match.h"

namespace pipework {
namespace {

DataPlaneOptions Options() {
  DataPlaneOptions options;
  options.job = "j-1";
  options.attempt = 4;
  options.nonce = 0xfedcba9876543210;
  return options;
}

WireHeader Sample() {
  WireHeader header;
  header.id.channel = Channel::kReduce;
  header.id.from = {StageId(3), ReplicaId(1)};
  header.id.to = {StageId(3), ReplicaId(0)};
  header.id.tensor = 17;
  header.id.number = int64_t{1} << 40;
  header.stop_before = 99;
  header.has_tensor = true;
  header.shape = {2, 3};
  header.dtype = DType::kI32;
  return header;
}

TEST_CASE("wire: a header comes back as it was") {
  const WireKey key = MakeWireKey(Options());
  const auto got = DecodeHeader(key, EncodeHeader(key, Sample(), 24), 24);
  REQUIRE(got.ok());
  CHECK(got->id == Sample().id);
  CHECK(got->stop_before == 99);
  CHECK(got->has_tensor);
  CHECK(got->shape == Shape({2, 3}));
  CHECK(got->dtype == DType::kI32);
}

TEST_CASE(
    "wire: a header that is cut short or has more at its end is refused") {
  const WireKey key = MakeWireKey(Options());
  const std::string bytes = EncodeHeader(key, Sample(), 24);
  for (size_t n = 0; n < bytes.size(); ++n) {
    CHECK_FALSE(DecodeHeader(key, bytes.substr(0, n), 24).ok());
  }
  CHECK_FALSE(DecodeHeader(key, bytes + "x", 24).ok());
}

TEST_CASE(
    "wire: another job, attempt or nonce is refused, and the nonce is "
    "not told") {
  const std::string bytes = EncodeHeader(MakeWireKey(Options()), Sample(), 24);
  for (int which : {0, 1, 2}) {
    DataPlaneOptions other = Options();
    if (which == 0) other.job = "j-2";
    if (which == 1) other.attempt = 5;
    if (which == 2) other.nonce += 1;
    const auto got = DecodeHeader(MakeWireKey(other), bytes, 24);
    REQUIRE(got.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_FALSE(absl::StrContains(std::string(got.status().message()),
                                  std::to_string(Options().nonce)));
  }
}

TEST_CASE("wire: a payload must be as long as shape and type say") {
  const WireKey key = MakeWireKey(Options());
  const std::string bytes = EncodeHeader(key, Sample(), 24);
  CHECK_FALSE(DecodeHeader(key, bytes, 20).ok());
  CHECK_FALSE(DecodeHeader(key, EncodeHeader(key, Sample(), 20), 20).ok());

  // 2^62 elements of 4 bytes come to 0 where nobody looks.
  WireHeader huge = Sample();
  huge.shape = Shape({int64_t{1} << 31, int64_t{1} << 31});
  CHECK_FALSE(DecodeHeader(key, EncodeHeader(key, huge, 0), 0).ok());
  WireHeader negative = Sample();
  negative.shape = Shape({-2, -3});
  CHECK_FALSE(DecodeHeader(key, EncodeHeader(key, negative, 24), 24).ok());
}

TEST_CASE("wire: a text may have one MiB") {
  const WireKey key = MakeWireKey(Options());
  WireHeader text = Sample();
  text.has_tensor = false;
  const auto decode = [&](uint64_t bytes) {
    return DecodeHeader(key, EncodeHeader(key, text, bytes), bytes).ok();
  };
  CHECK(decode(kMostTextBytes));
  CHECK_FALSE(decode(kMostTextBytes + 1));
}

TEST_CASE("wire: a greeting is taken when its last byte has come") {
  Hello hello;
  hello.job = "j-1";
  hello.attempt = 3;
  hello.nonce = 5;
  hello.address = "n1:7000";
  hello.worker_address = std::string("a\0b", 3);
  const std::string bytes = EncodeHello(hello) + EncodeGoodbye(9);
  const size_t first = EncodeHello(hello).size();
  for (size_t n = 0; n < first; ++n) {
    std::string part = bytes.substr(0, n);
    Greeting greeting;
    const auto taken = TakeGreeting(&part, &greeting);
    REQUIRE(taken.ok());
    CHECK_FALSE(*taken);
  }
  std::string all = bytes;
  Greeting greeting;
  REQUIRE(*TakeGreeting(&all, &greeting));
  REQUIRE(greeting.kind == GreetingKind::kHello);
  const auto got = DecodeHello(greeting.body);
  REQUIRE(got.ok());
  CHECK(got->worker_address == hello.worker_address);
  CHECK(got->address == hello.address);
  CHECK(got->nonce == 5);
  REQUIRE(*TakeGreeting(&all, &greeting));
  CHECK(*DecodeGoodbye(greeting.body) == 9);
  CHECK(all.empty());
}

TEST_CASE("wire: a greeting is refused at its first wrong byte") {
  for (const std::string& bytes :
       {std::string("G"), std::string("PWH2"), std::string("PWH1X\0\0\0\0", 9),
        std::string("PWH1H\xff\xff\xff\xff", 9)}) {
    std::string copy = bytes;
    Greeting greeting;
    CHECK_FALSE(TakeGreeting(&copy, &greeting).ok());
  }
  CHECK_FALSE(DecodeHello("").ok());
  CHECK_FALSE(DecodeGoodbye("1234567").ok());
}

}  // namespace
}  // namespace pipework
