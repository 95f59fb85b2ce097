#include "kernels/tensor.h"

#include <catch2/catch.hpp>

namespace pipework {

TEST_CASE("shape: elements, text, and the batch dimension") {
  CHECK(Shape({2, 3, 4}).elements() == 24);
  CHECK(Shape().elements() == 1);
  CHECK(Shape({5, 0}).elements() == 0);
  CHECK(Shape({64, 512}).ToString() == "[64,512]");
  CHECK(Shape().ToString() == "[]");
  CHECK(Shape({8, 8}).WithBatch(32) == Shape({32, 8, 8}));
  CHECK(Shape({32, 8, 8}).WithoutBatch() == Shape({8, 8}));
  CHECK(Shape({1}) != Shape());
}

TEST_CASE("tensor: copies share the buffer, and the last one gives it back") {
  const auto allocator = MakeHostAllocator();
  {
    auto tensor = Tensor::Zeros(*allocator, Shape({3, 5}), DType::kF32,
                                MemoryUse::kActivations);
    REQUIRE(tensor.ok());
    CHECK(tensor->bytes() == 60);
    CHECK(allocator->bytes_in_use(MemoryUse::kActivations) == 60);
    for (int i = 0; i < 15; ++i) CHECK(tensor->f32()[i] == 0);

    const Tensor other = tensor->Reshaped(Shape({15}));
    CHECK(other.f32() == tensor->f32());
    CHECK(other.identity() == tensor->identity());
    CHECK(tensor->users() == 2);
    *tensor = Tensor();
    CHECK(tensor->empty());
    CHECK(other.users() == 1);
    CHECK(allocator->bytes_in_use(MemoryUse::kActivations) == 60);
  }
  CHECK(allocator->total_bytes_in_use() == 0);
}

TEST_CASE("tensor: a buffer outlives whoever held its allocator") {
  Tensor tensor;
  {
    const auto allocator = MakeHostAllocator();
    auto made = Tensor::Zeros(*allocator, Shape({4}), DType::kI32,
                              MemoryUse::kMessages);
    REQUIRE(made.ok());
    tensor = *made;
  }
  CHECK(tensor.i32()[3] == 0);
}

TEST_CASE("tensor: no elements is a tensor too") {
  const auto allocator = MakeHostAllocator();
  const auto tensor = Tensor::Allocate(*allocator, Shape({0, 7}), DType::kF32,
                                       MemoryUse::kWeights);
  REQUIRE(tensor.ok());
  CHECK_FALSE(tensor->empty());
  CHECK(tensor->elements() == 0);
  CHECK(tensor->f32() != nullptr);
}

TEST_CASE("tensor: a shape that no memory holds is an error") {
  const auto allocator = MakeHostAllocator();
  for (const Shape& shape :
       {Shape({-1}), Shape({int64_t{1} << 40, int64_t{1} << 40}),
        Shape({int64_t{1} << 62})}) {
    const auto tensor =
        Tensor::Allocate(*allocator, shape, DType::kF32, MemoryUse::kWeights);
    CHECK(tensor.status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(allocator->total_bytes_in_use() == 0);
}

}  // namespace pipework
