// The numbers of a run that every executor knows: which samples a unit has.
#ifndef PIPEWORK_DAEMON_EXECUTOR_RUN_FACTS_H_
#define PIPEWORK_DAEMON_EXECUTOR_RUN_FACTS_H_

#include <cstdint>

#include "daemon/data/dataset.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "scheduler/program.h"

namespace pipework {

struct RunFacts {
  int64_t train_samples = 0;
  int64_t test_samples = 0;
  int64_t minibatch = 0;  // samples
  int microbatches = 1;   // of a minibatch, over all replicas
  int accumulate = 1;     // rounds of minibatches per update
  int64_t steps_per_epoch = 0;
  int64_t total_steps = 0;
  int64_t label_elements = 1;  // numbers of one sample's label
  int64_t seed = 1;

  int64_t test_minibatches() const {
    return (test_samples + minibatch - 1) / minibatch;
  }
  // Samples of training minibatch k.
  int64_t SizeOf(int64_t k) const;
  // Samples of test minibatch k.
  int64_t TestSizeOf(int64_t k) const;
  // Samples of a training unit, within its minibatch.
  SampleRange RangeOf(const Program& program, int64_t unit) const;
};

// The minibatch that a unit of `program` belongs to.
int64_t MinibatchOf(const Program& program, int64_t unit);

// Microbatches of a minibatch over all replicas of stage 0: batch.microbatches
// for each of them, or for each unit of a round where they have shares, if the
// schedule takes microbatches; else 1.
int MicrobatchesOf(const v1::JobSpec& spec, const v1::Plan& plan);

// REQUIRES: spec is valid, train_samples > 0.
RunFacts FactsOf(const v1::JobSpec& spec, const v1::Plan& plan,
                 int64_t train_samples, int64_t test_samples,
                 int64_t label_elements);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_RUN_FACTS_H_
