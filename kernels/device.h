// Memory of a device, counted by use.
#ifndef PIPEWORK_KERNELS_DEVICE_H_
#define PIPEWORK_KERNELS_DEVICE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace pipework {

// What a buffer is for; the allocator counts each use by itself.
enum class MemoryUse {
  kWeights,      // parameters, every version of them
  kGradients,    // accumulated parameter gradients
  kOptimizer,    // momentum, moments
  kActivations,  // outputs and whatever a backward pass reads again
  kWorkspace,    // scratch
  kMessages,     // received from another process
};
constexpr int kMemoryUses = 6;
const char* MemoryUseName(MemoryUse use);

class Allocator;

// One allocation; gives itself back when it dies.
class Buffer {
 public:
  Buffer(std::shared_ptr<Allocator> owner, void* data, int64_t bytes,
         MemoryUse use)
      : owner_(std::move(owner)), data_(data), bytes_(bytes), use_(use) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  MemoryUse use() const { return use_; }

 private:
  std::shared_ptr<Allocator> owner_;
  void* data_;
  int64_t bytes_;
  MemoryUse use_;
};

// Hands out buffers of one device and counts them. Any thread may call it.
// Made with MakeHostAllocator (or a back end's own) and held by shared_ptr,
// since its buffers keep it alive.
class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  // 0: no limit.
  explicit Allocator(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  virtual ~Allocator() = default;

  // At least 64-byte aligned, contents undefined; 0 bytes is fine.
  // ResourceExhausted: names wanted, limit and what is in use by use.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(int64_t bytes,
                                                   MemoryUse use);

  int64_t bytes_in_use(MemoryUse use) const;
  int64_t peak_bytes(MemoryUse use) const;
  int64_t total_bytes_in_use() const;
  int64_t limit_bytes() const { return limit_bytes_; }
  // Peaks start again from what is in use now.
  void ResetPeaks();

 protected:
  // nullptr: none left.
  virtual void* AllocateRaw(int64_t bytes) = 0;
  virtual void FreeRaw(void* data, int64_t bytes) = 0;

 private:
  friend class Buffer;
  void Free(void* data, int64_t bytes, MemoryUse use);

  const int64_t limit_bytes_;
  std::array<std::atomic<int64_t>, kMemoryUses> in_use_{};
  std::array<std::atomic<int64_t>, kMemoryUses> peak_{};
  std::atomic<int64_t> total_{0};
};

// Host memory. `poison`: every new and every released buffer is filled with
// NaN, so that a read before the first write or after the release shows in the
// results (tests).
std::shared_ptr<Allocator> MakeHostAllocator(int64_t limit_bytes = 0,
                                             bool poison = false);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_DEVICE_H_
