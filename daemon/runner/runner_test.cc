#include "daemon/runner/runner.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "daemon/testing/test_jobs.h"

namespace pipework {
namespace {

// The daemon's end of a runner that serves in a thread.
class HostedRunner {
 public:
  explicit HostedRunner(const std::string& transport = "in_process") {
    // Lines reach a hook through the format that this sets.
    REQUIRE(InitLog("runner_test", "info").ok());
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    daemon_ = std::make_unique<FrameChannel>(UniqueFd(ends[0]), "daemon");
    runner_channel_ = std::make_unique<FrameChannel>(UniqueFd(ends[1]), "test");
    thread_ = Thread("runner", [this, transport] {
      Runner::Options options;
      options.transport = transport;
      options.stages_period = absl::Milliseconds(20);
      status_ = Runner(runner_channel_.get(), options).Run();
    });
  }
  ~HostedRunner() { HangUp().IgnoreError(); }

  void Send(const v1::RunnerCommand& command) {
    REQUIRE(daemon_->Send(command, MonotonicNow() + absl::Seconds(10)).ok());
  }
  // The next report of that kind; those before it are kept in `seen`.
  v1::RunnerReport Await(v1::RunnerReport::BodyCase kind) {
    for (;;) {
      v1::RunnerReport report;
      const absl::Status status =
          daemon_->Receive(&report, MonotonicNow() + absl::Seconds(60));
      INFO(status.ToString());
      REQUIRE(status.ok());
      seen.push_back(report);
      if (report.body_case() == kind) return report;
    }
  }
  absl::Status HangUp() {
    daemon_->Shutdown();
    thread_.Join();
    return status_;
  }

  std::vector<v1::RunnerReport> seen;

 private:
  std::unique_ptr<FrameChannel> daemon_;
  std::unique_ptr<FrameChannel> runner_channel_;
  absl::Status status_;
  Thread thread_;
};

std::string DigitsFolder() {
  char* real = realpath("testdata/digits", nullptr);
  REQUIRE(real != nullptr);
  const std::string folder = real;
  free(real);
  return folder;
}

v1::RunnerCommand SetupFor(int stages, int64_t epochs) {
  TestJob job = CnnBatchNormJob();
  job.spec.mutable_run()->set_epochs(epochs);
  v1::DataSpec& data = *job.spec.mutable_data();
  data.mutable_train()->set_x(DigitsFolder() + "/test_x.npy");
  data.mutable_train()->set_y(DigitsFolder() + "/test_y.npy");
  data.mutable_split()->set_test(60);
  data.set_scale(0.0625);
  // The digits have ten classes.
  for (v1::Layer& layer : *job.graph.mutable_layers()) {
    if (layer.name() != "fc2") continue;
    for (v1::Arg& arg : *layer.mutable_args()) {
      if (arg.name() == "out") arg.set_int_value(10);
    }
  }
  v1::RunnerCommand command;
  v1::RunnerSetup& setup = *command.mutable_setup();
  setup.set_job("j-test");
  setup.set_attempt(1);
  *setup.mutable_spec() = job.spec;
  *setup.mutable_graph() = job.graph;
  *setup.mutable_plan() = EvenPlan(job.spec, job.graph, stages);
  setup.set_node("n1");
  for (int s = 0; s < stages; ++s) {
    v1::Seat* seat = setup.mutable_placement()->add_seats();
    seat->set_stage(s);
    seat->set_node("n1");
    seat->set_device(absl::StrCat("cpu:", s));
  }
  setup.set_folder(std::getenv("TEST_TMPDIR"));
  setup.set_train_samples(300);
  setup.set_test_samples(60);
  return command;
}

v1::RunnerCommand StartFor(const v1::RunnerCommand& setup) {
  v1::RunnerCommand command;
  *command.mutable_start()->mutable_placement() = setup.setup().placement();
  return command;
}

}  // namespace

TEST_CASE("runner: setup, start, and a run to its end") {
  HostedRunner runner;
  const v1::RunnerCommand setup = SetupFor(3, 2);
  runner.Send(setup);
  runner.Await(v1::RunnerReport::kReady);
  runner.Send(StartFor(setup));
  runner.Await(v1::RunnerReport::kRunning);
  const v1::RunnerReport::Ended ended =
      runner.Await(v1::RunnerReport::kEnded).ended();
  INFO(ended.message());
  CHECK(ended.code() == 0);
  CHECK(ended.finished());
  CHECK(ended.test_accuracy() >= 0);
  CHECK(runner.HangUp().ok());

  int64_t steps = 0;
  int epochs = 0;
  int shards = 0;
  int checkpoints = 0;
  int lines = 0;
  v1::RunnerReport::Stages stages;
  for (const v1::RunnerReport& report : runner.seen) {
    steps += report.progress().steps_size();
    epochs += report.progress().has_epoch() ? 1 : 0;
    shards += report.has_shard() ? 1 : 0;
    checkpoints += report.has_checkpoint() ? 1 : 0;
    lines += report.log().lines_size();
    if (report.has_stages()) stages = report.stages();
  }
  CHECK(steps == 2 * 38);
  CHECK(epochs == 2);
  CHECK(shards == 3);
  CHECK(checkpoints == 1);
  CHECK(lines >= 3);
  REQUIRE(stages.stages_size() == 3);
  for (const v1::StageMetrics& stage : stages.stages()) {
    CHECK(stage.forwards() == 2 * 38);
    CHECK(stage.backwards() == 2 * 38);
    CHECK(stage.versions_held() == 3 - stage.index());
  }
}

TEST_CASE("runner: a setup that cannot work ends with the reason") {
  HostedRunner runner;
  v1::RunnerCommand setup = SetupFor(2, 1);
  SECTION("data that is not there") {
    setup.mutable_setup()
        ->mutable_spec()
        ->mutable_data()
        ->mutable_train()
        ->set_x("/no/such/file.npy");
    runner.Send(setup);
    const auto ended = runner.Await(v1::RunnerReport::kEnded).ended();
    CHECK(ended.reason() == "DATA_ERROR");
    CHECK_THAT(ended.message(), Catch::Contains("/no/such/file.npy"));
    CHECK(ended.first_cause());
  }
  SECTION("another number of samples than at submit") {
    setup.mutable_setup()->set_train_samples(299);
    runner.Send(setup);
    const auto ended = runner.Await(v1::RunnerReport::kEnded).ended();
    CHECK(ended.reason() == "DATA_ERROR");
    CHECK_THAT(ended.message(),
               Catch::Contains("300") && Catch::Contains("299"));
  }
  SECTION("no seat here") {
    setup.mutable_setup()->set_node("n2");
    runner.Send(setup);
    CHECK(runner.Await(v1::RunnerReport::kEnded).ended().code() != 0);
  }
}

TEST_CASE("runner: a stop before the start ends it as stopped") {
  HostedRunner runner;
  runner.Send(SetupFor(2, 1));
  runner.Await(v1::RunnerReport::kReady);
  v1::RunnerCommand stop;
  stop.mutable_stop()->set_save(true);
  stop.mutable_stop()->set_reason("cancelled by a user");
  runner.Send(stop);
  const auto ended = runner.Await(v1::RunnerReport::kEnded).ended();
  CHECK(ended.stopped());
  CHECK(ended.message() == "cancelled by a user");
}

TEST_CASE("runner: a stop while it trains saves and ends") {
  HostedRunner runner;
  const v1::RunnerCommand setup = SetupFor(3, 100000);
  runner.Send(setup);
  runner.Await(v1::RunnerReport::kReady);
  runner.Send(StartFor(setup));
  while (runner.Await(v1::RunnerReport::kProgress).progress().step() < 50) {
  }
  v1::RunnerCommand stop;
  stop.mutable_stop()->set_save(true);
  stop.mutable_stop()->set_reason("cancelled by a user");
  runner.Send(stop);
  const auto ended = runner.Await(v1::RunnerReport::kEnded).ended();
  INFO(ended.message());
  CHECK(ended.stopped());
  CHECK_FALSE(ended.finished());
  int checkpoints = 0;
  for (const v1::RunnerReport& report : runner.seen) {
    checkpoints += report.has_checkpoint() ? 1 : 0;
  }
  CHECK(checkpoints == 1);
}

TEST_CASE("runner: when the daemon is gone, everything ends") {
  HostedRunner runner;
  const v1::RunnerCommand setup = SetupFor(3, 100000);
  runner.Send(setup);
  runner.Await(v1::RunnerReport::kReady);
  runner.Send(StartFor(setup));
  runner.Await(v1::RunnerReport::kProgress);
  CHECK(absl::IsUnavailable(runner.HangUp()));
}

TEST_CASE("runner: two runners measure the link between them") {
  HostedRunner runners[2] = {HostedRunner("ucx"), HostedRunner("ucx")};
  v1::RunnerCommand start;
  for (int i = 0; i < 2; ++i) {
    v1::RunnerCommand command;
    v1::RunnerLinks* links = command.mutable_links();
    links->set_job("links-test");
    links->add_nodes("n1");
    links->add_nodes("n2");
    links->set_index(i);
    links->set_nonce(3);
    v1::RunnerLinks::Pair* pair = links->add_pairs();
    pair->set_a(0);
    pair->set_b(1);
    runners[i].Send(command);
    v1::Seat* seat = start.mutable_start()->mutable_placement()->add_seats();
    seat->set_stage(i);
    seat->set_data_address(
        runners[i].Await(v1::RunnerReport::kReady).ready().data_address());
  }
  for (HostedRunner& runner : runners) runner.Send(start);
  const v1::RunnerReport first = runners[0].Await(v1::RunnerReport::kLinks);
  REQUIRE(first.links().links_size() == 1);
  CHECK(first.links().links(0).a() == "n1");
  CHECK(first.links().links(0).b() == "n2");
  CHECK(first.links().links(0).bytes_per_second() > 0);
  CHECK(runners[1].Await(v1::RunnerReport::kLinks).links().links_size() == 0);
}

TEST_CASE(
    "runner: a measurement of links without its peer ends with the reason") {
  HostedRunner runner("ucx");
  v1::RunnerCommand command;
  command.mutable_links()->set_job("links-test");
  command.mutable_links()->add_nodes("n1");
  command.mutable_links()->add_nodes("n2");
  v1::RunnerLinks::Pair* pair = command.mutable_links()->add_pairs();
  pair->set_a(0);
  pair->set_b(1);
  runner.Send(command);
  v1::RunnerCommand start;
  v1::Seat* seat = start.mutable_start()->mutable_placement()->add_seats();
  seat->set_data_address(
      runner.Await(v1::RunnerReport::kReady).ready().data_address());
  runner.Send(start);
  const v1::RunnerReport ended = runner.Await(v1::RunnerReport::kEnded);
  CHECK(ended.ended().code() != 0);
  CHECK(ended.ended().message() ==
        "links: the address of node 1 is missing, expected host:port");
}

TEST_CASE("runner: a profile is measured and reported") {
  HostedRunner runner;
  const v1::RunnerCommand setup = SetupFor(1, 1);
  v1::RunnerCommand command;
  v1::RunnerProfile& profile = *command.mutable_profile();
  *profile.mutable_spec() = setup.setup().spec();
  *profile.mutable_graph() = setup.setup().graph();
  profile.set_batch(8);
  runner.Send(command);
  const v1::Profile measured =
      runner.Await(v1::RunnerReport::kProfile).profile();
  CHECK(measured.batch() == 8);
  CHECK(measured.layers_size() == setup.setup().graph().layers_size());
  CHECK_FALSE(measured.estimated());
}

}  // namespace pipework
