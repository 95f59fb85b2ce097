// Naive model parallelism: what pipelining is measured against.
//
// A replica admits a minibatch when it has finished the one before: the order
// of PipeDream with one in flight, which the table fixes. Without replicas only
// one stage computes at any time, and every stage reads the newest weights.
#include "scheduler/schedules/model_parallel.h"

#include "proto/check.h"
#include "scheduler/schedules/one_f_one_b.h"

namespace pipework {

std::vector<Action> ModelParallel(const Program& program, StageId stage,
                                  ReplicaId replica) {
  PIPE_CHECK(program.shape.in_flight == 1);
  return OneForwardOneBackward(program, stage, replica);
}

}  // namespace pipework
