#include "kernels/ops/sgd.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

struct Rule {
  float momentum;
  bool nesterov;
  float weight_decay;
};

// The new weights, then the momentum, after two steps.
std::vector<float> Run(Backend& backend, const Rule& rule, int64_t elements,
                       int64_t shift = 0, bool in_place = false) {
  Placed w(RandomValues(elements, 1), shift);
  Placed g(RandomValues(elements, 2), shift);
  Placed v(std::vector<float>(elements), shift);
  Placed other(std::vector<float>(elements), shift);
  SgdArgs args;
  args.elements = elements;
  args.lr = 0.1f;
  args.gradient_scale = 1.0f / 32;
  args.momentum = rule.momentum;
  args.nesterov = rule.nesterov;
  args.weight_decay = rule.weight_decay;
  args.g = g.data();
  args.v = rule.momentum == 0 ? nullptr : v.data();
  args.w = w.data();
  args.out = in_place ? w.data() : other.data();
  MustBeOk(backend.Sgd(args));
  args.w = args.out;
  args.out = w.data();
  MustBeOk(backend.Sgd(args));
  return Joined({w.values(), v.values()});
}

constexpr Rule kRules[] = {
    {0, false, 0}, {0, false, 1e-4f}, {0.9f, false, 0}, {0.9f, true, 1e-4f}};

}  // namespace

TEST_CASE("sgd has the bits of the reference on lengths around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const Rule& rule : kRules) {
      for (const int64_t elements : {0, 1, 7, 8, 9, 15, 16, 17, 1025}) {
        CAPTURE(backend->name(), elements, rule.momentum, rule.nesterov,
                rule.weight_decay);
        CHECK(BitDifference(Run(*backend, rule, elements),
                            Run(*reference, rule, elements)) == "");
        CHECK(BitDifference(Run(*backend, rule, elements, 0, true),
                            Run(*reference, rule, elements)) == "");
      }
    }
  }
}

TEST_CASE("sgd takes the steps that PyTorch's takes") {
  // By hand from torch.optim.SGD's rule: w = 1, g = 2 twice, lr = 0.1.
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    SgdArgs args;
    args.elements = 1;
    args.lr = 0.1f;
    float w = 1, v = 0;
    const float g = 2;
    args.w = args.out = &w;
    args.g = &g;
    args.v = &v;
    args.momentum = 0.5f;
    args.weight_decay = 0.25f;
    MustBeOk(backend->Sgd(args));  // d = 2.25 = v
    CHECK(v == Approx(2.25));
    CHECK(w == Approx(0.775));
    MustBeOk(backend->Sgd(args));  // d = 2.19375, v = 3.31875
    CHECK(v == Approx(3.31875));
    CHECK(w == Approx(0.443125));
    args.nesterov = true;
    MustBeOk(backend->Sgd(args));  // d = 2.11078125, v = 3.77015625
    CHECK(w == Approx(0.443125 - 0.1 * (2.11078125 + 0.5 * 3.77015625)));
  }
}

TEST_CASE("sgd gives the same bits on every call") {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, kRules[3], 1000, shift);
          }) == "");
  }
}

}  // namespace pipework
