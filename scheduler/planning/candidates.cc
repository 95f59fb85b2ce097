#include "scheduler/planning/candidates.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/algorithms/fixed_stages.h"
#include "partitioner/algorithms/pipedream_dp.h"
#include "proto/status_macros.h"
#include "scheduler/planning/memory.h"

namespace pipework {
namespace {

// Most ways to cut that are all looked at; above, cuts move one by one.
constexpr int64_t kSearchedCuts = 20000;
// Most steps of the partitioner for each of several numbers of devices.
constexpr double kManyCells = 2e8;
constexpr int kMostStages = 16;

// Computing per minibatch of one layer, on one replica at full speed.
double LayerSeconds(const Workload& work, int layer) {
  const LayerCost& cost = work.chain.layers[layer];
  return (cost.forward_seconds + cost.backward_seconds) * work.microbatches +
         cost.update_seconds / work.accumulate;
}

double ComputeSeconds(const Workload& work, const StageCut& cut) {
  double seconds = 0;
  for (int l = cut.first; l <= cut.last; ++l) seconds += LayerSeconds(work, l);
  return seconds;
}

// What crosses the cut after `layer`, forward and back, halved: cost models
// count it twice.
double CutBytes(const Workload& work, int layer) {
  return 0.5 * work.microbatches *
         static_cast<double>(work.chain.cut_bytes[layer] +
                             work.chain.gradient_bytes[layer]);
}

double WeightBytes(const Workload& work, int layer) {
  return static_cast<double>(work.chain.layers[layer].parameter_bytes) /
         work.accumulate;
}

std::vector<SeatRequest> Requests(const Workload& work,
                                  const std::vector<StageCut>& cuts,
                                  const std::vector<std::vector<int>>& pinned) {
  std::vector<SeatRequest> requests;
  for (size_t s = 0; s < cuts.size(); ++s) {
    SeatRequest request;
    request.seconds = ComputeSeconds(work, cuts[s]) / cuts[s].replicas;
    request.replicas = cuts[s].replicas;
    if (!pinned.empty()) request.pinned = pinned[s];
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
    input.layer_seconds.push_back(LayerSeconds(work, l) * slowdown);
    input.weight_bytes.push_back(WeightBytes(work, l));
    input.cut_bytes.push_back(CutBytes(work, l));
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

// Moves the cuts of a pipeline whose seats are fixed, so that the busiest core
// group, then the slowest stage, then what is sent, is least.
class CutMover {
 public:
  CutMover(const Planner& planner, std::vector<StageCut> cuts,
           const std::vector<std::vector<int>>& seats)
      : planner_(planner), seats_(seats), best_(std::move(cuts)) {
    sums_.push_back(0);
    for (int l = 0; l < planner.work.chain.size(); ++l) {
      sums_.push_back(sums_.back() + LayerSeconds(planner.work, l));
    }
    best_score_ = Score(best_);
  }

  std::vector<StageCut> Run() {
    const int layers = planner_.work.chain.size();
    const int stages = static_cast<int>(best_.size());
    double ways = 1;
    for (int i = 1; i < stages; ++i) ways = ways * (layers - i) / i;
    if (ways <= kSearchedCuts) {
      std::vector<StageCut> cuts = best_;
      Enumerate(0, 0, &cuts);
    } else {
      Climb();
    }
    return best_;
  }

 private:
  void Enumerate(size_t stage, int first, std::vector<StageCut>* cuts) {
    const int layers = planner_.work.chain.size();
    StageCut& cut = (*cuts)[stage];
    cut.first = first;
    const int behind = static_cast<int>(cuts->size() - stage) - 1;
    if (behind == 0) {
      cut.last = layers - 1;
      Keep(*cuts);
      return;
    }
    for (int last = first; last < layers - behind; ++last) {
      cut.last = last;
      Enumerate(stage + 1, last + 1, cuts);
    }
  }

  void Climb() {
    bool better = true;
    while (better) {
      better = false;
      for (size_t s = 0; s + 1 < best_.size(); ++s) {
        for (const int step : {-1, 1}) {
          std::vector<StageCut> cuts = best_;
          cuts[s].last += step;
          cuts[s + 1].first += step;
          if (cuts[s].last < cuts[s].first ||
              cuts[s + 1].last < cuts[s + 1].first) {
            continue;
          }
          better |= Keep(cuts);
        }
      }
    }
  }

  bool Keep(const std::vector<StageCut>& cuts) {
    const double score = Score(cuts);
    if (score >= best_score_) return false;
    best_score_ = score;
    best_ = cuts;
    return true;
  }

  double Score(const std::vector<StageCut>& cuts) const {
    const DevicePool& pool = planner_.pool;
    std::vector<double> group_seconds(pool.groups.size(), 0);
    double slowest = 0;
    double sent = 0;
    for (size_t s = 0; s < cuts.size(); ++s) {
      const double seconds =
          (sums_[cuts[s].last + 1] - sums_[cuts[s].first]) / cuts[s].replicas;
      slowest = std::max(slowest, seconds);
      for (const int seat : seats_[s]) {
        group_seconds[pool.devices[seat].group] += seconds;
      }
      if (s + 1 < cuts.size()) {
        sent +=
            pool.between_nodes.Seconds(CutBytes(planner_.work, cuts[s].last));
      }
    }
    double busiest = slowest;
    for (size_t g = 0; g < group_seconds.size(); ++g) {
      busiest = std::max(busiest, group_seconds[g] / pool.groups[g].cores);
    }
    // The weights only order what is nearly equal in what stands before.
    return busiest + 0.01 * slowest + 0.01 * sent;
  }

  const Planner& planner_;
  const std::vector<std::vector<int>>& seats_;
  std::vector<double> sums_;  // of layer seconds before
  std::vector<StageCut> best_;
  double best_score_ = std::numeric_limits<double>::infinity();
};

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
      AssignSeats(planner.pool, Requests(planner.work, cuts, pinned),
                  planner.data_nodes));
  RETURN_IF_ERROR(CheckMemory(planner, cuts, candidate.seats));
  ASSIGN_OR_RETURN(candidate.prediction,
                   Predict(planner.work, cuts, planner.pool, candidate.seats));
  return candidate;
}

absl::StatusOr<Candidate> CandidateOf(const Planner& planner, int stages,
                                      int workers) {
  ASSIGN_OR_RETURN(const double slowdown, SlowdownOf(planner, workers));
  PartitionInput input =
      InputOf(planner, JoiningLink(planner.pool, workers), workers, slowdown);
  input.stages = stages;
  absl::StatusOr<Partition> partition = FixedStages(input);
  if (!partition.ok() && input.fits) {
    // Again without the limit: Judge then says which stage is too big.
    input.fits = nullptr;
    partition = FixedStages(input);
  }
  RETURN_IF_ERROR(partition.status());
  absl::StatusOr<Candidate> candidate = Judge(planner, partition->workers, {});
  if (!candidate.ok() || !SharesCores(planner.pool, candidate->seats)) {
    return candidate;
  }
  const std::vector<StageCut> moved =
      CutMover(planner, candidate->cuts, candidate->seats).Run();
  const absl::StatusOr<Candidate> other = Judge(planner, moved, {});
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

  const int most = std::min({planner.pool.size(), planner.work.chain.size(),
                             std::max(kMostStages, pins.stage_count)});
  if (!pins.cuts.empty()) {
    add(Judge(planner, pins.cuts, pins.devices));
  } else {
    const int from = pins.stage_count > 0 ? pins.stage_count : 1;
    const int to = pins.stage_count > 0 ? pins.stage_count : most;
    for (int stages = to; stages >= from; --stages) {
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
    const bool as_good = step <= 1.01 * shortest;
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
      load.weight_bytes += WeightBytes(work, l);
    }
    if (cut.first > 0) load.input_bytes = CutBytes(work, cut.first - 1);
    load.output_bytes = CutBytes(work, cut.last);
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
        planner.model.CutSeconds(CutBytes(planner.work, candidate.cuts[s].last),
                                 planner.pool.LinkOf(ends)));
  }
  return slowest;
}

}  // namespace pipework
