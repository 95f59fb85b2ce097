// The links of a network in time: who waits for which, until when.
#ifndef PIPEWORK_SCHEDULER_PASSES_LINK_QUEUES_H_
#define PIPEWORK_SCHEDULER_PASSES_LINK_QUEUES_H_

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "scheduler/passes/network.h"

namespace pipework {

// A message goes through two queues: that of its up-link, then that of its
// down-link, which it joins when its first byte is sent. REQUIRES: the calls
// come in order of time; `network` outlives it.
class LinkQueues {
 public:
  explicit LinkQueues(const Network& network) : network_(network) {}

  // Row `from` sends message `id`. Returns when its first byte is sent, `now`
  // or later.
  double Enqueue(size_t id, size_t from, size_t to, double bytes, double now);

  // To be called at that time. Returns when the message has come.
  double LeaveQueue(size_t id, double now);

 private:
  struct Flight {
    Route route;
    double seconds = 0;  // that it takes a link
    double sent = 0;     // its last byte is
  };
  // Level and component -> when the link is free.
  using Links = absl::flat_hash_map<std::pair<int, int>, double>;

  const Network& network_;
  absl::flat_hash_map<std::pair<size_t, size_t>, Route> routes_;
  absl::flat_hash_map<size_t, Flight> flights_;  // by id
  Links up_;
  Links down_;
};

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_LINK_QUEUES_H_
