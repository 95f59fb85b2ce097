#include "proto/size_text.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

TEST_CASE("size: numbers with units are bytes") {
  CHECK(*ParseSize("--memory", "512MiB") == int64_t{512} << 20);
  CHECK(*ParseSize("--memory", "4GB") == 4000000000);
  CHECK(*ParseSize("--memory", "4TiB") == int64_t{4} << 40);
  CHECK(*ParseSize("--memory", "1.5 KiB") == 1536);
  CHECK(*ParseSize("--memory", "3kB") == 3000);
  CHECK(*ParseSize("--memory", "8e9") == 8000000000);
  CHECK(*ParseSize("--memory", "77") == 77);
  CHECK(*ParseSize("--memory", "77B") == 77);
}

TEST_CASE("size: everything else is refused with the flag and the value") {
  for (const char* bad :
       {"", "GiB", "-4GB", "0", "nan", "inf", "1e30", "4 XB", "1TiB2", "0.5"}) {
    CAPTURE(bad);
    const auto size = ParseSize("--memory-limit", bad);
    REQUIRE(absl::IsInvalidArgument(size.status()));
    CHECK_THAT(std::string(size.status().message()),
               Catch::Contains("--memory-limit") && Catch::Contains(bad));
  }
}

}  // namespace
}  // namespace pipework
