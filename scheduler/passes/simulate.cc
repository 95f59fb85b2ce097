#include "scheduler/passes/simulate.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proto/status_macros.h"
#include "scheduler/passes/channel.h"
#include "scheduler/passes/check_times.h"
#include "scheduler/passes/link_queues.h"
#include "scheduler/passes/validate.h"
#include "scheduler/passes/work_tables.h"

namespace pipework {
namespace {

bool IsSpan(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kWeightGradient || kind == ActionKind::kEvaluate;
}

bool IsReceive(ActionKind kind) {
  return kind == ActionKind::kReceiveForward ||
         kind == ActionKind::kReceiveBackward;
}

bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}

class Simulation {
 public:
  Simulation(const Program& program, const ActionTimes& times, int chunks)
      : program_(program),
        times_(times),
        work_(program, times, chunks),
        edges_(program.shape),
        rows_(program.rows.size()),
        groups_(times.group_cores.size()),
        channels_of_(program.shape.stages()),
        meetings_of_(program.shape.stages()),
        links_(times.network) {
    size_t row = 0;
    for (const int replicas : program.shape.replicas) {
      first_row_.push_back(row);
      row += replicas;
    }
    timeline_.busy_seconds.resize(program.rows.size(), 0);
    if (times.jitter.any()) {
      for (const Row& r : program.rows) {
        jitters_.emplace_back(times.jitter, r.stage);
      }
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].cores = times.group_cores[g];
    }
  }

  // Runs to the end. False: some row waits for ever or a message is left.
  bool Run() {
    for (size_t row = 0; row < rows_.size(); ++row) Advance(row);
    RunRunnable();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      switch (event.kind) {
        case EventKind::kFinish:
          Finish(event.index);
          Advance(event.index);
          break;
        case EventKind::kGroup:
          FinishGroup(event);
          break;
        case EventKind::kWake:
          Advance(event.index);
          break;
        case EventKind::kHead:
          LeaveQueue(event.index);
          break;
      }
      RunRunnable();
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].next < program_.rows[row].actions.size()) return false;
    }
    for (const std::vector<Channel>& channels : channels_of_) {
      for (const Channel& channel : channels) {
        if (channel.head < channel.pending.size()) return false;
      }
    }
    return true;
  }

  Timeline TakeTimeline() {
    double begin = std::numeric_limits<double>::infinity();
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
    size_t next = 0;   // action that comes next, or is running
    bool met = false;  // the all-reduce that comes next is over
    double begin = 0;  // of what is running
  };

  // Rows that share cores. All of them run at the same rate at any moment, so
  // one clock of work done serves all: a row that starts at clock c with work w
  // ends at clock c + w.
  struct Group {
    double cores = 0;
    double clock = 0;
    double at = 0;       // time at which `clock` was right
    uint64_t stamp = 0;  // of the event that counts
    // (clock at which it ends, row), the earliest first
    std::priority_queue<std::pair<double, size_t>,
                        std::vector<std::pair<double, size_t>>, std::greater<>>
        ends;

    double rate() const {
      return std::min(1.0, cores / static_cast<double>(ends.size()));
    }
  };

  enum class EventKind { kFinish, kGroup, kWake, kHead };
  struct Event {
    double time;
    uint64_t stamp;  // in order of making; decides between equal times
    EventKind kind;
    size_t index;  // row, group or message

    friend bool operator>(const Event& a, const Event& b) {
      return a.time == b.time ? a.stamp > b.stamp : a.time > b.time;
    }
  };

  // Replicas that have come to an all-reduce.
  struct Meeting {
    int64_t number;
    std::vector<size_t> rows;
    size_t ring = 0;  // parts of the ring on their way
    double end = 0;
    double latency = 0;  // of the steps of the ring after the first
  };

  // Who takes a message that is on its way.
  struct Delivery {
    int stage = 0;
    int channel = 0;
    int chunk = 0;
    double extra = 0;  // transfer_seconds
  };

  uint64_t Push(double time, EventKind kind, size_t index) {
    events_.push({time, ++stamps_, kind, index});
    return stamps_;
  }

  void RunRunnable() {
    // Grows while it is walked.
    for (size_t i = 0; i < runnable_.size(); ++i) {
      const size_t row = runnable_[i];
      Advance(row);
    }
    runnable_.clear();
  }

  // ---- computing ------------------------------------------------------------

  double Work(size_t index, const Row& row, const Action& action) {
    const int stage = row.stage.value();
    double work = work_.Seconds(stage, action);
    if (work > 0 && !jitters_.empty()) {
      work = jitters_[index].Apply(action, work);
    }
    if (IsTransfer(action.kind)) {
      work +=
          edges_.Of(times_.message_seconds, stage, action.peer_stage.value());
    }
    work += times_.action_seconds;
    return times_.row_scale.empty() ? work : work * times_.row_scale[index];
  }

  void Start(size_t index, double work) {
    rows_[index].begin = now_;
    if (times_.core_group.empty()) {
      Push(now_ + work, EventKind::kFinish, index);
      return;
    }
    const int g = times_.core_group[index];
    Group& group = groups_[g];
    MoveClock(&group);
    group.ends.emplace(group.clock + work, index);
    Schedule(g);
  }

  void MoveClock(Group* group) const {
    if (!group->ends.empty()) {
      group->clock += (now_ - group->at) * group->rate();
    }
    group->at = now_;
  }

  // When the first row of the group ends.
  void Schedule(int g) {
    Group& group = groups_[g];
    if (group.ends.empty()) return;
    const double left = std::max(0.0, group.ends.top().first - group.clock);
    group.stamp = Push(now_ + left / group.rate(), EventKind::kGroup, g);
  }

  void FinishGroup(const Event& event) {
    const int g = static_cast<int>(event.index);
    Group& group = groups_[g];
    if (event.stamp != group.stamp) return;  // somebody came or left since
    group.clock = group.ends.top().first;
    group.at = now_;
    std::vector<size_t> done;
    while (!group.ends.empty() && group.ends.top().first <= group.clock) {
      done.push_back(group.ends.top().second);
      group.ends.pop();
    }
    Schedule(g);
    for (const size_t row : done) Finish(row);
    runnable_.insert(runnable_.end(), done.begin(), done.end());
  }

  void Finish(size_t index) {
    const RowState& state = rows_[index];
    const Action& action = program_.rows[index].actions[state.next];
    if (IsSpan(action.kind)) {
      timeline_.spans.push_back({index, action.kind, action.number, state.begin,
                                 now_, action.chunk, action.version});
      timeline_.busy_seconds[index] += now_ - state.begin;
    }
    Complete(index);
  }

  // Starts actions of the row until one takes time or has to wait.
  void Advance(size_t index) {
    const Row& row = program_.rows[index];
    RowState& state = rows_[index];
    while (state.next < row.actions.size()) {
      const Action& action = row.actions[state.next];
      if (IsReceive(action.kind)) {
        if (WaitsForMessage(index, row, action)) return;
      } else if (action.kind == ActionKind::kAllReduce) {
        if (WaitsForReplicas(index, row, action)) return;
      }
      const double work = Work(index, row, action);
      if (work > 0 || IsSpan(action.kind)) {
        Start(index, work);
        return;
      }
      Complete(index);
    }
  }

  // ---- messages -------------------------------------------------------------

  int ChannelOf(int to, int from, ActionKind kind) {
    std::vector<Channel>& channels = channels_of_[to];
    for (size_t i = 0; i < channels.size(); ++i) {
      if (channels[i].from == from && channels[i].kind == kind) {
        return static_cast<int>(i);
      }
    }
    channels.emplace_back();
    channels.back().from = from;
    channels.back().kind = kind;
    return static_cast<int>(channels.size()) - 1;
  }

  // Whether the row cannot go on yet; it is then woken when it can. Takes the
  // message when it is there.
  bool WaitsForMessage(size_t index, const Row& row, const Action& action) {
    const ActionKind sent = action.kind == ActionKind::kReceiveForward
                                ? ActionKind::kSendForward
                                : ActionKind::kSendBackward;
    const int own = row.stage.value();
    Channel& channel =
        channels_of_[own][ChannelOf(own, action.peer_stage.value(), sent)];
    Channel::Pending* pending = channel.Find(action.number, action.chunk);
    if (pending == nullptr) {
      channel.waiting.push_back({action.number, action.chunk, index});
      return true;
    }
    if (pending->arrival > now_) {
      Push(pending->arrival, EventKind::kWake, index);
      return true;
    }
    channel.Take(pending);
    return false;
  }

  // The action is done: what it sends is on its way.
  void Complete(size_t index) {
    const Row& row = program_.rows[index];
    const Action& action = row.actions[rows_[index].next++];
    if (!IsSend(action.kind)) return;
    const int own = row.stage.value();
    const int peer = action.peer_stage.value();
    const int channel = ChannelOf(peer, own, action.kind);
    const double extra = edges_.Of(times_.transfer_seconds, own, peer);
    if (times_.network.empty()) {
      Deliver(peer, channel, action.number, action.chunk, now_ + extra);
      return;
    }
    const bool forward = action.kind == ActionKind::kSendForward;
    const double bytes = edges_.Of(
        forward ? times_.network.forward_bytes : times_.network.backward_bytes,
        own, peer);
    Send(index, first_row_[peer] + action.peer_replica.value(), action.kind,
         action.number, bytes, {peer, channel, action.chunk, extra});
  }

  void Deliver(int stage, int index, int64_t number, int chunk,
               double arrival) {
    Channel& channel = channels_of_[stage][index];
    channel.pending.push_back({number, chunk, arrival});
    for (size_t i = 0; i < channel.waiting.size(); ++i) {
      if (channel.waiting[i].number != number ||
          channel.waiting[i].chunk != chunk) {
        continue;
      }
      const size_t row = channel.waiting[i].row;
      channel.waiting.erase(channel.waiting.begin() + i);
      if (arrival > now_) {
        Push(arrival, EventKind::kWake, row);
      } else {
        runnable_.push_back(row);
      }
      return;
    }
  }

  void Send(size_t from, size_t to, ActionKind kind, int64_t number,
            double bytes, const Delivery& delivery) {
    const size_t index = timeline_.messages.size();
    timeline_.messages.push_back({from, to, kind, number, bytes, now_, now_});
    deliveries_.emplace(index, delivery);
    const double head = links_.Enqueue(index, from, to, bytes, now_);
    if (head > now_) {
      Push(head, EventKind::kHead, index);
    } else {
      LeaveQueue(index);
    }
  }

  // The message is at the head of its sender's queue.
  void LeaveQueue(size_t index) {
    Timeline::Message& message = timeline_.messages[index];
    const auto found = deliveries_.find(index);
    const Delivery delivery = found->second;
    deliveries_.erase(found);
    message.begin = now_;
    message.end = links_.LeaveQueue(index, now_) + delivery.extra;
    if (message.kind == ActionKind::kAllReduce) {
      EndOfRing(program_.rows[message.from].stage.value(), message.number,
                message.end);
    } else {
      Deliver(delivery.stage, delivery.channel, message.number, delivery.chunk,
              message.end);
    }
  }

  // ---- all-reduce -----------------------------------------------------------

  bool WaitsForReplicas(size_t index, const Row& row, const Action& action) {
    RowState& state = rows_[index];
    if (state.met) {
      state.met = false;
      return false;
    }
    const int own = row.stage.value();
    std::vector<Meeting>& meetings = meetings_of_[own];
    size_t at = 0;
    while (at < meetings.size() && meetings[at].number != action.number) ++at;
    if (at == meetings.size()) {
      meetings.emplace_back();
      meetings.back().number = action.number;
    }
    meetings[at].rows.push_back(index);
    const size_t replicas = program_.shape.replicas[own];
    if (meetings[at].rows.size() < replicas) return true;
    meetings[at].end = now_ + EntryOf(times_.all_reduce_seconds, own);
    const double bytes = EntryOf(times_.network.all_reduce_bytes, own);
    if (times_.network.empty() || bytes == 0 || replicas == 1) {
      EndMeeting(own, at);
      return true;
    }
    SendRing(own, at, bytes);
    return true;
  }

  // Every replica sends 2 (r - 1) / r of the bytes to the next one, in as many
  // steps; as one message each, and the latency of the other steps behind it.
  void SendRing(int stage, size_t at, double bytes) {
    Meeting& meeting = meetings_of_[stage][at];
    const double r = program_.shape.replicas[stage];
    const int64_t number = meeting.number;
    const size_t first = first_row_[stage];
    const size_t end = first + program_.shape.replicas[stage];
    meeting.ring = end - first;
    for (size_t row = first; row < end; ++row) {
      const size_t next = row + 1 == end ? first : row + 1;
      const Route route = RouteOf(times_.network, row, next);
      meeting.latency = std::max(
          meeting.latency, (2 * (r - 1) - 1) * route.link.latency_seconds);
    }
    for (size_t row = first; row < end; ++row) {
      const size_t next = row + 1 == end ? first : row + 1;
      Send(row, next, ActionKind::kAllReduce, number, 2 * (r - 1) / r * bytes,
           {});
    }
  }

  void EndOfRing(int stage, int64_t number, double arrival) {
    std::vector<Meeting>& meetings = meetings_of_[stage];
    for (size_t at = 0; at < meetings.size(); ++at) {
      Meeting& meeting = meetings[at];
      if (meeting.number != number) continue;
      meeting.end = std::max(meeting.end, arrival + meeting.latency);
      if (--meeting.ring == 0) EndMeeting(stage, at);
      return;
    }
  }

  void EndMeeting(int stage, size_t at) {
    const Meeting meeting = std::move(meetings_of_[stage][at]);
    meetings_of_[stage].erase(meetings_of_[stage].begin() + at);
    for (const size_t row : meeting.rows) {
      rows_[row].met = true;
      if (meeting.end > now_) {
        Push(meeting.end, EventKind::kWake, row);
      } else {
        runnable_.push_back(row);
      }
    }
  }

  const Program& program_;
  const ActionTimes& times_;
  const WorkTable work_;
  const EdgeTable edges_;
  std::vector<RowState> rows_;
  std::vector<Group> groups_;
  std::vector<RowJitter> jitters_;
  std::vector<size_t> first_row_;                  // by stage
  std::vector<std::vector<Channel>> channels_of_;  // by receiving stage
  std::vector<std::vector<Meeting>> meetings_of_;  // by stage
  LinkQueues links_;
  absl::flat_hash_map<size_t, Delivery> deliveries_;  // by message
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t stamps_ = 0;
  std::vector<size_t> runnable_;
  double now_ = 0;
  Timeline timeline_;
};

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
  ASSIGN_OR_RETURN(const int chunks, CountChunks(program));
  Simulation simulation(program, times, chunks);
  if (!simulation.Run()) {
    // Names the row that waits, or the message that nobody takes.
    RETURN_IF_ERROR(CheckProgress(program));
    return absl::InvalidArgumentError(
        "simulation: the program does not end, expected one that "
        "CheckProgress lets through");
  }
  return simulation.TakeTimeline();
}

}  // namespace pipework
