// Linked when the build has no --config=cuda.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_backend.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(int device) {
  return absl::UnimplementedError(
      absl::StrCat("cuda:", device,
                   ": this program was built without CUDA; its ops have no "
                   "CUDA kernels yet (kernels/cuda/UNSUPPORTED), so ask for "
                   "cpu"));
}

}  // namespace pipework
