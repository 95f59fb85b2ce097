#include "scheduler/planning/mixed_layouts.h"

#include <algorithm>
#include <utility>

#include "partitioner/algorithms/mixed.h"
#include "scheduler/planning/memory.h"

namespace pipework {
namespace {

bool HasData(const DevicePool& pool, const std::vector<std::string>& data_nodes,
             const std::vector<int>& devices) {
  if (data_nodes.empty()) return true;
  return std::all_of(devices.begin(), devices.end(), [&](int device) {
    const std::string& node = pool.nodes[pool.devices[device].node];
    return std::find(data_nodes.begin(), data_nodes.end(), node) !=
           data_nodes.end();
  });
}

// Least memory of the devices of each pace; 0: unknown.
std::vector<int64_t> LimitOfPace(const Workload& work, const DevicePool& pool) {
  std::vector<int64_t> limits(work.paces.size(), 0);
  for (int d = 0; d < pool.size(); ++d) {
    const int64_t bytes = pool.devices[d].memory_bytes;
    int64_t& limit = limits[work.pace_of[d]];
    if (bytes > 0) limit = limit == 0 ? bytes : std::min(limit, bytes);
  }
  return limits;
}

Layout LayoutOf(const Workload& work, const MixedPartition& partition,
                const std::vector<int>& devices) {
  Layout layout;
  layout.in_flight = work.in_flight;
  bool shares = false;
  for (const MixedStage& stage : partition.stages) {
    layout.cuts.push_back(
        {stage.first, stage.last, static_cast<int>(stage.devices.size())});
    layout.seats.emplace_back();
    for (const int d : stage.devices) layout.seats.back().push_back(devices[d]);
    layout.shares.push_back(stage.shares);
    shares |= !stage.shares.empty();
  }
  if (!shares) layout.shares.clear();
  return layout;
}

}  // namespace

std::vector<Layout> MixedLayouts(const Workload& work, const DevicePool& pool,
                                 const v1::OptimizerSpec& optimizer,
                                 const Pins& pins,
                                 const std::vector<std::string>& data_nodes) {
  std::vector<Layout> layouts;
  if (!work.mixed() || !pins.cuts.empty() || !pins.replicas.empty()) {
    return layouts;
  }
  MixedInput input;
  for (size_t k = 0; k < work.paces.size(); ++k) {
    const Pace& pace = work.paces[k];
    input.seconds.emplace_back();
    for (size_t l = 0; l < pace.compute_seconds.size(); ++l) {
      input.seconds.back().push_back(pace.compute_seconds[l] *
                                         work.microbatches +
                                     pace.update_seconds[l] / work.accumulate);
    }
  }
  for (int l = 0; l < work.chain.size(); ++l) {
    input.weight_bytes.push_back(work.WeightBytes(l));
    input.cut_bytes.push_back(work.CutBytes(l));
  }
  const std::vector<int64_t> limits = LimitOfPace(work, pool);
  const HoldsFn holds = HoldsFor(work);
  input.fits = [&](const MixedFit& fit) {
    // Held is what depends on the devices from here on.
    return limits[fit.kind] == 0 ||
           MemoryOf(work.chain, fit.first, fit.last,
                    holds(fit.replicas + fit.behind, 0, fit.replicas),
                    optimizer)
                   .total() <= limits[fit.kind];
  };
  input.stages = pins.stage_count;
  input.max_stages = pins.max_stages;
  // A number of stages means one replica of each.
  input.straight = pins.straight || pins.stage_count > 0;
  const auto add = [&](const std::vector<int>& devices) {
    input.devices.clear();
    for (const int d : devices) {
      input.devices.push_back({work.pace_of[d], pool.devices[d].node});
    }
    input.link = [&pool, &devices](int a, int b) {
      return pool.LinkBetween(devices[a], devices[b]);
    };
    const absl::StatusOr<MixedPartition> partition = Mixed(input);
    if (!partition.ok()) return;
    Layout layout = LayoutOf(work, *partition, devices);
    if (!HasData(pool, data_nodes, layout.seats[0])) return;
    layouts.push_back(std::move(layout));
  };
  // All devices, then without the slowest, and so on.
  std::vector<std::pair<double, int>> by_seconds;  // (whole job, device)
  for (int d = 0; d < pool.size(); ++d) {
    by_seconds.emplace_back(work.ScaleOf(0, work.chain.size() - 1, d), d);
  }
  std::stable_sort(
      by_seconds.begin(), by_seconds.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  while (!by_seconds.empty()) {
    std::vector<int> devices;
    for (const auto& [seconds, device] : by_seconds) devices.push_back(device);
    std::sort(devices.begin(), devices.end());
    add(devices);
    const double slowest = by_seconds.back().first;
    while (!by_seconds.empty() && by_seconds.back().first == slowest) {
      by_seconds.pop_back();
    }
  }
  return layouts;
}

std::vector<std::vector<int>> SharesOf(const Workload& work,
                                       const Layout& layout) {
  std::vector<std::vector<int>> all;
  bool any = false;
  for (size_t s = 0; s < layout.cuts.size(); ++s) {
    const StageCut& cut = layout.cuts[s];
    std::vector<double> seconds;
    for (const int device : layout.seats[s]) {
      seconds.push_back(work.ComputeSeconds(cut.first, cut.last) *
                        work.ScaleOf(cut.first, cut.last, device));
    }
    all.push_back(cut.replicas > 1 ? SharesFor(seconds) : std::vector<int>());
    any |= !all.back().empty();
  }
  if (!any) all.clear();
  return all;
}

}  // namespace pipework
