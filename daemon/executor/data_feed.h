// DataFeed reads the samples and labels of a unit: stage 0's way to the data.
//
// Threads: none of its own; the executor's thread makes every call.
#ifndef PIPEWORK_DAEMON_EXECUTOR_DATA_FEED_H_
#define PIPEWORK_DAEMON_EXECUTOR_DATA_FEED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "daemon/data/dataset.h"
#include "daemon/executor/activation_store.h"
#include "daemon/executor/break_mode.h"
#include "daemon/executor/run_facts.h"
#include "kernels/device.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/tensor.h"

namespace pipework {

class DataFeed {
 public:
  DataFeed(DataSets data, const RunFacts& facts, TensorSpec x, TensorSpec y,
           std::shared_ptr<Allocator> allocator, BreakMode break_mode);

  // The samples and labels that `flight` says, of the training set or, when
  // `evaluation`, of the test set. DataLoss: a file is shorter than it was.
  absl::Status Read(const InFlight& flight, bool evaluation, Tensor* x,
                    Tensor* y);

 private:
  const DataSets data_;
  const RunFacts facts_;
  const TensorSpec x_;
  const TensorSpec y_;
  const std::shared_ptr<Allocator> allocator_;
  const BreakMode break_mode_;
  const Sampler sampler_;
  // Of the training minibatch read last: its microbatches share them.
  std::vector<int64_t> indices_;
  int64_t indices_minibatch_ = -1;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_DATA_FEED_H_
