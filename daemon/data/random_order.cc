#include "daemon/data/random_order.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace pipework {
namespace {

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<int64_t> RandomOrder(int64_t n, int64_t seed, int64_t stream) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  const uint64_t key = Mix(Mix(static_cast<uint64_t>(seed) + kGamma) +
                           (static_cast<uint64_t>(stream) + 1) * kGamma);
  for (int64_t i = n - 1; i > 0; --i) {
    const uint64_t draw = Mix(key + static_cast<uint64_t>(i) * kGamma);
    const auto bound = static_cast<unsigned __int128>(i + 1);
    const auto j = static_cast<int64_t>((draw * bound) >> 64);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
  }
  return order;
}

}  // namespace pipework
