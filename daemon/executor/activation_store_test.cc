#include "daemon/executor/activation_store.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

Tensor Numbers(Allocator& allocator, int64_t elements) {
  auto tensor = Tensor::Zeros(allocator, Shape{elements}, DType::kF32,
                              MemoryUse::kActivations);
  REQUIRE(tensor.ok());
  return *std::move(tensor);
}

}  // namespace

TEST_CASE("activation store: a buffer that two layers keep is counted once") {
  const auto allocator = MakeHostAllocator();
  ActivationStore store;
  InFlight& flight = store.Begin(UnitId(3));
  flight.saved.resize(2);
  const Tensor shared = Numbers(*allocator, 10);
  flight.saved[0].tensors = {shared, Numbers(*allocator, 5)};
  flight.saved[1].tensors = {shared.Reshaped(Shape{2, 5}), Tensor()};
  store.Recount(flight);
  CHECK(store.bytes() == 60);
  CHECK(store.in_flight() == 1);
  store.End(UnitId(3));
  CHECK(store.bytes() == 0);
  CHECK(store.in_flight() == 0);
  CHECK(store.peak_bytes() == 60);
  CHECK(allocator->bytes_in_use(MemoryUse::kActivations) == 40);  // `shared`
}

TEST_CASE("activation store: units are found by number, in any order") {
  const auto allocator = MakeHostAllocator();
  ActivationStore store;
  for (const int64_t unit : {5, 2, 9}) {
    InFlight& flight = store.Begin(UnitId(unit));
    flight.forward_version = WeightVersion(unit * 10);
    flight.saved.resize(1);
    flight.saved[0].tensors = {Numbers(*allocator, unit)};
    store.Recount(flight);
  }
  CHECK(store.peak_in_flight() == 3);
  for (const int64_t unit : {9, 5, 2}) {
    auto flight = store.Get(UnitId(unit));
    REQUIRE(flight.ok());
    CHECK((*flight)->forward_version == WeightVersion(unit * 10));
    CHECK((*flight)->saved[0].tensors[0].elements() == unit);
    store.End(UnitId(unit));
  }
  CHECK(store.flights() == 0);
  CHECK(absl::IsNotFound(store.Get(UnitId(5)).status()));
}

TEST_CASE(
    "activation store: only units that were forwarded count as in flight") {
  ActivationStore store;
  store.Begin(UnitId(1));
  InFlight& second = store.Begin(UnitId(2));
  store.Recount(second);
  int visited = 0;
  store.ForEachForwarded([&](const InFlight& each) {
    ++visited;
    CHECK(each.unit == UnitId(2));
  });
  CHECK(visited == 1);
  CHECK(store.in_flight() == 1);
  CHECK(store.flights() == 2);
}

TEST_CASE("activation store: a unit that is begun again starts empty") {
  const auto allocator = MakeHostAllocator();
  ActivationStore store;
  InFlight& flight = store.Begin(UnitId(1));
  flight.saved.resize(1);
  flight.outputs.resize(1);
  flight.saved[0].tensors = {Numbers(*allocator, 4)};
  flight.outputs[0] = {Numbers(*allocator, 4)};
  store.Recount(flight);
  store.End(UnitId(1));
  CHECK(allocator->bytes_in_use(MemoryUse::kActivations) == 0);
  InFlight& again = store.Begin(UnitId(2));
  for (const Saved& saved : again.saved) CHECK(saved.tensors.empty());
  for (const TensorList& list : again.outputs) CHECK(list.empty());
  CHECK(again.forward_version == WeightVersion(-1));
}

}  // namespace pipework
