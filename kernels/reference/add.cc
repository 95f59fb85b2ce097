//   y = a + b
#include "kernels/ops/add.h"

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::Add(const AddArgs& args) {
  for (int64_t i = 0; i < args.elements; ++i) {
    args.y[i] = args.a[i] + args.b[i];
  }
  return absl::OkStatus();
}

}  // namespace pipework
