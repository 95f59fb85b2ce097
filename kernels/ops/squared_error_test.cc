#include "kernels/ops/squared_error.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// The loss, the number right, then dx.
std::vector<float> Run(Backend& backend, int64_t elements, int64_t shift = 0) {
  Placed x(RandomValues(elements, 1), shift);
  Placed dx(std::vector<float>(elements), shift), result({0, 0}, shift);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < elements; ++i) {
    labels.push_back(static_cast<int32_t>(i % 3) - 1);
  }
  MustBeOk(backend.SquaredErrorForward(
      {elements, x.data(), labels.data(), result.data()}));
  MustBeOk(backend.SquaredErrorBackward(
      {elements, x.data(), labels.data(), dx.data()}));
  return Joined({result.values(), dx.values()});
}

}  // namespace

TEST_CASE("squared_error matches the reference on every length") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t elements : {0, 1, 7, 8, 9, 33, 1025}) {
      CAPTURE(backend->name(), elements);
      std::vector<float> got = Run(*backend, elements);
      std::vector<float> want = Run(*reference, elements);
      CHECK(got[0] == Approx(want[0]).epsilon(1e-6));
      got[0] = want[0] = 0;
      CHECK(BitDifference(got, want) == "");
    }
  }
}

TEST_CASE("squared_error is half the square, and right within one half") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const std::vector<float> x{3, 1.25f, -2};
    const std::vector<int32_t> labels{1, 1, -2};
    std::vector<float> result(2), dx(3);
    MustBeOk(backend->SquaredErrorForward(
        {3, x.data(), labels.data(), result.data()}));
    CHECK(result == std::vector<float>{2 + 0.0625f / 2, 2});
    MustBeOk(
        backend->SquaredErrorBackward({3, x.data(), labels.data(), dx.data()}));
    CHECK(dx == std::vector<float>{2, 0.25f, 0});
  }
}

TEST_CASE("squared_error gives the same bits on every call") {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, 1000, shift);
          }) == "");
  }
}

}  // namespace pipework
