#include "kernels/ops/add.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

std::vector<float> Run(Backend& backend, int64_t elements, int64_t shift = 0) {
  Placed a(RandomValues(elements, 1), shift);
  Placed b(RandomValues(elements, 2), shift);
  Placed y(std::vector<float>(elements), shift);
  MustBeOk(backend.Add({elements, a.data(), b.data(), y.data()}));
  return y.values();
}

}  // namespace

TEST_CASE("add has the bits of the reference on lengths around a vector") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t elements : {0, 1, 7, 8, 9, 15, 16, 17, 33, 1025}) {
      CAPTURE(backend->name(), elements);
      CHECK(BitDifference(Run(*backend, elements), Run(*reference, elements)) ==
            "");
    }
  }
}

TEST_CASE("add may write over either summand") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    std::vector<float> a(17, 1);
    const std::vector<float> b(17, 2);
    MustBeOk(backend->Add({17, a.data(), b.data(), a.data()}));
    CHECK(a == std::vector<float>(17, 3));
    MustBeOk(backend->Add({17, b.data(), a.data(), a.data()}));
    CHECK(a == std::vector<float>(17, 5));
  }
}

TEST_CASE("add gives the same bits on every call") {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, 1000, shift);
          }) == "");
  }
}

}  // namespace pipework
