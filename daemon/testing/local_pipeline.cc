#include "daemon/testing/local_pipeline.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/thread.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A folder that is gone when the run is over.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* base = std::getenv("TEST_TMPDIR");
    std::string path =
        absl::StrCat(base == nullptr ? "/tmp" : base, "/pipeline-XXXXXX");
    PIPE_CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string NodeName(int node) { return absl::StrCat("n", node + 1); }

std::map<std::string, std::vector<float>> ValuesOf(
    const StageExecutor& executor) {
  std::map<std::string, std::vector<float>> values;
  for (const NamedTensor& each : executor.NamedTensors()) {
    const float* begin = each.tensor.f32();
    values[each.name].assign(begin, begin + each.tensor.elements());
  }
  return values;
}

}  // namespace

v1::Plan PlanWithCuts(const v1::JobSpec& spec, const v1::Graph& graph,
                      const std::vector<int>& cuts,
                      const std::vector<int>& replicas) {
  v1::Plan plan;
  plan.set_feasible(true);
  plan.set_schedule(spec.pipeline().schedule());
  plan.set_weights(spec.pipeline().weights());
  std::vector<int> ends = cuts;
  ends.push_back(graph.layers_size());
  int first = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    v1::PlanStage* stage = plan.add_stages();
    stage->set_index(static_cast<int>(s));
    stage->set_first_layer(first);
    stage->set_end_layer(ends[s]);
    stage->set_replicas(replicas.empty() ? 1 : replicas[s]);
    for (int i = first; i < ends[s]; ++i) {
      stage->add_layers(graph.layers(i).name());
    }
    first = ends[s];
  }
  return plan;
}

v1::Plan EvenPlan(const v1::JobSpec& spec, const v1::Graph& graph, int stages,
                  const std::vector<int>& replicas) {
  std::vector<int> cuts;
  for (int s = 1; s < stages; ++s) {
    cuts.push_back(graph.layers_size() * s / stages);
  }
  return PlanWithCuts(spec, graph, cuts, replicas);
}

MemoryDataset::MemoryDataset(Shape sample, std::vector<float> x,
                             std::vector<int32_t> y, int64_t classes)
    : sample_(std::move(sample)),
      x_(std::move(x)),
      y_(std::move(y)),
      size_(static_cast<int64_t>(y_.size())),
      classes_(classes) {
  PIPE_CHECK(static_cast<int64_t>(x_.size()) == size_ * sample_.elements());
}

absl::Status MemoryDataset::Read(absl::Span<const int64_t> indices, float* x,
                                 int32_t* y) const {
  const int64_t elements = sample_.elements();
  for (const int64_t i : indices) {
    if (i < 0 || i >= size_) {
      return absl::OutOfRangeError(
          absl::StrCat("memory: sample is ", i, ", expected 0 to ", size_ - 1));
    }
    std::memcpy(x, x_.data() + i * elements, elements * sizeof(float));
    x += elements;
    *y++ = y_[i];
  }
  return absl::OkStatus();
}

std::shared_ptr<const Dataset> ClusteredSamples(Shape sample, int64_t samples,
                                                int64_t classes, int64_t seed) {
  // The engine's numbers are the same everywhere; distributions are not.
  std::mt19937 engine(static_cast<uint32_t>(seed));
  const auto uniform = [&engine] {
    return static_cast<float>(engine() >> 8) / 8388608.0f - 1.0f;
  };
  const int64_t elements = sample.elements();
  std::vector<float> centres(classes * elements);
  for (float& value : centres) value = uniform();
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t label = static_cast<int64_t>(engine() % classes);
    y.push_back(static_cast<int32_t>(label));
    for (int64_t e = 0; e < elements; ++e) {
      x.push_back(centres[label * elements + e] + 0.5f * uniform());
    }
  }
  return std::make_shared<MemoryDataset>(std::move(sample), std::move(x),
                                         std::move(y), classes);
}

std::vector<double> LocalPipeline::Result::losses() const {
  std::vector<double> losses;
  for (const v1::StepMetrics& step : steps) losses.push_back(step.loss());
  return losses;
}

void LocalPipeline::Collect(const Attempt& attempt, Result* result) {
  for (const std::unique_ptr<StageExecutor>& executor : attempt.executors()) {
    const SeatId seat = executor->courier().options().self;
    result->logs[seat] = executor->log().Snapshot();
    result->peak_in_flight[seat] = executor->activations().peak_in_flight();
    result->replicas[seat] = ValuesOf(*executor);
    if (seat.replica == ReplicaId(0)) {
      for (const auto& [name, values] : result->replicas[seat]) {
        result->tensors[name] = values;
      }
    }
  }
  const v1::RunnerReport stages = attempt.Stages();
  result->stages.insert(result->stages.end(), stages.stages().stages().begin(),
                        stages.stages().stages().end());
}

absl::StatusOr<LocalPipeline::Result> LocalPipeline::Run(Options options) {
  Result result;
  LocalPipeline pipeline;
  v1::RunnerSetup setup;
  setup.set_job(options.spec.name().empty() ? "test" : options.spec.name());
  setup.set_attempt(1);
  setup.set_nonce(20240501);
  setup.set_data_host("127.0.0.1");
  *setup.mutable_spec() = options.spec;
  *setup.mutable_graph() = options.graph;
  *setup.mutable_plan() = options.plan;
  std::optional<TemporaryFolder> temporary;
  if (options.folder.empty()) options.folder = temporary.emplace().path();
  setup.set_folder(options.folder);
  setup.set_break_mode(options.break_mode);
  setup.set_write_operation_log(options.write_operation_log);
  setup.set_train_samples(options.data.train->size());
  setup.set_test_samples(
      options.data.test == nullptr ? 0 : options.data.test->size());
  int seats = 0;
  for (const v1::PlanStage& stage : options.plan.stages()) {
    seats += stage.replicas();
  }
  int seat_number = 0;
  for (int s = 0; s < options.plan.stages_size(); ++s) {
    for (int q = 0; q < options.plan.stages(s).replicas(); ++q) {
      v1::Seat* seat = setup.mutable_placement()->add_seats();
      seat->set_stage(s);
      seat->set_replica(q);
      seat->set_node(NodeName(seat_number * options.nodes / seats));
      seat->set_device(absl::StrCat("cpu:", seat_number++));
    }
  }
  if (!options.resume_folder.empty()) {
    *setup.mutable_resume() = options.resume;
    setup.set_resume_folder(options.resume_folder);
  }

  std::mutex mutex;
  std::vector<v1::RunnerReport::ShardReady> shards;
  const auto report = [&](const v1::RunnerReport& report) {
    std::lock_guard<std::mutex> lock(mutex);
    if (report.has_progress()) {
      const v1::RunnerReport::Progress& progress = report.progress();
      for (const v1::StepMetrics& step : progress.steps()) {
        result.steps.push_back(step);
      }
      if (progress.has_epoch()) result.epochs.push_back(progress.epoch());
      result.step = progress.step();
      result.samples_per_second = progress.samples_per_second();
      result.measured_step_ms = progress.measured_step_ms();
    }
    if (report.has_shard()) shards.push_back(report.shard());
    if (report.has_checkpoint() && report.checkpoint().problem().empty()) {
      v1::Manifest manifest = report.checkpoint().manifest();
      for (v1::Shard& shard : *manifest.mutable_shards()) {
        for (const v1::RunnerReport::ShardReady& ready : shards) {
          if (ready.step() == manifest.step() &&
              ready.shard().file() == shard.file()) {
            shard = ready.shard();
          }
        }
      }
      result.checkpoints.push_back(std::move(manifest));
    }
    if (options.on_report) options.on_report(pipeline, report);
  };

  for (int node = 0; node < options.nodes; ++node) {
    Attempt::Options attempt;
    attempt.setup = setup;
    attempt.setup.set_node(NodeName(node));
    attempt.data = options.data;
    attempt.backend = options.backend;
    attempt.transport = options.transport;
    attempt.make_plane = options.make_plane;
    attempt.poison = options.poison;
    attempt.pin = false;
    attempt.peer_timeout = options.peer_timeout;
    attempt.report_period = options.report_period;
    attempt.log_capacity = 1 << 20;
    attempt.report = report;
    ASSIGN_OR_RETURN(std::unique_ptr<Attempt> made,
                     Attempt::Create(std::move(attempt)));
    pipeline.attempts_.push_back(std::move(made));
  }
  for (v1::Seat& seat : *setup.mutable_placement()->mutable_seats()) {
    for (int node = 0; node < options.nodes; ++node) {
      if (seat.node() == NodeName(node)) {
        seat.set_data_address(pipeline.attempts_[node]->data_address());
      }
    }
  }
  // Each waits for the others.
  std::vector<absl::Status> connected(options.nodes);
  {
    std::vector<Thread> threads;
    for (int node = 0; node < options.nodes; ++node) {
      threads.emplace_back("connect", [&, node] {
        connected[node] = pipeline.attempts_[node]->Connect(setup.placement());
      });
    }
  }
  for (const absl::Status& status : connected) RETURN_IF_ERROR(status);
  for (const auto& attempt : pipeline.attempts_) attempt->Start();
  result.ends.resize(options.nodes);
  {
    std::vector<Thread> threads;
    for (int node = 0; node < options.nodes; ++node) {
      threads.emplace_back("node", [&, node] {
        std::unique_ptr<Attempt>& attempt = pipeline.attempts_[node];
        const v1::RunnerReport::Ended ended = attempt->Wait();
        std::unique_ptr<Attempt> over;
        std::lock_guard<std::mutex> lock(mutex);
        result.ends[node] = ended;
        Collect(*attempt, &result);
        // As a process that exits: its connections close.
        over = std::move(attempt);
      });
    }
  }
  result.ended = result.ends.front();
  return result;
}

void LocalPipeline::Stop(bool now, bool save) {
  for (const auto& attempt : attempts_) {
    if (attempt == nullptr) continue;
    attempt->Stop(now, save, "a test asks for it");
  }
}

void LocalPipeline::Kill(int node) {
  if (attempts_[node] == nullptr) return;
  attempts_[node]->Stop(/*now=*/true, /*save=*/false, "a test kills it");
}

}  // namespace pipework
