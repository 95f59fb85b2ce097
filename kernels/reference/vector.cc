//   fill y = value,  copy y = x,  scale y = a y,  axpy y = y + a x,
//   accumulate y = y + x
#include "kernels/ops/vector.h"

#include "kernels/reference/reference_backend.h"

namespace pipework {

absl::Status ReferenceBackend::Fill(const FillArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) a.y[i] = a.value;
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Copy(const CopyArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) a.y[i] = a.x[i];
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Scale(const ScaleArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) a.y[i] = a.a * a.y[i];
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Axpy(const AxpyArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) {
    const float product = a.a * a.x[i];
    a.y[i] = a.y[i] + product;
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Accumulate(const AccumulateArgs& a) {
  for (int64_t i = 0; i < a.elements; ++i) a.y[i] = a.y[i] + a.x[i];
  return absl::OkStatus();
}

}  // namespace pipework
