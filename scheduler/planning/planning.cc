#include "scheduler/planning/planning.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/layer_order.h"
#include "scheduler/planning/candidates.h"
#include "scheduler/planning/depths.h"
#include "scheduler/planning/explain.h"
#include "scheduler/planning/fit.h"
#include "scheduler/planning/memory.h"
#include "scheduler/planning/orders.h"
#include "scheduler/planning/pins.h"
#include "scheduler/planning/predict.h"
#include "scheduler/planning/rivals.h"
#include "scheduler/planning/to_plan.h"
#include "scheduler/planning/topology.h"
#include "scheduler/planning/words.h"

namespace pipework {
namespace {

// With in_flight: auto, so many candidates try their depths.
constexpr size_t kDeepened = 8;
constexpr size_t kDeepenedOnMany = 1;
constexpr int kManyDevices = 64;
// The best candidate decides which depths are looked at; so many times.
constexpr int kDepthRounds = 3;

absl::Status CheckDevices(const DevicePool& pool, const Pins& pins) {
  if (pool.size() == 0) {
    return absl::FailedPreconditionError(
        MismatchText("plan", "the number of usable devices", "0", "1 or more",
                     pool.unusable.empty()
                         ? "start a node daemon"
                         : absl::StrCat("not usable: ",
                                        absl::StrJoin(pool.unusable, ", "))));
  }
  int needed = pins.stage_count;
  std::string why = CountText(pins.stage_count, "stage");
  if (!pins.replicas.empty()) {
    needed = std::accumulate(pins.replicas.begin(), pins.replicas.end(), 0);
    absl::StrAppend(&why, " with their replicas");
  }
  if (needed > pool.size()) {
    return absl::FailedPreconditionError(
        MismatchText("plan", "the number of devices needed",
                     absl::StrCat(needed, " (", why, ")"),
                     absl::StrCat("at most ", pool.size(),
                                  ", the usable devices of the cluster"),
                     "use fewer stages or replicas, or add devices"));
  }
  return absl::OkStatus();
}

// One order of the graph's layers, with all that planning on it needs. Stays
// where it is: candidates point into it.
struct Ordered {
  std::vector<int> order;  // empty: the graph's own
  v1::Graph graph;
  v1::Profile profile;
  std::vector<v1::Profile> others;
  Workload work;
  std::unique_ptr<Planner> planner;
};

class Planning {
 public:
  Planning(const v1::JobSpec& spec, const v1::Graph& graph,
           const v1::Profile& profile, const v1::Topology& topology,
           const PlanningOptions& options)
      : spec_(spec),
        graph_(graph),
        profile_(profile),
        topology_(topology),
        options_(options) {}

  absl::StatusOr<v1::Plan> Run(PlannedTimeline* timeline) {
    ASSIGN_OR_RETURN(model_, FindCostModel(options_.cost_model));
    pool_ = MakePool(topology_, spec_.threads_per_executor());
    LimitMemory(&pool_);
    ASSIGN_OR_RETURN(pins_, ReadPins(spec_.pipeline(), graph_, pool_,
                                     {options_.max_stages, options_.straight}));
    request_ = RequestOf(spec_, pins_.in_flight);
    RETURN_IF_ERROR(AddOrder(pins_.order));
    RETURN_IF_ERROR(CheckDevices(pool_, pins_));
    absl::StatusOr<std::vector<Candidate>> found = AllCandidates();
    if (absl::IsFailedPrecondition(found.status())) {
      return WithAdvice(found.status());
    }
    RETURN_IF_ERROR(found.status());
    const std::vector<Candidate>& candidates = *found;
    v1::Plan plan = PlanOf(candidates[0]);
    if (TakesAnswer()) plan.set_bottleneck_seconds(answer_seconds_);
    const size_t shown = std::min(
        candidates.size(), size_t{1} + std::max(0, options_.alternatives));
    for (size_t i = 1; i < shown; ++i) {
      *plan.add_alternatives() = PlanOf(candidates[i]);
    }
    if (options_.rivals) {
      RETURN_IF_ERROR(AddComparisons(candidates[0], &plan));
    }
    if (options_.explain) {
      for (std::string& sentence : Explanation(candidates[0], plan)) {
        plan.add_explanation(std::move(sentence));
      }
      for (v1::Improvement& improvement : Improvements(
               spec_, topology_, plan, Replanner(plan.stages_size()))) {
        *plan.add_improvements() = std::move(improvement);
      }
    }
    if (timeline != nullptr) {
      ASSIGN_OR_RETURN(*timeline, TimelineOf(candidates[0].planner->work, pool_,
                                             candidates[0].layout));
    }
    return plan;
  }

 private:
  void LimitMemory(DevicePool* pool) const {
    if (options_.memory_limit <= 0) return;
    for (PooledDevice& device : pool->devices) {
      device.memory_bytes =
          device.memory_bytes == 0
              ? options_.memory_limit
              : std::min(device.memory_bytes, options_.memory_limit);
    }
  }

  // Makes `order` one of those that are planned on. Empty: the graph's own.
  absl::Status AddOrder(const std::vector<int>& order) {
    auto ordered = std::make_unique<Ordered>();
    ordered->order = order;
    if (order.empty()) {
      ordered->graph = graph_;
      ordered->profile = profile_;
      ordered->others = options_.other_profiles;
    } else {
      ASSIGN_OR_RETURN(ordered->graph, ReorderGraph(graph_, order));
      if (profile_.layers_size() != graph_.layers_size()) {
        return Mismatch("profile", "its number of layers",
                        absl::StrCat(profile_.layers_size()),
                        absl::StrCat(graph_.layers_size(), " as in the graph"),
                        "profile the graph again");
      }
      ordered->profile = ReorderProfile(profile_, order);
      for (const v1::Profile& other : options_.other_profiles) {
        if (other.layers_size() != graph_.layers_size()) continue;
        ordered->others.push_back(ReorderProfile(other, order));
      }
    }
    ASSIGN_OR_RETURN(ordered->work,
                     MakeWorkload(request_, ordered->graph, ordered->profile,
                                  ordered->others, pool_));
    ordered->planner.reset(new Planner{ordered->work, pool_, spec_.optimizer(),
                                       *model_, options_.data_nodes,
                                       options_.near_stages});
    orders_.push_back(std::move(ordered));
    return absl::OkStatus();
  }

  const Ordered& OrderedOf(const Candidate& candidate) const {
    for (const auto& ordered : orders_) {
      if (ordered->planner.get() == candidate.planner) return *ordered;
    }
    return *orders_[0];
  }

  // With cost models that come with an algorithm of their own its answer is
  // the plan, where nothing about stages is pinned.
  bool TakesAnswer() const {
    return options_.cost_model != "pipework" && pins_.stage_count == 0;
  }

  absl::StatusOr<std::vector<Candidate>> Answer() {
    const Workload& work = orders_[0]->work;
    ASSIGN_OR_RETURN(OrderedCuts answer,
                     options_.cost_model == "paper"
                         ? PaperCuts(work, profile_, pool_, *model_, pins_,
                                     options_.use_fewer_devices)
                         : PublicCodeCuts(work, profile_, pool_, pins_,
                                          options_.use_fewer_devices,
                                          options_.memory_limit));
    if (!answer.order.empty()) RETURN_IF_ERROR(AddOrder(answer.order));
    ASSIGN_OR_RETURN(Candidate candidate,
                     Judge(*orders_.back()->planner, answer.cuts, pins_));
    answer_seconds_ = answer.seconds;
    return std::vector<Candidate>{std::move(candidate)};
  }

  absl::StatusOr<std::vector<Candidate>> AllCandidates() {
    if (TakesAnswer()) return Answer();
    for (const std::vector<int>& order :
         OrdersToTry(orders_[0]->work, profile_, pool_, *model_, pins_)) {
      RETURN_IF_ERROR(AddOrder(order));
    }
    std::vector<Candidate> all;
    absl::Status first_error;
    for (const auto& ordered : orders_) {
      absl::StatusOr<std::vector<Candidate>> some =
          pins_.any_in_flight ? OnDepths(ordered.get()) : On(*ordered->planner);
      if (!some.ok()) {
        first_error.Update(some.status());
        continue;
      }
      for (Candidate& each : *some) all.push_back(std::move(each));
    }
    if (all.empty()) return first_error;
    if (pins_.any_in_flight) {
      RankDepths(&all);
    } else {
      Rank(&all);
    }
    return all;
  }

  absl::StatusOr<std::vector<Candidate>> On(const Planner& planner) const {
    return Candidates(planner, pins_, 1 + options_.alternatives);
  }

  // Candidates at NOAM and at other depths: a depth decides what fits, and how
  // much of the transfers is hidden. The error of the shallowest where nothing
  // fits.
  absl::StatusOr<std::vector<Candidate>> OnDepths(Ordered* ordered) const {
    const int asked = ordered->work.in_flight;
    std::vector<Candidate> all;
    absl::Status error;
    std::set<int> searched;
    const auto search = [&](int depth) -> absl::Status {
      if (!searched.insert(depth).second) return absl::OkStatus();
      ordered->work.in_flight = depth;
      absl::StatusOr<std::vector<Candidate>> some = On(*ordered->planner);
      ordered->work.in_flight = asked;
      if (!some.ok()) {
        // Some schedules fix what is in flight.
        if (absl::IsInvalidArgument(some.status()) && depth != asked) {
          return absl::OkStatus();
        }
        error = some.status();
        return absl::IsFailedPrecondition(error) ? absl::OkStatus() : error;
      }
      const size_t most =
          pool_.size() > kManyDevices ? kDeepenedOnMany : kDeepened;
      for (size_t i = 0; i < some->size(); ++i) {
        // Those of other depths differ little from those of NOAM.
        if (i < most && (depth == asked || i == 0)) {
          ASSIGN_OR_RETURN(std::vector<Candidate> deepened,
                           AtDepthsThatFit((*some)[i]));
          for (Candidate& each : deepened) all.push_back(std::move(each));
        }
        all.push_back(std::move((*some)[i]));
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(search(asked));
    if (asked == 0 && pins_.cuts.empty()) {
      const bool many = pool_.size() > kManyDevices;
      if (!many || !all.empty()) RETURN_IF_ERROR(search(1));
      for (int depth = pool_.size() / 2; depth > 1; depth /= 2) {
        if (many && !all.empty()) break;
        RETURN_IF_ERROR(search(depth));
      }
    }
    if (asked == 0 && all.empty()) RETURN_IF_ERROR(search(1));
    // Those that the plan will show beside its own.
    for (int round = 0; round < kDepthRounds && asked == 0 && !all.empty() &&
                        pins_.cuts.empty() && options_.near_stages == 0;
         ++round) {
      RankDepths(&all);
      const size_t before = searched.size();
      for (const int depth : DepthsToTry(all[0])) {
        RETURN_IF_ERROR(search(depth));
      }
      if (searched.size() == before) break;
    }
    if (all.empty()) return error;
    return all;
  }

  v1::Plan PlanOf(const Candidate& candidate) const {
    v1::Plan plan = ToPlan(candidate);
    plan.set_cost_model(options_.cost_model);
    plan.set_estimated(profile_.estimated());
    plan.set_profile_measured_at(profile_.measured_at());
    plan.set_profile_noisy(profile_.noisy());
    for (const v1::Profile& other : options_.other_profiles) {
      if (other.noisy()) plan.set_profile_noisy(true);
    }
    for (const int layer : OrderedOf(candidate).order) {
      plan.add_layer_order(graph_.layers(layer).name());
    }
    return plan;
  }

  // Rivals, what other depths would give, and what the pins cost.
  absl::Status AddComparisons(const Candidate& best, v1::Plan* plan) {
    const Ordered& ordered = OrderedOf(best);
    const WorkloadFn workload = [this,
                                 &ordered](const WorkloadRequest& request) {
      return MakeWorkload(request, ordered.graph, ordered.profile,
                          ordered.others, pool_);
    };
    for (v1::Rival& rival : Rivals(*best.planner, request_, workload)) {
      *plan->add_rivals() = std::move(rival);
    }
    ASSIGN_OR_RETURN(std::vector<v1::Depth> depths, DepthsOf(best));
    for (v1::Depth& depth : depths) *plan->add_depths() = std::move(depth);
    for (v1::PinCost& cost : PinCosts(spec_, topology_, *plan, Replanner(0))) {
      *plan->add_pin_costs() = std::move(cost);
    }
    return absl::OkStatus();
  }

  // Plans alone, by the same rules.
  ReplanFn Replanner(int near_stages) const {
    return [this, near_stages](const v1::JobSpec& spec,
                               const v1::Topology& topology) {
      PlanningOptions options = options_;
      options.rivals = false;
      options.explain = false;
      options.advice = false;
      options.alternatives = 0;
      options.near_stages = near_stages;
      return PlanJob(spec, graph_, profile_, topology, options);
    };
  }

  // Says what would fit where memory is what stands in the way.
  absl::Status WithAdvice(const absl::Status& status) const {
    if (!options_.advice) return status;
    const Ordered& ordered = *orders_[0];
    DevicePool endless = pool_;
    for (PooledDevice& device : endless.devices) device.memory_bytes = 0;
    const Planner unlimited = {ordered.work, endless, spec_.optimizer(),
                               *model_, options_.data_nodes};
    if (!Proposals(unlimited, pins_).ok()) return status;
    const FitsFnOfJob fits = [this, &ordered](const WorkloadRequest& request,
                                              const Pins& pins,
                                              const v1::Topology& topology) {
      DevicePool pool = MakePool(topology, spec_.threads_per_executor());
      LimitMemory(&pool);
      const absl::StatusOr<Workload> work = MakeWorkload(
          request, ordered.graph, ordered.profile, ordered.others, pool);
      if (!work.ok()) return false;
      const Planner planner = {*work, pool, spec_.optimizer(), *model_,
                               options_.data_nodes};
      return Proposals(planner, pins).ok();
    };
    return absl::FailedPreconditionError(
        absl::StrCat(status.message(), "; ",
                     NearestFit(request_, pins_, topology_, pool_.size(),
                                graph_.layers_size(), fits)));
  }

  const v1::JobSpec& spec_;
  const v1::Graph& graph_;
  const v1::Profile& profile_;
  const v1::Topology& topology_;
  const PlanningOptions& options_;
  const CostModel* model_ = nullptr;
  DevicePool pool_;
  Pins pins_;
  WorkloadRequest request_;
  double answer_seconds_ = 0;
  std::vector<std::unique_ptr<Ordered>> orders_;
};

}  // namespace

absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec,
                                 const v1::Graph& graph,
                                 const v1::Profile& profile,
                                 const v1::Topology& topology,
                                 const PlanningOptions& options,
                                 PlannedTimeline* timeline) {
  // Nodes may be left to the levels.
  if (topology.nodes().empty() && topology.levels_size() > 0) {
    ASSIGN_OR_RETURN(const v1::Topology expanded, ExpandTopology(topology));
    return Planning(spec, graph, profile, expanded, options).Run(timeline);
  }
  return Planning(spec, graph, profile, topology, options).Run(timeline);
}

}  // namespace pipework
