#include "daemon/profiler/round_times.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

std::vector<RoundTime> Calm(int rounds, double seconds) {
  return std::vector<RoundTime>(rounds, {seconds, seconds});
}

const std::vector<LayerNoise> kQuiet = {{1e-3, false}, {1e-3, false}};

}  // namespace

TEST_CASE("round times: the first round never counts") {
  CHECK(ColdRounds({}) == 0);
  CHECK(ColdRounds(Calm(1, 1)) == 1);
  CHECK(ColdRounds(Calm(9, 1)) == 1);
  CHECK(CountedRounds(Calm(3, 1), 5) == std::vector<size_t>{1, 2});
}

TEST_CASE("round times: a cold start of any length does not count") {
  std::vector<RoundTime> rounds = Calm(8, 1);
  for (int i = 0; i < 3; ++i) rounds[i] = {100, 100};
  CHECK(ColdRounds(rounds) == 3);
  CHECK(CountedRounds(rounds, 5) == std::vector<size_t>{3, 4, 5, 6, 7});
  // While nothing faster has been seen there is nothing to compare with.
  rounds.resize(3);
  CHECK(ColdRounds(rounds) == 1);
  // A slow round in the middle is no cold start.
  rounds = Calm(8, 1);
  rounds[4] = {100, 100};
  CHECK(ColdRounds(rounds) == 1);
}

TEST_CASE(
    "round times: rounds that waited for their core are left out where enough "
    "are left") {
  std::vector<RoundTime> rounds = Calm(8, 1);
  rounds[2].wall_seconds = 5;
  rounds[5].wall_seconds = 5;
  CHECK(CountedRounds(rounds, 5) == std::vector<size_t>{1, 3, 4, 6, 7});
  CHECK(CountedRounds(rounds, 6) == std::vector<size_t>{1, 2, 3, 4, 5, 6, 7});
  CHECK(DisturbedShare(rounds) == Approx(8.0 / 15));
}

TEST_CASE(
    "round times: quantiles lie between ranks, and only count what counts") {
  const std::vector<double> values = {100, 1, 2, 3, 4};
  const std::vector<size_t> counted = {1, 2, 3, 4};
  CHECK(Quantile(values, counted, 0) == 1);
  CHECK(Quantile(values, counted, 0.5) == Approx(2.5));
  CHECK(Quantile(values, counted, 1) == 4);
  CHECK(Spread(values, counted) == Approx(1.5 / 2.5));
  CHECK(Quantile(values, {}, 0.5) == 0);
  CHECK(Spread(values, {}) == 0);
}

TEST_CASE("round times: a layer is noisy beyond the clock's own unrest") {
  CHECK(IsNoisy(1e-3, 0.31));
  CHECK_FALSE(IsNoisy(1e-3, 0.29));
  CHECK_FALSE(IsNoisy(5e-6, 0.5));
}

TEST_CASE(
    "round times: a busy device shows in waiting, in spread or in drift") {
  std::vector<RoundTime> rounds = Calm(11, 1);
  const auto busy = [&rounds](const std::vector<LayerNoise>& layers) {
    return WasBusy(rounds, CountedRounds(rounds, 5), layers);
  };
  CHECK_FALSE(busy(kQuiet));
  SECTION("the thread waited for its core") {
    rounds[3].wall_seconds = 3;
    CHECK(busy(kQuiet));
  }
  SECTION("a round that was cold is no sign") {
    rounds[0] = {90, 1};
    CHECK_FALSE(busy(kQuiet));
  }
  SECTION("layers moved") {
    CHECK_FALSE(busy({{1e-3, true}, {4e-3, false}}));
    CHECK(busy({{2e-3, true}, {4e-3, false}}));
  }
  SECTION("the second half was slower") {
    for (int i = 6; i < 11; ++i) rounds[i] = {1.3, 1.3};
    CHECK(busy(kQuiet));
  }
  SECTION("a few rounds have no halves") {
    rounds = Calm(5, 1);
    rounds[3] = rounds[4] = {1.9, 1.9};
    CHECK_FALSE(busy(kQuiet));
  }
}

}  // namespace pipework
