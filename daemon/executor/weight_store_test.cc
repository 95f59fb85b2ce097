#include "daemon/executor/weight_store.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

constexpr int64_t kBytes = 4 * (6 + 3);

TensorList Weights(Allocator& allocator, float value) {
  TensorList list;
  for (const int64_t elements : {6, 3}) {
    auto tensor = Tensor::Allocate(allocator, Shape{elements}, DType::kF32,
                                   MemoryUse::kWeights);
    REQUIRE(tensor.ok());
    for (int64_t i = 0; i < elements; ++i) tensor->f32()[i] = value;
    list.push_back(*std::move(tensor));
  }
  return list;
}

// Makes the next version, every element `value`.
const void* Update(WeightStore& store, int64_t oldest, float value) {
  auto fresh = store.BeginUpdate(WeightVersion(oldest));
  REQUIRE(fresh.ok());
  const void* buffer = (**fresh)[0].identity();
  for (Tensor& tensor : **fresh) {
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.f32()[i] = value;
  }
  store.CommitUpdate();
  return buffer;
}

float ValueOf(const WeightStore& store, int64_t version) {
  auto weights = store.Get(WeightVersion(version));
  REQUIRE(weights.ok());
  return (**weights)[1].f32()[2];
}

}  // namespace

TEST_CASE("weight store: nobody in flight, so the update is made in place") {
  const auto allocator = MakeHostAllocator();
  WeightStore store(allocator, Weights(*allocator, 0), WeightVersion(0));
  const void* first = store.newest_weights()[0].identity();
  for (int64_t v = 0; v < 5; ++v) {
    CHECK(Update(store, /*oldest=*/v + 1, static_cast<float>(v + 1)) == first);
    CHECK(store.newest() == WeightVersion(v + 1));
    CHECK(allocator->bytes_in_use(MemoryUse::kWeights) == kBytes);
  }
  CHECK(store.peak_versions() == 1);
  CHECK(ValueOf(store, 5) == 5);
  CHECK(absl::IsNotFound(store.Get(WeightVersion(4)).status()));
}

TEST_CASE("weight store: a version that is still read is kept, by a copy") {
  const auto allocator = MakeHostAllocator();
  WeightStore store(allocator, Weights(*allocator, 0), WeightVersion(0));
  Update(store, 0, 1);
  CHECK(ValueOf(store, 0) == 0);
  CHECK(ValueOf(store, 1) == 1);
  CHECK(store.versions() == 2);
  CHECK(allocator->bytes_in_use(MemoryUse::kWeights) == 2 * kBytes);
  Update(store, 0, 2);
  CHECK(store.versions() == 3);
  CHECK(ValueOf(store, 0) == 0);
}

TEST_CASE("weight store: steady state of stashing holds a fixed number") {
  const auto allocator = MakeHostAllocator();
  WeightStore store(allocator, Weights(*allocator, 0), WeightVersion(0));
  // In flight: three units; the oldest read version max(0, v - 3).
  for (int64_t v = 0; v < 20; ++v) {
    Update(store, std::max<int64_t>(0, v - 2), static_cast<float>(v + 1));
    for (int64_t held = std::max<int64_t>(0, v - 2); held <= v + 1; ++held) {
      CHECK(ValueOf(store, held) == static_cast<float>(held));
    }
  }
  CHECK(store.peak_versions() == 4);
  CHECK(allocator->peak_bytes(MemoryUse::kWeights) == 4 * kBytes);
}

TEST_CASE("weight store: a drain leaves the newest version alone") {
  const auto allocator = MakeHostAllocator();
  WeightStore store(allocator, Weights(*allocator, 0), WeightVersion(7));
  Update(store, 7, 1);
  Update(store, 7, 2);
  store.KeepNewestOnly();
  CHECK(store.newest() == WeightVersion(9));
  CHECK(store.versions() == 1);
  CHECK(allocator->bytes_in_use(MemoryUse::kWeights) == kBytes);
  store.Renumber(WeightVersion(100));
  CHECK(ValueOf(store, 100) == 2);
}

TEST_CASE(
    "weight store: no memory for a copy is an error, and nothing is lost") {
  const auto allocator = MakeHostAllocator(/*limit_bytes=*/kBytes + 8);
  WeightStore store(allocator, Weights(*allocator, 3), WeightVersion(0));
  CHECK(
      absl::IsResourceExhausted(store.BeginUpdate(WeightVersion(0)).status()));
  CHECK(ValueOf(store, 0) == 3);
  CHECK(store.versions() == 1);
  // In place it still works.
  Update(store, 1, 4);
  CHECK(ValueOf(store, 1) == 4);
}

TEST_CASE(
    "weight store: a stage without parameters counts versions by number") {
  const auto allocator = MakeHostAllocator();
  WeightStore store(allocator, {}, WeightVersion(0));
  REQUIRE(store.BeginUpdate(WeightVersion(0)).ok());
  store.CommitUpdate();
  CHECK(store.newest() == WeightVersion(1));
  CHECK(store.version_bytes() == 0);
  CHECK(store.peak_versions() == 2);
}

}  // namespace pipework
