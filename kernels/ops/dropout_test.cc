#include "kernels/ops/dropout.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"
#include "kernels/random.h"

namespace pipework {
namespace {

DropoutArgs Key(float p, int64_t samples, int64_t elements) {
  DropoutArgs args;
  args.samples = samples;
  args.elements = elements;
  args.p = p;
  args.key = RandomKey(7, HashName("drop1"));
  args.minibatch = 12345678901;  // both halves are in use
  return args;
}

std::vector<float> Run(Backend& backend, DropoutArgs args,
                       const std::vector<float>& input, int64_t shift = 0) {
  Placed x(input, shift);
  Placed y(std::vector<float>(input.size()), shift);
  args.x = x.data();
  args.y = y.data();
  MustBeOk(backend.Dropout(args));
  return y.values();
}

}  // namespace

TEST_CASE("dropout has the bits of the reference on lengths around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t samples : {0, 1, 3}) {
      for (const int64_t elements : {1, 3, 4, 5, 63, 64, 65, 1000}) {
        for (const float p : {0.0f, 0.1f, 0.5f, 0.999f}) {
          CAPTURE(backend->name(), samples, elements, p);
          const std::vector<float> x = RandomValues(samples * elements, 1);
          const DropoutArgs args = Key(p, samples, elements);
          CHECK(BitDifference(Run(*backend, args, x),
                              Run(*reference, args, x)) == "");
        }
      }
    }
  }
}

TEST_CASE("dropout drops the share asked for and scales the rest") {
  for (const auto& backend : AllBackends()) {
    for (const float p : {0.0f, 0.25f, 0.5f}) {
      CAPTURE(backend->name(), p);
      const std::vector<float> ones(100 * 1000, 1);
      const std::vector<float> y = Run(*backend, Key(p, 100, 1000), ones);
      int64_t dropped = 0;
      for (const float value : y) {
        if (value == 0) {
          ++dropped;
        } else {
          REQUIRE(value == DropoutScale(p));
        }
      }
      // Five standard deviations of 100,000 draws.
      const double spread = 5 * std::sqrt(p * (1 - p) / 1e5);
      CHECK(static_cast<double>(dropped) / 1e5 == Approx(p).margin(spread));
    }
  }
}

TEST_CASE("dropout draws by sample, minibatch and layer, not by unit") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    const std::vector<float> ones(4 * 100, 1), two(2 * 100, 1);
    const std::vector<float> whole = Run(*backend, Key(0.5f, 4, 100), ones);
    DropoutArgs half = Key(0.5f, 2, 100);
    half.first_sample = 2;
    CHECK(Run(*backend, half, two) ==
          std::vector<float>(whole.begin() + 200, whole.end()));

    DropoutArgs other = Key(0.5f, 4, 100);
    other.minibatch += int64_t{1} << 32;
    CHECK(Run(*backend, other, ones) != whole);
    other = Key(0.5f, 4, 100);
    other.key = RandomKey(7, HashName("drop2"));
    CHECK(Run(*backend, other, ones) != whole);
    other.key = RandomKey(8, HashName("drop1"));
    CHECK(Run(*backend, other, ones) != whole);
  }
}

TEST_CASE("dropout may write over its input") {
  const std::vector<float> x = RandomValues(3 * 333, 1);
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    DropoutArgs args = Key(0.3f, 3, 333);
    std::vector<float> in_place = x;
    args.x = in_place.data();
    args.y = in_place.data();
    MustBeOk(backend->Dropout(args));
    CHECK(in_place == Run(*backend, Key(0.3f, 3, 333), x));
  }
}

TEST_CASE("dropout gives the same bits on every call") {
  const std::vector<float> x = RandomValues(3 * 333, 1);
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, Key(0.3f, 3, 333), x, shift);
          }) == "");
  }
}

}  // namespace pipework
