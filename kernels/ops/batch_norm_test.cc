#include "kernels/ops/batch_norm.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// Inputs of one case. `offset` moves the mean away from 0.
struct Case {
  explicit Case(BatchNormShape s, float offset = 0)
      : shape(s),
        x(RandomValues(s.batch * s.channels * s.spatial, 1)),
        dy(RandomValues(s.batch * s.channels * s.spatial, 2)),
        gain(RandomValues(s.channels, 3)),
        bias(RandomValues(s.channels, 4)),
        running_mean(RandomValues(s.channels, 5)),
        running_variance(Absolute(RandomValues(s.channels, 6))),
        dgain(RandomValues(s.channels, 7)),
        dbias(RandomValues(s.channels, 8)) {
    for (float& value : x) value += offset;
  }

  BatchNormShape shape;
  std::vector<float> x, dy, gain, bias, running_mean, running_variance, dgain,
      dbias;
};

struct Trained {
  std::vector<float> y, mean, rstd, running_mean, running_variance;
};

Trained Train(Backend& backend, const Case& c, int64_t shift = 0) {
  Placed x(c.x, shift), gain(c.gain, shift), bias(c.bias, shift);
  Placed running_mean(c.running_mean, shift);
  Placed running_variance(c.running_variance, shift);
  Placed y(std::vector<float>(c.x.size()), shift);
  Placed mean(std::vector<float>(c.gain.size()), shift);
  Placed rstd(std::vector<float>(c.gain.size()), shift);
  MustBeOk(backend.BatchNormTraining(
      {c.shape, 0.1f, 1e-5f, x.data(), gain.data(), bias.data(),
       running_mean.data(), running_variance.data(), y.data(), mean.data(),
       rstd.data()}));
  return {y.values(), mean.values(), rstd.values(), running_mean.values(),
          running_variance.values()};
}

std::vector<float> Infer(Backend& backend, const Case& c, int64_t shift = 0) {
  Placed x(c.x, shift), gain(c.gain, shift), bias(c.bias, shift);
  Placed y(std::vector<float>(c.x.size()), shift);
  MustBeOk(backend.BatchNormInference({c.shape, 1e-5f, x.data(), gain.data(),
                                       bias.data(), c.running_mean.data(),
                                       c.running_variance.data(), y.data()}));
  return y.values();
}

struct Gradients {
  std::vector<float> dx, dgain, dbias;
};

// From the reference's statistics, so that only the backward is compared.
Gradients Backward(Backend& backend, const Case& c, int64_t shift = 0) {
  const Trained trained = Train(*MakeReference(), c);
  Placed x(c.x, shift), dy(c.dy, shift), gain(c.gain, shift);
  Placed mean(trained.mean, shift), rstd(trained.rstd, shift);
  Placed dx(std::vector<float>(c.x.size()), shift);
  Placed dgain(c.dgain, shift), dbias(c.dbias, shift);
  MustBeOk(backend.BatchNormBackward({c.shape, x.data(), dy.data(), gain.data(),
                                      mean.data(), rstd.data(), dx.data(),
                                      dgain.data(), dbias.data()}));
  return {dx.values(), dgain.values(), dbias.values()};
}

double Bound(const std::vector<float>& values, double share = 4e-6) {
  double largest = 1e-30;
  for (const float value : values) {
    largest = std::max(largest, std::fabs(double{value}));
  }
  return share * largest;
}

}  // namespace

TEST_CASE("batch_norm matches the reference on shapes around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t batch : {1, 2, 33}) {
      for (const int64_t channels : {1, 3, 9}) {
        for (const int64_t spatial : {1, 7, 8, 9, 33, 64}) {
          // A lone value has no variance: 1 / sqrt(epsilon) would blow up
          // the rounding of its mean. The next case looks at it.
          if (batch * spatial == 1) continue;
          for (const float offset : {0.0f, 10.0f}) {
            CAPTURE(backend->name(), batch, channels, spatial, offset);
            const Case c({batch, channels, spatial}, offset);
            const Trained got = Train(*backend, c);
            const Trained want = Train(*reference, c);
            CHECK(Misfit(got.y, want.y, Bound(want.y)) == "");
            CHECK(Misfit(got.mean, want.mean, Bound(want.mean)) == "");
            CHECK(Misfit(got.rstd, want.rstd, Bound(want.rstd)) == "");
            CHECK(Misfit(got.running_mean, want.running_mean,
                         Bound(want.running_mean)) == "");
            CHECK(Misfit(got.running_variance, want.running_variance,
                         Bound(want.running_variance)) == "");
            CHECK(Misfit(Infer(*backend, c), Infer(*reference, c),
                         Bound(Infer(*reference, c))) == "");

            const Gradients gradients = Backward(*backend, c);
            const Gradients expected = Backward(*reference, c);
            CHECK(Misfit(gradients.dx, expected.dx, Bound(expected.dx)) == "");
            const double summands = 4e-6 * static_cast<double>(batch * spatial);
            CHECK(Misfit(gradients.dgain, expected.dgain, summands) == "");
            CHECK(Misfit(gradients.dbias, expected.dbias, summands) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("batch_norm gives the bias for a single value a channel") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const Case c({1, 3, 1});
    const Trained trained = Train(*backend, c);
    CHECK(trained.y == c.bias);
    CHECK(trained.mean == c.x);
    for (int i = 0; i < 3; ++i) {
      CHECK(trained.running_variance[i] ==
            Approx(0.9f * c.running_variance[i]));
    }
  }
}

TEST_CASE("batch_norm keeps PyTorch's running statistics") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    Case c({2, 1, 2});
    c.x = {1, 2, 3, 6};
    c.running_mean = {10};
    c.running_variance = {20};
    const Trained trained = Train(*backend, c);
    // mean 3, variance 14/4, unbiased 14/3
    CHECK(trained.running_mean[0] == Approx(0.9 * 10 + 0.1 * 3));
    CHECK(trained.running_variance[0] == Approx(0.9 * 20 + 0.1 * 14 / 3));
    CHECK(trained.rstd[0] == Approx(1 / std::sqrt(3.5 + 1e-5)));
  }
}

TEST_CASE("batch_norm works without gain, bias, statistics and gradients") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    CAPTURE(backend->name());
    const Case c({4, 3, 8});
    const int64_t n = static_cast<int64_t>(c.x.size());
    std::vector<float> y(n), mean(3), rstd(3), want(n), dx(n);
    const auto train = [&](Backend& on, std::vector<float>& out) {
      MustBeOk(on.BatchNormTraining({c.shape, 0.1f, 1e-5f, c.x.data(), nullptr,
                                     nullptr, nullptr, nullptr, out.data(),
                                     mean.data(), rstd.data()}));
    };
    train(*backend, y);
    train(*reference, want);
    CHECK(Misfit(y, want, Bound(want)) == "");

    std::vector<float> dgain(3, 1);
    MustBeOk(backend->BatchNormBackward({c.shape, c.x.data(), c.dy.data(),
                                         nullptr, mean.data(), rstd.data(),
                                         nullptr, dgain.data(), nullptr}));
    const Gradients gradients = Backward(*reference, c);
    for (int i = 0; i < 3; ++i) {
      CHECK(dgain[i] - 1 ==
            Approx(gradients.dgain[i] - c.dgain[i]).margin(1e-5));
    }
    MustBeOk(backend->BatchNormBackward({c.shape, c.x.data(), c.dy.data(),
                                         nullptr, mean.data(), rstd.data(),
                                         dx.data(), nullptr, nullptr}));
    CHECK(Dot(dx, std::vector<float>(n, 1)) == Approx(0).margin(1e-4));
  }
}

TEST_CASE("batch_norm gives the same bits on every call") {
  const Case c({9, 5, 33});
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            const Trained trained = Train(backend, c, shift);
            const Gradients gradients = Backward(backend, c, shift);
            return Joined({trained.y, trained.mean, trained.rstd,
                           trained.running_mean, trained.running_variance,
                           Infer(backend, c, shift), gradients.dx,
                           gradients.dgain, gradients.dbias});
          }) == "");
  }
}

TEST_CASE(
    "batch_norm: the reference backward is the derivative of its forward") {
  const auto reference = MakeReference();
  Case c({3, 2, 4});
  c.dgain.assign(2, 0);
  c.dbias.assign(2, 0);
  const Gradients gradients = Backward(*reference, c);
  const auto along_dy = [&](const Case& moved) {
    return Dot(Train(*reference, moved).y, c.dy);
  };
  // The step leaves an error of its square, 1e-4 here; 5e-4 with curvature.
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& x) {
              Case moved = c;
              moved.x = x;
              return along_dy(moved);
            },
            c.x, gradients.dx, 1e-2f, 1e-3) == "");
  CHECK(NotTheDerivative(
            [&](const std::vector<float>& gain_bias) {
              Case moved = c;
              moved.gain.assign(gain_bias.begin(), gain_bias.begin() + 2);
              moved.bias.assign(gain_bias.begin() + 2, gain_bias.end());
              return along_dy(moved);
            },
            Joined({c.gain, c.bias}),
            Joined({gradients.dgain, gradients.dbias}), 0.5f, 1e-5) == "");
}

}  // namespace pipework
