// Linked with --config=cuda. A back end needs every op; those without a kernel
// are in UNSUPPORTED, and while there is one this says so.
#include "kernels/cuda/cuda_backend.h"

#include "absl/strings/str_cat.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device) {
  return absl::UnimplementedError(absl::StrCat(
      "cuda:", device,
      ": the ops in kernels/cuda/UNSUPPORTED have no CUDA kernel yet; ask for "
      "cpu"));
}

}  // namespace pipework
