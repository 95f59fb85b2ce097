#include "scheduler/passes/simulate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "scheduler/passes/validate.h"

namespace pipework {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double At(const std::vector<double>& list, size_t index) {
  return list.empty() ? 0 : list[index];
}

bool IsSpan(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kEvaluate;
}

class Simulation {
 public:
  Simulation(const Program& program, const ActionTimes& times)
      : program_(program),
        times_(times),
        edges_(EdgesOf(program.shape)),
        rows_(program.rows.size()),
        busy_in_group_(times.group_cores.size(), 0) {
    timeline_.busy_seconds.resize(program.rows.size(), 0);
  }

  Timeline Run() {
    for (size_t row = 0; row < rows_.size(); ++row) Advance(row);
    while (true) {
      const double next = NextTime();
      if (next == kNever) break;
      Step(next);
    }
    double begin = kNever;
    double end = 0;
    for (const Timeline::Span& span : timeline_.spans) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    timeline_.makespan = timeline_.spans.empty() ? 0 : end - begin;
    return std::move(timeline_);
  }

 private:
  struct RowState {
    size_t next = 0;  // action that comes next, or is running
    bool computing = false;
    double remaining = 0;  // of its work, at rate 1
    double begin = 0;
  };
  // A message on its way, or replicas that have arrived at an all-reduce.
  struct Event {
    double arrival = kNever;
    std::vector<size_t> waiting;
  };
  // kind of the sender, from, to, number
  using Key = std::tuple<int, int, int, int64_t>;

  double Rate(size_t row) const {
    if (times_.core_group.empty()) return 1;
    const int group = times_.core_group[row];
    return std::min(1.0, times_.group_cores[group] / busy_in_group_[group]);
  }

  double NextTime() const {
    double next = wakes_.empty() ? kNever : wakes_.top().first;
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (!rows_[row].computing) continue;
      next = std::min(next, now_ + rows_[row].remaining / Rate(row));
    }
    return next;
  }

  // Moves the clock to `next` and everything that ends there onwards.
  void Step(double next) {
    std::vector<size_t> ready;
    for (size_t row = 0; row < rows_.size(); ++row) {
      RowState& state = rows_[row];
      if (!state.computing) continue;
      const double rate = Rate(row);
      if (now_ + state.remaining / rate <= next) {
        ready.push_back(row);
      } else {
        state.remaining -= (next - now_) * rate;
      }
    }
    now_ = next;
    for (const size_t row : ready) Finish(row);
    while (!wakes_.empty() && wakes_.top().first <= now_) {
      ready.push_back(wakes_.top().second);
      wakes_.pop();
    }
    for (const size_t row : ready) Advance(row);
  }

  void Finish(size_t row) {
    RowState& state = rows_[row];
    const Action& action = program_.rows[row].actions[state.next];
    state.computing = false;
    if (!times_.core_group.empty()) --busy_in_group_[times_.core_group[row]];
    if (IsSpan(action.kind)) {
      timeline_.spans.push_back(
          {row, action.kind, action.number, state.begin, now_});
      timeline_.busy_seconds[row] += now_ - state.begin;
    }
    Complete(row);
  }

  double Work(const Row& row, const Action& action) const {
    const size_t stage = row.stage.value();
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kEvaluate:
        return times_.action_seconds + At(times_.forward_seconds, stage);
      case ActionKind::kBackward:
        return times_.action_seconds + At(times_.backward_seconds, stage);
      case ActionKind::kUpdate:
        return times_.action_seconds + At(times_.update_seconds, stage);
      case ActionKind::kSendForward:
      case ActionKind::kReceiveForward:
      case ActionKind::kSendBackward:
      case ActionKind::kReceiveBackward:
        return times_.action_seconds +
               OfEdge(times_.message_seconds, row.stage, action.peer_stage);
      default:
        return times_.action_seconds;
    }
  }

  // The entry of the edge between two stages.
  double OfEdge(const std::vector<double>& list, StageId a, StageId b) const {
    if (list.empty()) return 0;
    for (size_t i = 0; i < edges_.size(); ++i) {
      if (edges_[i].from == std::min(a, b) && edges_[i].to == std::max(a, b)) {
        return list[i];
      }
    }
    return 0;
  }

  // Starts actions of the row until one takes time or has to wait.
  void Advance(size_t index) {
    const Row& row = program_.rows[index];
    RowState& state = rows_[index];
    while (state.next < row.actions.size()) {
      const Action& action = row.actions[state.next];
      if (Waits(index, row, action)) return;
      const double work = Work(row, action);
      if (work > 0 || IsSpan(action.kind)) {
        state.computing = true;
        state.remaining = work;
        state.begin = now_;
        if (!times_.core_group.empty()) {
          ++busy_in_group_[times_.core_group[index]];
        }
        return;
      }
      Complete(index);
    }
  }

  // Whether the row cannot go on yet; it is then on a list that wakes it.
  bool Waits(size_t index, const Row& row, const Action& action) {
    const int own = row.stage.value();
    const int peer = action.peer_stage.value();
    if (action.kind == ActionKind::kReceiveForward ||
        action.kind == ActionKind::kReceiveBackward) {
      const ActionKind sent = action.kind == ActionKind::kReceiveForward
                                  ? ActionKind::kSendForward
                                  : ActionKind::kSendBackward;
      Event& event =
          events_[{static_cast<int>(sent), peer, own, action.number}];
      if (event.arrival <= now_) return false;
      if (event.arrival < kNever) {
        wakes_.emplace(event.arrival, index);
      } else {
        event.waiting.push_back(index);
      }
      return true;
    }
    if (action.kind == ActionKind::kAllReduce) {
      const Key key{static_cast<int>(action.kind), own, own, action.number};
      Event& event = events_[key];
      if (event.arrival <= now_) return false;
      event.waiting.push_back(index);
      const size_t replicas = program_.shape.replicas[own];
      if (event.waiting.size() == replicas) {
        event.arrival = now_ + At(times_.all_reduce_seconds, own);
        for (const size_t waiting : event.waiting) {
          wakes_.emplace(event.arrival, waiting);
        }
      }
      return true;
    }
    return false;
  }

  // The action is done: what it sends is on its way.
  void Complete(size_t index) {
    const Row& row = program_.rows[index];
    const Action& action = row.actions[rows_[index].next++];
    if (action.kind != ActionKind::kSendForward &&
        action.kind != ActionKind::kSendBackward) {
      return;
    }
    const int own = row.stage.value();
    const int peer = action.peer_stage.value();
    Event& event =
        events_[{static_cast<int>(action.kind), own, peer, action.number}];
    event.arrival =
        now_ + OfEdge(times_.transfer_seconds, row.stage, action.peer_stage);
    for (const size_t waiting : event.waiting) {
      wakes_.emplace(event.arrival, waiting);
    }
    event.waiting.clear();
  }

  const Program& program_;
  const ActionTimes& times_;
  const std::vector<StageEdge> edges_;
  std::vector<RowState> rows_;
  std::vector<double> busy_in_group_;
  absl::flat_hash_map<Key, Event> events_;
  // (time, row), the earliest first.
  std::priority_queue<std::pair<double, size_t>,
                      std::vector<std::pair<double, size_t>>, std::greater<>>
      wakes_;
  double now_ = 0;
  Timeline timeline_;
};

absl::Status CheckTimes(const Program& program, const ActionTimes& times) {
  const size_t stages = program.shape.replicas.size();
  const size_t edges = EdgesOf(program.shape).size();
  const auto length = [](absl::string_view what, size_t got, size_t wanted) {
    if (got == 0 || got == wanted) return absl::OkStatus();
    return Mismatch("simulation", absl::StrCat("the length of ", what),
                    absl::StrCat(got), absl::StrCat(wanted));
  };
  RETURN_IF_ERROR(
      length("forward_seconds", times.forward_seconds.size(), stages));
  RETURN_IF_ERROR(
      length("backward_seconds", times.backward_seconds.size(), stages));
  RETURN_IF_ERROR(
      length("update_seconds", times.update_seconds.size(), stages));
  RETURN_IF_ERROR(
      length("all_reduce_seconds", times.all_reduce_seconds.size(), stages));
  RETURN_IF_ERROR(
      length("transfer_seconds", times.transfer_seconds.size(), edges));
  RETURN_IF_ERROR(
      length("message_seconds", times.message_seconds.size(), edges));
  RETURN_IF_ERROR(
      length("core_group", times.core_group.size(), program.rows.size()));
  for (const int group : times.core_group) {
    if (group < 0 || group >= static_cast<int>(times.group_cores.size()) ||
        !(times.group_cores[group] > 0)) {
      return Mismatch("simulation", "a core group", absl::StrCat(group),
                      "one with cores above 0");
    }
  }
  return absl::OkStatus();
}

}  // namespace

double Timeline::bubble() const {
  if (makespan <= 0 || busy_seconds.empty()) return 0;
  double busy = 0;
  for (const double seconds : busy_seconds) busy += seconds;
  return 1 - busy / (makespan * busy_seconds.size());
}

absl::StatusOr<Timeline> Simulate(const Program& program,
                                  const ActionTimes& times) {
  RETURN_IF_ERROR(CheckTimes(program, times));
  RETURN_IF_ERROR(CheckProgress(program));
  return Simulation(program, times).Run();
}

}  // namespace pipework
