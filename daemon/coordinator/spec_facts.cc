#include "daemon/coordinator/spec_facts.h"

#include <algorithm>

#include "scheduler/compile.h"

namespace pipework {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t UnitSamples(const v1::JobSpec& spec) {
  const v1::PipelineSpec& pipeline = spec.pipeline();
  int64_t parts = std::max<int64_t>(1, spec.batch().microbatches());
  if (TakesMicrobatches(pipeline.schedule()) && !pipeline.stages().empty()) {
    parts *=
        RoundUnits(pipeline.stages(0).replicas(), pipeline.stages(0).shares());
  }
  return CeilDivide(std::max<int64_t>(1, spec.batch().minibatch()), parts);
}

int64_t TotalSteps(const v1::JobSpec& spec, const v1::DataFacts& facts) {
  if (spec.run().steps() > 0) return spec.run().steps();
  return spec.run().epochs() *
         CeilDivide(facts.train_samples(),
                    std::max<int64_t>(1, spec.batch().minibatch()));
}

}  // namespace pipework
