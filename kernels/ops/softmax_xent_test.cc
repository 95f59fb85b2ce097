#include "kernels/ops/softmax_xent.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

struct Case {
  Case(int64_t r, int64_t c, float spread = 5) : rows(r), classes(c) {
    x = RandomValues(rows * classes, 1);
    for (float& value : x) value *= spread;
    for (int64_t i = 0; i < rows; ++i) {
      labels.push_back(static_cast<int32_t>(i * 7 % classes));
    }
  }
  int64_t rows, classes;
  std::vector<float> x;
  std::vector<int32_t> labels;
};

struct Result {
  std::vector<float> p, result, dx;
};

Result Run(Backend& backend, const Case& c, int64_t shift = 0) {
  Placed x(c.x, shift), p(std::vector<float>(c.x.size()), shift);
  Placed dx(std::vector<float>(c.x.size()), shift), result({0, 0}, shift);
  MustBeOk(backend.SoftmaxXentForward(
      {c.rows, c.classes, x.data(), c.labels.data(), p.data(), result.data()}));
  MustBeOk(backend.SoftmaxXentBackward(
      {c.rows, c.classes, p.data(), c.labels.data(), dx.data()}));
  return {p.values(), result.values(), dx.values()};
}

}  // namespace

TEST_CASE("softmax_xent matches the reference on shapes around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t rows : {0, 1, 9, 33}) {
      for (const int64_t classes : {1, 2, 7, 8, 9, 10, 33, 1000}) {
        for (const float spread : {1.0f, 30.0f, 1e6f}) {
          CAPTURE(backend->name(), rows, classes, spread);
          const Case c(rows, classes, spread);
          const Result got = Run(*backend, c);
          const Result want = Run(*reference, c);
          CHECK(Misfit(got.p, want.p, 2e-6) == "");
          CHECK(Misfit(got.dx, want.dx, 2e-6) == "");
          const double allowed =
              2e-6 * (std::fabs(want.result[0]) + static_cast<double>(rows));
          CHECK(Misfit({got.result[0]}, {want.result[0]}, allowed + 1e-30) ==
                "");
          CHECK(got.result[1] == want.result[1]);
        }
      }
    }
  }
}

TEST_CASE("softmax_xent gives the loss and the number right of a known case") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    Case c(3, 2);
    c.x = {0, 0, 3, 1, 1, 3};
    c.labels = {0, 0, 0};  // a tie counts for the first class
    const Result result = Run(*backend, c);
    const double expected =
        std::log(2.0) + std::log1p(std::exp(-2)) + 2 + std::log1p(std::exp(-2));
    CHECK(result.result[0] == Approx(expected));
    CHECK(result.result[1] == 2);
    CHECK(result.dx[0] == Approx(-0.5));
    CHECK(result.dx[1] == Approx(0.5));
  }
}

TEST_CASE("softmax_xent names the row of a label that is no class") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    for (const int32_t label : {-1, 10, 2147483647}) {
      Case c(4, 10);
      c.labels[2] = label;
      std::vector<float> p(40, 9), result{9, 9};
      absl::Status status = backend->SoftmaxXentForward(
          {4, 10, c.x.data(), c.labels.data(), p.data(), result.data()});
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(status.message() == "softmax_xent: label of row 2 is " +
                                    std::to_string(label) +
                                    ", expected a class from 0 to 9");
      CHECK(p == std::vector<float>(40, 9));
      CHECK(result == std::vector<float>{9, 9});
      status = backend->SoftmaxXentBackward(
          {4, 10, p.data(), c.labels.data(), p.data()});
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_CASE("softmax_xent works without keeping p, and over it") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const Case c(9, 33);
    const Result kept = Run(*backend, c);
    std::vector<float> result(2);
    MustBeOk(backend->SoftmaxXentForward(
        {9, 33, c.x.data(), c.labels.data(), nullptr, result.data()}));
    CHECK(result == kept.result);
    std::vector<float> p = kept.p;
    MustBeOk(backend->SoftmaxXentBackward(
        {9, 33, p.data(), c.labels.data(), p.data()}));
    CHECK(p == kept.dx);
  }
}

TEST_CASE("softmax_xent gives the same bits on every call") {
  const Case c(33, 100);
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            const Result result = Run(backend, c, shift);
            return Joined({result.p, result.result, result.dx});
          }) == "");
  }
}

TEST_CASE("softmax_xent: the reference backward is the forward's derivative") {
  const auto reference = MakeReference();
  const Case c(2, 5, 2);
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& x) {
              Case moved = c;
              moved.x = x;
              return double{Run(*reference, moved).result[0]};
            },
            c.x, Run(*reference, c).dx, 1e-2f, 2e-4) == "");
}

}  // namespace pipework
