#include "cli/commands/verify.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/local_cluster.h"
#include "cli/report.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"
#include "proto/verification.pb.h"
#include "scheduler/compile.h"

extern char** environ;

namespace pipework {
namespace {

namespace fs = std::filesystem;

// A folder that goes when this does.
class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Make() {
    std::error_code error;
    std::string name =
        (fs::temp_directory_path(error) / "pipework-verify-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat(
          "verify: ", name, " cannot be made: ", std::strerror(errno)));
    }
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(name));
  }
  ~TemporaryFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Executors that the spec asks for.
int Executors(const v1::JobSpec& spec) {
  int executors = 0;
  for (const v1::StageSpec& stage : spec.pipeline().stages()) {
    executors += std::max(1, stage.replicas());
  }
  if (executors == 0) executors = spec.pipeline().stage_count();
  return executors == 0 ? 4 : executors;
}

// Microbatches for a schedule that takes them: two for each stage, or the next
// larger number that the schedule agrees to.
int64_t MicrobatchesFor(const Recipe& recipe, const v1::JobSpec& spec) {
  const v1::PipelineSpec& pipeline = spec.pipeline();
  PipelineShape shape;
  for (const v1::StageSpec& stage : pipeline.stages()) {
    shape.replicas.push_back(std::max(1, stage.replicas()));
    shape.shares.push_back(stage.shares_size() == stage.replicas()
                               ? NormalShares(stage.shares())
                               : std::vector<int>());
  }
  if (shape.replicas.empty()) shape.replicas.assign(Executors(spec), 1);
  const int64_t stages = shape.stages();
  Segment segment;
  segment.minibatches = 1;
  segment.accumulate =
      static_cast<int>(std::clamp<int64_t>(spec.batch().accumulate(), 1, 1000));
  for (int64_t each = 2 * stages; each < 64 * stages; ++each) {
    segment.microbatches = static_cast<int>(each * shape.round(StageId{0}));
    if (CheckNumbers(recipe, shape, segment).ok()) return each;
  }
  return 2 * stages;  // whoever checks the spec says what is wrong
}

// The spec as verify runs it: its own pipeline overridden by flags, so many
// steps, one checkpoint at the end, no target, no second attempt.
absl::Status Override(const Invocation& invocation, v1::JobSpec* spec,
                      std::vector<int>* replicas) {
  int64_t steps = 24;
  int64_t stages = 0;
  int64_t microbatches = 0;
  RETURN_IF_ERROR(invocation.GetInt("steps", 1, &steps));
  RETURN_IF_ERROR(invocation.GetInt("stages", 1, &stages));
  RETURN_IF_ERROR(invocation.GetInt("microbatches", 1, &microbatches));
  v1::PipelineSpec* pipeline = spec->mutable_pipeline();
  if (invocation.Has("schedule")) {
    pipeline->set_schedule(invocation.Get("schedule"));
    pipeline->clear_weights();
  }
  if (invocation.Has("weights")) {
    pipeline->set_weights(invocation.Get("weights"));
  }
  if (stages > 0) {
    pipeline->clear_stages();
    pipeline->set_stage_count(
        static_cast<int>(std::min<int64_t>(stages, 1000)));
  }
  if (invocation.Has("replicas")) {
    for (absl::string_view text :
         absl::StrSplit(invocation.Get("replicas"), ',')) {
      int count = 0;
      if (!absl::SimpleAtoi(text, &count) || count < 1 || count > 64) {
        return Mismatch("--replicas", "value",
                        absl::StrCat("\"", invocation.Get("replicas"), "\""),
                        "replicas of each stage, such as 2,1,1");
      }
      replicas->push_back(count);
    }
    if (stages > 0 && static_cast<int64_t>(replicas->size()) != stages) {
      return Mismatch("--replicas", "number of stages",
                      absl::StrCat(replicas->size()),
                      absl::StrCat(stages, " as --stages says"));
    }
    pipeline->set_stage_count(0);
    pipeline->clear_stages();
    // Stages without layers: the planner chooses the cuts.
    for (const int count : *replicas) {
      pipeline->add_stages()->set_replicas(count);
    }
  }
  v1::BatchSpec* batch = spec->mutable_batch();
  ASSIGN_OR_RETURN(const Recipe recipe,
                   CheckRecipe({pipeline->schedule(), pipeline->weights()}, 1));
  pipeline->set_weights(recipe.weights);
  RETURN_IF_ERROR(CheckRunnable(recipe));
  const bool takes_microbatches = TakesMicrobatches(recipe.schedule);
  if (microbatches > 0) batch->set_microbatches(microbatches);
  if (!takes_microbatches && microbatches == 0) batch->set_microbatches(1);
  if (takes_microbatches && invocation.Has("schedule") && microbatches == 0 &&
      batch->microbatches() <= 1) {
    batch->set_microbatches(MicrobatchesFor(recipe, *spec));
  }
  if (takes_microbatches && microbatches == 0) {
    // A minibatch that its parts divide: the next larger one.
    const int64_t first = pipeline->stages_size() > 0
                              ? RoundUnits(pipeline->stages(0).replicas(),
                                           pipeline->stages(0).shares())
                              : 1;
    const int64_t parts = std::max<int64_t>(1, batch->microbatches()) * first;
    batch->set_minibatch((batch->minibatch() + parts - 1) / parts * parts);
  }
  RETURN_IF_ERROR(
      CheckRecipe(recipe, static_cast<int>(batch->microbatches())).status());
  spec->mutable_run()->Clear();
  spec->mutable_run()->set_steps(steps);
  spec->mutable_checkpoint()->Clear();
  spec->mutable_checkpoint()->set_keep(1);
  spec->mutable_restart()->set_max(0);
  return absl::OkStatus();
}

// Copies the executors' operation logs from below `nodes` to `logs`.
absl::Status KeepLogs(const std::string& nodes, const std::string& logs) {
  std::error_code error;
  fs::create_directories(logs, error);
  for (const auto& entry : fs::recursive_directory_iterator(nodes, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "oplog-")) {
      fs::copy_file(entry.path(), logs + "/" + name, error);
    }
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat(
        "verify: operation logs cannot be copied: ", error.message()));
  }
  return absl::OkStatus();
}

// Runs `pipe-runner --oracle FILE`; its standard output goes to `answer`.
absl::Status RunOracle(const std::string& request, const std::string& answer) {
  ASSIGN_OR_RETURN(std::string runner, SiblingBinary("pipe-runner"));
  std::string flag = "--oracle";
  std::string file = request;
  char* argv[] = {runner.data(), flag.data(), file.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, answer.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const std::string errors = answer + ".err";
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t pid = -1;
  const int failed =
      posix_spawn(&pid, runner.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return absl::UnavailableError(
        absl::StrCat("verify: ", runner, ": ", std::strerror(failed)));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  std::ifstream in(errors);
  std::string line;
  std::string last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return absl::InternalError(absl::StrCat(
      "verify: the oracle ended with ",
      WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                          : absl::StrCat("exit ", WEXITSTATUS(status)),
      last.empty() ? "" : ": ", last));
}

std::string Page(const v1::Verification& v) {
  Table table({"LAYER", "EQUAL", ">MAX DIFFERENCE"});
  for (const v1::LayerVerdict& layer : v.layers()) {
    table.Row({layer.name(), layer.bit_equal() ? "every bit" : "NO",
               absl::StrFormat("%.3g", layer.max_abs_difference())});
  }
  return absl::StrCat(
      v.schedule(), " with ", v.weights(), " weights, replicas ", v.replicas(),
      ", ", v.steps(), " steps against the serial oracle (", v.oracle(),
      ")\n\n", table.ToString(), "\n",
      v.equal() ? "equal: every bit of every layer agrees\n"
                : absl::StrCat("NOT equal: ", v.first_difference(), "\n"));
}

}  // namespace

int Verify(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::CreateJobRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  std::string path;
  if (const int code = LoadSpec(invocation, invocation.positionals[0], &spec,
                                &path, DataHere::kNeeded)) {
    return code;
  }
  std::vector<int> replicas;
  const absl::Status usage = Override(invocation, &spec, &replicas);
  if (!usage.ok()) {
    const bool flag = absl::StartsWith(usage.message(), "--");
    return out.Error(flag ? kExitUsage : kExitRejected,
                     flag ? "USAGE" : "INVALID_SPEC", usage.message());
  }
  request.set_request_id(NewRequestId());
  request.set_spec_file(path);
  request.set_write_operation_log(true);
  request.set_break_mode(invocation.Get("break"));

  CatchInterrupts();
  const auto folder = TemporaryFolder::Make();
  if (!folder.ok()) return out.Error(folder.status());
  LocalCluster::Options options;
  options.state_dir = (*folder)->path();
  const int executors = Executors(spec);
  options.nodes = executors == 1 ? 1 : 2;
  options.devices_per_node = (executors + options.nodes - 1) / options.nodes;
  auto cluster = LocalCluster::Start(options);
  if (!cluster.ok()) return out.Error(cluster.status());
  auto client =
      std::make_unique<Client>(Client::Options{(*cluster)->server(), "", 30});
  const auto created = client->CreateJob(request);
  if (!created.ok()) return SpecError(invocation, created.status());
  FollowOptions follow;
  follow.progress = false;
  follow.metrics_file = (*folder)->path() + "/steps.jsonl";
  follow.interrupted = [] { return Interrupts() > 0; };
  const auto job = FollowJob(*client, created->id(), out, follow);
  // A daemon that stops removes the files of its jobs.
  const std::string logs = (*folder)->path() + "/operation-logs";
  const absl::Status kept = KeepLogs((*folder)->path() + "/nodes", logs);
  // A connection that nobody attends holds up the coordinator's end.
  client.reset();
  (*cluster)->Stop(15);
  if (!job.ok()) return out.Error(job.status());
  if (job->state() != v1::SUCCEEDED) {
    return out.Error(kExitJobFailed, job->reason(),
                     absl::StrCat("verify: the pipelined run ended ",
                                  StateText(*job), ": ", job->message()));
  }

  if (!kept.ok()) return out.Error(kept);
  v1::OracleRequest oracle;
  *oracle.mutable_spec() = spec;
  *oracle.mutable_plan() = job->plan();
  oracle.set_checkpoint(job->checkpoint());
  oracle.set_steps(job->step());
  oracle.add_log_folders(logs);
  const auto steps = JobStoreReader::Open((*folder)->path());
  if (steps.ok()) {
    const auto read = (*steps)->Steps(job->id());
    if (read.ok()) {
      for (const v1::StepMetrics& step : *read) oracle.add_losses(step.loss());
    }
  }
  const std::string request_file = (*folder)->path() + "/oracle.txt";
  const std::string answer_file = (*folder)->path() + "/verification.txt";
  absl::Status status = WriteTextFile(request_file, oracle);
  if (status.ok()) status = RunOracle(request_file, answer_file);
  v1::Verification verification;
  if (status.ok()) status = ReadTextFile(answer_file, &verification);
  if (!status.ok()) {
    return out.Error(kExitUnexpected, "ORACLE_FAILED", status.message());
  }
  out.Json(verification, "Verification");
  out.Text(Page(verification));
  return verification.equal() ? kExitOk : kExitUnexpected;
}

}  // namespace pipework
