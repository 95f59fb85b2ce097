// Learning-rate schedules, pure.
#ifndef PIPEWORK_KERNELS_OPTIMIZERS_LEARNING_RATE_H_
#define PIPEWORK_KERNELS_OPTIMIZERS_LEARNING_RATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace pipework {

// Rate for minibatch `step` (from 0) of a run of `total_steps` with
// `steps_per_epoch`. Warm-up: base * (step + 1) / warmup_steps, then the
// schedule over what is left of the run. Factor and power 0 stand for their
// defaults, 0.1 and 1; an empty schedule is constant.
// REQUIRES: CheckLearningRate(spec) is OK.
double LearningRateAt(const v1::LearningRateSpec& spec, int64_t step,
                      int64_t total_steps, int64_t steps_per_epoch);

// InvalidArgument: unknown schedule (lists the known ones) or a value that
// cannot work.
absl::Status CheckLearningRate(const v1::LearningRateSpec& spec);

std::vector<std::string> LearningRateNames();

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPTIMIZERS_LEARNING_RATE_H_
