#include "kernels/backend_registry.h"

#include <catch2/catch.hpp>
#include <string>

namespace pipework {

TEST_CASE("back ends: every linked name can be made, reference first") {
  const std::vector<std::string> names = LinkedBackends();
  REQUIRE(names.size() >= 2);
  CHECK(names[0] == "reference");
  CHECK(names[1] == "cpu");
  for (const std::string& name : names) {
    const auto backend = MakeBackend(name, BackendOptions{});
    REQUIRE(backend.ok());
    CHECK((*backend)->name() == name);
    CHECK((*backend)->threads() == 1);
    CHECK((*backend)->allocator()->total_bytes_in_use() == 0);
  }
}

TEST_CASE("back ends: an unknown name lists the known ones") {
  for (const char* name : {"gpu", "", "cuda", "cuda:", "cuda:-1", "cpu:0"}) {
    const auto backend = MakeBackend(name, BackendOptions{});
    CHECK(backend.status().code() == absl::StatusCode::kNotFound);
    CHECK(backend.status().message() ==
          "back end \"" + std::string(name) +
              "\" is not known; known back ends: reference, cpu, cuda:N");
  }
}

TEST_CASE("back ends: cuda says what it lacks") {
  const auto backend = MakeBackend("cuda:1", BackendOptions{});
  CHECK(backend.status().code() == absl::StatusCode::kUnimplemented);
  CHECK_THAT(std::string(backend.status().message()),
             Catch::StartsWith("cuda:1: ") && Catch::Contains("ask for cpu"));
}

TEST_CASE("back ends: impossible options are errors") {
  BackendOptions options;
  options.threads = 0;
  CHECK(MakeBackend("cpu", options).status().message() ==
        "back end cpu: threads is 0, expected 1 or more");
  options.threads = 1;
  options.memory_limit_bytes = -5;
  CHECK(MakeBackend("cpu", options).status().message() ==
        "back end cpu: memory limit is -5 bytes, expected 0 (none) or more");
}

TEST_CASE("back ends: the memory limit and the thread count reach them") {
  BackendOptions options;
  options.threads = 2;
  options.memory_limit_bytes = 4096;
  const auto backend = MakeBackend("cpu", options);
  REQUIRE(backend.ok());
  CHECK((*backend)->threads() == 2);
  CHECK((*backend)->allocator()->limit_bytes() == 4096);
}

TEST_CASE("back ends: the kind of a CPU has its threads and instruction set") {
  CHECK_THAT(CpuKind(1), Catch::StartsWith("cpu x1 "));
  CHECK_THAT(CpuKind(4), Catch::Matches("cpu x4 (sse42|avx2|avx512|"
                                        "avx512_bf16)"));
}

}  // namespace pipework
