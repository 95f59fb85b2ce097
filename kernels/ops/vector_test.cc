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
  REQUIRE(backend.Fill({elements, 0.3f, filled.data()}).ok());
  REQUIRE(backend.Copy({elements, x.data(), copied.data()}).ok());
  REQUIRE(backend.Scale({elements, 0.3f, scaled.data()}).ok());
  REQUIRE(backend.Axpy({elements, 0.3f, x.data(), axpy.data()}).ok());
  REQUIRE(backend.Accumulate({elements, x.data(), accumulated.data()}).ok());
  return Joined({filled.values(), copied.values(), scaled.values(),
                 axpy.values(), accumulated.values()});
}

}  // namespace

TEST_CASE("vector ops have the bits of the reference on every length") {
  const auto reference = MakeReference();
  for (const auto& backend : AllBackends()) {
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
    REQUIRE(backend->Axpy({17, 2, x.data(), y.data()}).ok());
    CHECK(y == std::vector<float>(17, 21));
    REQUIRE(backend->Accumulate({17, x.data(), y.data()}).ok());
    CHECK(y == std::vector<float>(17, 31));
    REQUIRE(backend->Scale({17, 2, y.data()}).ok());
    CHECK(y == std::vector<float>(17, 62));
    REQUIRE(backend->Accumulate({17, y.data(), y.data()}).ok());
    CHECK(y == std::vector<float>(17, 124));
    REQUIRE(backend->Copy({17, x.data(), y.data()}).ok());
    REQUIRE(backend->Copy({17, y.data(), y.data()}).ok());
    CHECK(y == x);
    REQUIRE(backend->Fill({17, -3, y.data()}).ok());
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
