// Rows C7 and I2 of the fault list: sizes that do not divide, and orders.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/data/dataset.h"
#include "daemon/data/random_order.h"

namespace pipework {
namespace {

std::vector<int64_t> EpochOrder(const Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> order;
  const int64_t n = sampler.minibatches_per_epoch();
  for (int64_t k = epoch * n; k < (epoch + 1) * n; ++k) {
    const std::vector<int64_t> indices = sampler.IndicesOf(k);
    CHECK(static_cast<int64_t>(indices.size()) == sampler.SizeOf(k));
    order.insert(order.end(), indices.begin(), indices.end());
  }
  return order;
}

TEST_CASE("sampler: each sample once per epoch, whatever is left over") {
  constexpr int64_t kB = 8;
  for (int64_t samples : {int64_t{1}, kB - 1, kB, kB + 1, 5 * kB, 5 * kB + 1,
                          5 * kB + kB - 1, int64_t{1437}}) {
    CAPTURE(samples);
    const Sampler sampler(samples, kB, /*seed=*/7);
    CHECK(sampler.minibatches_per_epoch() == (samples + kB - 1) / kB);
    std::vector<int64_t> all(static_cast<size_t>(samples));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t epoch : {0, 1, 9}) {
      std::vector<int64_t> order = EpochOrder(sampler, epoch);
      std::sort(order.begin(), order.end());
      CHECK(order == all);
    }
  }
}

TEST_CASE("sampler: only the last minibatch of an epoch is short") {
  const Sampler sampler(21, 8, 1);
  for (int64_t k = 0; k < 9; ++k) {
    CHECK(sampler.SizeOf(k) == (k % 3 == 2 ? 5 : 8));
    CHECK(sampler.EpochOf(k) == k / 3);
  }
}

TEST_CASE("sampler: a minibatch may be larger than the whole set") {
  const Sampler sampler(5, int64_t{1} << 62, 1);
  CHECK(sampler.minibatches_per_epoch() == 1);
  CHECK(sampler.SizeOf(1000) == 5);
  CHECK(EpochOrder(sampler, 3).size() == 5);
}

TEST_CASE("sampler: orders differ by epoch and by seed, and repeat by both") {
  const Sampler one(100, 7, 1);
  const Sampler two(100, 7, 2);
  CHECK(EpochOrder(one, 0) != EpochOrder(one, 1));
  CHECK(EpochOrder(one, 1) != EpochOrder(one, 2));
  CHECK(EpochOrder(one, 0) != EpochOrder(two, 0));
  CHECK(EpochOrder(one, 1) != EpochOrder(two, 0));
  CHECK(EpochOrder(one, 4) == EpochOrder(Sampler(100, 7, 1), 4));
}

TEST_CASE("sampler: a run that starts again in the middle keeps its order") {
  const Sampler from_start(100, 7, 1);
  std::vector<std::vector<int64_t>> minibatches;
  for (int64_t k = 0; k < 40; ++k) {
    minibatches.push_back(from_start.IndicesOf(k));
  }
  const Sampler resumed(100, 7, 1);
  for (int64_t k : {37, 20, 38, 3}) {
    CHECK(resumed.IndicesOf(k) == minibatches[static_cast<size_t>(k)]);
  }
}

TEST_CASE("sampler: the size of a minibatch does not change the order") {
  CHECK(EpochOrder(Sampler(100, 7, 5), 2) ==
        EpochOrder(Sampler(100, 32, 5), 2));
}

TEST_CASE("random order: these bits are part of the format of a run") {
  CHECK(RandomOrder(8, 1, 0) == std::vector<int64_t>{0, 3, 7, 1, 4, 2, 5, 6});
  CHECK(RandomOrder(8, 1, 1) == std::vector<int64_t>{0, 4, 3, 6, 5, 2, 7, 1});
  CHECK(RandomOrder(8, -1, 0) == std::vector<int64_t>{3, 1, 7, 4, 2, 6, 5, 0});
}

TEST_CASE("random order: every place is as likely for every sample") {
  // 6 things, 6000 streams: each pair (thing, place) is expected 1000 times,
  // with a standard deviation of 29.
  int counts[6][6] = {};
  for (int64_t stream = 0; stream < 6000; ++stream) {
    const std::vector<int64_t> order = RandomOrder(6, 3, stream);
    for (size_t place = 0; place < 6; ++place) ++counts[order[place]][place];
  }
  for (const auto& row : counts) {
    for (int count : row) CHECK(std::abs(count - 1000) < 6 * 29);
  }
}

TEST_CASE("microbatches: even, earlier ones larger, nothing lost") {
  for (int64_t size : {0, 1, 3, 4, 5, 31, 32}) {
    for (int64_t m : {1, 2, 3, 4, 7}) {
      CAPTURE(size, m);
      int64_t next = 0;
      int64_t before = size;
      for (int64_t j = 0; j < m; ++j) {
        const SampleRange range = MicrobatchRange(size, m, j);
        CHECK(range.first == next);
        const int64_t n = range.end - range.first;
        CHECK(n <= before);
        CHECK(n >= size / m);
        CHECK(n <= size / m + 1);
        before = n;
        next = range.end;
      }
      CHECK(next == size);
    }
  }
}

TEST_CASE("test indices: file order, each sample once") {
  std::vector<int64_t> all;
  for (int64_t k = 0; k < 4; ++k) {
    for (int64_t i : TestIndices(21, 8, k)) all.push_back(i);
  }
  std::vector<int64_t> want(21);
  std::iota(want.begin(), want.end(), 0);
  CHECK(all == want);
  CHECK(TestIndices(16, 8, 2).empty());
  CHECK(TestIndices(16, 8, int64_t{1} << 61).empty());
}

}  // namespace
}  // namespace pipework
