#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "scheduler/passes/refuse.h"
#include "scheduler/passes/validate.h"

namespace pipework {
namespace {

// One message or one meeting of replicas.
struct Key {
  ActionKind kind;  // of the sender, or kAllReduce, or kDrain
  int from;         // stage
  int to;           // stage
  int64_t number;
  int chunk;

  friend bool operator==(const Key& a, const Key& b) {
    return a.kind == b.kind && a.from == b.from && a.to == b.to &&
           a.number == b.number && a.chunk == b.chunk;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Key& key) {
    return H::combine(std::move(h), static_cast<int>(key.kind), key.from,
                      key.to, key.number, key.chunk);
  }
};

Key KeyOf(const Action& action, StageId own) {
  const int peer = action.peer_stage.value();
  switch (action.kind) {
    case ActionKind::kReceiveForward:
      return {ActionKind::kSendForward, peer, own.value(), action.number,
              action.chunk};
    case ActionKind::kReceiveBackward:
      return {ActionKind::kSendBackward, peer, own.value(), action.number,
              action.chunk};
    case ActionKind::kAllReduce:
    case ActionKind::kDrain:
      return {action.kind, own.value(), own.value(), action.number,
              action.chunk};
    default:
      return {action.kind, own.value(), peer, action.number, action.chunk};
  }
}

class Walk {
 public:
  explicit Walk(const Program& program)
      : program_(program), next_(program.rows.size(), 0) {
    for (size_t row = 0; row < program.rows.size(); ++row) {
      runnable_.push_back(row);
    }
  }

  absl::Status Run() {
    while (!runnable_.empty()) {
      const size_t row = runnable_.back();
      runnable_.pop_back();
      Advance(row);
    }
    for (size_t row = 0; row < program_.rows.size(); ++row) {
      if (next_[row] == program_.rows[row].actions.size()) continue;
      return RefuseRow(
          program_, program_.rows[row], next_[row],
          absl::StrCat("waits for ever at ",
                       ToString(program_.rows[row].actions[next_[row]],
                                program_.rows[row].stage)));
    }
    for (const auto& [key, event] : events_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule: stage ", key.to, " never receives what stage ", key.from,
          " sends of unit ", key.number));
    }
    return absl::OkStatus();
  }

 private:
  // A message or a meeting that somebody has come to; erased when it is over.
  struct Event {
    int come = 0;                 // sends, or replicas
    std::vector<size_t> waiting;  // rows
  };

  // Runs the row until it waits or ends.
  void Advance(size_t index) {
    const Row& row = program_.rows[index];
    while (next_[index] < row.actions.size()) {
      const Action& action = row.actions[next_[index]];
      switch (action.kind) {
        case ActionKind::kSendForward:
        case ActionKind::kSendBackward: {
          Event& event = events_[KeyOf(action, row.stage)];
          ++event.come;
          for (const size_t waiting : event.waiting) {
            runnable_.push_back(waiting);
          }
          event.waiting.clear();
          break;
        }
        case ActionKind::kReceiveForward:
        case ActionKind::kReceiveBackward: {
          const auto found =
              events_.try_emplace(KeyOf(action, row.stage)).first;
          if (found->second.come == 0) {
            found->second.waiting.push_back(index);
            return;
          }
          if (--found->second.come == 0) events_.erase(found);
          break;
        }
        case ActionKind::kAllReduce:
        case ActionKind::kDrain: {
          const auto found =
              events_.try_emplace(KeyOf(action, row.stage)).first;
          if (++found->second.come <
              program_.shape.replicas[row.stage.value()]) {
            found->second.waiting.push_back(index);
            return;
          }
          for (const size_t waiting : found->second.waiting) {
            ++next_[waiting];
            runnable_.push_back(waiting);
          }
          events_.erase(found);
          break;
        }
        default:
          break;
      }
      ++next_[index];
    }
  }

  const Program& program_;
  std::vector<size_t> next_;  // by row: the action that comes next
  std::vector<size_t> runnable_;
  absl::flat_hash_map<Key, Event> events_;
};

}  // namespace

absl::Status CheckProgress(const Program& program) {
  return Walk(program).Run();
}

}  // namespace pipework
