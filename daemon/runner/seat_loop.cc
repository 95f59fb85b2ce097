#include "daemon/runner/seat_loop.h"

#include <utility>

#include "daemon/base/clock.h"
#include "daemon/runner/control_message.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// Losses travel in company: a message for each unit would cost the leader as
// much as a small layer.
constexpr size_t kLossesInMessage = 16;
constexpr absl::Duration kLossesWait = absl::Milliseconds(50);

}  // namespace

SeatLoop::SeatLoop(StageExecutor* executor, Conductor* conductor,
                   Options options)
    : executor_(executor),
      conductor_(conductor),
      options_(std::move(options)),
      leader_(executor->courier().options().leader),
      flushed_at_(MonotonicNow()) {
  const StageId last(options_.shape.stages() - 1);
  for (int q = 0; q < options_.shape.replicas.back(); ++q) {
    const SeatId seat{last, ReplicaId(q)};
    if (!(seat == leader_)) loss_seats_.push_back(seat);
  }
  StageExecutor::Hooks hooks;
  hooks.save = options_.save;
  hooks.between = [this] { return Between(); };
  hooks.loss = [this](const LossRecord& record) -> absl::Status {
    if (conductor_ != nullptr) {
      conductor_->OnLoss(record);
      return absl::OkStatus();
    }
    losses_.push_back(record);
    if (losses_.size() < kLossesInMessage &&
        MonotonicNow() - flushed_at_ < kLossesWait) {
      return absl::OkStatus();
    }
    return FlushLosses();
  };
  executor_->SetHooks(std::move(hooks));
}

absl::Status SeatLoop::Run() {
  return conductor_ == nullptr ? Follow() : Lead();
}

absl::Status SeatLoop::FlushLosses() {
  flushed_at_ = MonotonicNow();
  if (losses_.empty()) return absl::OkStatus();
  std::string text = EncodeLosses(losses_);
  losses_.clear();
  return executor_->courier().SendControl(leader_, std::move(text));
}

absl::StatusOr<StageExecutor::Outcome> SeatLoop::RunSegment(
    const Segment& segment) {
  absl::StatusOr<Program> program =
      Compile(options_.recipe, options_.shape, segment);
  if (!program.ok()) {
    return WithContext(executor_->courier().options().who, program.status());
  }
  executor_->courier().ForgetStop();
  program_ = &*program;
  stopping_ = false;
  absl::StatusOr<StageExecutor::Outcome> outcome = executor_->Run(*program);
  program_ = nullptr;
  return outcome;
}

absl::Status SeatLoop::Follow() {
  Courier& courier = executor_->courier();
  for (;;) {
    ASSIGN_OR_RETURN(const std::string text, courier.ReceiveControl(leader_));
    ASSIGN_OR_RETURN(const ControlKind kind, KindOf(text));
    if (kind == ControlKind::kStop) continue;
    if (kind == ControlKind::kFinish) {
      if (options_.finishing) options_.finishing();
      return courier.SendControl(leader_, kFinishText);
    }
    if (kind != ControlKind::kSegment) {
      return Mismatch(courier.options().who, "message of the leader", text,
                      "segment, stop or finish");
    }
    ASSIGN_OR_RETURN(Segment segment, DecodeSegment(text));
    segment.microbatches = executor_->facts().microbatches;
    segment.accumulate = executor_->facts().accumulate;
    ASSIGN_OR_RETURN(const StageExecutor::Outcome outcome, RunSegment(segment));
    RETURN_IF_ERROR(FlushLosses());
    RETURN_IF_ERROR(courier.SendControl(
        leader_, EncodeDone({outcome.step, outcome.version, outcome.saved})));
  }
}

std::vector<SeatId> SeatLoop::Others() const {
  std::vector<SeatId> seats;
  for (int s = 0; s < options_.shape.stages(); ++s) {
    for (int q = 0; q < options_.shape.replicas[s]; ++q) {
      const SeatId seat{StageId(s), ReplicaId(q)};
      if (!(seat == leader_)) seats.push_back(seat);
    }
  }
  return seats;
}

absl::Status SeatLoop::TakeControl(SeatId from, bool* done, SegmentDone* what) {
  ASSIGN_OR_RETURN(const std::string text,
                   executor_->courier().ReceiveControl(from));
  ASSIGN_OR_RETURN(const ControlKind kind, KindOf(text));
  if (kind == ControlKind::kLosses) {
    ASSIGN_OR_RETURN(const std::vector<LossRecord> records, DecodeLosses(text));
    for (const LossRecord& record : records) conductor_->OnLoss(record);
    return absl::OkStatus();
  }
  if (kind == ControlKind::kDone) {
    ASSIGN_OR_RETURN(*what, DecodeDone(text));
    *done = true;
    return absl::OkStatus();
  }
  return Mismatch(executor_->courier().options().who,
                  absl::StrCat("message of ", SeatName(from)), text,
                  "losses or done");
}

absl::Status SeatLoop::Between() {
  if (options_.interrupted) RETURN_IF_ERROR(options_.interrupted());
  if (conductor_ == nullptr) return absl::OkStatus();
  Courier& courier = executor_->courier();
  for (const SeatId seat : loss_seats_) {
    while (courier.ControlReady(seat)) {
      // A seat that is done has nothing more to say in this segment: it is
      // gathered at the end.
      bool done = false;
      SegmentDone what;
      RETURN_IF_ERROR(TakeControl(seat, &done, &what));
      if (done) early_.push_back({seat, what});
    }
  }
  if (!stopping_ && program_ != nullptr && !program_->segment.evaluation &&
      conductor_->WantsStop()) {
    const int64_t unit =
        conductor_->StopUnit(*program_, executor_->newest_forward());
    stopping_ = true;
    if (unit != kNoStop) {
      courier.StopBefore(unit);
      for (const SeatId seat : Others()) {
        RETURN_IF_ERROR(courier.SendControl(seat, kStopText));
      }
    }
  }
  conductor_->Tick();
  return absl::OkStatus();
}

absl::Status SeatLoop::Lead() {
  Courier& courier = executor_->courier();
  const std::vector<SeatId> others = Others();
  for (;;) {
    if (options_.interrupted) RETURN_IF_ERROR(options_.interrupted());
    const Leg leg = conductor_->Next();
    courier.ForgetStop();
    if (leg.kind == LegKind::kFinish) {
      if (options_.finishing) options_.finishing();
      for (const SeatId seat : others) {
        RETURN_IF_ERROR(courier.SendControl(seat, kFinishText));
      }
      // They have heard it when they answer; then the way to them may close.
      for (const SeatId seat : others) {
        courier.ReceiveControl(seat).status().IgnoreError();
      }
      return absl::OkStatus();
    }
    const Segment segment = conductor_->SegmentOf(leg);
    const std::string text = EncodeSegment(segment);
    for (const SeatId seat : others) {
      RETURN_IF_ERROR(courier.SendControl(seat, text));
    }
    conductor_->Begin(leg);
    early_.clear();
    ASSIGN_OR_RETURN(const StageExecutor::Outcome outcome, RunSegment(segment));
    std::vector<Conductor::SeatDone> seats = std::move(early_);
    early_.clear();
    for (const SeatId seat : others) {
      bool done = false;
      for (const Conductor::SeatDone& each : seats) {
        done = done || each.seat == seat;
      }
      while (!done) {
        SegmentDone what;
        RETURN_IF_ERROR(TakeControl(seat, &done, &what));
        if (done) seats.push_back({seat, what});
      }
    }
    RETURN_IF_ERROR(conductor_->Finished(leg, outcome, seats));
  }
}

}  // namespace pipework
