#include "daemon/executor/data_feed.h"

#include <utility>

#include "absl/types/span.h"
#include "daemon/base/failpoint.h"
#include "proto/status_macros.h"

namespace pipework {

DataFeed::DataFeed(DataSets data, const RunFacts& facts, TensorSpec x,
                   TensorSpec y, std::shared_ptr<Allocator> allocator,
                   BreakMode break_mode)
    : data_(std::move(data)),
      facts_(facts),
      x_(std::move(x)),
      y_(std::move(y)),
      allocator_(std::move(allocator)),
      break_mode_(break_mode),
      sampler_(facts_.train_samples, facts_.minibatch, facts_.seed) {}

absl::Status DataFeed::Read(const InFlight& flight, bool evaluation, Tensor* x,
                            Tensor* y) {
  RETURN_IF_ERROR(FAILPOINT("executor.data"));
  const int64_t minibatch = flight.minibatch.value();
  if (evaluation) {
    indices_ = TestIndices(facts_.test_samples, facts_.minibatch, minibatch);
    indices_minibatch_ = -1;
  } else if (indices_minibatch_ != minibatch) {
    indices_ = sampler_.IndicesOf(minibatch);
    indices_minibatch_ = minibatch;
  }
  const absl::Span<const int64_t> wanted =
      absl::MakeConstSpan(indices_).subspan(flight.first_sample,
                                            flight.samples);
  const Dataset& data = evaluation ? *data_.test : *data_.train;
  ASSIGN_OR_RETURN(
      *x, Tensor::Allocate(*allocator_, x_.shape.WithBatch(flight.samples),
                           x_.dtype, MemoryUse::kActivations));
  ASSIGN_OR_RETURN(
      *y, Tensor::Allocate(*allocator_, y_.shape.WithBatch(flight.samples),
                           y_.dtype, MemoryUse::kActivations));
  RETURN_IF_ERROR(data.Read(wanted, x->f32(), y->i32()));
  if (break_mode_ == BreakMode::kLabel && !evaluation) {
    // The labels of another minibatch, beside these samples.
    std::vector<int64_t> others =
        sampler_.IndicesOf(minibatch == 0 ? 1 : minibatch - 1);
    others.resize(flight.samples, wanted.front());
    std::vector<float> ignored(x->elements());
    RETURN_IF_ERROR(data.Read(others, ignored.data(), y->i32()));
  }
  return absl::OkStatus();
}

}  // namespace pipework
