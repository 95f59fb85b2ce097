#include "kernels/ops/avg_pool.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

int64_t Inputs(const AvgPoolShape& s) {
  return s.batch * s.channels * s.height * s.width;
}
int64_t Outputs(const AvgPoolShape& s) {
  return s.batch * s.channels * s.OutHeight() * s.OutWidth();
}

std::vector<float> Forward(Backend& backend, const AvgPoolShape& s,
                           const std::vector<float>& input, int64_t shift = 0) {
  Placed x(input, shift);
  Placed y(std::vector<float>(Outputs(s)), shift);
  MustBeOk(backend.AvgPoolForward({s, x.data(), y.data()}));
  return y.values();
}

std::vector<float> Backward(Backend& backend, const AvgPoolShape& s,
                            const std::vector<float>& gradient,
                            int64_t shift = 0) {
  Placed dy(gradient, shift);
  Placed dx(std::vector<float>(Inputs(s), 99), shift);
  MustBeOk(backend.AvgPoolBackward({s, dy.data(), dx.data()}));
  return dx.values();
}

}  // namespace

TEST_CASE("avg_pool matches the reference on every window") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const Window2d& window :
         {Window2d{2, 2, 2, 2, 0, 0, 1, 1}, Window2d{3, 3, 2, 2, 1, 1, 1, 1},
          Window2d{2, 3, 3, 1, 1, 0, 1, 1}, Window2d{7, 7, 7, 7, 0, 0, 1, 1},
          Window2d{4, 4, 1, 2, 2, 2, 1, 1}}) {
      for (const int64_t size : {7, 8, 9, 33}) {
        const AvgPoolShape shape{2, 3, size, size + 1, window};
        CAPTURE(backend->name(), size, window.kernel_h, window.kernel_w,
                window.stride_h, window.padding_h);
        const std::vector<float> x = RandomValues(Inputs(shape), 1);
        const std::vector<float> dy = RandomValues(Outputs(shape), 2);
        CHECK(Misfit(Forward(*backend, shape, x), Forward(*reference, shape, x),
                     1e-6) == "");
        CHECK(Misfit(Backward(*backend, shape, dy),
                     Backward(*reference, shape, dy), 1e-6) == "");
      }
    }
  }
}

TEST_CASE("avg_pool counts padding as zeros, and the whole image as one") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const std::vector<float> x{1, 2, 3, 4};
    AvgPoolShape shape{1, 1, 2, 2, {2, 2, 2, 2, 1, 1, 1, 1}};
    CHECK(Forward(*backend, shape, x) ==
          std::vector<float>{0.25f, 0.5f, 0.75f, 1});
    shape.window = {2, 2, 1, 1, 0, 0, 1, 1};
    CHECK(Forward(*backend, shape, x) == std::vector<float>{2.5f});
    CHECK(Backward(*backend, shape, {8}) == std::vector<float>{2, 2, 2, 2});
    shape.batch = 0;
    CHECK(Forward(*backend, shape, {}).empty());
    CHECK(Backward(*backend, shape, {}).empty());
  }
}

TEST_CASE("avg_pool gives the same bits on every call") {
  const AvgPoolShape shape{3, 5, 9, 9, {3, 3, 2, 2, 1, 1, 1, 1}};
  const std::vector<float> x = RandomValues(Inputs(shape), 1);
  const std::vector<float> dy = RandomValues(Outputs(shape), 2);
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Joined({Forward(backend, shape, x, shift),
                           Backward(backend, shape, dy, shift)});
          }) == "");
  }
}

TEST_CASE("avg_pool: the reference backward is the derivative of its forward") {
  const auto reference = MakeReference();
  const AvgPoolShape shape{1, 2, 5, 6, {3, 2, 2, 2, 1, 1, 1, 1}};
  const std::vector<float> x = RandomValues(Inputs(shape), 1);
  const std::vector<float> dy = RandomValues(Outputs(shape), 2);
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& moved) {
              return Dot(Forward(*reference, shape, moved), dy);
            },
            x, Backward(*reference, shape, dy), 0.5f, 1e-5) == "");
}

}  // namespace pipework
