// The engine's way from the queue to reserved devices: data, graph, profiles,
// plan, placement. One job at a time, in order of submission.
#include <algorithm>
#include <filesystem>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/coordinator/engine.h"
#include "daemon/coordinator/job_store.h"
#include "daemon/coordinator/spec_facts.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "proto/status_macros.h"
#include "scheduler/planning/planning.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

std::vector<std::string> DeviceKeys(const v1::Topology& topology) {
  std::vector<std::string> keys;
  for (const auto& node : topology.nodes()) {
    for (const v1::Device& device : node.devices()) {
      keys.push_back(absl::StrCat(node.name(), "/", device.name()));
    }
  }
  return keys;
}

// Whether the spec ties its stages to devices by name.
bool NamesDevices(const v1::JobSpec& spec) {
  for (const v1::StageSpec& stage : spec.pipeline().stages()) {
    if (stage.devices_size() > 0) return true;
  }
  return false;
}

}  // namespace

// ---- whose turn it is ----

void Engine::Schedule() {
  std::vector<std::string> ahead;
  for (const std::string& id : active_) {
    if (jobs_.at(id)->preparation != nullptr) ahead.push_back(id);
  }
  bool first = ahead.empty();
  for (const std::string& id : active_) {
    Entry& entry = *jobs_.at(id);
    const v1::JobState state = entry.job.state();
    const bool recovering =
        state == v1::RECOVERING &&
        entry.record.ending() == v1::JOB_STATE_UNSPECIFIED &&
        entry.preparation == nullptr;
    if (state != v1::QUEUED && !recovering) continue;
    if (!first) {
      SetReason(entry, "QUEUED_BEHIND",
                absl::StrCat("waits for its turn; number ", ahead.size() + 1,
                             " in the queue, after ", ahead.back()));
      ahead.push_back(id);
      continue;
    }
    first = false;
    ahead.push_back(id);
    // What did not fit is tried again when the cluster has changed.
    if (entry.refused_at == cluster_version_) {
      if (recovering && !entry.record.wait_for_capacity() &&
          clock_.Now() - entry.recovering_since > options_.recover_limit &&
          cluster_.Owners(id).empty()) {
        Move(entry, JobTrigger::kError, "INFEASIBLE",
             absl::StrCat("the next attempt does not fit on what is left: ",
                          entry.job.message()));
      }
      continue;
    }
    v1::Topology free = cluster_.FreeFor(id);
    const int devices = Cluster::CountDevices(free);
    const int all_devices = Cluster::CountDevices(cluster_.Whole());
    int needed = LeastDevices(entry.job.spec());
    if (recovering && needed > all_devices && !NamesDevices(entry.job.spec())) {
      needed = 1;  // it goes on with fewer stages
    }
    if (devices < needed) {
      const std::vector<std::string> owners = cluster_.Owners(id);
      SetReason(entry, owners.empty() ? "NO_CAPACITY" : "DEVICES_BUSY",
                absl::StrCat(
                    "needs ", needed, needed == 1 ? " device, " : " devices, ",
                    devices, " of ", all_devices,
                    " in the cluster are free; starts when ",
                    owners.empty()
                        ? "another node registers (piped --coordinator)"
                        : absl::StrCat(absl::StrJoin(owners, ", "),
                                       owners.size() == 1 ? " ends" : " end")));
      entry.refused_at = cluster_version_;
      continue;
    }
    Admit(entry, std::move(free));
  }
}

void Engine::Admit(Entry& entry, v1::Topology free) {
  const std::string id = entry.job.id();
  if (entry.job.state() == v1::QUEUED) {
    Move(entry, JobTrigger::kAdmitted, "CHECKING_DATA",
         "looks at its data on every node; the layers are profiled next");
  } else {
    SetReason(entry, "PLANNING",
              absl::StrCat("prepares attempt ", entry.job.attempt() + 1));
  }
  cluster_.Own(id, DeviceKeys(free));
  ++cluster_version_;
  entry.preparation = std::make_unique<Preparation>();
  entry.preparation->topology = std::move(free);
  entry.preparation->deadline = clock_.Now() + options_.data_limit;
  entry.preparation->step = "data check";
  const int64_t serial = ++entry.serial;
  AskData(entry.job.spec(), [this, id, serial](const DataAnswer& data) {
    Entry* waiting = Find(id);
    if (waiting == nullptr || waiting->serial != serial) return;
    OnData(*waiting, data);
  });
}

void Engine::GiveUpPreparation(Entry& entry, const std::string& reason,
                               const std::string& message, bool wait) {
  ++entry.serial;
  entry.preparation.reset();
  if (entry.profiling.empty()) {
    cluster_.ReleaseAll(entry.job.id());
    ++cluster_version_;
  }
  if (!wait) {
    Move(entry, JobTrigger::kError, reason, message);
    return;
  }
  entry.refused_at = cluster_version_;
  if (entry.job.state() == v1::PROFILING) {
    Move(entry, JobTrigger::kRequeued, reason, message);
  } else {
    SetReason(entry, reason, message);
  }
}

void Engine::OnData(Entry& entry, const DataAnswer& data) {
  if (data.nodes.empty()) {
    const bool nobody = data.asked.empty();
    GiveUpPreparation(entry, nobody ? "NO_CAPACITY" : "DATA_ERROR",
                      nobody ? "no node is READY; starts when one registers"
                             : absl::StrCat("no node has the data whole: ",
                                            absl::StrJoin(data.refusals, "; ")),
                      /*wait=*/nobody);
    return;
  }
  entry.preparation->data = data;
  *entry.record.mutable_facts() = data.facts;
  entry.record.clear_data_nodes();
  for (const std::string& node : data.nodes) entry.record.add_data_nodes(node);
  for (const std::string& refusal : data.refusals) {
    v1::LogLine line;
    line.set_attempt(entry.job.attempt());
    line.set_stage(-1);
    line.set_level("info");
    line.set_at(Now());
    line.set_text(absl::StrCat("data: ", refusal));
    AppendLog(entry, {line});
  }
  Changed(entry);
  // The graph: built and checked off this thread, for it can be large.
  const std::string id = entry.job.id();
  const int64_t serial = entry.serial;
  entry.preparation->step = "graph";
  entry.preparation->deadline = clock_.Now() + options_.data_limit;
  host_->Work([this, id, serial, spec = entry.job.spec(),
               facts = data.facts]() -> std::function<void()> {
    auto graph = GraphOf(spec, EndsOf(facts));
    std::vector<v1::Problem> problems;
    if (graph.ok()) {
      problems = CheckAgainstData(spec, *graph, facts.train_samples(),
                                  facts.test_samples());
    }
    return [this, id, serial, graph, problems] {
      Entry* waiting = Find(id);
      if (waiting == nullptr || waiting->serial != serial) return;
      if (!graph.ok() || !problems.empty()) {
        GiveUpPreparation(*waiting, "INVALID_SPEC",
                          graph.ok() ? FormatProblem(problems[0])
                                     : std::string(graph.status().message()),
                          /*wait=*/false);
        return;
      }
      *waiting->record.mutable_graph() = *graph;
      waiting->job.set_total_steps(
          TotalSteps(waiting->job.spec(), waiting->record.facts()));
      AskProfiles(*waiting);
    };
  });
}

// ---- profiles ----

void Engine::OnProfiles(Entry& entry) {
  Preparation& preparation = *entry.preparation;
  if (!preparation.problem.empty()) {
    const int used = entry.record.restarts();
    if (preparation.retryable && used < entry.job.spec().restart().max()) {
      entry.record.set_restarts(used + 1);
      AddEvent(entry, "PROFILE_FAILED", preparation.problem);
      const std::string problem = preparation.problem;
      GiveUpPreparation(entry, "PROFILE_FAILED", problem, /*wait=*/true);
      entry.refused_at = -1;
    } else {
      const std::string problem = preparation.problem;
      GiveUpPreparation(entry, "PROFILE_FAILED", problem, /*wait=*/false);
    }
    return;
  }
  preparation.step = "plan";
  preparation.deadline = clock_.Now() + options_.data_limit;
  SetReason(entry, "PLANNING", "cuts the network into stages");
  const std::string id = entry.job.id();
  const int64_t serial = entry.serial;
  const std::string checkpoints = entry.job.folder() + "/checkpoints";
  host_->Work([this, id, serial, spec = entry.job.spec(),
               graph = entry.record.graph(), profiles = preparation.profiles,
               free = preparation.topology, whole = cluster_.Whole(),
               data_nodes = preparation.data.nodes, checkpoints,
               from = entry.record.from_folder(),
               again = entry.job.state() ==
                       v1::RECOVERING]() -> std::function<void()> {
    // One for each kind of device; the first is the first device's.
    const v1::Profile& profile = profiles.front();
    PlanningOptions planning;
    planning.other_profiles.assign(profiles.begin() + 1, profiles.end());
    planning.data_nodes = data_nodes;
    planning.rivals = false;
    auto plan = PlanJob(spec, graph, profile, free, planning);
    absl::Status on_whole = plan.status();
    if (!plan.ok()) {
      on_whole = PlanJob(spec, graph, profile, whole, planning).status();
    }
    std::string relaxed;
    if (again && absl::IsFailedPrecondition(on_whole) && !NamesDevices(spec)) {
      // What is left of the cluster can not hold the stages that were asked
      // for: a checkpoint loads into any number of them.
      v1::JobSpec fewer = spec;
      fewer.mutable_pipeline()->clear_stages();
      fewer.mutable_pipeline()->clear_stage_count();
      auto smaller = PlanJob(fewer, graph, profile, free, planning);
      if (smaller.ok()) {
        relaxed = std::string(on_whole.message());
        plan = std::move(smaller);
      }
    }
    absl::StatusOr<v1::Placement> placement =
        plan.ok() ? Place(*plan, free, data_nodes)
                  : absl::StatusOr<v1::Placement>(plan.status());
    // The newest checkpoint that is whole; damaged ones are stepped over.
    absl::StatusOr<v1::Manifest> resume = absl::NotFoundError("none");
    std::string resume_folder;
    std::vector<std::string> bad;
    std::vector<std::string> folders;
    for (const CheckpointEntry& each : ListCheckpoints(checkpoints)) {
      if (each.complete) folders.push_back(each.folder);
    }
    if (!from.empty()) folders.push_back(from);
    for (const std::string& folder : folders) {
      resume = VerifyCheckpoint(folder);
      resume_folder = folder;
      if (resume.ok()) break;
      bad.push_back(
          absl::StrCat(folder, ": ", std::string(resume.status().message())));
    }
    return [this, id, serial, plan, on_whole, placement, resume, resume_folder,
            bad, relaxed] {
      Entry* waiting = Find(id);
      if (waiting == nullptr || waiting->serial != serial) return;
      if (!relaxed.empty()) {
        AddEvent(*waiting, "FEWER_STAGES",
                 absl::StrCat("goes on with ", plan->stages_size(),
                              " stages, since ", relaxed));
      }
      OnPlan(*waiting, plan, on_whole, placement, resume, resume_folder, bad);
    };
  });
}

void Engine::OnPlan(Entry& entry, const absl::StatusOr<v1::Plan>& plan,
                    const absl::Status& whole,
                    const absl::StatusOr<v1::Placement>& placement,
                    const absl::StatusOr<v1::Manifest>& resume,
                    const std::string& resume_folder,
                    const std::vector<std::string>& bad_checkpoints) {
  const std::string id = entry.job.id();
  const absl::Status problem = plan.ok() ? placement.status() : plan.status();
  if (!problem.ok()) {
    // It would fit if others were not there, or somebody came back.
    const bool busy = !cluster_.Owners(id).empty() && (whole.ok() || plan.ok());
    const bool wait = busy || entry.record.wait_for_capacity() ||
                      entry.job.state() == v1::RECOVERING;
    const bool fits_not = absl::IsFailedPrecondition(problem);
    GiveUpPreparation(
        entry,
        busy ? "DEVICES_BUSY" : (fits_not ? "INFEASIBLE" : "INVALID_SPEC"),
        busy ? absl::StrCat("waits for ",
                            absl::StrJoin(cluster_.Owners(id), ", "), ": ",
                            problem.message())
             : std::string(problem.message()),
        wait && (busy || fits_not));
    return;
  }
  // The devices were free when the plan was begun; has one gone since?
  for (const v1::Seat& seat : placement->seats()) {
    if (cluster_.StateOf(seat.node()) == LeaseState::kReady) continue;
    GiveUpPreparation(entry, "NO_CAPACITY",
                      absl::StrCat("node ", seat.node(),
                                   " went away while the job was planned"),
                      /*wait=*/true);
    entry.refused_at = -1;
    return;
  }
  for (const std::string& bad : bad_checkpoints) {
    AddEvent(entry, "CHECKPOINT_CORRUPT", bad);
  }
  if (!resume.ok() && !entry.record.from_folder().empty()) {
    GiveUpPreparation(
        entry, "CHECKPOINT_CORRUPT",
        bad_checkpoints.empty() ? "no checkpoint is left" : bad_checkpoints[0],
        /*wait=*/false);
    return;
  }

  const bool again = entry.job.state() == v1::RECOVERING;
  if (again) entry.job.set_attempt(entry.job.attempt() + 1);
  entry.preparation.reset();
  *entry.job.mutable_plan() = *plan;
  *entry.job.mutable_placement() = *placement;
  entry.job.set_predicted_step_ms(plan->predicted_step_ms());
  entry.attempt.Begin(*placement);
  entry.record.clear_manifests();
  entry.uploads.clear();
  entry.setup_sent.clear();
  entry.start_sent.clear();
  entry.stages.clear();
  entry.job.clear_stages();
  entry.record.clear_resume();
  entry.record.clear_resume_folder();
  int64_t from_step = 0;
  entry.job.clear_checkpoint();
  entry.job.clear_checkpoint_step();
  if (resume.ok()) {
    if (resume_folder != entry.record.from_folder()) {
      entry.job.set_checkpoint(resume_folder);
      entry.job.set_checkpoint_step(resume->step());
    }
    *entry.record.mutable_resume() = *resume;
    entry.record.set_resume_folder(resume_folder);
    from_step = resume->step();
  }
  entry.last_step = from_step - 1;
  entry.job.set_step(from_step);
  std::random_device random;
  entry.record.set_nonce((uint64_t{random()} << 32) | random());
  v1::Attempt* attempt = entry.job.add_attempts();
  attempt->set_number(entry.job.attempt());
  attempt->set_from_step(from_step);
  attempt->set_started_at(static_cast<int64_t>(Now()));
  entry.broken_at = absl::InfiniteFuture();
  entry.ending_at = absl::InfiniteFuture();
  entry.kill_at = absl::InfiniteFuture();
  entry.recovering_since = absl::InfiniteFuture();
  entry.killed = false;

  std::vector<std::string> devices;
  for (const v1::Seat& seat : placement->seats()) {
    devices.push_back(absl::StrCat(seat.node(), "/", seat.device()));
  }
  cluster_.ReleaseBut(id, devices);
  cluster_.Own(id, devices);
  ++cluster_version_;
  Move(entry, JobTrigger::kPlaced, "STARTING_RUNNERS",
       absl::StrFormat(
           "attempt %d: %d stages on %s, from step %d; predicted %.2f ms a "
           "step",
           entry.job.attempt(), plan->stages_size(),
           absl::StrJoin(devices, ", "), from_step, plan->predicted_step_ms()));
  entry.phase_deadline = clock_.Now() + options_.reserve_limit;
}

// ---- runners ----

v1::RunnerSetup Engine::SetupFor(const Entry& entry,
                                 const std::string& node) const {
  v1::RunnerSetup setup;
  setup.set_job(entry.job.id());
  setup.set_attempt(entry.job.attempt());
  *setup.mutable_spec() = entry.job.spec();
  *setup.mutable_graph() = entry.record.graph();
  *setup.mutable_plan() = entry.job.plan();
  *setup.mutable_placement() = entry.job.placement();
  setup.set_node(node);
  std::set<std::string> here;
  for (const v1::Seat& seat : entry.job.placement().seats()) {
    if (seat.node() != node || !here.insert(seat.device()).second) continue;
    const v1::Device* device = cluster_.FindDevice(node, seat.device());
    if (device != nullptr) *setup.add_devices() = *device;
  }
  setup.set_nonce(entry.record.nonce());
  if (entry.record.has_resume()) {
    *setup.mutable_resume() = entry.record.resume();
    setup.set_resume_folder(entry.record.resume_folder());
  }
  setup.set_train_samples(entry.record.facts().train_samples());
  setup.set_test_samples(entry.record.facts().test_samples());
  setup.set_break_mode(entry.record.break_mode());
  setup.set_write_operation_log(entry.record.write_operation_log());
  return setup;
}

void Engine::SendSetup(Entry& entry, const std::string& node) {
  v1::CoordinatorMessage message;
  *message.mutable_start_runner()->mutable_setup() = SetupFor(entry, node);
  const std::string id = entry.job.id();
  const int attempt = entry.job.attempt();
  SendCommand(
      node, std::move(message), options_.reserve_limit,
      [this, id, attempt, node](const v1::NodeMessage::Answer& answer) {
        Entry* starting = Find(id);
        if (answer.code() == 0 || starting == nullptr ||
            starting->job.attempt() != attempt) {
          return;
        }
        v1::RunnerRecord* runner = starting->attempt.Find(node);
        if (runner == nullptr || runner->state() != v1::RunnerRecord::ASKED) {
          return;
        }
        runner->set_state(v1::RunnerRecord::GONE);
        cluster_.ReleaseOn(id, node);
        starting->attempt.AddCause(
            kCauseOwnError, "START_FAILED",
            absl::StrCat("node ", node, ": ", answer.message()), node,
            IsRetryable("START_FAILED", answer.code()));
        Changed(*starting);
        AfterRunnerChange(*starting);
      });
}

}  // namespace pipework
