#include "scheduler/planning/rivals.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"
#include "scheduler/planning/to_plan.h"
#include "scheduler/planning/words.h"
#include "scheduler/schedules/schedule.h"

namespace pipework {
namespace {

// A straight pipeline of a large cluster is no longer than this.
constexpr int kLongestPipeline = 16;

std::string StagesText(int stages) { return CountText(stages, "stage"); }

class Comparison {
 public:
  Comparison(const Planner& planner, const WorkloadRequest& request,
             const WorkloadFn& workload)
      : planner_(planner),
        request_(request),
        workload_(workload),
        layers_(planner.work.chain.size()),
        devices_(planner.pool.size()),
        depth_(std::min({layers_, devices_, kLongestPipeline})) {}

  std::vector<v1::Rival> Run() {
    const WorkloadRequest whole = Whole();
    WorkloadRequest one_at_a_time = whole;
    one_at_a_time.in_flight = 1;
    Add("one_device", "1 device", whole, [this](const Planner& planner) {
      return Judge(planner, {{0, layers_ - 1, 1}});
    });
    Add("data_parallel", CountText(devices_, "replica"), whole,
        [this](const Planner& planner) {
          return Judge(planner, {{0, layers_ - 1, devices_}});
        });
    if (FindSchedule("model_parallel").ok()) {
      one_at_a_time.recipe = {"model_parallel", ""};
    }
    Add("model_parallel", StagesText(depth_), one_at_a_time,
        [this](const Planner& planner) { return Straight(planner); });
    Add("straight", StagesText(depth_), request_,
        [this](const Planner& planner) { return Straight(planner); });
    AddHybrid();
    for (const char* schedule : {"gpipe", "flush"}) {
      for (const int times : {1, 2, 4}) AddSynchronous(schedule, times);
    }
    AddTwoVersion();
    Compare();
    return std::move(rivals_);
  }

 private:
  using Way = std::function<absl::StatusOr<Candidate>(const Planner& planner)>;

  // Whole minibatches, asynchronous: with one stage this is data parallelism,
  // whose replicas each take one and update together.
  WorkloadRequest Whole() const {
    WorkloadRequest whole = request_;
    whole.recipe = {"1f1b", "stash"};
    whole.microbatches = 1;
    whole.in_flight = 0;
    return whole;
  }

  absl::StatusOr<Candidate> Straight(const Planner& planner) const {
    return CandidateOf(planner, depth_, depth_);
  }

  void Add(const std::string& name, const std::string& detail,
           const WorkloadRequest& request, const Way& way) {
    v1::Rival rival;
    rival.set_name(name);
    rival.set_detail(detail);
    const absl::StatusOr<Workload> work = workload_(request);
    if (!work.ok()) {
      rival.set_reason(std::string(work.status().message()));
      rivals_.push_back(std::move(rival));
      return;
    }
    const Planner planner = {*work, planner_.pool, planner_.optimizer,
                             planner_.model, planner_.data_nodes};
    const absl::StatusOr<Candidate> candidate = way(planner);
    rival.set_feasible(candidate.ok());
    if (candidate.ok()) {
      const v1::Plan plan = ToPlan(*candidate);
      rival.set_samples_per_second(plan.samples_per_second());
      rival.set_predicted_step_ms(plan.predicted_step_ms());
      rival.set_total_bytes(TotalBytes(plan));
      rival.set_largest_bytes(LargestBytes(plan));
      rival.set_staleness(LargestStaleness(plan));
    } else {
      rival.set_reason(std::string(candidate.status().message()));
    }
    rivals_.push_back(std::move(rival));
  }

  // Layers with much to compute and few weights in front, replicated; the rest
  // split behind. One minibatch at a time, one microbatch of each front
  // replica.
  void AddHybrid() {
    const std::vector<StageCut> cuts = BestHybrid();
    if (cuts.empty()) return;
    const int front = cuts[0].replicas;
    Add("hybrid",
        absl::StrCat("front on ", front, ", ",
                     StagesText(static_cast<int>(cuts.size()) - 1), " behind"),
        HybridRequest(),
        [&cuts](const Planner& planner) { return Judge(planner, cuts); });
  }

  WorkloadRequest HybridRequest() const {
    WorkloadRequest request = request_;
    request.recipe = {"flush", "flush"};
    request.microbatches = 1;
    request.in_flight = 1;
    return request;
  }

  // Empty where none is possible or fits.
  std::vector<StageCut> BestHybrid() const {
    std::vector<StageCut> best;
    double shortest = std::numeric_limits<double>::infinity();
    for (const int front :
         std::set<int>{devices_ - 1, devices_ - 2, devices_ / 2}) {
      const int behind = std::min({devices_ - front, layers_ - 1, 4});
      if (front < 2 || behind < 1 || front > request_.minibatch) continue;
      const absl::StatusOr<Workload> work = workload_(HybridRequest());
      if (!work.ok()) continue;
      const Planner planner = {*work, planner_.pool, planner_.optimizer,
                               planner_.model, planner_.data_nodes};
      Pins pins;
      pins.stage_count = behind + 1;
      pins.replicas.assign(behind + 1, 1);
      pins.replicas[0] = front;
      const absl::StatusOr<std::vector<Candidate>> found =
          Candidates(planner, pins, 1);
      if (!found.ok() || found->front().step_seconds() >= shortest) continue;
      shortest = found->front().step_seconds();
      best = found->front().layout.cuts;
    }
    return best;
  }

  void AddSynchronous(const char* schedule, int times) {
    if (!FindSchedule(schedule).ok()) return;
    WorkloadRequest request = request_;
    request.recipe = {schedule, ""};
    request.microbatches = times * depth_;
    request.in_flight = 0;
    if (request.microbatches > request.minibatch) return;
    Add(schedule,
        absl::StrCat(StagesText(depth_), ", ",
                     CountText(request.microbatches, "microbatch", "es")),
        request, [this](const Planner& planner) { return Straight(planner); });
  }

  void AddTwoVersion() {
    if (!FindSchedule("two_version").ok()) return;
    WorkloadRequest request = request_;
    request.recipe = {"two_version", ""};
    request.microbatches = depth_;
    request.in_flight = 0;
    if (request.microbatches > request.minibatch) return;
    Add("two_version",
        absl::StrCat(StagesText(depth_), ", ",
                     CountText(request.microbatches, "microbatch", "es")),
        request, [this](const Planner& planner) { return Straight(planner); });
  }

  void Compare() {
    double data_parallel = 0;
    for (const v1::Rival& rival : rivals_) {
      if (rival.name() == "data_parallel") {
        data_parallel = rival.samples_per_second();
      }
    }
    if (data_parallel <= 0) return;
    for (v1::Rival& rival : rivals_) {
      rival.set_speedup_over_data_parallel(rival.samples_per_second() /
                                           data_parallel);
    }
  }

  const Planner& planner_;
  const WorkloadRequest& request_;
  const WorkloadFn& workload_;
  const int layers_;
  const int devices_;
  const int depth_;
  std::vector<v1::Rival> rivals_;
};

}  // namespace

std::vector<v1::Rival> Rivals(const Planner& planner,
                              const WorkloadRequest& request,
                              const WorkloadFn& workload) {
  return Comparison(planner, request, workload).Run();
}

}  // namespace pipework
