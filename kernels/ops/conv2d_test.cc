#include "kernels/ops/conv2d.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// Inputs of one case. dw and db are what the gradients start from.
struct Case {
  explicit Case(const Conv2dShape& s)
      : shape(s),
        x(RandomValues(s.batch * s.in_channels * s.height * s.width, 1)),
        w(RandomValues(s.out_channels * (s.in_channels / s.groups) *
                           s.window.kernel_h * s.window.kernel_w,
                       2)),
        b(RandomValues(s.out_channels, 3)),
        dy(RandomValues(s.batch * s.out_channels * s.OutHeight() * s.OutWidth(),
                        4)),
        dw(RandomValues(static_cast<int64_t>(w.size()), 5)),
        db(RandomValues(s.out_channels, 6)) {}

  Case OfAbsolutes() const {
    Case other = *this;
    for (auto* values :
         {&other.x, &other.w, &other.b, &other.dy, &other.dw, &other.db}) {
      *values = Absolute(*values);
    }
    return other;
  }

  Conv2dShape shape;
  std::vector<float> x, w, b, dy, dw, db;
};

std::vector<float> Forward(Backend& backend, const Case& c, int64_t shift = 0) {
  Placed x(c.x, shift), w(c.w, shift), b(c.b, shift);
  Placed y(std::vector<float>(c.dy.size()), shift);
  MustBeOk(
      backend.Conv2dForward({c.shape, x.data(), w.data(), b.data(), y.data()}));
  return y.values();
}

std::vector<float> BackwardData(Backend& backend, const Case& c,
                                int64_t shift = 0) {
  Placed w(c.w, shift), dy(c.dy, shift);
  Placed dx(std::vector<float>(c.x.size()), shift);
  MustBeOk(
      backend.Conv2dBackwardData({c.shape, w.data(), dy.data(), dx.data()}));
  return dx.values();
}

// dw, then db.
std::vector<float> BackwardWeights(Backend& backend, const Case& c,
                                   int64_t shift = 0) {
  Placed x(c.x, shift), dy(c.dy, shift), dw(c.dw, shift), db(c.db, shift);
  MustBeOk(backend.Conv2dBackwardWeights(
      {c.shape, x.data(), dy.data(), dw.data(), db.data()}));
  return Joined({dw.values(), db.values()});
}

void CheckAgainst(Backend& reference, Backend& backend, const Case& c) {
  const Conv2dShape& s = c.shape;
  CAPTURE(backend.name(), backend.threads(), s.batch, s.in_channels, s.height,
          s.width, s.out_channels, s.groups, s.window.kernel_h,
          s.window.kernel_w, s.window.stride_h, s.window.stride_w,
          s.window.padding_h, s.window.padding_w, s.window.dilation_h,
          s.window.dilation_w);
  const Case terms = c.OfAbsolutes();
  const int64_t taps = s.window.kernel_h * s.window.kernel_w;
  CHECK(Misfit(Forward(backend, c), Forward(reference, c),
               OfTerms(Forward(reference, terms),
                       taps * s.in_channels / s.groups + 1)) == "");
  CHECK(Misfit(BackwardData(backend, c), BackwardData(reference, c),
               OfTerms(BackwardData(reference, terms),
                       taps * s.out_channels / s.groups)) == "");
  CHECK(Misfit(BackwardWeights(backend, c), BackwardWeights(reference, c),
               OfTerms(BackwardWeights(reference, terms),
                       s.batch * s.OutHeight() * s.OutWidth() + 1)) == "");
}

// A square image and window.
Conv2dShape Square(int64_t batch, int64_t in, int64_t size, int64_t out,
                   int64_t kernel, int64_t stride, int64_t padding,
                   int64_t dilation = 1, int64_t groups = 1) {
  Conv2dShape shape{batch, in, size, size, out, groups, {}};
  shape.window = {kernel,  kernel,  stride,   stride,
                  padding, padding, dilation, dilation};
  return shape;
}

}  // namespace

TEST_CASE("conv2d matches the reference on channels around a block") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t in : {1, 3, 4, 7, 8, 9, 16, 17}) {
      for (const int64_t out : {1, 8, 15, 16, 33}) {
        CheckAgainst(*reference, *backend,
                     Case(Square(2, in, 8, out, 3, 1, 1)));
      }
    }
  }
}

TEST_CASE("conv2d matches the reference on batches, images and kernels") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t batch : {1, 5, 32, 33}) {
      CheckAgainst(*reference, *backend, Case(Square(batch, 3, 8, 6, 3, 1, 1)));
    }
    for (const int64_t size : {1, 5, 7, 8, 9, 28}) {
      CheckAgainst(*reference, *backend, Case(Square(2, 2, size, 5, 1, 1, 0)));
      CheckAgainst(*reference, *backend, Case(Square(2, 6, size, 5, 5, 1, 2)));
      CheckAgainst(*reference, *backend, Case(Square(2, 6, size, 16, 3, 2, 1)));
    }
  }
}

TEST_CASE(
    "conv2d matches the reference with dilation, groups and odd windows") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    CheckAgainst(*reference, *backend, Case(Square(2, 4, 9, 6, 3, 1, 2, 2)));
    CheckAgainst(*reference, *backend, Case(Square(2, 4, 8, 6, 3, 1, 1, 1, 2)));
    CheckAgainst(*reference, *backend, Case(Square(2, 8, 8, 8, 3, 1, 1, 1, 8)));
    CheckAgainst(*reference, *backend,
                 Case(Square(2, 32, 8, 64, 3, 1, 1, 1, 2)));
    Conv2dShape uneven{3, 5, 9, 12, 7, 1, {}};
    uneven.window = {2, 5, 3, 2, 0, 2, 2, 1};
    CheckAgainst(*reference, *backend, Case(uneven));
    // The last rows and columns of the image are in no window.
    CheckAgainst(*reference, *backend, Case(Square(2, 3, 10, 4, 2, 4, 0)));
    // A kernel as large as the image.
    CheckAgainst(*reference, *backend, Case(Square(4, 16, 5, 120, 5, 1, 0)));
  }
}

TEST_CASE("conv2d matches the reference on two threads") {
  const auto reference = MakeReference();
  for (const std::string& name : LinkedBackends()) {
    BackendOptions options;
    options.threads = 2;
    const auto backend = MakeBackend(name, options);
    REQUIRE(backend.ok());
    CheckAgainst(*reference, **backend, Case(Square(8, 16, 8, 32, 3, 1, 1)));
  }
}

TEST_CASE("conv2d of an empty batch does nothing") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const Case c(Square(0, 3, 8, 4, 3, 1, 1));
    CHECK(Forward(*backend, c).empty());
    CHECK(BackwardData(*backend, c).empty());
    CHECK(BackwardWeights(*backend, c) == Joined({c.dw, c.db}));
  }
}

TEST_CASE("conv2d without a bias leaves it out") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const std::vector<float> x{1, 2, 3, 4}, w{10, 20};
    std::vector<float> y(2), dw(2, 1);
    Conv2dShape shape{1, 1, 2, 2, 1, 1, {}};
    shape.window.kernel_w = 2;
    MustBeOk(
        backend->Conv2dForward({shape, x.data(), w.data(), nullptr, y.data()}));
    CHECK(y == std::vector<float>{50, 110});
    const std::vector<float> dy{1, 100};
    MustBeOk(backend->Conv2dBackwardWeights(
        {shape, x.data(), dy.data(), dw.data(), nullptr}));
    CHECK(dw == std::vector<float>{302, 403});
  }
}

TEST_CASE("conv2d keeps shapes apart that differ in one number") {
  const auto reference = MakeReference();
  const auto near = [](int64_t Window2d::*field, int64_t value) {
    Conv2dShape shape{2, 4, 9, 9, 4, 1, {}};
    shape.window = {2, 2, 1, 1, 1, 1, 1, 1};
    if (field != nullptr) shape.window.*field = value;
    return shape;
  };
  std::vector<Conv2dShape> shapes{near(nullptr, 0)};
  for (const auto field :
       {&Window2d::kernel_h, &Window2d::kernel_w, &Window2d::stride_h,
        &Window2d::stride_w, &Window2d::dilation_h, &Window2d::dilation_w}) {
    shapes.push_back(near(field, 3));
  }
  shapes.push_back(near(&Window2d::padding_h, 0));
  shapes.push_back(near(&Window2d::padding_w, 0));
  for (const auto field : {&Conv2dShape::batch, &Conv2dShape::in_channels,
                           &Conv2dShape::height, &Conv2dShape::width,
                           &Conv2dShape::out_channels, &Conv2dShape::groups}) {
    shapes.push_back(shapes[0]);
    shapes.back().*field *= 2;
  }
  for (const auto& backend : OtherBackends()) {
    for (const Conv2dShape& shape : shapes) {
      CheckAgainst(*reference, *backend, Case(shape));
    }
    const Case c(shapes[0]);
    std::vector<float> got(c.dy.size()), want(c.dy.size());
    MustBeOk(backend->Conv2dForward(
        {c.shape, c.x.data(), c.w.data(), nullptr, got.data()}));
    MustBeOk(reference->Conv2dForward(
        {c.shape, c.x.data(), c.w.data(), nullptr, want.data()}));
    CHECK(Misfit(got, want, 1e-5) == "");
  }
}

TEST_CASE("conv2d says how much scratch it lacks") {
  BackendOptions options;
  options.memory_limit_bytes = 1024;
  const auto backend = MakeBackend("cpu", options);
  REQUIRE(backend.ok());
  const Case c(Square(8, 16, 8, 32, 3, 1, 1));
  std::vector<float> y(c.dy.size());
  const absl::Status status = (*backend)->Conv2dForward(
      {c.shape, c.x.data(), c.w.data(), c.b.data(), y.data()});
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("workspace") && Catch::Contains("limit is 1024"));
}

TEST_CASE("conv2d gives the same bits on every call") {
  const Case blocked(Square(9, 17, 8, 33, 3, 1, 1));
  const Case plain(Square(9, 2, 8, 6, 5, 1, 2));
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    for (const Case* c : {&blocked, &plain}) {
      CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
              return Joined({Forward(backend, *c, shift),
                             BackwardData(backend, *c, shift),
                             BackwardWeights(backend, *c, shift)});
            }) == "");
    }
  }
}

TEST_CASE("conv2d: the reference backward is the derivative of its forward") {
  const auto reference = MakeReference();
  Conv2dShape shape{2, 4, 4, 5, 2, 2, {}};
  shape.window = {2, 3, 1, 2, 1, 1, 2, 1};
  Case c(shape);
  c.dw.assign(c.dw.size(), 0);
  c.db.assign(c.db.size(), 0);
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& x) {
              Case moved = c;
              moved.x = x;
              return Dot(Forward(*reference, moved), c.dy);
            },
            c.x, BackwardData(*reference, c), 0.5f, 1e-5) == "");
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& wb) {
              Case moved = c;
              moved.w.assign(wb.begin(), wb.begin() + c.w.size());
              moved.b.assign(wb.begin() + c.w.size(), wb.end());
              return Dot(Forward(*reference, moved), c.dy);
            },
            Joined({c.w, c.b}), BackwardWeights(*reference, c), 0.5f,
            1e-5) == "");
}

}  // namespace pipework
