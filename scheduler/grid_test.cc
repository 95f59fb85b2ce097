#include "scheduler/grid.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_split.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

TEST_CASE("grid: a forward takes one slot, a backward two") {
  CHECK(*TextGrid(MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(3))) ==
        "s0  F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
        "s1  .  F0 B0--- F1 B1--- F2 B2--- .  .\n");
}

TEST_CASE("grid: a long program goes on in blocks of 80 columns at most") {
  for (const int units : {1, 9, 40, 120}) {
    for (const char* schedule : {"1f1b", "flush"}) {
      const auto text =
          TextGrid(MustCompile(schedule, ChainOf({2, 1, 3}), SegmentOf(units)));
      REQUIRE(text.ok());
      for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
        CAPTURE(std::string(line));
        CHECK(line.size() <= 80);
      }
    }
  }
}

TEST_CASE("grid: the picture holds every forward and backward once") {
  const auto svg = SvgGrid(MustCompile("1f1b", ChainOf({1, 1}), SegmentOf(3)));
  REQUIRE(svg.ok());
  size_t texts = 0;
  for (size_t at = 0; (at = svg->find("text-anchor", at)) != std::string::npos;
       ++at) {
    ++texts;
  }
  CHECK(texts == 2 * 3 * 2);
  CHECK(svg->rfind("<svg ", 0) == 0);
  CHECK(svg->substr(svg->size() - 7) == "</svg>\n");
}

TEST_CASE("grid: the message has rows, time, and what each stage holds") {
  const auto schedule =
      ToSchedule(MustCompile("1f1b", ChainOf({1, 1, 1, 1}), SegmentOf(12)));
  REQUIRE(schedule.ok());
  CHECK(schedule->unit() == "minibatch");
  CHECK(schedule->programs_size() == 4);
  CHECK(schedule->programs(3).actions(0) == "<F0");
  const auto list = [](const auto& field) {
    return std::vector<int>(field.begin(), field.end());
  };
  CHECK(list(schedule->in_flight()) == std::vector<int>{4, 3, 2, 1});
  CHECK(list(schedule->versions()) == std::vector<int>{4, 3, 2, 1});
  CHECK(list(schedule->staleness()) == std::vector<int>{3, 2, 1, 0});
  const auto flush =
      ToSchedule(MustCompile("flush", ChainOf({1, 1, 1, 1}), SegmentOf(1, 8)));
  REQUIRE(flush.ok());
  CHECK(flush->unit() == "microbatch");
  CHECK(flush->makespan() == 33);
  CHECK(flush->bubble() == Approx(3.0 / 11));
  CHECK(list(flush->versions()) == std::vector<int>{1, 1, 1, 1});
  CHECK(list(flush->staleness()) == std::vector<int>{0, 0, 0, 0});
}

}  // namespace
}  // namespace pipework
