// Back ends by name: the one place that knows them all.
#ifndef PIPEWORK_KERNELS_BACKEND_REGISTRY_H_
#define PIPEWORK_KERNELS_BACKEND_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace pipework {

struct BackendOptions {
  int threads = 1;                 // threads each op computes with
  int64_t memory_limit_bytes = 0;  // 0: none
  bool poison = false;  // new and released buffers become NaN (tests)
};

// `name` is reference, cpu, or cuda:N. A back end belongs to the thread that
// uses it. NotFound lists the known names; Unimplemented says how to get one
// that this build lacks.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const std::string& name, const BackendOptions& options);

// Names that this build can make, reference first.
std::vector<std::string> LinkedBackends();

// Kind of this machine's CPU devices as profiles are keyed by it:
// "cpu x1 avx512_bf16" with `threads` after the x.
std::string CpuKind(int threads);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_BACKEND_REGISTRY_H_
