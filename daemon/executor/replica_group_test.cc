#include "daemon/executor/replica_group.h"

#include <catch2/catch.hpp>
#include <thread>

#include "absl/container/inlined_vector.h"
#include "daemon/base/clock.h"
#include "daemon/transport/transport.h"
#include "kernels/backend_registry.h"

namespace pipework {
namespace {

// Runs `body(replica, group, backend)` on every replica of a stage at once.
template <typename Body>
void OnReplicas(int replicas, Body body) {
  DataPlaneOptions options;
  options.job = "test";
  options.allocator = MakeHostAllocator();
  auto plane = MakeDataPlane("zero_buffer", options);
  REQUIRE(plane.ok());
  std::vector<DataPlane::Seat> seats;
  for (int q = 0; q < replicas; ++q) {
    seats.push_back({{StageId(1), ReplicaId(q)}, ""});
  }
  REQUIRE((*plane)->Connect(seats, MonotonicNow() + absl::Seconds(5)).ok());
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(replicas);
  for (int q = 0; q < replicas; ++q) {
    threads.emplace_back([&, q] {
      auto backend = MakeBackend("reference", {});
      if (!backend.ok()) {
        results[q] = backend.status();
        return;
      }
      Courier courier({"test",
                       seats[q].seat,
                       {StageId(0), ReplicaId(0)},
                       absl::Seconds(20),
                       absl::Seconds(20)});
      courier.Attach(&(*plane)->endpoint(seats[q].seat));
      ReplicaGroup group(&courier, backend->get(), replicas);
      results[q] = body(q, group, **backend);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : results) {
    INFO(status.ToString());
    CHECK(status.ok());
  }
}

// Values whose sum depends on the order of additions.
float Value(int replica, int64_t element) {
  const float values[] = {1e8f, 3.25f, -1e8f, 0.7f};
  return values[(replica + element) % 4] + static_cast<float>(element) * 0.1f;
}

TensorList Numbers(Backend& backend, int replica,
                   const std::vector<int64_t>& sizes) {
  TensorList list;
  int64_t element = 0;
  for (const int64_t size : sizes) {
    auto tensor = Tensor::Allocate(*backend.allocator(), Shape{size},
                                   DType::kF32, MemoryUse::kGradients);
    for (int64_t i = 0; i < size; ++i) {
      tensor->f32()[i] = Value(replica, element++);
    }
    list.push_back(*std::move(tensor));
  }
  return list;
}

}  // namespace

TEST_CASE(
    "replica group: sums are taken in replica order, whatever the chunks") {
  const std::vector<std::vector<int64_t>> sizes = {
      {}, {1}, {2, 1}, {7}, {5, 1, 64, 3}};
  for (const int replicas : {2, 3, 4}) {
    for (const std::vector<int64_t>& size : sizes) {
      CAPTURE(replicas, size);
      std::vector<std::vector<float>> sums(replicas);
      OnReplicas(replicas, [&](int q, ReplicaGroup& group, Backend& backend) {
        TensorList list = Numbers(backend, q, size);
        const absl::InlinedVector<bool, 4> present(replicas, true);
        const absl::Status status =
            group.SumGradients(0, 0, present, absl::MakeSpan(list));
        for (const Tensor& tensor : list) {
          sums[q].insert(sums[q].end(), tensor.f32(),
                         tensor.f32() + tensor.elements());
        }
        return status;
      });
      for (int q = 0; q < replicas; ++q) {
        for (size_t i = 0; i < sums[q].size(); ++i) {
          float sum = Value(0, static_cast<int64_t>(i));
          for (int from = 1; from < replicas; ++from) {
            sum += Value(from, static_cast<int64_t>(i));
          }
          CAPTURE(q, i);
          CHECK(sums[q][i] == sum);
        }
      }
    }
  }
}

TEST_CASE(
    "replica group: one that has no unit adds nothing and takes the sum") {
  std::vector<std::vector<float>> sums(3);
  OnReplicas(3, [&](int q, ReplicaGroup& group, Backend& backend) {
    TensorList list = Numbers(backend, q, {4, 5});
    const absl::InlinedVector<bool, 4> present = {false, true, true};
    const absl::Status status =
        group.SumGradients(4, 12, present, absl::MakeSpan(list));
    for (const Tensor& tensor : list) {
      sums[q].insert(sums[q].end(), tensor.f32(),
                     tensor.f32() + tensor.elements());
    }
    return status;
  });
  for (int q = 0; q < 3; ++q) {
    for (int64_t i = 0; i < 9; ++i) {
      CHECK(sums[q][i] == Value(1, i) + Value(2, i));
    }
  }
}

TEST_CASE("replica group: buffers become their mean at every drain") {
  std::vector<std::vector<float>> means(2);
  OnReplicas(2, [&](int q, ReplicaGroup& group, Backend& backend) {
    TensorList list = Numbers(backend, q, {3, 2});
    absl::Status status;
    for (int64_t drain = 0; drain < 3 && status.ok(); ++drain) {
      status = group.AverageBuffers(drain, absl::MakeSpan(list));
    }
    for (const Tensor& tensor : list) {
      means[q].insert(means[q].end(), tensor.f32(),
                      tensor.f32() + tensor.elements());
    }
    return status;
  });
  for (int64_t i = 0; i < 5; ++i) {
    const float mean = (Value(0, i) + Value(1, i)) * 0.5f;
    CHECK(means[0][i] == mean);
    CHECK(means[1][i] == mean);
  }
}

}  // namespace pipework
