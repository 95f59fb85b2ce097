// The cost models, and their table. T is a stage's seconds per minibatch on m
// replicas, C those of a cut; W the bytes of its weights, a those that cross a
// cut, B the bytes per second of the link and l its latency.
//
//   paper      as the PipeDream paper prints it: the ring of a replicated stage
//              is charged to every minibatch and overlaps with computing
//                T = 1/m max(compute, 2 (m - 1) W / B)
//                C = 2 a / B
//   pipework   as our executors work: one ring for every m minibatches, after
//              their backwards; the update with computing, once a replica and
//              round; every message with its latency; and each end of a cut
//              carries it: what goes in and out of a stage, there and back,
//              shares the links of its m replicas. `share` of its seconds the
//              processor cannot compute.
//                T = 1/m max(compute + ring + share messages, messages)
//                C = 0
//                ring     = 2 (m - 1) (l + W / (m B))
//                messages = 2 (l + a_in / B) + 2 (l + a_out / B), each only
//                           where a > 0
//   public_code  as the published optimizer works: weights go to a parameter
//              server and back, after computing, once in m minibatches; cuts
//              cost nothing (algorithms/public_code.h has what else it does)
//                T = 1/m (compute + 4 (m - 1) W / (m B))
//                C = 0
//
// a counts every tensor alive across the cut, so one that skips stages is
// charged to each stage that it passes, though it goes from its maker to its
// reader directly.
#include "partitioner/cost_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pipework {
namespace {

double LinkSeconds(double bytes, const Link& link) {
  return link.bytes_per_second > 0 ? bytes / link.bytes_per_second : 0;
}

class PaperModel final : public CostModel {
 public:
  double StageSeconds(const StageLoad& load, int m,
                      const Link& link) const override {
    const double sync = LinkSeconds(2.0 * (m - 1) * load.weight_bytes, link);
    return std::max(load.compute_seconds, sync) / m;
  }
  double CutSeconds(double bytes, const Link& link) const override {
    return LinkSeconds(2 * bytes, link);
  }
};

class PipeworkModel final : public CostModel {
 public:
  double StageSeconds(const StageLoad& load, int m,
                      const Link& link) const override {
    double messages = 0;
    for (const double bytes : {load.input_bytes, load.output_bytes}) {
      if (bytes > 0) messages += 2 * link.Seconds(bytes);
    }
    const double ring = RingSeconds(load.weight_bytes, m, link);
    const double busy =
        load.compute_seconds + ring + link.compute_share * messages;
    return std::max(busy, messages) / m;
  }
  double CutSeconds(double, const Link&) const override { return 0; }
};

class PublicCodeModel final : public CostModel {
 public:
  double StageSeconds(const StageLoad& load, int m,
                      const Link& link) const override {
    const double sync =
        LinkSeconds(4.0 * (m - 1) * load.weight_bytes / m, link);
    return (load.compute_seconds + sync) / m;
  }
  double CutSeconds(double, const Link&) const override { return 0; }
};

const CostModel* Paper() {
  static const PaperModel model;
  return &model;
}

const CostModel* Pipework() {
  static const PipeworkModel model;
  return &model;
}

const CostModel* PublicCode() {
  static const PublicCodeModel model;
  return &model;
}

constexpr CostModelEntry kCostModels[] = {
    {"pipework", "as our executors work", &Pipework},
    {"paper", "as the PipeDream paper prints it", &Paper},
    {"public_code", "as the published optimizer works", &PublicCode},
};

}  // namespace

double Link::Seconds(double bytes) const {
  return latency_seconds + LinkSeconds(bytes, *this);
}

double RingSeconds(double bytes, int m, const Link& link) {
  if (m < 2) return 0;
  return 2.0 * (m - 1) * link.Seconds(bytes / m);
}

std::vector<std::string> CostModelNames() {
  std::vector<std::string> names;
  for (const CostModelEntry& entry : kCostModels) {
    names.emplace_back(entry.name);
  }
  return names;
}

absl::StatusOr<const CostModel*> FindCostModel(absl::string_view name) {
  for (const CostModelEntry& entry : kCostModels) {
    if (entry.name == name) return entry.get();
  }
  return absl::NotFoundError(
      absl::StrCat("cost model \"", name, "\" is not known; known models: ",
                   absl::StrJoin(CostModelNames(), ", ")));
}

}  // namespace pipework
