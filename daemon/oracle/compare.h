// How far two runs of one job agree, layer by layer.
#ifndef PIPEWORK_DAEMON_ORACLE_COMPARE_H_
#define PIPEWORK_DAEMON_ORACLE_COMPARE_H_

#include <vector>

#include "daemon/oracle/network.h"
#include "proto/graph.pb.h"
#include "proto/verification.pb.h"

namespace pipework {

// Compares every bit of `pipeline` with the oracle's tensors, which it matches
// one to one: fills in layers, equal and first_difference of `out`. A NaN is
// only equal to the same NaN, and as far away as can be from anything else.
void CompareTensors(const v1::Graph& graph,
                    const std::vector<OracleTensor>& oracle,
                    const std::vector<Tensor>& pipeline, v1::Verification* out);

// Largest difference of two lists of losses; infinite where one is longer.
double LargestDifference(const std::vector<double>& a,
                         const std::vector<double>& b);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_ORACLE_COMPARE_H_
