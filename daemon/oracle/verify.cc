#include "daemon/oracle/verify.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/data/dataset.h"
#include "daemon/oracle/compare.h"
#include "daemon/oracle/oracle.h"
#include "daemon/spec/spec.h"
#include "kernels/layers/graph_shape.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/layer_order.h"

namespace pipework {
namespace {

// Whether a unit goes all the way before the next one starts, or all read the
// newest version anyway.
bool IsPlain(const v1::OracleRequest& request) {
  const v1::Plan& plan = request.plan();
  if (plan.schedule() == "flush" || plan.schedule() == "gpipe") return true;
  // One update late, even where nothing else is in flight.
  if (plan.schedule() == "two_version") return false;
  if (plan.stages_size() == 1) return true;
  // With replicas a minibatch enters before another of its round is done.
  if (plan.weights() == "vertical_sync") return false;
  return plan.schedule() == "model_parallel" || plan.in_flight() == 1 ||
         request.spec().pipeline().in_flight() == "1";
}

absl::Status CheckCheckpoint(const v1::OracleRequest& request,
                             const v1::Manifest& manifest,
                             const v1::Graph& graph) {
  const std::string who = absl::StrCat("checkpoint ", request.checkpoint());
  if (manifest.step() != request.steps()) {
    return absl::FailedPreconditionError(
        MismatchText(who, "step", absl::StrCat(manifest.step()),
                     absl::StrCat(request.steps())));
  }
  const std::string hash = GraphHash(graph);
  if (manifest.graph_hash() != hash) {
    return absl::FailedPreconditionError(
        MismatchText(who, "hash of its graph", manifest.graph_hash(), hash));
  }
  return absl::OkStatus();
}

// The checkpoint's tensors, one for each of the oracle's.
absl::StatusOr<std::vector<Tensor>> LoadLike(
    const std::vector<OracleTensor>& like, const std::string& folder,
    const v1::Manifest& manifest) {
  const std::shared_ptr<Allocator> allocator = MakeHostAllocator();
  std::vector<NamedTensor> loaded;
  for (const OracleTensor& each : like) {
    ASSIGN_OR_RETURN(Tensor tensor,
                     Tensor::Allocate(*allocator, each.tensor.shape(),
                                      DType::kF32, MemoryUse::kWeights));
    loaded.push_back({each.name, std::move(tensor)});
  }
  RETURN_IF_ERROR(LoadTensors(folder, manifest, absl::MakeSpan(loaded)));
  std::vector<Tensor> tensors;
  for (NamedTensor& each : loaded) tensors.push_back(std::move(each.tensor));
  return tensors;
}

}  // namespace

absl::StatusOr<v1::Verification> RunOracle(const v1::OracleRequest& request) {
  OracleJob job;
  job.spec = request.spec();
  job.plan = request.plan();
  ASSIGN_OR_RETURN(const DataSets data, OpenData(job.spec.data()));
  job.train = data.train;
  const ModelEnds ends = {data.train->sample_shape(), data.train->label_shape(),
                          data.train->classes()};
  ASSIGN_OR_RETURN(job.graph, GraphOf(job.spec, ends));
  const v1::Graph graph = job.graph;
  // The plan may take branches in another order.
  ASSIGN_OR_RETURN(job.graph, ReorderGraph(graph, job.plan));
  const v1::Graph ordered = job.graph;
  ASSIGN_OR_RETURN(const v1::Manifest manifest,
                   ReadManifest(request.checkpoint()));
  RETURN_IF_ERROR(CheckCheckpoint(request, manifest, graph));

  v1::Verification out;
  out.set_schedule(request.plan().schedule());
  out.set_weights(request.plan().weights());
  out.set_steps(request.steps());
  out.set_replicas(absl::StrJoin(
      request.plan().stages(), ",",
      [](std::string* text, const v1::PlanStage& stage) {
        absl::StrAppend(text, stage.replicas());
        if (stage.shares().empty()) return;
        absl::StrAppend(text, " (", absl::StrJoin(stage.shares(), ":"), ")");
      }));

  const bool plain = IsPlain(request);
  out.set_oracle(plain ? "plain" : "replay");
  std::vector<Trace> traces;
  if (!plain || request.log_folders_size() > 0) {
    ASSIGN_OR_RETURN(traces, ReadTraces({request.log_folders().begin(),
                                         request.log_folders().end()},
                                        request.plan()));
  }
  OracleResult result;
  if (plain) {
    // Where the run was drained is what its logs add to the spec.
    const std::vector<int64_t> drains =
        traces.empty() ? UsualDrains(job, request.steps()) : DrainsOf(traces);
    ASSIGN_OR_RETURN(result, RunPlain(std::move(job), drains));
  } else {
    ASSIGN_OR_RETURN(result, RunReplay(std::move(job), traces));
  }
  if (static_cast<int64_t>(result.losses.size()) != request.steps()) {
    return absl::FailedPreconditionError(MismatchText(
        "oracle: operation logs", "number of minibatches",
        absl::StrCat(result.losses.size()), absl::StrCat(request.steps())));
  }

  ASSIGN_OR_RETURN(const std::vector<Tensor> pipeline,
                   LoadLike(result.tensors, request.checkpoint(), manifest));
  CompareTensors(ordered, result.tensors, pipeline, &out);
  if (request.losses_size() > 0) {
    out.set_max_loss_difference(LargestDifference(
        result.losses, {request.losses().begin(), request.losses().end()}));
  }
  const std::string broken =
      FirstBrokenPromise(traces, PromiseOf(request.spec(), request.plan()));
  if (!broken.empty()) {
    out.set_equal(false);
    out.set_first_difference(broken);
  }
  return out;
}

}  // namespace pipework
