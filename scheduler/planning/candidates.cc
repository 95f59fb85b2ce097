#include "scheduler/planning/candidates.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/fixed_stages.h"
#include "partitioner/algorithms/pipedream_dp.h"
#include "proto/status_macros.h"
#include "scheduler/planning/cut_mover.h"
#include "scheduler/planning/memory.h"

namespace pipework {
namespace {

// Most steps of the partitioner for each of several numbers of devices.
constexpr double kManyCells = 2e8;
constexpr int kMostStages = 16;
// Steps closer than this are as good as equal.
constexpr double kSameStep = 1.01;

double ComputeSeconds(const Workload& work, const StageCut& cut) {
  double seconds = 0;
  for (int l = cut.first; l <= cut.last; ++l) seconds += work.LayerSeconds(l);
  return seconds;
}

std::vector<SeatRequest> Requests(const Workload& work, const DevicePool& pool,
                                  const std::vector<StageCut>& cuts,
                                  const std::vector<std::vector<int>>& pinned) {
  std::vector<SeatRequest> requests;
  for (size_t s = 0; s < cuts.size(); ++s) {
    SeatRequest request;
    request.seconds = ComputeSeconds(work, cuts[s]) / cuts[s].replicas;
    request.replicas = cuts[s].replicas;
    if (!pinned.empty()) request.pinned = pinned[s];
    if (s > 0) {
      const double bytes = work.CutBytes(cuts[s].first - 1) / work.microbatches;
      const double messages = 2.0 * work.microbatches;
      request.near_seconds = messages * MessageWork(pool.within_node, bytes);
      request.apart_seconds = messages * MessageWork(pool.between_nodes, bytes);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

absl::Status CheckMemory(const Planner& planner,
                         const std::vector<StageCut>& cuts,
                         const std::vector<std::vector<int>>& seats) {
  const PipelineShape shape = ShapeOfCuts(planner.work, cuts);
  for (size_t s = 0; s < cuts.size(); ++s) {
    const StageId stage{static_cast<int>(s)};
    const Holds holds = HoldsOf(planner.work, shape, stage);
    const int64_t needed = MemoryOf(planner.work.chain, cuts[s].first,
                                    cuts[s].last, holds, planner.optimizer)
                               .total();
    for (const int seat : seats[s]) {
      const PooledDevice& device = planner.pool.devices[seat];
      if (device.memory_bytes == 0 || needed <= device.memory_bytes) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "plan: stage ", s, " on ", device.name, " needs ", BytesText(needed),
          " with ", holds.versions, " weight versions and ", holds.activations,
          " units in flight, expected at most ", BytesText(device.memory_bytes),
          "; use more stages, a smaller minibatch, or schedule flush"));
    }
  }
  return absl::OkStatus();
}

PartitionInput InputOf(const Planner& planner, const Link& link, int workers,
                       double slowdown) {
  const Workload& work = planner.work;
  PartitionInput input;
  for (int l = 0; l < work.chain.size(); ++l) {
    input.layer_seconds.push_back(work.LayerSeconds(l) * slowdown);
    input.weight_bytes.push_back(work.WeightBytes(l));
    input.cut_bytes.push_back(work.CutBytes(l));
  }
  input.levels = {{workers, link}};
  input.cost_model = &planner.model;
  const int64_t limit = planner.pool.LargestMemory();
  if (limit > 0) {
    const HoldsFn holds = HoldsFor(work);
    input.fits = [&planner, holds, limit, workers](int first, int last,
                                                   int before, int replicas) {
      return MemoryOf(planner.work.chain, first, last,
                      holds(workers, before, replicas), planner.optimizer)
                 .total() <= limit;
    };
  }
  return input;
}

const Link& JoiningLink(const DevicePool& pool, int workers) {
  return pool.nodes.size() > 1 && workers > 1 ? pool.between_nodes
                                              : pool.within_node;
}

// How much each of `workers` equal stages is slowed by sharing cores.
absl::StatusOr<double> SlowdownOf(const Planner& planner, int workers) {
  std::vector<SeatRequest> requests(workers);
  for (SeatRequest& request : requests) request.seconds = 1;
  ASSIGN_OR_RETURN(const auto seats,
                   AssignSeats(planner.pool, requests, planner.data_nodes));
  std::vector<int> all;
  for (const std::vector<int>& stage : seats) {
    all.insert(all.end(), stage.begin(), stage.end());
  }
  return planner.pool.Slowdown(all);
}

bool SharesCores(const DevicePool& pool,
                 const std::vector<std::vector<int>>& seats) {
  std::vector<int> all;
  for (const std::vector<int>& stage : seats) {
    all.insert(all.end(), stage.begin(), stage.end());
  }
  return pool.Slowdown(all) > 1;
}

// The numbers of devices to try for `stages` stages.
std::vector<int> WorkersToTry(const Planner& planner, int stages) {
  const int devices = planner.pool.size();
  const double layers = planner.work.chain.size();
  const bool heavy = stages * layers * layers * devices * devices > kManyCells;
  std::set<int> tried = {devices};
  if (!heavy) {
    for (int m = stages; m <= devices; ++m) {
      if (devices <= 8 || m == stages || m % 4 == 0) tried.insert(m);
    }
  }
  return {tried.begin(), tried.end()};
}

}  // namespace

int Candidate::devices() const {
  int devices = 0;
  for (const std::vector<int>& stage : seats) {
    devices += static_cast<int>(stage.size());
  }
  return devices;
}

absl::StatusOr<Candidate> Judge(const Planner& planner,
                                const std::vector<StageCut>& cuts,
                                const std::vector<std::vector<int>>& pinned) {
  Candidate candidate;
  candidate.cuts = cuts;
  ASSIGN_OR_RETURN(
      candidate.seats,
      AssignSeats(planner.pool,
                  Requests(planner.work, planner.pool, cuts, pinned),
                  planner.data_nodes));
  RETURN_IF_ERROR(CheckMemory(planner, cuts, candidate.seats));
  ASSIGN_OR_RETURN(candidate.prediction,
                   Predict(planner.work, cuts, planner.pool, candidate.seats));
  return candidate;
}

absl::StatusOr<Candidate> CandidateOf(
    const Planner& planner, int stages, int workers,
    const std::vector<int>& replicas,
    const std::vector<std::vector<int>>& pinned) {
  ASSIGN_OR_RETURN(const double slowdown, SlowdownOf(planner, workers));
  PartitionInput input =
      InputOf(planner, JoiningLink(planner.pool, workers), workers, slowdown);
  input.stages = stages;
  input.replicas = replicas;
  absl::StatusOr<Partition> partition = FixedStages(input);
  if (!partition.ok() && input.fits) {
    // Again without the limit: Judge then says which stage is too big.
    input.fits = nullptr;
    partition = FixedStages(input);
  }
  RETURN_IF_ERROR(partition.status());
  absl::StatusOr<Candidate> candidate =
      Judge(planner, partition->workers, pinned);
  if (!candidate.ok() || !SharesCores(planner.pool, candidate->seats)) {
    return candidate;
  }
  const std::vector<StageCut> moved =
      MoveCuts(planner.work, planner.pool, candidate->cuts, candidate->seats);
  const absl::StatusOr<Candidate> other = Judge(planner, moved, pinned);
  if (other.ok() &&
      other->prediction.step_seconds < candidate->prediction.step_seconds) {
    return other;
  }
  return candidate;
}

absl::StatusOr<Candidate> PaperCandidate(const Planner& planner) {
  const DevicePool& pool = planner.pool;
  PartitionInput input =
      InputOf(planner, JoiningLink(pool, pool.size()), pool.size(), 1);
  // As in the paper: computing alone, without the update.
  for (int l = 0; l < planner.work.chain.size(); ++l) {
    const LayerCost& cost = planner.work.chain.layers[l];
    input.layer_seconds[l] = (cost.forward_seconds + cost.backward_seconds) *
                             planner.work.microbatches;
  }
  std::vector<int> per_node(pool.nodes.size(), 0);
  for (const PooledDevice& device : pool.devices) ++per_node[device.node];
  const bool uniform =
      std::all_of(per_node.begin(), per_node.end(),
                  [&per_node](int n) { return n == per_node[0]; });
  if (uniform && pool.nodes.size() > 1 && per_node[0] > 1) {
    input.levels = {{per_node[0], pool.within_node},
                    {static_cast<int>(pool.nodes.size()), pool.between_nodes}};
    input.fits = nullptr;  // Judge checks memory
  }
  ASSIGN_OR_RETURN(const Partition partition, PipedreamDp(input));
  return Judge(planner, partition.workers, {});
}

absl::StatusOr<std::vector<Candidate>> Candidates(const Planner& planner,
                                                  const Pins& pins) {
  std::vector<Candidate> candidates;
  absl::Status first_error;
  const auto add = [&](absl::StatusOr<Candidate> candidate) {
    if (!candidate.ok()) {
      first_error.Update(candidate.status());
      return;
    }
    for (const Candidate& known : candidates) {
      if (known.cuts == candidate->cuts) return;
    }
    candidates.push_back(*std::move(candidate));
  };

  const int most =
      std::min({planner.pool.size(), planner.work.chain.size(), kMostStages});
  if (!pins.cuts.empty()) {
    add(Judge(planner, pins.cuts, pins.devices));
  } else if (!pins.replicas.empty()) {
    const int workers =
        std::accumulate(pins.replicas.begin(), pins.replicas.end(), 0);
    add(CandidateOf(planner, pins.stage_count, workers, pins.replicas,
                    pins.devices));
  } else if (pins.stage_count > 0) {
    // A number means one replica of each: replicas change what is trained, so
    // they are asked for by name or with `auto`.
    add(CandidateOf(planner, pins.stage_count, pins.stage_count));
  } else {
    for (int stages = most; stages >= 1; --stages) {
      for (const int workers : WorkersToTry(planner, stages)) {
        if (workers >= stages) add(CandidateOf(planner, stages, workers));
      }
    }
  }
  if (candidates.empty()) return first_error;

  double shortest = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    shortest = std::min(shortest, candidate.prediction.step_seconds);
  }
  const auto rank = [shortest](const Candidate& candidate) {
    const double step = candidate.prediction.step_seconds;
    const bool as_good = step <= kSameStep * shortest;
    return std::make_tuple(!as_good, as_good ? candidate.devices() : 0,
                           as_good ? candidate.cuts.size() : 0, step);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&rank](const Candidate& a, const Candidate& b) {
                     return rank(a) < rank(b);
                   });
  return candidates;
}

std::vector<double> StageSeconds(const Planner& planner,
                                 const Candidate& candidate) {
  const Workload& work = planner.work;
  std::vector<int> all;
  for (const std::vector<int>& stage : candidate.seats) {
    all.insert(all.end(), stage.begin(), stage.end());
  }
  const double slowdown = planner.pool.Slowdown(all);
  std::vector<double> seconds;
  for (size_t s = 0; s < candidate.cuts.size(); ++s) {
    const StageCut& cut = candidate.cuts[s];
    StageLoad load;
    load.compute_seconds = ComputeSeconds(work, cut) * slowdown;
    for (int l = cut.first; l <= cut.last; ++l) {
      load.weight_bytes += work.WeightBytes(l);
    }
    if (cut.first > 0) load.input_bytes = work.CutBytes(cut.first - 1);
    load.output_bytes = work.CutBytes(cut.last);
    seconds.push_back(planner.model.StageSeconds(
        load, cut.replicas, planner.pool.LinkOf(candidate.seats[s])));
  }
  return seconds;
}

double BottleneckSeconds(const Planner& planner, const Candidate& candidate) {
  double slowest = 0;
  for (const double seconds : StageSeconds(planner, candidate)) {
    slowest = std::max(slowest, seconds);
  }
  for (size_t s = 0; s + 1 < candidate.cuts.size(); ++s) {
    std::vector<int> ends = candidate.seats[s];
    ends.insert(ends.end(), candidate.seats[s + 1].begin(),
                candidate.seats[s + 1].end());
    slowest = std::max(
        slowest,
        planner.model.CutSeconds(planner.work.CutBytes(candidate.cuts[s].last),
                                 planner.pool.LinkOf(ends)));
  }
  return slowest;
}

}  // namespace pipework
