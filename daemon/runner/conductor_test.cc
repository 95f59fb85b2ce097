#include "daemon/runner/conductor.h"

#include <catch2/catch.hpp>

#include "scheduler/compile.h"

namespace pipework {
namespace {

// 20 samples in minibatches of 8: three minibatches, the last one of 4.
Conductor::Options Options(std::vector<v1::RunnerReport>* reports,
                           int microbatches = 1,
                           std::vector<int> replicas = {1, 1}) {
  Conductor::Options options;
  options.facts.train_samples = 20;
  options.facts.test_samples = 10;
  options.facts.minibatch = 8;
  options.facts.microbatches = microbatches;
  options.facts.steps_per_epoch = 3;
  options.facts.total_steps = 6;
  options.rules.steps_per_epoch = 3;
  options.rules.total_steps = 6;
  options.rules.evaluates = true;
  options.learning_rate.set_base(0.1);
  options.learning_rate.set_schedule("constant");
  options.shape.replicas = std::move(replicas);
  options.report = [reports](const v1::RunnerReport& report) {
    reports->push_back(report);
  };
  options.report_period = absl::InfiniteDuration();
  return options;
}

LossRecord Loss(int64_t unit, int64_t minibatch, double sum, int64_t samples) {
  LossRecord record;
  record.unit = unit;
  record.minibatch = minibatch;
  record.loss_sum = sum;
  record.samples = samples;
  return record;
}

std::vector<v1::StepMetrics> StepsOf(
    const std::vector<v1::RunnerReport>& reports) {
  std::vector<v1::StepMetrics> steps;
  for (const v1::RunnerReport& report : reports) {
    for (const v1::StepMetrics& step : report.progress().steps()) {
      steps.push_back(step);
    }
  }
  return steps;
}

// Every seat says that it has run to `step`.
std::vector<Conductor::SeatDone> Done(int64_t step, int64_t version) {
  SegmentDone done;
  done.step = step;
  done.version = version;
  return {{{StageId(1), ReplicaId(0)}, done}};
}

StageExecutor::Outcome Outcome(int64_t step, int64_t version) {
  StageExecutor::Outcome outcome;
  outcome.step = step;
  outcome.version = version;
  return outcome;
}

}  // namespace

TEST_CASE("conductor: steps are told in order, whoever comes first") {
  std::vector<v1::RunnerReport> reports;
  Conductor conductor(Options(&reports));
  const Leg leg = conductor.Next();
  CHECK(ToString(leg) == "train 0..3");
  conductor.Begin(leg);
  conductor.OnLoss(Loss(1, 1, 16, 8));
  conductor.OnLoss(Loss(2, 2, 2, 4));
  conductor.OnLoss(Loss(0, 0, 24, 8));
  REQUIRE(conductor.Finished(leg, Outcome(3, 3), Done(3, 3)).ok());
  const std::vector<v1::StepMetrics> steps = StepsOf(reports);
  REQUIRE(steps.size() == 3);
  const double losses[] = {3, 2, 0.5};
  for (int i = 0; i < 3; ++i) {
    CHECK(steps[i].step() == i);
    CHECK(steps[i].epoch() == 1);
    CHECK(steps[i].loss() == losses[i]);
    CHECK(steps[i].learning_rate() == Approx(0.1));
    CHECK(steps[i].samples() == (i == 2 ? 4 : 8));
  }
}

TEST_CASE(
    "conductor: a minibatch is told when all its microbatches are there") {
  std::vector<v1::RunnerReport> reports;
  Conductor conductor(Options(&reports, /*microbatches=*/3));
  const Leg leg = conductor.Next();
  conductor.Begin(leg);
  conductor.OnLoss(Loss(2, 0, 2, 2));
  conductor.OnLoss(Loss(0, 0, 3, 3));
  conductor.OnLoss(Loss(3, 1, 8, 3));
  conductor.OnLoss(Loss(1, 0, 3, 3));
  REQUIRE(conductor.Finished(leg, Outcome(1, 1), Done(1, 1)).ok());
  const std::vector<v1::StepMetrics> steps = StepsOf(reports);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].loss() == 1);
  CHECK(conductor.state().step == 1);
}

TEST_CASE("conductor: losses and accuracy are weighted by samples") {
  std::vector<v1::RunnerReport> reports;
  Conductor conductor(Options(&reports));
  Leg leg = conductor.Next();
  conductor.Begin(leg);
  conductor.OnLoss(Loss(0, 0, 8, 8));
  conductor.OnLoss(Loss(1, 1, 8, 8));
  conductor.OnLoss(Loss(2, 2, 24, 4));
  REQUIRE(conductor.Finished(leg, Outcome(3, 3), Done(3, 3)).ok());
  leg = conductor.Next();
  CHECK(ToString(leg) == "evaluate");
  CHECK(conductor.SegmentOf(leg).evaluation);
  CHECK(conductor.SegmentOf(leg).minibatches == 2);
  conductor.Begin(leg);
  LossRecord test = Loss(0, 0, 8, 8);
  test.evaluation = true;
  test.right = 6;
  conductor.OnLoss(test);
  test = Loss(1, 1, 22, 2);
  test.evaluation = true;
  test.right = 0;
  conductor.OnLoss(test);
  REQUIRE(conductor.Finished(leg, Outcome(3, 3), Done(3, 3)).ok());
  const v1::EpochMetrics* epoch = nullptr;
  for (const v1::RunnerReport& report : reports) {
    if (report.progress().has_epoch()) epoch = &report.progress().epoch();
  }
  REQUIRE(epoch != nullptr);
  CHECK(epoch->epoch() == 1);
  CHECK(epoch->train_loss() == Approx(2));
  CHECK(epoch->test_loss() == Approx(3));
  CHECK(epoch->test_accuracy() == Approx(0.6));
  CHECK(conductor.state().test_accuracy == Approx(0.6));
}

TEST_CASE("conductor: the manifest says where the run stands") {
  std::vector<v1::RunnerReport> reports;
  Conductor::Options options = Options(&reports);
  options.rules.evaluates = false;
  options.rules.save_every_steps = 2;
  Conductor conductor(std::move(options));
  const Leg leg = conductor.Next();
  CHECK(ToString(leg) == "train 0..2 and save");
  conductor.Begin(leg);
  REQUIRE(conductor.Finished(leg, Outcome(2, 2), Done(2, 1)).ok());
  REQUIRE(reports.size() >= 1);
  const v1::Manifest* manifest = nullptr;
  for (const v1::RunnerReport& report : reports) {
    if (report.has_checkpoint()) manifest = &report.checkpoint().manifest();
  }
  REQUIRE(manifest != nullptr);
  CHECK(manifest->step() == 2);
  CHECK(manifest->epoch() == 0);
  CHECK(manifest->minibatch_in_epoch() == 2);
  REQUIRE(manifest->updates_size() == 2);
  CHECK(manifest->updates(0) == 2);
  CHECK(manifest->updates(1) == 1);
  CHECK(manifest->test_accuracy() == -1);
}

TEST_CASE(
    "conductor: a save that failed is not published, and training goes on") {
  std::vector<v1::RunnerReport> reports;
  Conductor::Options options = Options(&reports);
  options.rules.save_every_steps = 2;
  Conductor conductor(std::move(options));
  const Leg leg = conductor.Next();
  conductor.Begin(leg);
  std::vector<Conductor::SeatDone> seats = Done(2, 2);
  seats[0].done.saved = absl::UnavailableError("no space left on device");
  REQUIRE(conductor.Finished(leg, Outcome(2, 2), seats).ok());
  int told = 0;
  for (const v1::RunnerReport& report : reports) {
    if (!report.has_checkpoint()) continue;
    ++told;
    CHECK(report.checkpoint().problem() == "no space left on device");
    CHECK(report.checkpoint().manifest().updates().empty());
  }
  CHECK(told == 1);
  CHECK_FALSE(conductor.save_status().ok());
  CHECK(ToString(conductor.Next()) == "train 2..3");
}

TEST_CASE("conductor: seats that disagree are an error") {
  std::vector<v1::RunnerReport> reports;
  Conductor conductor(Options(&reports));
  const Leg leg = conductor.Next();
  conductor.Begin(leg);
  CHECK(absl::IsInternal(conductor.Finished(leg, Outcome(3, 3), Done(2, 2))));
}

TEST_CASE("conductor: the unit of a stop is ahead of everyone, and whole") {
  for (const std::vector<int>& replicas :
       {std::vector<int>{1}, {1, 1, 1}, {2, 1}, {1, 3}, {2, 3, 1}}) {
    for (const int accumulate : {1, 2}) {
      PipelineShape shape;
      shape.replicas = replicas;
      Segment segment;
      segment.first_minibatch = 30;
      segment.minibatches = 600;
      segment.accumulate = accumulate;
      const auto program = Compile({"1f1b", "stash"}, shape, segment);
      REQUIRE(program.ok());
      std::vector<v1::RunnerReport> reports;
      Conductor conductor(Options(&reports, 1, replicas));
      for (const int64_t started : {-1, 30, 37, 100}) {
        const int64_t unit = conductor.StopUnit(*program, started);
        CAPTURE(replicas, accumulate, started, unit);
        CHECK(unit > started);
        int64_t group = accumulate;
        for (const int r : replicas) {
          CHECK((unit - 30) % (int64_t{r} * accumulate) == 0);
          group *= r;
        }
        if (replicas[0] > 1) {
          // Others of stage 0 may be as far ahead as is in flight.
          CHECK(unit - started >
                replicas[0] * (Warmup(shape, StageId(0)) + accumulate + 1));
        }
        CHECK(unit <=
              started + 31 + 8 * group * (Warmup(shape, StageId(0)) + 6));
      }
      CHECK(conductor.StopUnit(*program, 629) == kNoStop);
    }
  }
}

TEST_CASE("conductor: with shares a stop comes after whole rounds") {
  PipelineShape shape;
  shape.replicas = {2, 1, 2};
  shape.shares = {{3, 1}, {}, {2, 1}};
  Segment segment;
  segment.minibatches = 600;
  const auto program = Compile({"1f1b", "stash"}, shape, segment);
  REQUIRE(program.ok());
  std::vector<v1::RunnerReport> reports;
  Conductor conductor(Options(&reports, 1, shape.replicas));
  for (const int64_t started : {-1, 7, 100}) {
    const int64_t unit = conductor.StopUnit(*program, started);
    CAPTURE(started, unit);
    CHECK(unit % 12 == 0);
    CHECK(unit > started + Lead(shape, StageId(0)) + 2 * 4);
  }
}

TEST_CASE("conductor: a leader with two of three units says so of its time") {
  std::vector<v1::RunnerReport> reports;
  Conductor::Options options = Options(&reports, 1, {2, 1});
  options.shape.shares = {{2, 1}, {}};
  options.rules.evaluates = false;
  Conductor conductor(std::move(options));
  const Leg leg = conductor.Next();
  conductor.Begin(leg);
  StageExecutor::Outcome outcome = Outcome(3, 1);
  double at = 10;
  for (int i = 0; i < 60; ++i) {
    // Three minibatches leave with every two of its own.
    at += i % 2 == 0 ? 0.002 : 0.010;
    outcome.backward_ends.push_back(at);
  }
  REQUIRE(conductor.Finished(leg, outcome, Done(3, 1)).ok());
  CHECK(conductor.measured_step_ms() == Approx(4));
}

TEST_CASE("conductor: the measured step leaves fill and drain out") {
  std::vector<v1::RunnerReport> reports;
  Conductor::Options options = Options(&reports);
  options.rules.evaluates = false;
  Conductor conductor(std::move(options));
  const Leg leg = conductor.Next();
  conductor.Begin(leg);
  CHECK(conductor.measured_step_ms() == 0);
  StageExecutor::Outcome outcome = Outcome(3, 3);
  // Slow at the start and at the end, 4 ms a step between.
  outcome.fill = 4;
  outcome.drain = 3;
  double at = 10;
  for (int i = 0; i < 50; ++i) {
    at += i <= 4 || i >= 47 ? 0.5 : 0.004;
    outcome.backward_ends.push_back(at);
  }
  REQUIRE(conductor.Finished(leg, outcome, Done(3, 3)).ok());
  CHECK(conductor.measured_step_ms() == Approx(4));
  CHECK(conductor.samples_per_second() == Approx(8 / 0.004));
}

}  // namespace pipework
