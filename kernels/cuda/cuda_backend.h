// The CUDA back end.
#ifndef PIPEWORK_KERNELS_CUDA_CUDA_BACKEND_H_
#define PIPEWORK_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace pipework {

// Unimplemented: this build has none; the message says how to get one.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_CUDA_CUDA_BACKEND_H_
