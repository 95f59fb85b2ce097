#include "scheduler/planning/cut_mover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace pipework {
namespace {

// Most ways to cut that are all looked at; above, cuts move one by one.
constexpr int64_t kSearchedCuts = 20000;

class CutMover {
 public:
  CutMover(const Workload& work, const DevicePool& pool,
           std::vector<StageCut> cuts,
           const std::vector<std::vector<int>>& seats)
      : work_(work), pool_(pool), seats_(seats), best_(std::move(cuts)) {
    sums_.push_back(0);
    for (int l = 0; l < work.chain.size(); ++l) {
      sums_.push_back(sums_.back() + work.LayerSeconds(l));
    }
    best_score_ = Score(best_);
  }

  std::vector<StageCut> Run() {
    const int layers = work_.chain.size();
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
    const int layers = work_.chain.size();
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
    std::vector<double> group_seconds(pool_.groups.size(), 0);
    double slowest = 0;
    double received = 0;  // work for the messages of the cut before
    for (size_t s = 0; s < cuts.size(); ++s) {
      const double sent = s + 1 < cuts.size() ? CutWork(cuts, s) : 0;
      const double computed = sums_[cuts[s].last + 1] - sums_[cuts[s].first];
      const double seconds = (computed + received + sent) / cuts[s].replicas;
      slowest = std::max(slowest, seconds);
      for (const int seat : seats_[s]) {
        group_seconds[pool_.devices[seat].group] += seconds;
      }
      received = sent;
    }
    double busiest = slowest;
    double squares = 0;  // falls with every step towards balance
    for (size_t g = 0; g < group_seconds.size(); ++g) {
      const double load = group_seconds[g] / pool_.groups[g].cores;
      busiest = std::max(busiest, load);
      squares += load * load;
    }
    // Even stages hide each other's waiting; balance orders the rest.
    return busiest + 0.2 * slowest + 0.01 * std::sqrt(squares);
  }

  // What each end of the cut after stage s spends on its messages, there and
  // back, per minibatch.
  double CutWork(const std::vector<StageCut>& cuts, size_t s) const {
    std::vector<int> ends = seats_[s];
    ends.insert(ends.end(), seats_[s + 1].begin(), seats_[s + 1].end());
    const int units = work_.UnitsOf(cuts[0].replicas);
    return 2 * units *
           MessageWork(pool_.LinkOf(ends),
                       work_.CutBytes(cuts[s].last) / units);
  }

  const Workload& work_;
  const DevicePool& pool_;
  const std::vector<std::vector<int>>& seats_;
  std::vector<double> sums_;  // of layer seconds before
  std::vector<StageCut> best_;
  double best_score_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<StageCut> MoveCuts(const Workload& work, const DevicePool& pool,
                               std::vector<StageCut> cuts,
                               const std::vector<std::vector<int>>& seats) {
  return CutMover(work, pool, std::move(cuts), seats).Run();
}

}  // namespace pipework
