#include "kernels/cpu/cpu_backend.h"

#include <utility>

#include "proto/check.h"
#include "proto/status_macros.h"

// GNU OpenMP's, which oneDNN computes with. Its header is a compiler's own.
extern "C" void omp_set_num_threads(int threads);

namespace pipework {

CpuBackend::CpuBackend(std::shared_ptr<Allocator> allocator, int threads)
    : allocator_(std::move(allocator)), threads_(threads) {
  PIPE_CHECK(threads >= 1);
}

CpuBackend::~CpuBackend() = default;

void CpuBackend::UseThreads() const { omp_set_num_threads(threads_); }

absl::StatusOr<char*> CpuBackend::Scratch(int64_t bytes) {
  if (scratch_ == nullptr || scratch_->bytes() < bytes) {
    scratch_ = nullptr;  // first, so that both need not fit at once
    ASSIGN_OR_RETURN(scratch_,
                     allocator_->Allocate(bytes, MemoryUse::kWorkspace));
  }
  return static_cast<char*>(scratch_->data());
}

}  // namespace pipework
