#include "daemon/executor/stage_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/failpoint.h"
#include "daemon/executor/reason.h"
#include "kernels/backend_registry.h"
#include "kernels/optimizers/learning_rate.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/metrics.pb.h"
#include "proto/status_macros.h"
#include "scheduler/compile.h"
#include "scheduler/passes/assign_versions.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

// Evaluation units that a replica of stage 0 has under way, per stage.
constexpr int64_t kEvaluationWindow = 2;

double Seconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

std::string Who(const StageExecutor::Options& options) {
  return absl::StrCat("job ", options.job, ": stage ",
                      options.seat.stage.value(), " replica ",
                      options.seat.replica.value(), " (", options.device, ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<StageExecutor>> StageExecutor::Create(
    Options options) {
  const std::string who = Who(options);
  const auto in_context = [&who](const absl::Status& status) {
    return WithContext(who, status);
  };
  absl::StatusOr<GraphInfo> info = InferGraph(options.graph);
  if (!info.ok()) return in_context(info.status());
  BackendOptions backend_options;
  backend_options.threads = std::max(1, options.spec.threads_per_executor());
  backend_options.memory_limit_bytes = options.memory_limit_bytes;
  backend_options.poison = options.poison;
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeBackend(options.backend, backend_options);
  if (!backend.ok()) return in_context(backend.status());
  absl::StatusOr<std::unique_ptr<Optimizer>> optimizer =
      MakeOptimizer(options.spec.optimizer());
  if (!optimizer.ok()) return in_context(optimizer.status());
  if (options.train_samples < 1) {
    return Mismatch(who, "number of training samples",
                    absl::StrCat(options.train_samples), "at least 1");
  }
  if (options.seat.stage == StageId(0) && options.data.train == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        who, ": training data is not open, expected it on stage 0"));
  }
  absl::StatusOr<BuiltStage> stage =
      BuildStage(options.graph, *info, options.plan, options.seat.stage,
                 options.spec.seed(), **optimizer, **backend);
  if (!stage.ok()) return in_context(stage.status());
  const RunFacts facts =
      FactsOf(options.spec, options.plan, options.train_samples,
              options.test_samples, info->y.shape.elements());

  auto executor = std::unique_ptr<StageExecutor>(new StageExecutor(
      std::move(options), *std::move(info), facts, *std::move(backend),
      *std::move(optimizer), *std::move(stage)));
  for (const StageTensor& param : executor->stage_.layout.params) {
    absl::StatusOr<Tensor> gradient =
        Tensor::Allocate(*executor->backend_->allocator(), param.spec.shape,
                         DType::kF32, MemoryUse::kGradients);
    if (!gradient.ok()) return in_context(gradient.status());
    executor->gradients_.push_back(*std::move(gradient));
  }
  return executor;
}

StageExecutor::StageExecutor(Options options, GraphInfo info, RunFacts facts,
                             std::unique_ptr<Backend> backend,
                             std::unique_ptr<Optimizer> optimizer,
                             BuiltStage stage)
    : options_(std::move(options)),
      info_(std::move(info)),
      facts_(facts),
      who_(Who(options_)),
      backend_(std::move(backend)),
      optimizer_(std::move(optimizer)),
      stage_(std::move(stage)),
      weights_(backend_->allocator(), std::move(stage_.weights),
               WeightVersion(0)),
      courier_({who_,
                options_.seat,
                {StageId(0), ReplicaId(0)},
                options_.peer_timeout,
                10 * options_.peer_timeout}),
      group_(&courier_, backend_.get(), stage_.layout.replicas),
      log_(options_.log_capacity),
      feed_(options_.data, facts_, info_.x, info_.y, backend_->allocator(),
            options_.break_mode),
      layers_(&stage_, backend_.get(), facts_.seed) {}

int64_t UpdatesOf(const v1::Manifest& manifest, int first_layer) {
  int64_t updates = 0;
  for (int s = 0; s < manifest.updates_size(); ++s) {
    if (s < manifest.first_layers_size() &&
        manifest.first_layers(s) > first_layer) {
      break;
    }
    updates = manifest.updates(s);
  }
  return updates;
}

absl::Status StageExecutor::Restore(const std::string& folder,
                                    const v1::Manifest& manifest) {
  std::vector<NamedTensor> tensors = NamedTensors();
  absl::Status status = LoadTensors(folder, manifest, absl::MakeSpan(tensors));
  if (!status.ok()) return WithContext(who_, status);
  weights_.Renumber(
      WeightVersion(UpdatesOf(manifest, stage_.layout.first_layer)));
  return absl::OkStatus();
}

std::vector<NamedTensor> StageExecutor::NamedTensors() const {
  std::vector<NamedTensor> tensors;
  const StageLayout& layout = stage_.layout;
  for (size_t i = 0; i < layout.params.size(); ++i) {
    tensors.push_back({layout.params[i].name, weights_.newest_weights()[i]});
  }
  for (size_t i = 0; i < layout.buffers.size(); ++i) {
    tensors.push_back({layout.buffers[i].name, stage_.buffers[i]});
  }
  for (size_t i = 0; i < stage_.state.size(); ++i) {
    tensors.push_back({stage_.state_names[i], stage_.state[i]});
  }
  return tensors;
}

void StageExecutor::FillMetrics(v1::StageMetrics* out) const {
  metrics_.Fill(out);
  out->set_index(options_.seat.stage.value());
  out->set_replica(options_.seat.replica.value());
  out->set_device(options_.device);
  for (const std::string& layer : stage_.layer_names) out->add_layers(layer);
  out->set_waiting_for(courier_.waiting_for());
}

// ---- the walk ---------------------------------------------------------------

absl::StatusOr<StageExecutor::Outcome> StageExecutor::Run(
    const Program& program) {
  const Row& row = program.row(options_.seat.stage, options_.seat.replica);
  const Segment& segment = program.segment;
  absl::StatusOr<const Policy*> policy = FindPolicy(program.weights);
  if (!policy.ok()) return WithContext(who_, policy.status());
  PIPE_CHECK(segment.evaluation || segment.first_version(options_.seat.stage) ==
                                       weights_.newest().value());
  program_ = &program;
  policy_ = *policy;
  outcome_ = Outcome();
  outcome_.flushes = IsSynchronous(program.schedule);
  forwards_left_ = 0;
  newest_forward_ = -1;
  bool backward_seen = false;
  for (const Action& action : row.actions) {
    if (action.kind == ActionKind::kForward) {
      ++forwards_left_;
      if (!backward_seen) ++outcome_.fill;
    }
    backward_seen = backward_seen || action.kind == ActionKind::kBackward;
  }

  const bool training = !segment.evaluation && segment.minibatches > 0;
  metrics_.SetState(segment.evaluation ? ExecutorState::kEvaluating
                    : training         ? ExecutorState::kFill
                                       : ExecutorState::kWaiting);
  if (training) metrics_.account().Resume();
  absl::Status status;
  const std::vector<WeightVersion> to_come = OldestToCome(row);
  for (size_t i = 0; i < row.actions.size(); ++i) {
    oldest_to_come_ = to_come[i];
    status = Do(row.actions[i]);
    if (!status.ok()) break;
    if (hooks_.between) {
      status = hooks_.between();
      if (!status.ok()) break;
    }
  }
  if (segment.evaluation && status.ok()) status = TakeCredits(-1);
  if (segment.evaluation) ++evaluations_;
  if (training) metrics_.account().Pause();
  ReportHeld();
  metrics_.SetState(ExecutorState::kWaiting);
  const int64_t step = StepNow();
  program_ = nullptr;
  if (!status.ok()) {
    activations_.Clear();
    return status;
  }

  outcome_.step = step;
  outcome_.version = weights_.newest().value();
  return std::move(outcome_);
}

absl::Status StageExecutor::Do(const Action& action) {
  switch (action.kind) {
    case ActionKind::kReceiveForward:
      return Skips(action.number) ? absl::OkStatus() : ReceiveForward(action);
    case ActionKind::kForward:
      return Skips(action.number) ? absl::OkStatus() : Forward(action);
    case ActionKind::kSendForward:
      return Skips(action.number) ? absl::OkStatus() : SendForward(action);
    case ActionKind::kReceiveBackward:
      return Skips(action.number) ? absl::OkStatus() : ReceiveBackward(action);
    case ActionKind::kBackward:
      return Skips(action.number) ? absl::OkStatus() : Backward(action);
    case ActionKind::kSendBackward:
      return Skips(action.number) ? absl::OkStatus() : SendBackward(action);
    case ActionKind::kRelease:
      return Skips(action.number) ? absl::OkStatus() : Release(action);
    case ActionKind::kAllReduce:
      return AllReduce(action);
    case ActionKind::kUpdate:
      return Update(action);
    case ActionKind::kEvaluate:
      return Evaluate(action);
    case ActionKind::kDrain:
      return Drain();
    case ActionKind::kSave:
      return Save();
    case ActionKind::kWeightGradient:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      who_, ": action ", ToString(action),
      " splits the weight gradient from its backward, expected a schedule "
      "that does not"));
}

// Minibatches trained when this segment is over.
int64_t StageExecutor::StepNow() const {
  const Segment& segment = program_->segment;
  if (segment.evaluation) return segment.first_minibatch;
  const int64_t end = segment.first_minibatch + segment.minibatches;
  const int64_t stop = courier_.stop_before();
  return stop == kNoStop ? end : std::min(end, stop / segment.microbatches);
}

// A stop concerns training; an evaluation is short and runs to its end.
bool StageExecutor::Skips(int64_t unit) const {
  return !program_->segment.evaluation && unit >= courier_.stop_before();
}

absl::Status StageExecutor::InContext(const Action& action,
                                      const absl::Status& status) const {
  if (status.ok()) return status;
  return WithContext(
      absl::StrCat(who_, ": ", ToString(action), " of minibatch ",
                   MinibatchOf(*program_, action.number)),
      status);
}

// Every message has a number of its own: those of an evaluation go on from the
// one before.
int64_t StageExecutor::NumberOf(int64_t unit) const {
  return program_->segment.evaluation
             ? evaluations_ * facts_.test_minibatches() + unit
             : unit;
}

InFlight& StageExecutor::FlightOf(const Action& action) {
  const UnitId unit(action.number);
  if (InFlight* flight = activations_.Find(unit)) return *flight;
  InFlight& flight = activations_.Begin(unit);
  const StageLayout& layout = stage_.layout;
  const SampleRange range = facts_.RangeOf(*program_, action.number);
  flight.minibatch = MinibatchId(MinibatchOf(*program_, action.number));
  flight.microbatch = action.microbatch;
  flight.first_sample = range.first;
  flight.samples = range.end - range.first;
  flight.inputs.resize(layout.slots);
  flight.saved.resize(layout.layer_count());
  flight.outputs.resize(layout.outputs.size());
  flight.output_gradients.resize(layout.outputs.size());
  flight.input_gradients.resize(layout.inputs.size());
  return flight;
}

// ---- transfers --------------------------------------------------------------

namespace {

const EdgeLayout& EdgeTo(const std::vector<EdgeLayout>& edges, StageId peer,
                         size_t* index) {
  for (*index = 0; *index < edges.size(); ++*index) {
    if (edges[*index].peer == peer) return edges[*index];
  }
  // The program's edges and the layout's come from the same graph and plan.
  PIPE_CHECK(false);
}

}  // namespace

absl::Status StageExecutor::ReceiveForward(const Action& action) {
  size_t index = 0;
  const EdgeLayout& edge =
      EdgeTo(stage_.layout.inputs, action.peer_stage, &index);
  InFlight& flight = FlightOf(action);
  if (flight.samples == 0) return absl::OkStatus();
  Courier::Wanted wanted;
  wanted.channel =
      program_->segment.evaluation ? Channel::kEvaluate : Channel::kForward;
  wanted.from = {action.peer_stage, action.peer_replica};
  wanted.number = NumberOf(action.number);
  wanted.unit = program_->segment.evaluation ? Courier::kNoUnit : action.number;
  wanted.minibatch = flight.minibatch.value();
  const auto scope = metrics_.account().In(
      courier_.Ready(wanted) ? Bucket::kTransfer : Bucket::kWaitUpstream);
  for (size_t t = 0; t < edge.tensors.size(); ++t) {
    wanted.tensor = static_cast<int>(t);
    absl::StatusOr<Tensor> tensor = courier_.Receive(
        wanted, edge.tensors[t].spec.shape.WithBatch(flight.samples),
        edge.tensors[t].spec.dtype);
    if (absl::IsCancelled(tensor.status()) && Skips(action.number)) {
      activations_.End(flight.unit);
      return absl::OkStatus();
    }
    if (!tensor.ok()) return tensor.status();
    flight.inputs[edge.tensors[t].slot] = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::Status StageExecutor::SendForward(const Action& action) {
  size_t index = 0;
  const EdgeLayout& edge =
      EdgeTo(stage_.layout.outputs, action.peer_stage, &index);
  ASSIGN_OR_RETURN(InFlight* const flight,
                   activations_.Get(UnitId(action.number)));
  const auto scope = metrics_.account().In(Bucket::kTransfer);
  const bool evaluation = program_->segment.evaluation;
  if (flight->samples > 0) {
    for (size_t t = 0; t < edge.tensors.size(); ++t) {
      RETURN_IF_ERROR(courier_.Send(
          evaluation ? Channel::kEvaluate : Channel::kForward,
          {action.peer_stage, action.peer_replica}, static_cast<int>(t),
          NumberOf(action.number), std::move(flight->outputs[index][t])));
    }
  }
  flight->outputs[index].clear();
  if (evaluation &&
      std::all_of(flight->outputs.begin(), flight->outputs.end(),
                  [](const TensorList& list) { return list.empty(); })) {
    activations_.End(flight->unit);
  }
  return absl::OkStatus();
}

absl::Status StageExecutor::ReceiveBackward(const Action& action) {
  size_t index = 0;
  const EdgeLayout& edge =
      EdgeTo(stage_.layout.outputs, action.peer_stage, &index);
  ASSIGN_OR_RETURN(InFlight* const flight,
                   activations_.Get(UnitId(action.number)));
  if (flight->samples == 0) return absl::OkStatus();
  Courier::Wanted wanted;
  wanted.channel = Channel::kBackward;
  wanted.from = {action.peer_stage, action.peer_replica};
  wanted.number = action.number;
  wanted.unit = action.number;
  wanted.minibatch = flight->minibatch.value();
  const auto scope = metrics_.account().In(
      courier_.Ready(wanted) ? Bucket::kTransfer : Bucket::kWaitDownstream);
  flight->output_gradients[index].resize(edge.gradients.size());
  for (size_t p = 0; p < edge.gradients.size(); ++p) {
    wanted.tensor = static_cast<int>(p);
    ASSIGN_OR_RETURN(
        flight->output_gradients[index][p],
        courier_.Receive(
            wanted, edge.gradients[p].spec.shape.WithBatch(flight->samples),
            edge.gradients[p].spec.dtype));
  }
  return absl::OkStatus();
}

absl::Status StageExecutor::SendBackward(const Action& action) {
  size_t index = 0;
  EdgeTo(stage_.layout.inputs, action.peer_stage, &index);
  ASSIGN_OR_RETURN(InFlight* const flight,
                   activations_.Get(UnitId(action.number)));
  const auto scope = metrics_.account().In(Bucket::kTransfer);
  TensorList& parts = flight->input_gradients[index];
  if (flight->samples > 0) {
    for (size_t p = 0; p < parts.size(); ++p) {
      RETURN_IF_ERROR(courier_.Send(
          Channel::kBackward, {action.peer_stage, action.peer_replica},
          static_cast<int>(p), action.number, std::move(parts[p])));
    }
  }
  parts.clear();
  return absl::OkStatus();
}

// ---- compute ----------------------------------------------------------------

absl::Status StageExecutor::ReadData(InFlight& flight) {
  const auto scope = metrics_.account().In(Bucket::kWaitUpstream);
  Tensor x;
  Tensor y;
  RETURN_IF_ERROR(feed_.Read(flight, program_->segment.evaluation, &x, &y));
  const StageLayout& layout = stage_.layout;
  if (layout.x_slot >= 0) flight.inputs[layout.x_slot] = std::move(x);
  if (layout.y_slot >= 0) flight.inputs[layout.y_slot] = std::move(y);
  return absl::OkStatus();
}

absl::Status StageExecutor::RunLayers(InFlight& flight,
                                      const TensorList& weights,
                                      bool training) {
  ASSIGN_OR_RETURN(const Tensor loss,
                   layers_.Forward(flight, weights, training));
  if (!stage_.layout.has_loss) return absl::OkStatus();
  return SayLoss(flight, loss, !training);
}

absl::Status StageExecutor::SayLoss(const InFlight& flight, const Tensor& loss,
                                    bool evaluation) {
  LossRecord record;
  record.evaluation = evaluation;
  record.unit = flight.unit.value();
  record.minibatch = flight.minibatch.value();
  record.loss_sum = loss.f32()[0];
  record.right = static_cast<int64_t>(std::llround(loss.f32()[1]));
  record.samples = flight.samples;
  record.at_seconds = Seconds(MonotonicNow());
  if (!std::isfinite(record.loss_sum)) {
    return WithReason(absl::OutOfRangeError(absl::StrCat(
                          "loss of ", evaluation ? "test " : "", "minibatch ",
                          record.minibatch, " is ", record.loss_sum,
                          ", expected a finite number; lower "
                          "learning_rate.base, or look at the "
                          "data")),
                      "LOSS_NOT_FINITE");
  }
  return hooks_.loss ? hooks_.loss(record) : absl::OkStatus();
}

absl::Status StageExecutor::Forward(const Action& action) {
  RETURN_IF_ERROR(FAILPOINT("executor.forward"));
  InFlight& flight = FlightOf(action);
  newest_forward_ = action.number;
  flight.forward_version = options_.break_mode == BreakMode::kNewest
                               ? weights_.newest()
                               : action.version;
  if (flight.samples > 0) {
    if (options_.seat.stage == StageId(0)) {
      const absl::Status status = ReadData(flight);
      if (!status.ok()) return InContext(action, status);
    }
    const auto scope = metrics_.account().In(Bucket::kCompute);
    const absl::Time begin = MonotonicNow();
    ASSIGN_OR_RETURN(const TensorList* const weights,
                     weights_.Get(flight.forward_version));
    const absl::Status status = RunLayers(flight, *weights, /*training=*/true);
    if (!status.ok()) return InContext(action, status);
    metrics_.AddForward(MonotonicNow() - begin);
  }
  activations_.Recount(flight);
  log_.Append({'F', action.number, flight.minibatch.value(),
               action.microbatch.value(), flight.forward_version.value(), -1});
  if (--forwards_left_ == 0) metrics_.SetState(ExecutorState::kDrain);
  return absl::OkStatus();
}

absl::Status StageExecutor::Backward(const Action& action) {
  RETURN_IF_ERROR(FAILPOINT("executor.backward"));
  ASSIGN_OR_RETURN(InFlight* const flight,
                   activations_.Get(UnitId(action.number)));
  const auto scope = metrics_.account().In(Bucket::kCompute);
  const absl::Time begin = MonotonicNow();
  WeightVersion version = action.version;
  if (options_.break_mode == BreakMode::kVersion) version = weights_.newest();
  if (options_.break_mode == BreakMode::kNewest ||
      options_.break_mode == BreakMode::kStash) {
    version = flight->forward_version;
  }
  ASSIGN_OR_RETURN(const TensorList* const weights, weights_.Get(version));

  if (!gradients_fresh_) {
    for (Tensor& gradient : gradients_) {
      RETURN_IF_ERROR(
          backend_->Fill({gradient.elements(), 0.0f, gradient.f32()}));
    }
    gradients_fresh_ = true;
  }
  if (flight->samples > 0) {
    const absl::Status status =
        layers_.Backward(*flight, *weights, absl::MakeSpan(gradients_));
    if (!status.ok()) return InContext(action, status);
  }
  const absl::Time end = MonotonicNow();
  metrics_.AddBackward(
      end - begin, weights_.newest().value() - flight->forward_version.value());
  outcome_.backward_ends.push_back(Seconds(end));
  if (forwards_left_ == 0) {
    ++outcome_.drain;
  } else if (outcome_.backward_ends.size() == 1) {
    metrics_.SetState(ExecutorState::kSteady);
  }
  log_.Append({'B', action.number, flight->minibatch.value(),
               action.microbatch.value(), version.value(), -1});
  return absl::OkStatus();
}

absl::Status StageExecutor::Release(const Action& action) {
  activations_.End(UnitId(action.number));
  log_.Append({'R', action.number, action.minibatch.value(),
               action.microbatch.value(), -1, -1});
  return absl::OkStatus();
}

UnitRange StageExecutor::UnitsOf(int64_t number) const {
  UnitRange units = program_->units_of_update(options_.seat.stage, number);
  units.end =
      std::min(units.end, std::max(units.begin, courier_.stop_before()));
  return units;
}

absl::Status StageExecutor::AllReduce(const Action& action) {
  const UnitRange units = UnitsOf(action.number);
  if (units.size() == 0) return absl::OkStatus();
  const auto scope = metrics_.account().In(Bucket::kTransfer);
  absl::InlinedVector<bool, 8> present(stage_.layout.replicas, false);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    present[program_->owner(options_.seat.stage, unit).value()] = true;
  }
  const int64_t minibatch = MinibatchOf(*program_, units.end - 1);
  RETURN_IF_ERROR(group_.SumGradients(action.number, minibatch, present,
                                      absl::MakeSpan(gradients_)));
  log_.Append({'A', action.number, minibatch, 0, -1, -1});
  return absl::OkStatus();
}

absl::Status StageExecutor::Update(const Action& action) {
  const UnitRange units = UnitsOf(action.number);
  if (units.size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(FAILPOINT("executor.update"));
  const auto scope = metrics_.account().In(Bucket::kCompute);
  int64_t samples = 0;
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const SampleRange range = facts_.RangeOf(*program_, unit);
    samples += range.end - range.first;
  }
  const int64_t minibatch = MinibatchOf(*program_, units.end - 1);
  UpdateContext context;
  context.learning_rate =
      LearningRateAt(options_.spec.learning_rate(), minibatch,
                     facts_.total_steps, facts_.steps_per_epoch);
  context.update = action.number;
  context.gradient_scale =
      1.0 / (static_cast<double>(samples) * facts_.label_elements);
  if (options_.break_mode == BreakMode::kScale) {
    context.gradient_scale *= context.gradient_scale;
  }

  Flight flight;
  flight.newest = weights_.newest();
  activations_.ForEachForwarded([&flight](const InFlight& each) {
    flight.forward_reads.push_back(each.forward_version);
  });
  flight.oldest_to_come = oldest_to_come_;
  const int64_t read = weights_.newest().value();
  PIPE_CHECK(action.version.value() == read + 1);
  // The buffers that are read stay the newest version's until the commit.
  const TensorList& old = weights_.newest_weights();
  WeightVersion oldest = policy_->OldestStillAskedFor(flight);
  if (options_.break_mode == BreakMode::kStash) {
    oldest = std::min(oldest, flight.OldestForwardRead());
  }
  absl::StatusOr<TensorList*> fresh = weights_.BeginUpdate(oldest);
  if (!fresh.ok()) return InContext(action, fresh.status());
  absl::Status status;
  if (options_.break_mode == BreakMode::kOrder) {
    status = UpdateInWrongOrder(context, old, **fresh);
  } else {
    status = optimizer_->Update(*backend_, context, old, gradients_,
                                absl::MakeSpan(stage_.state),
                                absl::MakeSpan(**fresh));
  }
  if (!status.ok()) return InContext(action, status);
  const WeightVersion written = weights_.CommitUpdate();
  gradients_fresh_ = false;
  log_.Append({'U', action.number, minibatch, 0, read, written.value()});
  ReportHeld();
  return absl::OkStatus();
}

// --break order: every second update is made after the one that follows it.
absl::Status StageExecutor::UpdateInWrongOrder(const UpdateContext& context,
                                               const TensorList& old,
                                               TensorList& fresh) {
  if (held_back_.empty()) {
    for (const Tensor& gradient : gradients_) {
      ASSIGN_OR_RETURN(
          Tensor copy,
          Tensor::Allocate(*backend_->allocator(), gradient.shape(),
                           gradient.dtype(), MemoryUse::kGradients));
      std::memcpy(copy.raw(), gradient.raw(), copy.bytes());
      held_back_.push_back(std::move(copy));
    }
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (fresh[i].identity() == old[i].identity()) continue;
      std::memcpy(fresh[i].raw(), old[i].raw(), old[i].bytes());
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(optimizer_->Update(*backend_, context, old, gradients_,
                                     absl::MakeSpan(stage_.state),
                                     absl::MakeSpan(fresh)));
  const TensorList weights = fresh;
  RETURN_IF_ERROR(optimizer_->Update(*backend_, context, weights, held_back_,
                                     absl::MakeSpan(stage_.state),
                                     absl::MakeSpan(fresh)));
  held_back_.clear();
  return absl::OkStatus();
}

// ---- evaluation -------------------------------------------------------------

// Nothing comes back in an evaluation, so the loss stage says of each unit that
// it is done, and stage 0 has only so many under way.
absl::Status StageExecutor::TakeCredits(int64_t unit) {
  const PipelineShape& shape = program_->shape;
  if (options_.seat.stage != StageId(0) || shape.stages() == 1) {
    return absl::OkStatus();
  }
  const StageId last(shape.stages() - 1);
  const int64_t window =
      kEvaluationWindow * shape.stages() * shape.round(StageId(0));
  const int64_t units = program_->segment.units();
  const auto take = [&](int64_t of) {
    return courier_.ReceiveCredit({last, program_->owner(last, of)},
                                  NumberOf(of));
  };
  if (unit >= 0) {
    return unit < window ? absl::OkStatus() : take(unit - window);
  }
  // The end: those of our own that are still out.
  for (int64_t each = std::max<int64_t>(0, units - window); each < units;
       ++each) {
    if (program_->owner(options_.seat.stage, each) == options_.seat.replica) {
      RETURN_IF_ERROR(take(each));
    }
  }
  return absl::OkStatus();
}

absl::Status StageExecutor::Evaluate(const Action& action) {
  InFlight& flight = FlightOf(action);
  if (options_.seat.stage == StageId(0)) {
    RETURN_IF_ERROR(TakeCredits(action.number));
    const absl::Status status = ReadData(flight);
    if (!status.ok()) return InContext(action, status);
  }
  const absl::Status status =
      RunLayers(flight, weights_.newest_weights(), /*training=*/false);
  if (!status.ok()) return InContext(action, status);
  log_.Append({'E', action.number, flight.minibatch.value(), 0,
               weights_.newest().value(), -1});
  if (stage_.layout.has_loss) {
    activations_.End(flight.unit);
    if (program_->shape.stages() > 1) {
      RETURN_IF_ERROR(courier_.SendCredit(
          {StageId(0), program_->owner(StageId(0), action.number)},
          NumberOf(action.number)));
    }
  }
  return absl::OkStatus();
}

// ---- the end of a segment ---------------------------------------------------

absl::Status StageExecutor::Drain() {
  PIPE_CHECK(activations_.flights() == 0);
  weights_.KeepNewestOnly();
  if (stage_.layout.replicas > 1) {
    const auto scope = metrics_.account().In(Bucket::kTransfer);
    RETURN_IF_ERROR(
        group_.AverageBuffers(drains_, absl::MakeSpan(stage_.buffers)));
  }
  ++drains_;
  log_.Append({'D', drains_ - 1, StepNow(), 0, weights_.newest().value(), -1});
  return absl::OkStatus();
}

absl::Status StageExecutor::Save() {
  if (options_.seat.replica != ReplicaId(0) || !hooks_.save) {
    return absl::OkStatus();
  }
  metrics_.account().Pause();
  metrics_.SetState(ExecutorState::kSaving);
  const int64_t step = StepNow();
  outcome_.saved = FAILPOINT("executor.save");
  if (outcome_.saved.ok()) outcome_.saved = hooks_.save(step, NamedTensors());
  log_.Append({'S', step, step, 0, weights_.newest().value(), -1});
  // The disk's trouble is not the training's: the leader hears of it.
  return absl::OkStatus();
}

void StageExecutor::ReportHeld() {
  ExecutorMetrics::Held held;
  held.peak_versions = weights_.peak_versions();
  held.version_bytes = weights_.version_bytes();
  held.newest_version = weights_.newest().value();
  held.peak_activation_bytes = activations_.peak_bytes();
  held.bytes_sent = courier_.bytes_sent();
  metrics_.SetHeld(held);
}

}  // namespace pipework
