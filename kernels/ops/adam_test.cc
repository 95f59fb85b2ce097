#include "kernels/ops/adam.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// The new weights and both moments after two steps.
std::vector<float> Run(Backend& backend, int64_t elements, int64_t shift = 0,
                       bool in_place = false) {
  Placed w(RandomValues(elements, 1), shift);
  Placed g(RandomValues(elements, 2), shift);
  Placed m(std::vector<float>(elements), shift);
  Placed v(std::vector<float>(elements), shift);
  Placed other(std::vector<float>(elements), shift);
  AdamArgs args;
  args.elements = elements;
  args.lr = 1e-3;
  args.gradient_scale = 1.0f / 32;
  args.weight_decay = 1e-2f;
  args.g = g.data();
  args.m = m.data();
  args.v = v.data();
  args.w = w.data();
  args.out = in_place ? w.data() : other.data();
  MustBeOk(backend.Adam(args));
  args.step = 2;
  args.w = args.out;
  args.out = w.data();
  MustBeOk(backend.Adam(args));
  return Joined({w.values(), m.values(), v.values()});
}

}  // namespace

TEST_CASE("adam has the bits of the reference on lengths around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t elements : {0, 1, 7, 8, 9, 15, 16, 17, 1025}) {
      CAPTURE(backend->name(), elements);
      CHECK(BitDifference(Run(*backend, elements), Run(*reference, elements)) ==
            "");
      CHECK(BitDifference(Run(*backend, elements, 0, true),
                          Run(*reference, elements)) == "");
    }
  }
}

TEST_CASE("adam takes the steps of the paper's formula") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    float w = 1, m = 0, v = 0;
    AdamArgs args;
    args.elements = 1;
    args.lr = 0.1;
    args.beta1 = 0.8;
    args.beta2 = 0.9;
    args.epsilon = 1e-2;
    args.weight_decay = 0.5f;
    args.w = args.out = &w;
    args.m = &m;
    args.v = &v;
    double wide_w = 1, wide_m = 0, wide_v = 0;
    for (int t = 1; t <= 5; ++t) {
      const float g = 3.0f - static_cast<float>(t);
      args.step = t;
      args.g = &g;
      MustBeOk(backend->Adam(args));
      const double d = g + 0.5 * wide_w;
      wide_m = 0.8 * wide_m + 0.2 * d;
      wide_v = 0.9 * wide_v + 0.1 * d * d;
      wide_w -= 0.1 * wide_m / (1 - std::pow(0.8, t)) /
                (std::sqrt(wide_v / (1 - std::pow(0.9, t))) + 1e-2);
      CAPTURE(t);
      CHECK(m == Approx(wide_m).epsilon(1e-5));
      CHECK(v == Approx(wide_v).epsilon(1e-5));
      CHECK(w == Approx(wide_w).epsilon(1e-5));
    }
  }
}

TEST_CASE("adam gives the same bits on every call") {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, 1000, shift);
          }) == "");
  }
}

}  // namespace pipework
