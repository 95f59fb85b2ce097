#include "kernels/ops/vector.h"

#include <catch2/catch.hpp>

#include "kernels/backend_registry.h"
#include "kernels/ops/testing/op_check.h"

namespace pipework {
namespace {

// The results of the five, one after the other.
std::vector<float> Run(Backend& backend, int64_t elements, int64_t shift = 0) {
  const std::vector<float> start = RandomValues(elements, 1);
  Placed x(RandomValues(elements, 2), shift);
  Placed filled(start, shift), copied(start, shift), scaled(start, shift);
  Placed axpy(start, shift), accumulated(start, shift);
  MustBeOk(backend.Fill({elements, 0.3f, filled.data()}));
  MustBeOk(backend.Copy({elements, x.data(), copied.data()}));
  MustBeOk(backend.Scale({elements, 0.3f, scaled.data()}));
  MustBeOk(backend.Axpy({elements, 0.3f, x.data(), axpy.data()}));
  MustBeOk(backend.Accumulate({elements, x.data(), accumulated.data()}));
  return Joined({filled.values(), copied.values(), scaled.values(),
                 axpy.values(), accumulated.values()});
}

}  // namespace

TEST_CASE("vector ops have the bits of the reference on every length") {
  const auto reference = MakeReference();
  for (const auto& backend : OtherBackends()) {
    for (const int64_t elements : {0, 1, 7, 8, 9, 15, 16, 17, 33, 1025}) {
      CAPTURE(backend->name(), elements);
      CHECK(BitDifference(Run(*backend, elements), Run(*reference, elements)) ==
            "");
    }
  }
}

TEST_CASE("vector ops do what their names say") {
  for (const auto& backend : AllBackends()) {
    CAPTURE(backend->name());
    std::vector<float> y(17, 1);
    const std::vector<float> x(17, 10);
    MustBeOk(backend->Axpy({17, 2, x.data(), y.data()}));
    CHECK(y == std::vector<float>(17, 21));
    MustBeOk(backend->Accumulate({17, x.data(), y.data()}));
    CHECK(y == std::vector<float>(17, 31));
    MustBeOk(backend->Scale({17, 2, y.data()}));
    CHECK(y == std::vector<float>(17, 62));
    MustBeOk(backend->Accumulate({17, y.data(), y.data()}));
    CHECK(y == std::vector<float>(17, 124));
    MustBeOk(backend->Copy({17, x.data(), y.data()}));
    MustBeOk(backend->Copy({17, y.data(), y.data()}));
    CHECK(y == x);
    MustBeOk(backend->Fill({17, -3, y.data()}));
    CHECK(y == std::vector<float>(17, -3));
  }
}

TEST_CASE("vector ops give the same bits on every call") {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    CHECK(Unsteady(name, [&](Backend& backend, int64_t shift) {
            return Run(backend, 1000, shift);
          }) == "");
  }
}

}  // namespace pipework
