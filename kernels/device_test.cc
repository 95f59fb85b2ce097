#include "kernels/device.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace pipework {

TEST_CASE("allocator: counts every use by itself, and its peak") {
  const auto allocator = MakeHostAllocator();
  {
    const auto weights = allocator->Allocate(100, MemoryUse::kWeights);
    const auto scratch = allocator->Allocate(50, MemoryUse::kWorkspace);
    REQUIRE(weights.ok());
    REQUIRE(scratch.ok());
    CHECK(allocator->bytes_in_use(MemoryUse::kWeights) == 100);
    CHECK(allocator->bytes_in_use(MemoryUse::kWorkspace) == 50);
    CHECK(allocator->total_bytes_in_use() == 150);
  }
  CHECK(allocator->total_bytes_in_use() == 0);
  CHECK(allocator->peak_bytes(MemoryUse::kWeights) == 100);
  allocator->ResetPeaks();
  CHECK(allocator->peak_bytes(MemoryUse::kWeights) == 0);
}

TEST_CASE("allocator: buffers begin on a cache line, even empty ones") {
  const auto allocator = MakeHostAllocator();
  for (const int64_t bytes : {0, 1, 63, 64, 65, 100000}) {
    const auto buffer = allocator->Allocate(bytes, MemoryUse::kWorkspace);
    REQUIRE(buffer.ok());
    CHECK(reinterpret_cast<std::uintptr_t>((*buffer)->data()) % 64 == 0);
    CHECK((*buffer)->bytes() == bytes);
  }
}

TEST_CASE(
    "allocator: over its limit it says what is in use, and stays usable") {
  const auto allocator = MakeHostAllocator(/*limit_bytes=*/1000);
  const auto first = allocator->Allocate(900, MemoryUse::kWeights);
  REQUIRE(first.ok());
  const auto second = allocator->Allocate(101, MemoryUse::kActivations);
  CHECK(second.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(second.status().message() ==
        "allocator: 101 bytes for activations are not there, the limit is "
        "1000 bytes; in use: weights 900, gradients 0, optimizer 0, "
        "activations 0, workspace 0, messages 0");
  CHECK(allocator->total_bytes_in_use() == 900);
  CHECK(allocator->Allocate(100, MemoryUse::kActivations).ok());
}

TEST_CASE("allocator: what the machine cannot give is an error value") {
  const auto allocator = MakeHostAllocator();
  CHECK(allocator->Allocate(int64_t{1} << 60, MemoryUse::kWeights)
            .status()
            .code() == absl::StatusCode::kResourceExhausted);
  CHECK(allocator->Allocate(-1, MemoryUse::kWeights).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE(
    "allocator: threads that race for the last bytes never pass the limit") {
  const auto allocator = MakeHostAllocator(/*limit_bytes=*/64 * 10);
  std::vector<std::thread> threads;
  std::atomic<int64_t> most{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto buffer = allocator->Allocate(64 * 3, MemoryUse::kMessages);
        if (!buffer.ok()) continue;
        const int64_t now = allocator->bytes_in_use(MemoryUse::kMessages);
        int64_t seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most <= 64 * 10);
  CHECK(allocator->peak_bytes(MemoryUse::kMessages) <= 64 * 10);
  CHECK(allocator->total_bytes_in_use() == 0);
}

TEST_CASE("allocator: poison fills a new buffer with NaN") {
  const auto allocator = MakeHostAllocator(0, /*poison=*/true);
  const auto buffer = allocator->Allocate(5 * 4, MemoryUse::kActivations);
  REQUIRE(buffer.ok());
  const auto* values = static_cast<const float*>((*buffer)->data());
  for (int i = 0; i < 5; ++i) CHECK(std::isnan(values[i]));
}

namespace {

class Watching final : public Allocator {
 public:
  Watching() : Allocator(0) {}

 protected:
  void* AllocateRaw(int64_t) override { return memory_; }
  void FreeRaw(void*, int64_t) override { freed_ = true; }

 public:
  alignas(64) float memory_[4] = {};
  bool freed_ = false;
};

}  // namespace

TEST_CASE("allocator: a device brings its own memory by two functions") {
  const auto allocator = std::make_shared<Watching>();
  {
    const auto buffer = allocator->Allocate(16, MemoryUse::kWeights);
    REQUIRE(buffer.ok());
    CHECK((*buffer)->data() == allocator->memory_);
  }
  CHECK(allocator->freed_);
}

TEST_CASE("memory uses have names") {
  CHECK(std::string(MemoryUseName(MemoryUse::kWeights)) == "weights");
  CHECK(std::string(MemoryUseName(MemoryUse::kMessages)) == "messages");
}

}  // namespace pipework
