#include "scheduler/planning/fit.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/planning/words.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

// Twice as many of each node; levels grow at the outermost.
v1::Topology Doubled(const v1::Topology& topology) {
  v1::Topology doubled = topology;
  if (topology.nodes().empty()) {
    if (doubled.levels_size() > 0) {
      v1::Topology::Level* outer =
          doubled.mutable_levels(doubled.levels_size() - 1);
      outer->set_count(2 * outer->count());
    }
    return doubled;
  }
  for (const v1::Topology::Node& node : topology.nodes()) {
    v1::Topology::Node* copy = doubled.add_nodes();
    *copy = node;
    copy->set_name(absl::StrCat(node.name(), "-copy"));
  }
  return doubled;
}

class Nearest {
 public:
  Nearest(const WorkloadRequest& request, const Pins& pins,
          const v1::Topology& topology, int devices, int layers,
          const FitsFnOfJob& fits)
      : request_(request),
        pins_(pins),
        topology_(topology),
        devices_(devices),
        layers_(layers),
        fits_(fits) {}

  std::string Run() {
    TryDepth();
    TryStages();
    TryMinibatch();
    TryMicrobatches();
    TryFlush();
    TryDevices();
    if (!helps_.empty()) {
      return absl::StrCat("would fit: ", absl::StrJoin(helps_, ", "));
    }
    return absl::StrCat("tried in vain: ", absl::StrJoin(tried_, ", "));
  }

 private:
  bool Fits(const WorkloadRequest& request) const {
    return fits_(request, pins_, topology_);
  }

  void Note(bool helps, std::string change) {
    (helps ? helps_ : tried_).push_back(std::move(change));
  }

  bool TakesMicrobatches() const {
    const auto schedule = FindSchedule(
        request_.recipe.schedule.empty() ? "1f1b" : request_.recipe.schedule);
    return schedule.ok() && (*schedule)->unit_is_microbatch;
  }

  // The deepest that fits, of those below what is asked for.
  void TryDepth() {
    int deepest =
        request_.in_flight > 0 ? request_.in_flight : std::max(2, devices_);
    WorkloadRequest request = request_;
    for (int depth = deepest / 2; depth >= 1; depth /= 2) {
      request.in_flight = depth;
      if (!Fits(request)) continue;
      // Between this one and its double: deeper never needs less.
      int too_deep = std::min(deepest, 2 * depth + 1);
      while (depth + 1 < too_deep) {
        request.in_flight = (depth + too_deep) / 2;
        (Fits(request) ? depth : too_deep) = request.in_flight;
      }
      Note(true, absl::StrCat("pipeline.in_flight ", depth));
      return;
    }
    Note(false, "pipeline.in_flight 1");
  }

  void TryStages() {
    if (pins_.stage_count == 0 || !pins_.replicas.empty()) return;
    const int most = std::min(devices_, layers_);
    for (int stages = pins_.stage_count + 1; stages <= most; ++stages) {
      Pins pins = pins_;
      pins.stage_count = stages;
      if (!fits_(request_, pins, topology_)) continue;
      Note(true, absl::StrCat("pipeline.stages ", stages));
      return;
    }
    if (most > pins_.stage_count) {
      Note(false, absl::StrCat("pipeline.stages ", most));
    }
  }

  void TryMinibatch() {
    WorkloadRequest request = request_;
    while (request.minibatch / 2 >= request.microbatches) {
      request.minibatch /= 2;
      if (!Fits(request)) continue;
      Note(true, absl::StrCat("batch.minibatch ", request.minibatch));
      return;
    }
    if (request.minibatch < request_.minibatch) {
      Note(false, absl::StrCat("batch.minibatch ", request.minibatch));
    }
  }

  void TryMicrobatches() {
    if (!TakesMicrobatches()) return;
    WorkloadRequest request = request_;
    while (request.microbatches * 2 <= request.minibatch) {
      request.microbatches *= 2;
      if (!Fits(request)) continue;
      Note(true, absl::StrCat("batch.microbatches ", request.microbatches));
      return;
    }
    if (request.microbatches > request_.microbatches) {
      Note(false, absl::StrCat("batch.microbatches ", request.microbatches));
    }
  }

  void TryFlush() {
    if (TakesMicrobatches()) return;
    const int stages =
        pins_.stage_count > 0 ? pins_.stage_count : std::min(devices_, layers_);
    WorkloadRequest request = request_;
    request.recipe = {"flush", "flush"};
    request.microbatches = static_cast<int>(
        std::min<int64_t>(2 * int64_t{stages}, request.minibatch));
    Note(Fits(request),
         absl::StrCat("schedule flush with ",
                      CountText(request.microbatches, "microbatch", "es")));
  }

  void TryDevices() {
    // Pinned stages gain nothing from further devices.
    if (pins_.stage_count > 0) return;
    Note(fits_(request_, pins_, Doubled(topology_)),
         CountText(2 * devices_, "device"));
  }

  const WorkloadRequest& request_;
  const Pins& pins_;
  const v1::Topology& topology_;
  const int devices_;
  const int layers_;
  const FitsFnOfJob& fits_;
  std::vector<std::string> helps_;
  std::vector<std::string> tried_;
};

}  // namespace

std::string NearestFit(const WorkloadRequest& request, const Pins& pins,
                       const v1::Topology& topology, int devices, int layers,
                       const FitsFnOfJob& fits) {
  return Nearest(request, pins, topology, devices, layers, fits).Run();
}

}  // namespace pipework
