#include "scheduler/planning/explain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "scheduler/planning/bottleneck.h"
#include "scheduler/planning/memory.h"
#include "scheduler/planning/words.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

// A change that helps less is not worth naming.
constexpr double kWorthNaming = 0.99;
// Stages closer than this are even.
constexpr double kEven = 1.05;
// A stage this close to its limit is called full.
constexpr double kFull = 0.9;
// More of the step than this is worth a sentence.
constexpr double kWorthASentence = 0.05;

std::string Ms(double seconds) {
  return absl::StrFormat("%.3g ms", seconds * 1e3);
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", share * 100);
}

// ---- why --------------------------------------------------------------------

class Explainer {
 public:
  Explainer(const Candidate& candidate, const v1::Plan& plan)
      : planner_(*candidate.planner),
        work_(candidate.planner->work),
        layout_(candidate.layout),
        plan_(plan),
        bottleneck_(BottleneckOf(candidate)) {}

  std::vector<std::string> Run() {
    if (bottleneck_.stage < 0) {
      AboutShared();
    } else if (bottleneck_.where == absl::StrCat("stage ", bottleneck_.stage)) {
      AboutStage();
    } else {
      AboutAllReduce();
    }
    AboutTheRest();
    AboutMemory();
    return std::move(sentences_);
  }

 private:
  void AboutStage() {
    const StageCut& cut = layout_.cuts[bottleneck_.stage];
    int heaviest = cut.first;
    for (int l = cut.first; l <= cut.last; ++l) {
      if (work_.LayerSeconds(l) > work_.LayerSeconds(heaviest)) heaviest = l;
    }
    double fastest = bottleneck_.seconds;
    for (const v1::PlanStage& stage : plan_.stages()) {
      fastest = std::min(fastest, stage.seconds());
    }
    const double layer = work_.LayerSeconds(heaviest) / cut.replicas;
    std::string text = absl::StrCat(
        "stage ", bottleneck_.stage, " computes ", Ms(bottleneck_.seconds),
        " per minibatch",
        layout_.cuts.size() > 1
            ? absl::StrCat(", the longest of ", layout_.cuts.size(), " stages")
            : "",
        cut.replicas > 1 ? absl::StrCat(", on ", cut.replicas, " replicas")
                         : "");
    if (layout_.cuts.size() > 1 && bottleneck_.seconds <= kEven * fastest) {
      absl::StrAppend(&text, "; all stages are within ", Percent(kEven - 1),
                      " of it, so computing itself is the limit");
    } else if (cut.first == cut.last || layer > 0.5 * bottleneck_.seconds) {
      absl::StrAppend(&text, "; its layer ",
                      work_.graph->layers(heaviest).name(), " alone takes ",
                      Ms(layer), " and cannot be split");
    }
    sentences_.push_back(std::move(text));
  }

  void AboutAllReduce() {
    const StageCut& cut = layout_.cuts[bottleneck_.stage];
    const v1::PlanStage& stage = plan_.stages(bottleneck_.stage);
    sentences_.push_back(absl::StrCat(
        "the all-reduce of stage ", bottleneck_.stage, " moves ",
        BytesText(stage.weight_bytes()), " of gradients between ", cut.replicas,
        " replicas: ", Ms(stage.all_reduce_seconds()), " for each update"));
  }

  // A link or cores that several stages use.
  void AboutShared() {
    double longest = 0;
    for (size_t s = 0; s < layout_.cuts.size(); ++s) {
      longest = std::max(longest, StageComputeSeconds(work_, layout_, s));
    }
    const bool cores = bottleneck_.where.rfind("cores", 0) == 0;
    sentences_.push_back(absl::StrCat(
        bottleneck_.where, cores ? " compute " : " is busy for ",
        Ms(bottleneck_.seconds), " per minibatch",
        cores ? " for all stages that sit on them; " : " with messages; ",
        "no stage alone computes longer than ", Ms(longest)));
  }

  void AboutTheRest() {
    const double step = plan_.predicted_step_ms() / 1e3;
    const auto schedule = FindSchedule(plan_.schedule());
    if (schedule.ok() && (*schedule)->unit_is_microbatch &&
        plan_.bubble() > kWorthASentence && layout_.cuts.size() > 1) {
      sentences_.push_back(absl::StrCat(
          "the pipe fills and empties in every minibatch: with ",
          layout_.cuts.size(), " stages and ",
          CountText(plan_.microbatches(), "microbatch", "es"), " ",
          Percent(plan_.bubble()), " of the devices' time is idle"));
      return;
    }
    const double rest = step - bottleneck_.seconds;
    if (step <= 0 || rest < kWorthASentence * step) return;
    sentences_.push_back(absl::StrCat(
        "the step is ", Ms(rest), " longer than that: transfers that ",
        CountText(plan_.in_flight(), "minibatch", "es"), " in flight ",
        plan_.in_flight() == 1 ? "does" : "do", " not hide, updates, and ",
        Ms(work_.action_seconds), " for each action beside computing"));
  }

  void AboutMemory() {
    for (const v1::PlanStage& stage : plan_.stages()) {
      if (stage.limit_bytes() == 0 ||
          stage.total_bytes() < kFull * stage.limit_bytes()) {
        continue;
      }
      sentences_.push_back(absl::StrCat(
          "stage ", stage.index(), " needs ", BytesText(stage.total_bytes()),
          " of ", BytesText(stage.limit_bytes()), " with ",
          CountText(stage.versions(), "weight version"),
          ": memory leaves it no room"));
    }
  }

  const Planner& planner_;
  const Workload& work_;
  const Layout& layout_;
  const v1::Plan& plan_;
  const Bottleneck bottleneck_;
  std::vector<std::string> sentences_;
};

// ---- what would help --------------------------------------------------------

// One more device like the last usable one, on cores of its own.
v1::Topology WithOneMore(const v1::Topology& topology) {
  v1::Topology more = topology;
  for (int n = more.nodes_size() - 1; n >= 0; --n) {
    v1::Topology::Node* node = more.mutable_nodes(n);
    int core = 0;
    const v1::Device* like = nullptr;
    for (const v1::Device& device : node->devices()) {
      if (device.usable()) like = &device;
      for (const int c : device.cores()) core = std::max(core, c + 1);
    }
    if (like == nullptr) continue;
    v1::Device device = *like;
    device.set_name(absl::StrCat(like->name(), "-more"));
    for (int& c : *device.mutable_cores()) c = core++;
    *node->add_devices() = device;
    return more;
  }
  if (more.levels_size() > 0) {
    v1::Topology::Level* outer = more.mutable_levels(more.levels_size() - 1);
    outer->set_count(outer->count() + 1);
  }
  return more;
}

class Improver {
 public:
  Improver(const v1::JobSpec& spec, const v1::Topology& topology,
           const v1::Plan& plan, const ReplanFn& replan)
      : spec_(spec), topology_(topology), plan_(plan), replan_(replan) {}

  std::vector<v1::Improvement> Run() {
    TryLinks();
    if (!topology_.nodes().empty() || topology_.levels_size() > 0) {
      Try(topology_.nodes().empty() ? "one more group of devices"
                                    : "one more device",
          spec_, WithOneMore(topology_));
    }
    TryBatches();
    TryDepths();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const v1::Improvement& a, const v1::Improvement& b) {
                       return a.predicted_step_ms() < b.predicted_step_ms();
                     });
    return std::move(found_);
  }

 private:
  void Note(std::string change, double step_ms) {
    if (step_ms > kWorthNaming * plan_.predicted_step_ms()) return;
    v1::Improvement improvement;
    improvement.set_change(std::move(change));
    improvement.set_predicted_step_ms(step_ms);
    found_.push_back(std::move(improvement));
  }

  void Try(std::string change, const v1::JobSpec& spec,
           const v1::Topology& topology) {
    const absl::StatusOr<v1::Plan> plan = replan_(spec, topology);
    if (!plan.ok()) return;
    // For as many samples as the plan's minibatch has.
    const double samples =
        static_cast<double>(plan->minibatch()) /
        std::max<double>(1, static_cast<double>(plan_.minibatch()));
    Note(std::move(change), samples > 0 ? plan->predicted_step_ms() / samples
                                        : plan->predicted_step_ms());
  }

  void TryLinks() {
    if (topology_.link_bytes_per_second() > 0) {
      v1::Topology faster = topology_;
      faster.set_link_bytes_per_second(2 * topology_.link_bytes_per_second());
      Try("links between nodes twice as fast", spec_, faster);
    }
    if (topology_.local_bytes_per_second() > 0) {
      v1::Topology faster = topology_;
      faster.set_local_bytes_per_second(2 * topology_.local_bytes_per_second());
      Try("links within nodes twice as fast", spec_, faster);
    }
    for (int i = 0; i < topology_.links_size(); ++i) {
      v1::Topology faster = topology_;
      v1::Topology::NodeLink* link = faster.mutable_links(i);
      link->set_bytes_per_second(2 * link->bytes_per_second());
      Try(absl::StrCat(link->a(), "-", link->b(), " twice as fast"), spec_,
          faster);
    }
    for (int i = 0; i < topology_.levels_size(); ++i) {
      v1::Topology faster = topology_;
      v1::Topology::Level* level = faster.mutable_levels(i);
      level->set_bytes_per_second(2 * level->bytes_per_second());
      Try(absl::StrCat("links of level ",
                       level->name().empty() ? absl::StrCat(i) : level->name(),
                       " twice as fast"),
          spec_, faster);
    }
  }

  void TryBatches() {
    const int64_t minibatch = spec_.batch().minibatch();
    const int64_t microbatches =
        std::max<int64_t>(1, spec_.batch().microbatches());
    for (const int64_t other : {minibatch / 2, minibatch * 2}) {
      if (other < microbatches) continue;
      v1::JobSpec spec = spec_;
      spec.mutable_batch()->set_minibatch(other);
      Try(absl::StrCat("batch.minibatch ", other), spec, topology_);
    }
    const auto schedule = FindSchedule(plan_.schedule());
    if (!schedule.ok() || !(*schedule)->unit_is_microbatch) return;
    if (2 * microbatches > minibatch) return;
    v1::JobSpec spec = spec_;
    spec.mutable_batch()->set_microbatches(2 * microbatches);
    Try(absl::StrCat("batch.microbatches ", 2 * microbatches), spec, topology_);
  }

  void TryDepths() {
    const v1::Depth* best = nullptr;
    for (const v1::Depth& depth : plan_.depths()) {
      if (!depth.feasible() || depth.in_flight() <= plan_.in_flight()) continue;
      // The shallowest of those that help as much.
      if (best == nullptr || depth.predicted_step_ms() <
                                 kWorthNaming * best->predicted_step_ms()) {
        best = &depth;
      }
    }
    if (best == nullptr) return;
    Note(absl::StrCat("pipeline.in_flight ", best->in_flight()),
         best->predicted_step_ms());
  }

  const v1::JobSpec& spec_;
  const v1::Topology& topology_;
  const v1::Plan& plan_;
  const ReplanFn& replan_;
  std::vector<v1::Improvement> found_;
};

}  // namespace

std::vector<v1::PinCost> PinCosts(const v1::JobSpec& spec,
                                  const v1::Topology& topology,
                                  const v1::Plan& plan,
                                  const ReplanFn& replan) {
  std::vector<v1::PinCost> costs;
  const auto without = [&](std::string pin, const v1::JobSpec& free) {
    const absl::StatusOr<v1::Plan> other = replan(free, topology);
    if (!other.ok() || plan.predicted_step_ms() <= 0) return;
    v1::PinCost cost;
    cost.set_pin(std::move(pin));
    const double step = other->predicted_step_ms();
    cost.set_predicted_step_ms(step);
    cost.set_cost(step > 0 ? plan.predicted_step_ms() / step - 1 : 0);
    costs.push_back(std::move(cost));
  };
  const v1::PipelineSpec& pipeline = spec.pipeline();
  if (pipeline.stage_count() > 0 || pipeline.stages_size() > 0) {
    v1::JobSpec free = spec;
    free.mutable_pipeline()->clear_stages();
    free.mutable_pipeline()->clear_stage_count();
    without(pipeline.stages_size() > 0
                ? absl::StrCat("pipeline.stages: a list of ",
                               pipeline.stages_size())
                : absl::StrCat("pipeline.stages: ", pipeline.stage_count()),
            free);
  }
  const bool cut_here = std::any_of(
      pipeline.stages().begin(), pipeline.stages().end(),
      [](const v1::StageSpec& stage) { return !stage.layers().empty(); });
  if (cut_here) {
    v1::JobSpec free = spec;
    for (v1::StageSpec& stage : *free.mutable_pipeline()->mutable_stages()) {
      stage.clear_layers();
    }
    without("pipeline.stages[].layers", free);
  }
  for (int s = 0; s < pipeline.stages_size(); ++s) {
    const v1::StageSpec& stage = pipeline.stages(s);
    if (!stage.devices().empty()) {
      v1::JobSpec free = spec;
      free.mutable_pipeline()->mutable_stages(s)->clear_devices();
      without(absl::StrCat("pipeline.stages[", s,
                           "].devices: ", absl::StrJoin(stage.devices(), ", ")),
              free);
    }
    if (!stage.shares().empty()) {
      v1::JobSpec free = spec;
      free.mutable_pipeline()->mutable_stages(s)->clear_shares();
      without(absl::StrCat("pipeline.stages[", s,
                           "].shares: ", absl::StrJoin(stage.shares(), ", ")),
              free);
    }
  }
  int depth = 0;
  if (absl::SimpleAtoi(pipeline.in_flight(), &depth)) {
    v1::JobSpec free = spec;
    free.mutable_pipeline()->clear_in_flight();
    without(absl::StrCat("pipeline.in_flight: ", depth), free);
  }
  return costs;
}

std::vector<std::string> Explanation(const Candidate& candidate,
                                     const v1::Plan& plan) {
  return Explainer(candidate, plan).Run();
}

std::vector<v1::Improvement> Improvements(const v1::JobSpec& spec,
                                          const v1::Topology& topology,
                                          const v1::Plan& plan,
                                          const ReplanFn& replan) {
  return Improver(spec, topology, plan, replan).Run();
}

}  // namespace pipework
