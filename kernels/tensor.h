// Shape, DType and Tensor: what every op, layer and executor hands around.
#ifndef PIPEWORK_KERNELS_TENSOR_H_
#define PIPEWORK_KERNELS_TENSOR_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device.h"

namespace pipework {

enum class DType { kF32, kI32 };

// Bytes of one element.
int64_t DTypeBytes(DType dtype);
// f32, i32.
const char* DTypeName(DType dtype);

// Dimensions, slowest first. A scalar has none.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  // Product of the dimensions; 1 for a scalar.
  int64_t elements() const;
  // [64,512]
  std::string ToString() const;
  // This shape behind a batch dimension: [8,8] with 32 is [32,8,8].
  Shape WithBatch(int64_t batch) const;
  // Without the first dimension. REQUIRES: rank() > 0.
  Shape WithoutBatch() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.dims_ == b.dims_;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::vector<int64_t> dims_;
};

// A handle on a dense buffer in row-major order (images are NCHW). Copies
// share the buffer: whoever wants to write must be its only user, or have
// agreed with the others. The buffer goes back to its allocator with the last
// handle, from whatever thread.
class Tensor {
 public:
  // An empty handle.
  Tensor() = default;

  // Uninitialised elements. ResourceExhausted: over the allocator's limit.
  static absl::StatusOr<Tensor> Allocate(Allocator& allocator, Shape shape,
                                         DType dtype, MemoryUse use);
  // All elements zero.
  static absl::StatusOr<Tensor> Zeros(Allocator& allocator, Shape shape,
                                      DType dtype, MemoryUse use);

  bool empty() const { return buffer_ == nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t elements() const { return shape_.elements(); }
  int64_t bytes() const { return elements() * DTypeBytes(dtype_); }

  void* raw() const { return buffer_ == nullptr ? nullptr : buffer_->data(); }
  // REQUIRES: dtype() is f32 (i32) and the buffer is host memory.
  float* f32() const;
  int32_t* i32() const;

  // The same buffer under another shape with as many elements.
  Tensor Reshaped(Shape shape) const;
  // Handles on this buffer, this one included.
  int64_t users() const { return buffer_.use_count(); }
  // Identity of the buffer, for counting each one once.
  const void* identity() const { return buffer_.get(); }

 private:
  Shape shape_;
  DType dtype_ = DType::kF32;
  std::shared_ptr<Buffer> buffer_;
};

using TensorList = std::vector<Tensor>;

// Bytes of all of them.
int64_t TotalBytes(absl::Span<const Tensor> tensors);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_TENSOR_H_
