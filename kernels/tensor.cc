#include "kernels/tensor.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {

int64_t DTypeBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
  }
  return 0;
}

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kI32:
      return "i32";
  }
  return "unknown";
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t dim : dims_) product *= dim;
  return product;
}

std::string Shape::ToString() const {
  return absl::StrCat("[", absl::StrJoin(dims_, ","), "]");
}

Shape Shape::WithBatch(int64_t batch) const {
  std::vector<int64_t> dims;
  dims.reserve(dims_.size() + 1);
  dims.push_back(batch);
  dims.insert(dims.end(), dims_.begin(), dims_.end());
  return Shape(std::move(dims));
}

Shape Shape::WithoutBatch() const {
  PIPE_CHECK(rank() > 0);
  return Shape(std::vector<int64_t>(dims_.begin() + 1, dims_.end()));
}

absl::StatusOr<Tensor> Tensor::Allocate(Allocator& allocator, Shape shape,
                                        DType dtype, MemoryUse use) {
  int64_t bytes = DTypeBytes(dtype);
  for (const int64_t dim : shape.dims()) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor: shape is ", shape.ToString(),
                       ", expected no negative dimension and less than 2^63 "
                       "bytes"));
    }
  }
  Tensor tensor;
  ASSIGN_OR_RETURN(tensor.buffer_, allocator.Allocate(bytes, use));
  tensor.shape_ = std::move(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

absl::StatusOr<Tensor> Tensor::Zeros(Allocator& allocator, Shape shape,
                                     DType dtype, MemoryUse use) {
  ASSIGN_OR_RETURN(Tensor tensor,
                   Allocate(allocator, std::move(shape), dtype, use));
  std::memset(tensor.raw(), 0, tensor.bytes());
  return tensor;
}

float* Tensor::f32() const {
  PIPE_CHECK(dtype_ == DType::kF32);
  return static_cast<float*>(raw());
}

int32_t* Tensor::i32() const {
  PIPE_CHECK(dtype_ == DType::kI32);
  return static_cast<int32_t*>(raw());
}

Tensor Tensor::Reshaped(Shape shape) const {
  PIPE_CHECK(shape.elements() == elements());
  Tensor tensor = *this;
  tensor.shape_ = std::move(shape);
  return tensor;
}

int64_t TotalBytes(absl::Span<const Tensor> tensors) {
  int64_t total = 0;
  for (const Tensor& tensor : tensors) total += tensor.bytes();
  return total;
}

}  // namespace pipework
