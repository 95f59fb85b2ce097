#include "daemon/executor/run_facts.h"

#include <algorithm>

#include "scheduler/compile.h"

namespace pipework {

int64_t RunFacts::SizeOf(int64_t k) const {
  const int64_t in_epoch = k % steps_per_epoch;
  return std::min(minibatch, train_samples - in_epoch * minibatch);
}

int64_t RunFacts::TestSizeOf(int64_t k) const {
  return std::min(minibatch, test_samples - k * minibatch);
}

SampleRange RunFacts::RangeOf(const Program& program, int64_t unit) const {
  if (program.segment.evaluation) return {0, TestSizeOf(unit)};
  const int64_t per_minibatch = program.segment.microbatches;
  return MicrobatchRange(SizeOf(unit / per_minibatch), per_minibatch,
                         unit % per_minibatch);
}

int64_t MinibatchOf(const Program& program, int64_t unit) {
  return program.segment.evaluation ? unit
                                    : unit / program.segment.microbatches;
}

int MicrobatchesOf(const v1::JobSpec& spec, const v1::Plan& plan) {
  if (!TakesMicrobatches(plan.schedule()) &&
      !TakesMicrobatches(spec.pipeline().schedule())) {
    return 1;
  }
  const int each =
      std::max<int>(1, static_cast<int>(spec.batch().microbatches()));
  return each * RoundUnits(plan.stages(0).replicas(), plan.stages(0).shares());
}

RunFacts FactsOf(const v1::JobSpec& spec, const v1::Plan& plan,
                 int64_t train_samples, int64_t test_samples,
                 int64_t label_elements) {
  RunFacts facts;
  facts.train_samples = train_samples;
  facts.test_samples = test_samples;
  facts.minibatch = spec.batch().minibatch();
  facts.microbatches = MicrobatchesOf(spec, plan);
  facts.accumulate =
      std::max<int>(1, static_cast<int>(spec.batch().accumulate()));
  facts.steps_per_epoch =
      (train_samples + facts.minibatch - 1) / facts.minibatch;
  facts.total_steps = spec.run().steps() > 0
                          ? spec.run().steps()
                          : spec.run().epochs() * facts.steps_per_epoch;
  facts.label_elements = label_elements;
  facts.seed = spec.seed();
  return facts;
}

}  // namespace pipework
