#include "daemon/runner/attempt.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/failpoint.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/executor/reason.h"
#include "google/protobuf/util/json_util.h"
#include "kernels/layers/graph_shape.h"
#include "proto/errors.h"
#include "proto/metrics.pb.h"
#include "proto/status_macros.h"
#include "scheduler/compile.h"
#include "scheduler/layer_order.h"

namespace pipework {
namespace {

bool IsLeader(SeatId seat) { return seat == SeatId{StageId(0), ReplicaId(0)}; }

Recipe RecipeOf(const v1::RunnerSetup& setup) {
  Recipe recipe;
  recipe.schedule = setup.plan().schedule().empty()
                        ? setup.spec().pipeline().schedule()
                        : setup.plan().schedule();
  recipe.weights = setup.plan().weights().empty()
                       ? setup.spec().pipeline().weights()
                       : setup.plan().weights();
  return recipe;
}

// Where it does not work (a core that is not ours) the thread runs anywhere.
void Pin(const v1::Device& device) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : device.cores()) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &cores);
  }
  if (CPU_COUNT(&cores) == 0) return;
  pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

}  // namespace

std::string ShardFile(int stage) {
  return absl::StrCat("stage-", stage, ".safetensors");
}

absl::StatusOr<std::unique_ptr<Attempt>> Attempt::Create(Options options) {
  auto attempt = std::unique_ptr<Attempt>(new Attempt(std::move(options)));
  const absl::Status status = attempt->Build();
  if (!status.ok()) return status;
  return attempt;
}

Attempt::Attempt(Options options) : options_(std::move(options)) {}

Attempt::~Attempt() {
  if (!threads_.empty()) {
    Fail(absl::CancelledError("the attempt is torn down"), false);
    for (Thread& thread : threads_) thread.Join();
  }
}

absl::Status Attempt::Build() {
  const v1::RunnerSetup& setup = options_.setup;
  const std::string who = absl::StrCat("job ", setup.job());
  RETURN_IF_ERROR(FAILPOINT("runner.build"));
  if (setup.plan().stages_size() == 0) {
    return Mismatch(who, "number of stages of the plan", "0", "at least 1");
  }
  ASSIGN_OR_RETURN(graph_, ReorderGraph(setup.graph(), setup.plan()));
  bool hosts_data = false;
  for (const v1::Seat& seat : setup.placement().seats()) {
    if (seat.node() != setup.node()) continue;
    seats_.push_back({StageId(seat.stage()), ReplicaId(seat.replica())});
    hosts_data = hosts_data || seat.stage() == 0;
    v1::Device device;
    device.set_name(seat.device());
    for (const v1::Device& each : setup.devices()) {
      if (each.name() == seat.device()) device = each;
    }
    devices_.push_back(std::move(device));
  }
  if (seats_.empty()) {
    return Mismatch(who, "number of seats on this node", "0", "at least 1");
  }

  DataSets data = options_.data;
  if (hosts_data && data.train == nullptr) {
    absl::StatusOr<DataSets> opened = OpenData(setup.spec().data());
    if (!opened.ok()) {
      return WithReason(WithContext(who, opened.status()), "DATA_ERROR");
    }
    data = *std::move(opened);
  }
  if (data.train != nullptr && data.train->size() != setup.train_samples()) {
    return WithReason(
        Mismatch(who, "number of training samples here",
                 absl::StrCat(data.train->size()),
                 absl::StrCat(setup.train_samples(), " as at submit"),
                 "see that every node reads the same files"),
        "DATA_ERROR");
  }
  absl::StatusOr<BreakMode> break_mode = ParseBreakMode(setup.break_mode());
  if (!break_mode.ok()) return WithContext(who, break_mode.status());

  DataPlaneOptions plane;
  plane.job = setup.job();
  plane.attempt = setup.attempt();
  plane.nonce = setup.nonce();
  if (!setup.data_host().empty()) plane.listen_host = setup.data_host();
  plane.advertise_host = setup.advertise_host();
  plane.port_first = setup.data_port_first();
  plane.port_last = setup.data_port_last();
  plane.allocator = MakeHostAllocator(0, options_.poison);
  absl::StatusOr<std::unique_ptr<DataPlane>> made =
      options_.make_plane ? options_.make_plane(plane)
                          : MakeDataPlane(options_.transport, plane);
  if (!made.ok()) return WithContext(who, made.status());
  plane_ = *std::move(made);

  const bool resumes = setup.has_resume();
  for (size_t i = 0; i < seats_.size(); ++i) {
    StageExecutor::Options seat;
    seat.job = setup.job();
    seat.device = absl::StrCat(setup.node(), "/", devices_[i].name());
    seat.seat = seats_[i];
    seat.spec = setup.spec();
    seat.graph = graph_;
    seat.plan = setup.plan();
    seat.train_samples = setup.train_samples();
    seat.test_samples = setup.test_samples();
    if (seats_[i].stage == StageId(0)) seat.data = data;
    seat.backend = options_.backend;
    seat.memory_limit_bytes = devices_[i].memory_bytes();
    seat.poison = options_.poison;
    seat.break_mode = *break_mode;
    seat.peer_timeout = options_.peer_timeout;
    seat.log_capacity = options_.log_capacity;
    ASSIGN_OR_RETURN(std::unique_ptr<StageExecutor> executor,
                     StageExecutor::Create(std::move(seat)));
    if (resumes) {
      RETURN_IF_ERROR(executor->Restore(setup.resume_folder(), setup.resume()));
    }
    if (setup.write_operation_log()) {
      RETURN_IF_ERROR(executor->log().OpenFile(
          absl::StrCat(setup.folder(), "/oplog-s", seats_[i].stage.value(),
                       "-r", seats_[i].replica.value(), ".txt")));
    }
    executors_.push_back(std::move(executor));
  }

  const PipelineShape shape = ShapeOf(graph_, setup.plan());
  RETURN_IF_ERROR(BuildConductor(resumes ? &setup.resume() : nullptr));
  for (size_t i = 0; i < seats_.size(); ++i) {
    SeatLoop::Options loop;
    loop.recipe = RecipeOf(setup);
    loop.shape = shape;
    const SeatId seat = seats_[i];
    loop.save = [this, seat](int64_t step,
                             absl::Span<const NamedTensor> tensors) {
      return Save(seat, step, tensors);
    };
    loop.interrupted = [this] { return Interrupted(); };
    loop.finishing = [this] { finishing_ = true; };
    loops_.push_back(std::make_unique<SeatLoop>(
        executors_[i].get(), IsLeader(seat) ? conductor_.get() : nullptr,
        std::move(loop)));
  }
  plane_->OnPeerLost([this](const absl::Status& status) {
    // At the end everyone leaves, each when it likes.
    if (!finishing_) Fail(CausedByPeer(status), false);
  });
  return absl::OkStatus();
}

absl::Status Attempt::BuildConductor(const v1::Manifest* resume) {
  const v1::RunnerSetup& setup = options_.setup;
  const auto leader = std::find_if(seats_.begin(), seats_.end(), IsLeader);
  if (leader == seats_.end()) return absl::OkStatus();
  const RunFacts& facts = executors_[leader - seats_.begin()]->facts();

  Conductor::Options conductor;
  conductor.facts = facts;
  conductor.rules = RulesOf(setup.spec(), facts.steps_per_epoch,
                            facts.total_steps, facts.test_samples > 0);
  conductor.learning_rate = setup.spec().learning_rate();
  conductor.shape = ShapeOf(graph_, setup.plan());
  conductor.report_period = options_.report_period;
  conductor.report = [this](const v1::RunnerReport& report) { Report(report); };
  v1::Manifest& manifest = conductor.manifest;
  manifest.set_format_version(1);
  manifest.set_job(setup.job());
  manifest.set_attempt(setup.attempt());
  manifest.set_seed(setup.spec().seed());
  manifest.set_graph_hash(GraphHash(setup.graph()));
  google::protobuf::util::JsonPrintOptions json;
  json.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(
           setup.spec(), manifest.mutable_spec_json(), json)
           .ok()) {
    return absl::InternalError(
        absl::StrCat("job ", setup.job(), ": the spec has no JSON form"));
  }
  for (int s = 0; s < setup.plan().stages_size(); ++s) {
    manifest.add_first_layers(setup.plan().stages(s).first_layer());
    v1::Shard* shard = manifest.add_shards();
    shard->set_file(ShardFile(s));
    shard->set_stage(s);
  }
  if (resume != nullptr) {
    if (resume->graph_hash() != manifest.graph_hash()) {
      return Mismatch(absl::StrCat("job ", setup.job()),
                      "graph of the checkpoint", resume->graph_hash(),
                      manifest.graph_hash(),
                      "resume with the network that was saved");
    }
    conductor.first_step = resume->step();
    conductor.test_accuracy = resume->test_accuracy();
    for (const v1::PlanStage& stage : setup.plan().stages()) {
      conductor.first_versions.push_back(
          UpdatesOf(*resume, stage.first_layer()));
    }
  }
  conductor_ = std::make_unique<Conductor>(std::move(conductor));
  return absl::OkStatus();
}

absl::Status Attempt::Connect(const v1::Placement& placement) {
  RETURN_IF_ERROR(FAILPOINT("runner.connect"));
  std::vector<DataPlane::Seat> seats;
  for (const v1::Seat& seat : placement.seats()) {
    seats.push_back({{StageId(seat.stage()), ReplicaId(seat.replica())},
                     seat.data_address()});
  }
  const absl::Status status =
      plane_->Connect(seats, MonotonicNow() + options_.connect_timeout);
  if (!status.ok()) {
    return WithReason(
        WithContext(absl::StrCat("job ", options_.setup.job()), status),
        "CONNECT_FAILED");
  }
  for (size_t i = 0; i < seats_.size(); ++i) {
    executors_[i]->Attach(&plane_->endpoint(seats_[i]));
  }
  return absl::OkStatus();
}

void Attempt::Start() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    running_ = static_cast<int>(seats_.size());
  }
  for (size_t i = 0; i < seats_.size(); ++i) {
    threads_.emplace_back(SeatName(seats_[i]),
                          [this, i] { RunSeat(static_cast<int>(i)); });
  }
}

void Attempt::RunSeat(int index) {
  if (options_.pin) Pin(devices_[index]);
  absl::Status status = loops_[index]->Run();
  status.Update(executors_[index]->log().CloseFile());
  if (!status.ok()) Fail(status, !IsCausedByPeer(status));
  std::lock_guard<std::mutex> lock(mutex_);
  --running_;
  changed_.notify_all();
}

void Attempt::Fail(const absl::Status& status, bool first_cause) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (first_error_.ok()) {
      first_error_ = status;
      first_cause_ = first_cause;
    }
  }
  interrupted_ = true;
  plane_->Abort(status);
}

absl::Status Attempt::Interrupted() const {
  if (!interrupted_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return CausedByPeer(absl::UnavailableError("another executor has ended"));
}

void Attempt::Stop(bool now, bool save, const std::string& reason) {
  if (now) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_now_ = true;
      stop_reason_ = reason;
    }
    Fail(absl::CancelledError(
             absl::StrCat("job ", options_.setup.job(), ": stopped: ", reason)),
         false);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_reason_ = reason;
  }
  if (conductor_ != nullptr) conductor_->RequestStop(save);
}

bool Attempt::WaitUntil(absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  return pipework::WaitUntil(changed_, lock, deadline,
                             [this] { return running_ == 0; });
}

v1::RunnerReport::Ended Attempt::Wait() {
  while (!WaitUntil(MonotonicNow() + absl::Seconds(60))) {
  }
  for (Thread& thread : threads_) thread.Join();
  threads_.clear();
  return Ended();
}

v1::RunnerReport::Ended Attempt::Ended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  v1::RunnerReport::Ended ended;
  ended.set_test_accuracy(-1);
  if (conductor_ != nullptr) {
    ended.set_test_accuracy(conductor_->state().test_accuracy);
  }
  if (stopped_now_) {
    ended.set_stopped(true);
    ended.set_code(static_cast<int>(absl::StatusCode::kCancelled));
    ended.set_reason("CANCELLED");
    ended.set_message(stop_reason_);
    return ended;
  }
  if (!first_error_.ok()) {
    ended.set_code(static_cast<int>(first_error_.code()));
    ended.set_reason(ReasonOf(first_error_));
    ended.set_message(std::string(first_error_.message()));
    ended.set_first_cause(first_cause_);
    return ended;
  }
  if (conductor_ == nullptr) return ended;
  const Leg end = conductor_->end();
  ended.set_finished(!end.stopped);
  ended.set_stopped(end.stopped);
  if (end.stopped) {
    ended.set_code(static_cast<int>(absl::StatusCode::kCancelled));
    ended.set_reason("CANCELLED");
    ended.set_message(stop_reason_);
  } else if (!conductor_->save_status().ok()) {
    ended.set_code(static_cast<int>(conductor_->save_status().code()));
    ended.set_reason("CHECKPOINT_FAILED");
    ended.set_message(std::string(conductor_->save_status().message()));
    ended.set_first_cause(true);
  } else if (end.target_missed) {
    ended.set_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
    ended.set_reason("TARGET_MISSED");
    ended.set_message(absl::StrCat(
        "test accuracy is ", conductor_->state().test_accuracy, ", expected ",
        options_.setup.spec().run().target_accuracy(),
        " or more; train longer or change the rate"));
    ended.set_first_cause(true);
  }
  return ended;
}

void Attempt::Report(const v1::RunnerReport& report) {
  if (!options_.report) return;
  std::lock_guard<std::mutex> lock(report_mutex_);
  options_.report(report);
}

absl::Status Attempt::Save(SeatId seat, int64_t step,
                           absl::Span<const NamedTensor> tensors) {
  const std::string folder =
      absl::StrCat(options_.setup.folder(), "/", CheckpointFolderName(step));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("checkpoint: ", folder, ": ", error.message()));
  }
  const int stage = seat.stage.value();
  ASSIGN_OR_RETURN(const v1::Shard shard,
                   WriteShard(folder, ShardFile(stage), stage, tensors));
  v1::RunnerReport report;
  report.mutable_shard()->set_step(step);
  report.mutable_shard()->set_path(absl::StrCat(folder, "/", shard.file()));
  *report.mutable_shard()->mutable_shard() = shard;
  Report(report);
  return absl::OkStatus();
}

v1::RunnerReport Attempt::Stages() const {
  v1::RunnerReport report;
  for (const std::unique_ptr<StageExecutor>& executor : executors_) {
    v1::StageMetrics* stage = report.mutable_stages()->add_stages();
    executor->FillMetrics(stage);
    stage->set_planned_ms(
        options_.setup.plan().stages(stage->index()).seconds() * 1e3);
  }
  return report;
}

}  // namespace pipework
