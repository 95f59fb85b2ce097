#include "daemon/runner/conductor.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "kernels/optimizers/learning_rate.h"
#include "proto/check.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

// A block of steady state is long enough for the scheduler of the operating
// system to have been fair.
constexpr double kBlockSeconds = 0.1;
constexpr int kBlockSteps = 32;
constexpr size_t kMostBlocks = 4096;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Conductor::Conductor(Options options)
    : options_(std::move(options)),
      versions_(options_.first_versions),
      saved_at_(MonotonicNow()),
      reported_at_(MonotonicNow()) {
  versions_.resize(options_.shape.stages(), 0);
  state_.step = options_.first_step;
  state_.saved_step = options_.first_step;
  if (options_.test_accuracy >= 0) {
    state_.test_accuracy = options_.test_accuracy;
    state_.evaluated_step = options_.first_step;
  }
  next_minibatch_ = options_.first_step;
}

void Conductor::RequestStop(bool save) {
  int asked = 0;
  stop_asked_.compare_exchange_strong(asked, save ? 2 : 1);
}

double Conductor::ElapsedSeconds() const {
  return absl::ToDoubleSeconds(MonotonicNow() - leg_began_);
}

Leg Conductor::Next() {
  const int asked = stop_asked_.load();
  state_.stop = asked != 0;
  state_.stop_saves = asked == 2;
  state_.seconds_since_save = absl::ToDoubleSeconds(MonotonicNow() - saved_at_);
  end_ = NextLeg(options_.rules, state_);
  return end_;
}

Segment Conductor::SegmentOf(const Leg& leg) const {
  Segment segment;
  segment.microbatches = options_.facts.microbatches;
  segment.accumulate = options_.facts.accumulate;
  segment.first_versions = versions_;
  switch (leg.kind) {
    case LegKind::kTrain:
      segment.first_minibatch = leg.first_minibatch;
      segment.minibatches = leg.minibatches;
      segment.save = leg.save;
      break;
    case LegKind::kEvaluate:
      segment.evaluation = true;
      segment.first_minibatch = state_.step;
      segment.minibatches = options_.facts.test_minibatches();
      break;
    case LegKind::kSave:
      segment.first_minibatch = state_.step;
      segment.save = true;
      break;
    case LegKind::kFinish:
      PIPE_CHECK(false);
  }
  return segment;
}

void Conductor::Begin(const Leg& leg) {
  leg_ = leg.kind;
  leg_began_ = MonotonicNow();
  leg_samples_ = 0;
  last_at_ = 0;
  evaluated_.clear();
  if (leg.kind != LegKind::kTrain) ReportProgress(nullptr);
}

// ---- losses -----------------------------------------------------------------

// Microbatches of the minibatch that have samples.
int Conductor::UnitsOf(int64_t minibatch) const {
  return static_cast<int>(std::min<int64_t>(options_.facts.microbatches,
                                            options_.facts.SizeOf(minibatch)));
}

void Conductor::OnLoss(const LossRecord& record) {
  if (record.evaluation) {
    evaluated_[record.unit] = record;
    return;
  }
  Pending& pending = pending_[record.minibatch];
  pending.records[record.unit] = record;
  while (!pending_.empty()) {
    const auto first = pending_.begin();
    if (first->first != next_minibatch_ ||
        static_cast<int>(first->second.records.size()) <
            UnitsOf(first->first)) {
      break;
    }
    Complete(first->first, first->second);
    pending_.erase(first);
    ++next_minibatch_;
  }
}

// Sums are taken in the order of the units, so they do not depend on who came
// first.
void Conductor::Complete(int64_t minibatch, const Pending& pending) {
  double loss = 0;
  int64_t samples = 0;
  double at = 0;
  for (const auto& [unit, record] : pending.records) {
    loss += record.loss_sum;
    samples += record.samples;
    at = std::max(at, record.at_seconds);
  }
  epoch_loss_ += loss;
  epoch_samples_ += samples;
  leg_samples_ += samples;

  v1::StepMetrics step;
  step.set_step(minibatch);
  step.set_epoch(minibatch / options_.facts.steps_per_epoch + 1);
  step.set_loss(loss /
                (static_cast<double>(samples) * options_.facts.label_elements));
  step.set_learning_rate(LearningRateAt(options_.learning_rate, minibatch,
                                        options_.facts.total_steps,
                                        options_.facts.steps_per_epoch));
  step.set_samples(samples);
  if (last_at_ > 0 && at > last_at_) {
    step.set_samples_per_second(samples / (at - last_at_));
  } else {
    step.set_samples_per_second(samples_per_second());
  }
  last_at_ = std::max(last_at_, at);
  steps_.push_back(std::move(step));
}

// ---- stopping ---------------------------------------------------------------

bool Conductor::WantsStop() const {
  if (stop_asked_.load(std::memory_order_relaxed) != 0) return true;
  if (options_.rules.save_every_seconds == 0) return false;
  RunState state = state_;
  state.seconds_since_save = absl::ToDoubleSeconds(MonotonicNow() - saved_at_);
  return SaveIsDue(options_.rules, state);
}

int64_t Conductor::StopUnit(const Program& program, int64_t started) const {
  const PipelineShape& shape = program.shape;
  const int64_t accumulate = program.segment.accumulate;
  // Whole updates of every stage.
  int64_t group = 1;
  if (program.unit_is_microbatch) {
    group = accumulate * program.segment.microbatches;
  } else {
    for (int s = 0; s < shape.stages(); ++s) {
      group = std::lcm(group, accumulate * shape.round(StageId(s)));
      if (group >= program.segment.units()) return kNoStop;
    }
  }
  // The other replicas of stage 0 are at most an update and what may be in
  // flight ahead, and hear of the stop as much later.
  int64_t margin = 1;
  if (shape.replicas[0] > 1) {
    const int64_t round = shape.round(StageId(0));
    margin = 2 * round * (Lead(shape, StageId(0)) / round + 2 * accumulate + 2);
    if (program.unit_is_microbatch) {
      margin = 2 * accumulate * program.segment.microbatches;
    }
  }
  const int64_t first = program.segment.first_unit();
  const int64_t begun = std::max(started + 1, first) - first;
  const int64_t units = (begun + margin + group - 1) / group * group;
  if (units >= program.segment.units()) return kNoStop;
  return first + units;
}

// ---- the end of a leg -------------------------------------------------------

absl::Status Conductor::Finished(const Leg& leg,
                                 const StageExecutor::Outcome& leader,
                                 const std::vector<SeatDone>& seats) {
  absl::Status saved = leader.saved;
  for (const SeatDone& each : seats) {
    if (each.done.step != leader.step) {
      return absl::InternalError(
          absl::StrCat("leader: step at which s", each.seat.stage.value(), ".r",
                       each.seat.replica.value(), " stopped is ",
                       each.done.step, ", expected ", leader.step));
    }
    saved.Update(each.done.saved);
  }
  if (leg.kind != LegKind::kEvaluate) {
    std::vector<int64_t> versions(versions_.size(), -1);
    versions[0] = leader.version;
    for (const SeatDone& each : seats) {
      int64_t& version = versions[each.seat.stage.value()];
      if (version >= 0 && version != each.done.version) {
        return absl::InternalError(
            absl::StrCat("leader: version of s", each.seat.stage.value(), ".r",
                         each.seat.replica.value(), " is ", each.done.version,
                         ", expected ", version, " as on the other replicas"));
      }
      version = each.done.version;
    }
    versions_ = std::move(versions);
  }

  if (leg.kind == LegKind::kTrain) {
    epoch_seconds_ += ElapsedSeconds();
    Measure(leader);
    state_.step = leader.step;
    // Losses of a minibatch that came before the stop are all here.
    pending_.clear();
    next_minibatch_ = state_.step;
  }
  if (leg.kind == LegKind::kEvaluate) {
    state_.evaluated_step = state_.step;
    FinishEpoch();
  } else if (!options_.rules.evaluates && leg.kind == LegKind::kTrain &&
             (state_.step % options_.facts.steps_per_epoch == 0 ||
              state_.step == options_.facts.total_steps)) {
    FinishEpoch();
  }
  if (leg.kind == LegKind::kSave || leg.save) {
    state_.saved_step = state_.step;
    saved_at_ = MonotonicNow();
    save_status_ = saved;
    if (!saved.ok()) {
      spdlog::warn("job {}: checkpoint of step {} was not written: {}",
                   options_.manifest.job(), state_.step,
                   std::string(saved.message()));
      v1::RunnerReport report;
      report.mutable_checkpoint()->mutable_manifest()->set_step(state_.step);
      report.mutable_checkpoint()->set_problem(std::string(saved.message()));
      options_.report(report);
    } else {
      v1::RunnerReport report;
      v1::Manifest* manifest = report.mutable_checkpoint()->mutable_manifest();
      *manifest = options_.manifest;
      const int64_t per_epoch = options_.facts.steps_per_epoch;
      manifest->set_step(state_.step);
      manifest->set_epoch(state_.step / per_epoch);
      manifest->set_minibatch_in_epoch(state_.step % per_epoch);
      manifest->set_test_accuracy(
          state_.evaluated_step == state_.step ? state_.test_accuracy : -1);
      manifest->clear_updates();
      for (const int64_t version : versions_) manifest->add_updates(version);
      manifest->set_written_at(absl::ToUnixSeconds(MonotonicNow()));
      options_.report(report);
    }
  }
  leg_ = LegKind::kTrain;
  ReportProgress(nullptr);
  return absl::OkStatus();
}

void Conductor::FinishEpoch() {
  v1::EpochMetrics epoch;
  const int64_t per_epoch = options_.facts.steps_per_epoch;
  epoch.set_epoch((state_.step + per_epoch - 1) / per_epoch);
  const double labels = static_cast<double>(options_.facts.label_elements);
  epoch.set_train_loss(
      epoch_samples_ > 0 ? epoch_loss_ / (epoch_samples_ * labels) : 0);
  epoch.set_test_accuracy(-1);
  double loss = 0;
  int64_t right = 0;
  int64_t samples = 0;
  for (const auto& [unit, record] : evaluated_) {
    loss += record.loss_sum;
    right += record.right;
    samples += record.samples;
  }
  if (samples > 0) {
    epoch.set_test_loss(loss / (samples * labels));
    epoch.set_test_accuracy(right / (samples * labels));
    state_.test_accuracy = epoch.test_accuracy();
  }
  epoch.set_seconds(epoch_seconds_);
  epoch_loss_ = 0;
  epoch_samples_ = 0;
  epoch_seconds_ = 0;
  evaluated_.clear();
  ReportProgress(&epoch);
}

// ---- measuring --------------------------------------------------------------

// The time between two minibatches that leave the pipe, in blocks of steady
// state: without the fill of a segment and without its drain.
void Conductor::Measure(const StageExecutor::Outcome& leader) {
  const std::vector<double>& ends = leader.backward_ends;
  // Backwards of this seat that make up `minibatches`.
  const int64_t round = options_.shape.round(StageId(0));
  int64_t stride = options_.shape.share(StageId(0), ReplicaId(0));
  double minibatches = static_cast<double>(round);
  int64_t begin = leader.fill;
  int64_t end = static_cast<int64_t>(ends.size()) - leader.drain;
  if (options_.facts.microbatches > 1 || leader.flushes) {
    stride = (options_.facts.microbatches + round - 1) / round * stride;
    minibatches = 1;
    // The bubble of a flush is part of every step.
    begin = stride - 1;
    end = static_cast<int64_t>(ends.size());
  }
  if (end - begin <= 2 * stride) {
    begin = stride - 1;
    end = static_cast<int64_t>(ends.size());
  }
  int64_t from = begin;
  for (int64_t i = begin + stride; i < end; i += stride) {
    const int64_t strides = (i - from) / stride;
    const double seconds = ends[i] - ends[from];
    const bool last = i + stride >= end;
    if ((strides >= kBlockSteps && seconds >= kBlockSeconds) || last) {
      // A short rest says little beside whole blocks.
      if (!last || strides >= kBlockSteps || step_seconds_.empty()) {
        if (step_seconds_.size() < kMostBlocks) {
          step_seconds_.push_back(seconds / (strides * minibatches));
        }
      }
      from = i;
    }
  }
}

double Conductor::measured_step_ms() const {
  return Median(step_seconds_) * 1e3;
}

double Conductor::samples_per_second() const {
  const double step = Median(step_seconds_);
  if (step > 0) return options_.facts.minibatch / step;
  if (leg_ != LegKind::kTrain || leg_samples_ == 0) return 0;
  return leg_samples_ / std::max(ElapsedSeconds(), 1e-9);
}

// ---- reports ----------------------------------------------------------------

void Conductor::Tick() {
  if (MonotonicNow() - reported_at_ < options_.report_period) return;
  ReportProgress(nullptr);
}

void Conductor::ReportProgress(const v1::EpochMetrics* epoch) {
  v1::RunnerReport report;
  v1::RunnerReport::Progress* progress = report.mutable_progress();
  progress->set_step(std::max(next_minibatch_, state_.step));
  progress->set_total_steps(options_.facts.total_steps);
  for (v1::StepMetrics& step : steps_) *progress->add_steps() = std::move(step);
  steps_.clear();
  progress->set_phase(leg_ == LegKind::kEvaluate ? v1::EVALUATING
                      : leg_ == LegKind::kSave   ? v1::SAVING
                                                 : v1::TRAINING);
  if (epoch != nullptr) *progress->mutable_epoch() = *epoch;
  progress->set_samples_per_second(samples_per_second());
  progress->set_measured_step_ms(measured_step_ms());
  reported_at_ = MonotonicNow();
  options_.report(report);
}

}  // namespace pipework
