#include <algorithm>

#include "daemon/data/dataset.h"
#include "daemon/data/random_order.h"
#include "proto/check.h"

namespace pipework {

Sampler::Sampler(int64_t samples, int64_t minibatch, int64_t seed)
    : samples_(samples), minibatch_(minibatch), seed_(seed) {
  PIPE_CHECK(samples > 0 && minibatch > 0);
}

int64_t Sampler::minibatches_per_epoch() const {
  return samples_ / minibatch_ + (samples_ % minibatch_ != 0 ? 1 : 0);
}

int64_t Sampler::SizeOf(int64_t k) const {
  const int64_t first = k % minibatches_per_epoch() * minibatch_;
  return std::min(minibatch_, samples_ - first);
}

std::vector<int64_t> Sampler::IndicesOf(int64_t k) const {
  if (EpochOf(k) != cached_epoch_) {
    order_ = RandomOrder(samples_, seed_, EpochOf(k));
    cached_epoch_ = EpochOf(k);
  }
  const auto first = order_.begin() + k % minibatches_per_epoch() * minibatch_;
  return std::vector<int64_t>(first, first + SizeOf(k));
}

std::vector<int64_t> TestIndices(int64_t samples, int64_t minibatch,
                                 int64_t k) {
  PIPE_CHECK(minibatch > 0 && k >= 0);
  std::vector<int64_t> indices;
  if (k > samples / minibatch) return indices;
  const int64_t first = k * minibatch;
  const int64_t end = first + std::min(minibatch, samples - first);
  for (int64_t i = first; i < end; ++i) indices.push_back(i);
  return indices;
}

SampleRange MicrobatchRange(int64_t size, int64_t microbatches, int64_t j) {
  PIPE_CHECK(microbatches > 0 && j >= 0 && j < microbatches);
  const int64_t each = size / microbatches;
  const int64_t larger = size % microbatches;
  SampleRange range;
  range.first = j * each + std::min(j, larger);
  range.end = range.first + each + (j < larger ? 1 : 0);
  return range;
}

}  // namespace pipework
