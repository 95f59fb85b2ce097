#include "kernels/ops/relu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// y, then dx.
std::vector<float> Run(Backend& backend, const std::vector<float>& input,
                       int64_t shift = 0) {
  const auto elements = static_cast<int64_t>(input.size());
  Placed x(input, shift), dy(RandomValues(elements, 2), shift);
  Placed y(std::vector<float>(elements), shift);
  Placed dx(std::vector<float>(elements), shift);
  MustBeOk(backend.ReluForward({elements, x.data(), y.data()}));
  MustBeOk(backend.ReluBackward({elements, y.data(), dy.data(), dx.data()}));
  return Joined({y.values(), dx.values()});
}

}  // namespace

TEST_CASE("relu has the bits of the reference on lengths around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t elements : {0, 1, 7, 8, 9, 15, 16, 17, 33, 1025}) {
      CAPTURE(backend->name(), elements);
      const std::vector<float> x = RandomValues(elements, 1);
      CHECK(BitDifference(Run(*backend, x), Run(*reference, x)) == "");
    }
  }
}

TEST_CASE("relu turns both zeros into plus zero and hands a NaN on") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    // In every place of a vector and in what does not fill one.
    for (const int64_t place : {0, 5, 16, 17}) {
      std::vector<float> x(18, -1);
      x[place] = std::nanf("");
      std::vector<float> y = Run(*backend, x);
      CHECK(std::isnan(y[place]));
      CHECK(y[18 + place] == 0);
      x[place] = -0.0f;
      y = Run(*backend, x);
      CHECK(y[place] == 0);
      CHECK_FALSE(std::signbit(y[place]));
      CHECK(y[18 + place] == 0);
    }
  }
}

TEST_CASE("relu works in place") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    std::vector<float> x(19, -2), dy(19, 5);
    x[3] = x[18] = 4;
    MustBeOk(backend->ReluForward({19, x.data(), x.data()}));
    MustBeOk(backend->ReluBackward({19, x.data(), dy.data(), dy.data()}));
    std::vector<float> want_x(19, 0), want_dy(19, 0);
    want_x[3] = want_x[18] = 4;
    want_dy[3] = want_dy[18] = 5;
    CHECK(x == want_x);
    CHECK(dy == want_dy);
  }
}

TEST_CASE("relu gives the same bits on every call") {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, RandomValues(1000, 1), shift);
          }) == "");
  }
}

}  // namespace pipework
