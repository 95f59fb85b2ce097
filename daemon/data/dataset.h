// Samples and labels from files, and which of them is which minibatch.
#ifndef PIPEWORK_DAEMON_DATA_DATASET_H_
#define PIPEWORK_DAEMON_DATA_DATASET_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "proto/job.pb.h"

namespace pipework {

// A set of samples, in memory or mapped. Const, any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  // Of one sample; and of one label, rank 0 for one class number.
  virtual const Shape& sample_shape() const = 0;
  virtual const Shape& label_shape() const = 0;
  // Largest label + 1, over train and test together; of text: largest byte + 1.
  virtual int64_t classes() const = 0;

  // Writes the samples `indices` to `x` (scaled and normalised) and their
  // labels to `y`. DataLoss: a file is shorter than it was; names file and
  // offset. REQUIRES: each index is from 0 to below size().
  virtual absl::Status Read(absl::Span<const int64_t> indices, float* x,
                            int32_t* y) const = 0;
};

struct DataSets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

// Opens and checks everything: headers, sizes, label range, equal numbers of
// x and y, shapes of train and test alike. InvalidArgument (content) and
// NotFound (missing) name file and byte offset (CSV: line). Labels are held in
// memory, and so is what was packed or is a CSV table; other samples are read
// from their file when they are asked for.
// REQUIRES: absolute paths.
absl::StatusOr<DataSets> OpenData(const v1::DataSpec& spec);

// Which samples make a minibatch: each sample once per epoch, in an order
// keyed by (seed, epoch) alone (RandomOrder, with the epoch as the stream); the
// last minibatch of an epoch may be short. One thread at a time: it remembers
// the order of the epoch asked for last.
// REQUIRES: samples > 0, minibatch > 0.
class Sampler {
 public:
  Sampler(int64_t samples, int64_t minibatch, int64_t seed);

  int64_t minibatches_per_epoch() const;
  // Of minibatch `k` counted through the run.
  int64_t EpochOf(int64_t k) const { return k / minibatches_per_epoch(); }
  // Samples of minibatch k, without their order (cheap, any k).
  int64_t SizeOf(int64_t k) const;
  // Their indices.
  std::vector<int64_t> IndicesOf(int64_t k) const;

 private:
  int64_t samples_;
  int64_t minibatch_;
  int64_t seed_;
  // The order of the epoch asked for last.
  mutable int64_t cached_epoch_ = -1;
  mutable std::vector<int64_t> order_;
};

// Evaluation: minibatch k of the test set in file order.
std::vector<int64_t> TestIndices(int64_t samples, int64_t minibatch, int64_t k);

// Samples [first, end) of a minibatch of `size` samples that are microbatch j
// of m: as even as can be, earlier ones larger; may be empty when size < m.
struct SampleRange {
  int64_t first = 0;
  int64_t end = 0;
};
SampleRange MicrobatchRange(int64_t size, int64_t microbatches, int64_t j);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_DATASET_H_
