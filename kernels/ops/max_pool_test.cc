#include "kernels/ops/max_pool.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

int64_t Inputs(const MaxPoolShape& s) {
  return s.batch * s.channels * s.height * s.width;
}
int64_t Outputs(const MaxPoolShape& s) {
  return s.batch * s.channels * s.OutHeight() * s.OutWidth();
}

struct Result {
  std::vector<float> y;
  std::vector<int32_t> argmax;
  std::vector<float> dx;
};

Result Run(Backend& backend, const MaxPoolShape& s,
           const std::vector<float>& input, int64_t shift = 0) {
  Placed x(input, shift);
  Placed y(std::vector<float>(Outputs(s)), shift);
  Result result;
  result.argmax.resize(Outputs(s));
  MustBeOk(
      backend.MaxPoolForward({s, x.data(), y.data(), result.argmax.data()}));
  Placed dy(RandomValues(Outputs(s), 4), shift);
  Placed dx(std::vector<float>(Inputs(s), 99), shift);
  MustBeOk(
      backend.MaxPoolBackward({s, dy.data(), result.argmax.data(), dx.data()}));
  result.y = y.values();
  result.dx = dx.values();
  return result;
}

}  // namespace

TEST_CASE("max_pool has the bits of the reference on every window") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const Window2d& window :
         {Window2d{2, 2, 2, 2, 0, 0, 1, 1}, Window2d{3, 3, 2, 2, 1, 1, 1, 1},
          Window2d{2, 2, 1, 1, 0, 0, 1, 1}, Window2d{2, 3, 3, 1, 1, 0, 1, 1},
          Window2d{2, 2, 2, 2, 1, 1, 3, 2}, Window2d{1, 1, 1, 1, 0, 0, 1, 1},
          Window2d{5, 4, 1, 3, 2, 2, 1, 2}}) {
      for (const int64_t size : {7, 8, 9, 33}) {
        const MaxPoolShape shape{2, 3, size, size + 1, window};
        CAPTURE(backend->name(), size, window.kernel_h, window.kernel_w,
                window.stride_h, window.padding_h, window.dilation_h);
        const std::vector<float> x = RandomValues(Inputs(shape), 1);
        const Result got = Run(*backend, shape, x);
        const Result want = Run(*reference, shape, x);
        CHECK(BitDifference(got.y, want.y) == "");
        CHECK(got.argmax == want.argmax);
        CHECK(BitDifference(got.dx, want.dx) == "");
      }
    }
  }
}

TEST_CASE("max_pool takes the first of equals, and a NaN over any number") {
  const float nan = std::nanf("");
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    MaxPoolShape shape{1, 1, 2, 8, {2, 2, 2, 2, 0, 0, 1, 1}};
    const std::vector<float> x{1, 1, 1,   nan, -1, -2, -INFINITY, -INFINITY,  //
                               1, 1, nan, 7,   -1, -1, -INFINITY, -INFINITY};
    const Result result = Run(*backend, shape, x);
    CHECK(result.y[0] == 1);
    CHECK(std::isnan(result.y[1]));
    CHECK(result.y[2] == -1);
    CHECK(result.y[3] == -INFINITY);
    CHECK(result.argmax == std::vector<int32_t>{0, 3, 4, 6});

    // Another window takes another path.
    shape = {1, 1, 1, 8, {1, 3, 1, 3, 0, 1, 1, 1}};
    const Result other =
        Run(*backend, shape, {2, 2, nan, 3, nan, 5, -INFINITY, -INFINITY});
    CHECK(other.y[0] == 2);
    CHECK(std::isnan(other.y[1]));
    CHECK(other.y[2] == 5);
    CHECK(other.argmax == std::vector<int32_t>{0, 2, 5});
  }
}

TEST_CASE("max_pool works without an argmax and on an empty batch") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const std::vector<float> x{1, 5, 3, 2};
    float y = 0;
    MaxPoolShape shape{1, 1, 2, 2, {2, 2, 2, 2, 0, 0, 1, 1}};
    MustBeOk(backend->MaxPoolForward({shape, x.data(), &y, nullptr}));
    CHECK(y == 5);
    shape.batch = 0;
    CHECK(Run(*backend, shape, {}).y.empty());
  }
}

TEST_CASE("max_pool gives the same bits on every call") {
  const MaxPoolShape shape{3, 5, 9, 9, {3, 3, 2, 2, 1, 1, 1, 1}};
  const std::vector<float> x = RandomValues(Inputs(shape), 1);
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            const Result result = Run(backend, shape, x, shift);
            return Joined({result.y, result.dx});
          }) == "");
  }
}

TEST_CASE("max_pool: the reference backward is the derivative of its forward") {
  const auto reference = MakeReference();
  const MaxPoolShape shape{1, 2, 6, 6, {3, 3, 2, 2, 1, 1, 1, 1}};
  // Steps of 1/8 between values, so that a small move changes no maximum.
  std::vector<float> x(Inputs(shape));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 29 % x.size()) / 8;
  }
  const std::vector<float> dy = RandomValues(Outputs(shape), 4);
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& moved) {
              return Dot(Run(*reference, shape, moved).y, dy);
            },
            x, Run(*reference, shape, x).dx, 1.0f / 32, 1e-5) == "");
}

}  // namespace pipework
