// Messages that have been sent and not taken.
#ifndef PIPEWORK_SCHEDULER_PASSES_CHANNEL_H_
#define PIPEWORK_SCHEDULER_PASSES_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/action.h"

namespace pipework {

// Messages of one kind from one stage to another that have not been taken,
// oldest first, and who waits for one. A row nearly always takes the oldest.
struct Channel {
  struct Pending {
    int64_t number;
    int chunk;
    double arrival;
  };
  struct Waiting {
    int64_t number;
    int chunk;
    size_t row;
  };
  int from = 0;
  ActionKind kind = ActionKind::kSendForward;
  std::vector<Pending> pending;  // from `head` on
  size_t head = 0;
  std::vector<Waiting> waiting;

  Pending* Find(int64_t number, int chunk) {
    for (size_t i = head; i < pending.size(); ++i) {
      if (pending[i].number == number && pending[i].chunk == chunk) {
        return &pending[i];
      }
    }
    return nullptr;
  }

  void Take(Pending* taken) {
    const size_t index = taken - pending.data();
    if (index != head) {
      pending.erase(pending.begin() + index);
      return;
    }
    if (++head == pending.size()) {
      pending.clear();
      head = 0;
    } else if (head >= 64 && 2 * head > pending.size()) {
      pending.erase(pending.begin(), pending.begin() + head);
      head = 0;
    }
  }
};

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_CHANNEL_H_
