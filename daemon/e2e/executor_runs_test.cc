// Runs that are stopped, resumed, slowed down, that diverge or lose a peer.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/testing/local_pipeline.h"
#include "daemon/testing/test_jobs.h"
#include "daemon/transport/faulty.h"
#include "daemon/transport/transport.h"

namespace pipework {
namespace {

LocalPipeline::Result Run(const LocalPipeline::Options& options) {
  auto result = LocalPipeline::Run(options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  return *std::move(result);
}

LocalPipeline::Result RunWell(const LocalPipeline::Options& options) {
  LocalPipeline::Result result = Run(options);
  INFO(result.ended.message());
  REQUIRE(result.ended.code() == 0);
  return result;
}

class Folder {
 public:
  Folder() {
    std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/run-XXXXXX");
    REQUIRE(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  // Where a checkpoint's shards lie.
  std::string Checkpoint(const v1::Manifest& manifest) const {
    return absl::StrCat(path_, "/", CheckpointFolderName(manifest.step()));
  }

 private:
  std::string path_;
};

std::string Differences(const LocalPipeline::Result& a,
                        const LocalPipeline::Result& b) {
  return absl::StrJoin(DifferentTensors(a.tensors, b.tensors), " ");
}

TestJob WithTestSamples(TestJob job) {
  job.data.test =
      ClusteredSamples(job.data.train->sample_shape(), 30, 5, /*seed=*/3);
  return job;
}

}  // namespace

// ---- transports -------------------------------------------------------------

TEST_CASE("a transport without buffers, or with one slot, changes no bit") {
  for (const TestJob& job : AllTestJobs()) {
    for (const std::vector<int>& replicas :
         {std::vector<int>{1, 1, 1, 1}, {2, 1, 2}, {1, 3, 1}}) {
      const int stages = static_cast<int>(replicas.size());
      for (const TestJob& run : {job, Flushing(job, 3)}) {
        LocalPipeline::Options options =
            WithTestSamples(run).Cut(stages, replicas);
        const LocalPipeline::Result plain = RunWell(options);
        for (const char* transport : {"zero_buffer", "one_slot"}) {
          CAPTURE(job.name, replicas, transport);
          options.transport = transport;
          const LocalPipeline::Result other = RunWell(options);
          CHECK(Differences(plain, other) == "");
          CHECK(plain.losses() == other.losses());
        }
      }
    }
  }
}

TEST_CASE("messages that come late and overtake one another change no bit") {
  for (const std::vector<int>& replicas :
       {std::vector<int>{1, 1, 1, 1}, {1, 2, 1}, {2, 1, 2}, {1, 1, 3}}) {
    TestJob job = CnnBatchNormJob();
    job.spec.mutable_run()->set_epochs(1);
    LocalPipeline::Options options =
        WithTestSamples(job).Cut(static_cast<int>(replicas.size()), replicas);
    const LocalPipeline::Result plain = RunWell(options);
    Faults faults;
    faults.seed = 5;
    faults.delay = absl::Milliseconds(3);
    faults.shuffle = 3;
    options.make_plane = [&faults](const DataPlaneOptions& plane)
        -> absl::StatusOr<std::unique_ptr<DataPlane>> {
      auto inner = MakeDataPlane("in_process", plane);
      if (!inner.ok()) return inner.status();
      return MakeFaultyPlane(*std::move(inner), faults);
    };
    CAPTURE(replicas);
    const LocalPipeline::Result late = RunWell(options);
    CHECK(Differences(plain, late) == "");
    CHECK(plain.losses() == late.losses());
  }
}

TEST_CASE("two runners over UCX compute what one computes") {
  for (const TestJob& job : AllTestJobs()) {
    LocalPipeline::Options options = WithTestSamples(job).Cut(3, {1, 2, 1});
    const LocalPipeline::Result one = RunWell(options);
    options.transport = "ucx";
    options.nodes = 2;
    const LocalPipeline::Result two = RunWell(options);
    CAPTURE(job.name);
    CHECK(Differences(one, two) == "");
    CHECK(one.losses() == two.losses());
    REQUIRE(two.ends.size() == 2);
    CHECK(two.ends[1].code() == 0);
  }
}

TEST_CASE("a runner that dies ends the others at once, as a peer's end") {
  TestJob job = MlpJob();
  job.spec.mutable_run()->set_epochs(100000);
  LocalPipeline::Options options = job.Cut(4);
  options.transport = "ucx";
  options.nodes = 2;
  std::atomic<bool> killed{false};
  options.on_report = [&killed](LocalPipeline& pipeline,
                                const v1::RunnerReport& report) {
    if (report.progress().step() > 50 && !killed.exchange(true)) {
      pipeline.Kill(1);
    }
  };
  const LocalPipeline::Result result = Run(options);
  REQUIRE(result.ends.size() == 2);
  INFO(result.ends[0].message());
  CHECK(result.ends[0].reason() == "PEER_LOST");
  CHECK_FALSE(result.ends[0].first_cause());
  CHECK_FALSE(result.ends[0].finished());
}

// ---- stopping ---------------------------------------------------------------

TEST_CASE("a stop drains the pipe, saves, and the rest gives the same bits") {
  // Stopped somewhere, resumed, stopped by its end: the drain in the middle is
  // the only difference, so the comparison is a run that is saved there.
  for (const std::vector<int>& replicas :
       {std::vector<int>{1}, {1, 1, 1}, {1, 1, 1, 1}, {2, 1}, {1, 3, 1}}) {
    for (const bool flush : {false, true}) {
      CAPTURE(replicas, flush);
      const int stages = static_cast<int>(replicas.size());
      TestJob job = MlpJob();
      job.data.train = ClusteredSamples(Shape{13}, 8 * 400, 5, 3);
      job.spec.mutable_run()->set_epochs(2);
      if (flush) job = Flushing(job, 2);
      Folder folder;
      LocalPipeline::Options options = job.Cut(stages, replicas);
      options.folder = folder.path();
      options.report_period = absl::ZeroDuration();
      options.on_report = [](LocalPipeline& pipeline,
                             const v1::RunnerReport& report) {
        if (report.progress().step() > 40) pipeline.Stop(false, true);
      };
      const LocalPipeline::Result stopped = Run(options);
      INFO(stopped.ended.message());
      CHECK(stopped.ended.stopped());
      CHECK_FALSE(stopped.ended.finished());
      REQUIRE(stopped.checkpoints.size() == 1);
      const v1::Manifest& manifest = stopped.checkpoints[0];
      CHECK(manifest.step() > 40);
      CHECK(manifest.step() < 800);
      CHECK(static_cast<int64_t>(stopped.steps.size()) == manifest.step());

      options.on_report = nullptr;
      options.resume = manifest;
      options.resume_folder = folder.Checkpoint(manifest);
      const LocalPipeline::Result resumed = RunWell(options);
      CHECK(static_cast<int64_t>(resumed.steps.size()) ==
            800 - manifest.step());
      CHECK(resumed.steps.front().step() == manifest.step());
      if (flush) {
        // A drain changes nothing where every update drains.
        LocalPipeline::Options whole = job.Cut(stages, replicas);
        CHECK(Differences(RunWell(whole), resumed) == "");
      }
    }
  }
}

TEST_CASE("a stop without a checkpoint ends the run and saves nothing") {
  for (const bool now : {false, true}) {
    TestJob job = MlpJob();
    job.spec.mutable_run()->set_epochs(100000);
    LocalPipeline::Options options = job.Cut(3);
    options.on_report = [now](LocalPipeline& pipeline,
                              const v1::RunnerReport& report) {
      if (report.progress().step() > 30) pipeline.Stop(now, false);
    };
    const LocalPipeline::Result result = Run(options);
    CAPTURE(now);
    CHECK(result.ended.stopped());
    CHECK(result.ended.reason() == "CANCELLED");
    CHECK(result.checkpoints.empty());
  }
}

// ---- resuming ---------------------------------------------------------------

TEST_CASE(
    "flush: resumed on any number of stages, the run gives the same bits") {
  TestJob job = Flushing(CnnBatchNormJob(), 2);
  job.spec.mutable_optimizer()->Clear();
  job.spec.mutable_optimizer()->set_name("adam");
  job.spec.mutable_optimizer()->set_beta1(0.9);
  job.spec.mutable_optimizer()->set_beta2(0.999);
  job.spec.mutable_optimizer()->set_epsilon(1e-8);
  job.spec.mutable_learning_rate()->set_base(0.003);
  const LocalPipeline::Result whole = RunWell(job.Cut(3));

  TestJob saving = job;
  saving.spec.mutable_checkpoint()->set_every_steps(5);
  Folder folder;
  LocalPipeline::Options options = saving.Cut(3);
  options.folder = folder.path();
  const LocalPipeline::Result saved = RunWell(options);
  CHECK(Differences(whole, saved) == "");
  REQUIRE(saved.checkpoints.size() == 4);  // 5, 10, 15 and the end

  for (const int stages : {1, 2, 3, 4}) {
    for (const v1::Manifest& manifest : saved.checkpoints) {
      CAPTURE(stages, manifest.step());
      LocalPipeline::Options rest = job.Cut(stages);
      rest.resume = manifest;
      rest.resume_folder = folder.Checkpoint(manifest);
      const LocalPipeline::Result resumed = RunWell(rest);
      CHECK(Differences(whole, resumed) == "");
    }
  }
}

TEST_CASE("stashing: what a checkpoint holds is what another cut loads") {
  TestJob job = ResidualDropoutJob();
  Folder folder;
  LocalPipeline::Options options = job.Cut(4, {1, 2, 1, 1});
  options.folder = folder.path();
  const LocalPipeline::Result saved = RunWell(options);
  REQUIRE(saved.checkpoints.size() == 1);
  for (const std::vector<int>& replicas :
       {std::vector<int>{1}, {1, 1}, {3, 1, 1}}) {
    LocalPipeline::Options rest =
        job.Cut(static_cast<int>(replicas.size()), replicas);
    rest.resume = saved.checkpoints[0];
    rest.resume_folder = folder.Checkpoint(saved.checkpoints[0]);
    // Nothing is left to train: what was loaded is what comes out.
    const LocalPipeline::Result loaded = RunWell(rest);
    CAPTURE(replicas);
    CHECK(loaded.steps.empty());
    CHECK(Differences(saved, loaded) == "");
  }
}

TEST_CASE("stashing: 20 steps are 10, a drain, and 10 more") {
  TestJob job = MlpJob();
  job.spec.mutable_run()->clear_epochs();
  job.spec.mutable_run()->set_steps(16);
  job.spec.mutable_checkpoint()->set_every_steps(6);
  Folder folder;
  LocalPipeline::Options options = job.Cut(4);
  options.folder = folder.path();
  const LocalPipeline::Result whole = RunWell(options);
  REQUIRE(whole.checkpoints.size() == 3);
  for (const v1::Manifest& manifest : whole.checkpoints) {
    LocalPipeline::Options rest = job.Cut(4);
    rest.resume = manifest;
    rest.resume_folder = folder.Checkpoint(manifest);
    CAPTURE(manifest.step());
    CHECK(Differences(whole, RunWell(rest)) == "");
  }
}

// ---- the end of a run -------------------------------------------------------

TEST_CASE("a run ends when the target is reached, and fails below it") {
  TestJob job = WithTestSamples(MlpJob());
  job.spec.mutable_run()->set_epochs(30);
  job.spec.mutable_run()->set_target_accuracy(0.5);
  const LocalPipeline::Result reached = RunWell(job.Cut(3));
  CHECK(reached.ended.finished());
  CHECK(reached.ended.test_accuracy() >= 0.5);
  CHECK(reached.epochs.size() < 30);
  CHECK(reached.checkpoints.size() == 1);
  CHECK(reached.checkpoints[0].test_accuracy() ==
        reached.ended.test_accuracy());

  job.spec.mutable_run()->set_epochs(1);
  job.spec.mutable_run()->set_target_accuracy(1);
  const LocalPipeline::Result missed = Run(job.Cut(3));
  CHECK(missed.ended.finished());
  CHECK(missed.ended.reason() == "TARGET_MISSED");
  CHECK(missed.checkpoints.size() == 1);
}

TEST_CASE("evaluation is weighted by samples and does not depend on the cut") {
  TestJob job = Flushing(WithTestSamples(CnnBatchNormJob()), 2);
  const LocalPipeline::Result one = RunWell(job.Cut(1));
  REQUIRE(one.epochs.size() == 2);
  CHECK(one.epochs[1].test_loss() > 0);
  for (const int stages : {2, 3, 4}) {
    const LocalPipeline::Result other = RunWell(job.Cut(stages));
    CAPTURE(stages);
    REQUIRE(other.epochs.size() == 2);
    for (int e = 0; e < 2; ++e) {
      CHECK(other.epochs[e].test_accuracy() == one.epochs[e].test_accuracy());
      CHECK(other.epochs[e].test_loss() == one.epochs[e].test_loss());
      CHECK(other.epochs[e].train_loss() == one.epochs[e].train_loss());
    }
  }
}

TEST_CASE("an evaluation longer than its window of credits runs to its end") {
  TestJob job = MlpJob();
  job.spec.mutable_run()->set_epochs(1);
  job.data.test = ClusteredSamples(Shape{13}, 8 * 100 + 3, 5, 3);
  for (const std::vector<int>& replicas :
       {std::vector<int>{1, 1}, {2, 1, 1}, {1, 1, 2}, {3, 2}}) {
    CAPTURE(replicas);
    const LocalPipeline::Result result =
        RunWell(job.Cut(static_cast<int>(replicas.size()), replicas));
    REQUIRE(result.epochs.size() == 1);
    CHECK(result.epochs[0].test_accuracy() >= 0);
  }
}

TEST_CASE("a loss that is not finite stops the run and names the minibatch") {
  TestJob job = MlpJob();
  job.spec.mutable_learning_rate()->Clear();
  job.spec.mutable_learning_rate()->set_schedule("constant");
  job.spec.mutable_learning_rate()->set_base(1e30);
  const LocalPipeline::Result result = Run(job.Cut(3));
  CHECK(result.ended.reason() == "LOSS_NOT_FINITE");
  CHECK(result.ended.first_cause());
  CHECK_THAT(result.ended.message(),
             Catch::Contains("job mlp: stage 2 replica 0") &&
                 Catch::Contains("of minibatch "));
}

TEST_CASE(
    "a checkpoint that is due by time is taken in the middle of an epoch") {
  TestJob job = MlpJob();
  job.data.train = ClusteredSamples(Shape{13}, 8 * 20000, 5, 3);
  job.spec.mutable_run()->set_epochs(1000);
  job.spec.mutable_checkpoint()->set_every_seconds(1);
  Folder folder;
  LocalPipeline::Options options = job.Cut(3);
  options.folder = folder.path();
  options.on_report = [](LocalPipeline& pipeline,
                         const v1::RunnerReport& report) {
    if (report.has_checkpoint()) pipeline.Stop(true, false);
  };
  const LocalPipeline::Result result = Run(options);
  REQUIRE(result.checkpoints.size() == 1);
  CHECK(result.checkpoints[0].step() > 0);
  CHECK(result.checkpoints[0].step() == result.checkpoints[0].updates(0));
}

TEST_CASE("a final checkpoint that cannot be written fails the run") {
  LocalPipeline::Options options = MlpJob().Cut(2);
  options.folder = "/proc/no/such/folder";
  const LocalPipeline::Result result = Run(options);
  CHECK(result.ended.reason() == "CHECKPOINT_FAILED");
  CHECK_THAT(result.ended.message(), Catch::Contains("/proc/no/such/folder"));
  CHECK(result.checkpoints.empty());
}

TEST_CASE("data that goes bad ends the run with the minibatch named") {
  // The samples of a file that is cut short while it is read.
  class Shrinking final : public Dataset {
   public:
    explicit Shrinking(std::shared_ptr<const Dataset> whole)
        : whole_(std::move(whole)) {}
    int64_t size() const override { return whole_->size(); }
    const Shape& sample_shape() const override {
      return whole_->sample_shape();
    }
    const Shape& label_shape() const override { return whole_->label_shape(); }
    int64_t classes() const override { return whole_->classes(); }
    absl::Status Read(absl::Span<const int64_t> indices, float* x,
                      int32_t* y) const override {
      if (++reads_ == 7) return absl::DataLossError("x.npy: offset 4096: gone");
      return whole_->Read(indices, x, y);
    }

   private:
    const std::shared_ptr<const Dataset> whole_;
    mutable std::atomic<int> reads_{0};
  };
  TestJob job = MlpJob();
  job.data.train = std::make_shared<Shrinking>(job.data.train);
  const LocalPipeline::Result result = Run(job.Cut(3));
  CHECK(result.ended.reason() == "DATA_ERROR");
  CHECK(result.ended.first_cause());
  CHECK_THAT(result.ended.message(), Catch::Contains("stage 0 replica 0") &&
                                         Catch::Contains("minibatch 6") &&
                                         Catch::Contains("x.npy"));
}

TEST_CASE("a message that never comes ends the run with both ends named") {
  TestJob job = MlpJob();
  LocalPipeline::Options options = job.Cut(2);
  options.peer_timeout = absl::Milliseconds(300);
  Faults faults;
  faults.seed = 1;
  faults.drop = 0.2;
  options.make_plane = [&faults](const DataPlaneOptions& plane)
      -> absl::StatusOr<std::unique_ptr<DataPlane>> {
    auto inner = MakeDataPlane("in_process", plane);
    if (!inner.ok()) return inner.status();
    return MakeFaultyPlane(*std::move(inner), faults);
  };
  const LocalPipeline::Result result = Run(options);
  CHECK(result.ended.reason() == "PEER_TIMEOUT");
  CHECK_THAT(result.ended.message(), Catch::Contains("job mlp: stage ") &&
                                         Catch::Contains("waiting for"));
}

TEST_CASE("time shares add up to one, and other is small") {
  const LocalPipeline::Result result = RunWell(CnnBatchNormJob().Cut(4));
  for (const v1::StageMetrics& stage : result.stages) {
    const v1::Shares& shares = stage.shares();
    CHECK(shares.compute() + shares.transfer() + shares.wait_upstream() +
              shares.wait_downstream() + shares.other() ==
          Approx(1));
    CHECK(stage.utilisation() == Approx(shares.compute()));
  }
}

}  // namespace pipework
