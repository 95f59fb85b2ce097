#include "kernels/device.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMostBytes = int64_t{1} << 47;  // addresses end there
constexpr int kPoison = 0xFF;  // in every byte: a NaN as f32, -1 as i32

// Host memory. The size is rounded up to whole cache lines, so that vector
// code may read the last one to its end.
class HostAllocator final : public Allocator {
 public:
  HostAllocator(int64_t limit_bytes, bool poison)
      : Allocator(limit_bytes), poison_(poison) {}

 protected:
  void* AllocateRaw(int64_t bytes) override {
    if (bytes > kMostBytes) return nullptr;
    const int64_t lines = bytes / kAlignment + 1;
    void* data = std::aligned_alloc(kAlignment, lines * kAlignment);
    if (poison_ && data != nullptr) std::memset(data, kPoison, bytes);
    return data;
  }

  void FreeRaw(void* data, int64_t bytes) override {
    if (poison_) std::memset(data, kPoison, bytes);
    std::free(data);
  }

 private:
  const bool poison_;
};

void RaisePeak(std::atomic<int64_t>& peak, int64_t value) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

const char* MemoryUseName(MemoryUse use) {
  switch (use) {
    case MemoryUse::kWeights:
      return "weights";
    case MemoryUse::kGradients:
      return "gradients";
    case MemoryUse::kOptimizer:
      return "optimizer";
    case MemoryUse::kActivations:
      return "activations";
    case MemoryUse::kWorkspace:
      return "workspace";
    case MemoryUse::kMessages:
      return "messages";
  }
  return "unknown";
}

Buffer::~Buffer() { owner_->Free(data_, bytes_, use_); }

absl::StatusOr<std::shared_ptr<Buffer>> Allocator::Allocate(int64_t bytes,
                                                            MemoryUse use) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "allocator: size is ", bytes, " bytes, expected 0 or more"));
  }
  // Counted before it is there, so that two threads cannot pass the limit
  // together.
  const int64_t total =
      total_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  void* data = nullptr;
  if (limit_bytes_ == 0 || total <= limit_bytes_) data = AllocateRaw(bytes);
  if (data == nullptr) {
    total_.fetch_sub(bytes, std::memory_order_relaxed);
    std::string text = absl::StrCat("allocator: ", bytes, " bytes for ",
                                    MemoryUseName(use), " are not there");
    if (limit_bytes_ != 0) {
      absl::StrAppend(&text, ", the limit is ", limit_bytes_, " bytes");
    }
    absl::StrAppend(&text, "; in use:");
    for (int i = 0; i < kMemoryUses; ++i) {
      const auto each = static_cast<MemoryUse>(i);
      absl::StrAppend(&text, i == 0 ? " " : ", ", MemoryUseName(each), " ",
                      bytes_in_use(each));
    }
    return absl::ResourceExhaustedError(text);
  }
  const int i = static_cast<int>(use);
  RaisePeak(peak_[i],
            in_use_[i].fetch_add(bytes, std::memory_order_relaxed) + bytes);
  return std::make_shared<Buffer>(shared_from_this(), data, bytes, use);
}

void Allocator::Free(void* data, int64_t bytes, MemoryUse use) {
  FreeRaw(data, bytes);
  in_use_[static_cast<int>(use)].fetch_sub(bytes, std::memory_order_relaxed);
  total_.fetch_sub(bytes, std::memory_order_relaxed);
}

int64_t Allocator::bytes_in_use(MemoryUse use) const {
  return in_use_[static_cast<int>(use)].load(std::memory_order_relaxed);
}

int64_t Allocator::peak_bytes(MemoryUse use) const {
  return peak_[static_cast<int>(use)].load(std::memory_order_relaxed);
}

int64_t Allocator::total_bytes_in_use() const {
  return total_.load(std::memory_order_relaxed);
}

void Allocator::ResetPeaks() {
  for (int i = 0; i < kMemoryUses; ++i) {
    peak_[i].store(in_use_[i].load(std::memory_order_relaxed),
                   std::memory_order_relaxed);
  }
}

std::shared_ptr<Allocator> MakeHostAllocator(int64_t limit_bytes, bool poison) {
  return std::make_shared<HostAllocator>(limit_bytes, poison);
}

}  // namespace pipework
