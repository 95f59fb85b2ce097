// The CPU back end on each instruction set that this machine has and that the
// vector loops were compiled for: tests that run on a new machine must not be
// the first to see what an old one computes.
#include "hwy/targets.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "kernels/backend_registry.h"
#include "kernels/random.h"

namespace pipework {
namespace {

std::vector<float> Values(int64_t elements, uint64_t seed) {
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i) {
    const auto words = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, seed);
    values[i] = 2 * UnitFloat(words[0]) - 1;
  }
  return values;
}

constexpr int64_t kElements = 77;  // several vectors of any width, and a rest

// Results of the ops that give the same bits everywhere.
std::vector<float> Exact(Backend& backend) {
  std::vector<float> all;
  const std::vector<float> x = Values(kElements, 1);
  const auto keep = [&all](const absl::Status& status,
                           const std::vector<float>& y) {
    REQUIRE(status.ok());
    all.insert(all.end(), y.begin(), y.end());
  };
  std::vector<float> y(kElements), m(kElements), v(kElements);
  keep(backend.ReluForward({kElements, x.data(), y.data()}), y);
  std::vector<float> dx(kElements);
  keep(backend.ReluBackward({kElements, y.data(), x.data(), dx.data()}), dx);
  keep(backend.Add({kElements, x.data(), y.data(), y.data()}), y);
  keep(backend.Scale({kElements, 0.7f, y.data()}), y);
  keep(backend.Axpy({kElements, 0.3f, x.data(), y.data()}), y);
  keep(backend.Accumulate({kElements, x.data(), y.data()}), y);

  DropoutArgs dropout;
  dropout.samples = 1;
  dropout.elements = kElements;
  dropout.p = 0.4f;
  dropout.key = 99;
  dropout.minibatch = 3;
  dropout.x = x.data();
  dropout.y = y.data();
  keep(backend.Dropout(dropout), y);

  SgdArgs sgd;
  sgd.elements = kElements;
  sgd.lr = 0.1f;
  sgd.momentum = 0.9f;
  sgd.weight_decay = 1e-3f;
  sgd.nesterov = true;
  sgd.w = sgd.g = x.data();
  sgd.v = v.data();
  sgd.out = y.data();
  keep(backend.Sgd(sgd), y);

  AdamArgs adam;
  adam.elements = kElements;
  adam.lr = 0.1;
  adam.w = adam.g = x.data();
  adam.m = m.data();
  adam.v = v.data();
  adam.out = y.data();
  keep(backend.Adam(adam), y);
  return all;
}

// Results that may differ in the last bits: everything with a sum over lanes.
std::vector<float> Close(Backend& backend) {
  std::vector<float> all;
  const std::vector<float> x = Values(2 * 3 * kElements, 2);
  const std::vector<float> dy = Values(2 * 3 * kElements, 3);
  std::vector<float> y(x.size()), dx(x.size()), mean(3), rstd(3), dgain(3);
  const BatchNormShape shape{2, 3, kElements};
  REQUIRE(backend
              .BatchNormTraining({shape, 0.1f, 1e-5f, x.data(), nullptr,
                                  nullptr, nullptr, nullptr, y.data(),
                                  mean.data(), rstd.data()})
              .ok());
  REQUIRE(
      backend
          .BatchNormBackward({shape, x.data(), dy.data(), nullptr, mean.data(),
                              rstd.data(), dx.data(), dgain.data(), nullptr})
          .ok());
  for (const auto* part : {&y, &dx, &dgain}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  std::vector<float> p(6 * kElements), result(2);
  const std::vector<int32_t> labels{0, 10, 20, 30, 40, 50};
  REQUIRE(backend
              .SoftmaxXentForward({6, kElements, x.data(), labels.data(),
                                   p.data(), result.data()})
              .ok());
  all.insert(all.end(), p.begin(), p.end());
  all.insert(all.end(), result.begin(), result.end());
  return all;
}

// Chooses `target` for every vector loop until it dies.
class OnlyTarget {
 public:
  explicit OnlyTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnlyTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace

TEST_CASE("cpu: every instruction set agrees with the reference") {
  const auto reference = MakeBackend("reference", BackendOptions{});
  const auto cpu = MakeBackend("cpu", BackendOptions{});
  REQUIRE(reference.ok());
  REQUIRE(cpu.ok());
  const std::vector<float> exact = Exact(**reference);
  const std::vector<float> close = Close(**reference);
  int targets = 0;
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    ++targets;
    CAPTURE(hwy::TargetName(target));
    const OnlyTarget only(target);
    const std::vector<float> got_exact = Exact(**cpu);
    REQUIRE(got_exact.size() == exact.size());
    CHECK(std::memcmp(got_exact.data(), exact.data(), exact.size() * 4) == 0);
    const std::vector<float> got_close = Close(**cpu);
    REQUIRE(got_close.size() == close.size());
    for (size_t i = 0; i < close.size(); ++i) {
      REQUIRE(got_close[i] == Approx(close[i]).epsilon(4e-6).margin(4e-6));
    }
  }
  CHECK(targets >= 2);
}

}  // namespace pipework
