// Small jobs for tests: a network, samples that it can learn, and a spec.
#ifndef PIPEWORK_DAEMON_TESTING_TEST_JOBS_H_
#define PIPEWORK_DAEMON_TESTING_TEST_JOBS_H_

#include <map>
#include <string>
#include <vector>

#include "daemon/data/dataset.h"
#include "daemon/testing/local_pipeline.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

struct TestJob {
  std::string name;
  v1::JobSpec spec;
  v1::Graph graph;
  DataSets data;

  // The job as LocalPipeline takes it, cut evenly.
  LocalPipeline::Options Cut(int stages,
                             const std::vector<int>& replicas = {}) const;
};

// 67 samples in minibatches of 8 (the ninth has 3), SGD with momentum, 1f1b
// with stashing, two epochs. No test samples.
//   mlp       five linear layers
//   cnn_bn    convolutions with batch norm
//   residual  residual blocks, batch norm and dropout
TestJob MlpJob();
TestJob CnnBatchNormJob();
TestJob ResidualDropoutJob();
std::vector<TestJob> AllTestJobs();

// The job under another schedule and weight policy; `microbatches` of each
// replica of the first stage, 1 where the schedule takes whole minibatches.
TestJob Scheduled(TestJob job, const std::string& schedule,
                  const std::string& weights, int microbatches);

// The job under schedule flush with so many microbatches in a minibatch (of
// each replica of the first stage).
TestJob Flushing(TestJob job, int microbatches);

// Gives the replicas of stage `stage` of a plan these shares.
void SetShares(v1::Plan* plan, int stage, const std::vector<int>& shares);

// Names of the tensors whose bits differ, or that only one has.
std::vector<std::string> DifferentTensors(
    const std::map<std::string, std::vector<float>>& a,
    const std::map<std::string, std::vector<float>>& b);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TESTING_TEST_JOBS_H_
