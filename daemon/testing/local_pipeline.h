// LocalPipeline runs a whole job in this process: the executors of all stage
// replicas as threads over one data plane, with the conductor, without
// daemons, sockets to a coordinator or gRPC. What comes out is everything that
// a test may ask about.
#ifndef PIPEWORK_DAEMON_TESTING_LOCAL_PIPELINE_H_
#define PIPEWORK_DAEMON_TESTING_LOCAL_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/data/dataset.h"
#include "daemon/executor/operation_log.h"
#include "daemon/runner/attempt.h"
#include "daemon/transport/transport.h"
#include "proto/checkpoint.pb.h"
#include "proto/graph.pb.h"
#include "proto/job.pb.h"
#include "proto/metrics.pb.h"
#include "proto/node.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

// Cuts `graph` before each of the layers in `cuts` (ascending indices);
// `replicas` of each stage, empty: one each. Takes schedule and weights from
// `spec`.
v1::Plan PlanWithCuts(const v1::JobSpec& spec, const v1::Graph& graph,
                      const std::vector<int>& cuts,
                      const std::vector<int>& replicas = {});
// As even by number of layers as can be.
v1::Plan EvenPlan(const v1::JobSpec& spec, const v1::Graph& graph, int stages,
                  const std::vector<int>& replicas = {});

// Samples in memory.
class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(Shape sample, std::vector<float> x, std::vector<int32_t> y,
                int64_t classes);

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return sample_; }
  const Shape& label_shape() const override { return label_; }
  int64_t classes() const override { return classes_; }
  absl::Status Read(absl::Span<const int64_t> indices, float* x,
                    int32_t* y) const override;

 private:
  const Shape sample_;
  const Shape label_;
  const std::vector<float> x_;
  const std::vector<int32_t> y_;
  const int64_t size_;
  const int64_t classes_;
};

// `samples` points around `classes` centres, by a fixed generator: easy to
// learn, and every sample different.
std::shared_ptr<const Dataset> ClusteredSamples(Shape sample, int64_t samples,
                                                int64_t classes, int64_t seed);

class LocalPipeline {
 public:
  struct Options {
    v1::JobSpec spec;
    v1::Graph graph;
    v1::Plan plan;
    DataSets data;
    std::string folder;  // for shards and logs; empty: one that goes away
    bool write_operation_log = false;
    std::string break_mode;
    v1::Manifest resume;  // with `resume_folder`
    std::string resume_folder;
    std::string backend = "cpu";
    std::string transport = "in_process";
    // Runners that the seats are shared out to, neighbours together. More than
    // one needs transport ucx.
    int nodes = 1;
    std::function<absl::StatusOr<std::unique_ptr<DataPlane>>(
        const DataPlaneOptions&)>
        make_plane;
    bool poison = true;
    absl::Duration peer_timeout = absl::Seconds(30);
    // Called with every report, one at a time; may call Stop and Kill.
    std::function<void(LocalPipeline&, const v1::RunnerReport&)> on_report;
    absl::Duration report_period = absl::Milliseconds(20);
  };

  struct Result {
    v1::RunnerReport::Ended ended;              // of the leader's runner
    std::vector<v1::RunnerReport::Ended> ends;  // by node
    std::vector<v1::StepMetrics> steps;
    std::vector<v1::EpochMetrics> epochs;
    std::vector<v1::StageMetrics> stages;
    std::vector<v1::Manifest> checkpoints;  // with the shards that were written
    std::map<SeatId, std::vector<OperationRecord>> logs;
    // Weights, buffers and optimizer state by name, of replica 0.
    std::map<std::string, std::vector<float>> tensors;
    // The same of every replica.
    std::map<SeatId, std::map<std::string, std::vector<float>>> replicas;
    // Most units in flight on each seat.
    std::map<SeatId, int> peak_in_flight;
    int64_t step = 0;
    double samples_per_second = 0;
    double measured_step_ms = 0;

    std::vector<double> losses() const;
  };

  // Builds and runs the job to its end. An error: it could not be built; how a
  // run ended is in Result::ended.
  static absl::StatusOr<Result> Run(Options options);

  // From on_report only.
  void Stop(bool now, bool save);
  // Ends the runner of node n (from 0) at once, as if it had died.
  void Kill(int node);

 private:
  LocalPipeline() = default;
  static void Collect(const Attempt& attempt, Result* result);

  std::vector<std::unique_ptr<Attempt>> attempts_;  // by node
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TESTING_LOCAL_PIPELINE_H_
