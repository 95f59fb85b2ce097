#include "scheduler/passes/link_queues.h"

#include <algorithm>

namespace pipework {

double LinkQueues::Enqueue(size_t id, size_t from, size_t to, double bytes,
                           double now) {
  const auto [found, fresh] = routes_.try_emplace({from, to});
  if (fresh) found->second = RouteOf(network_, from, to);
  Flight flight;
  flight.route = found->second;
  double begin = now;
  if (flight.route.level >= 0) {
    const Link& link = flight.route.link;
    if (link.bytes_per_second > 0) {
      flight.seconds = bytes / link.bytes_per_second;
    }
    double& free_at = up_[{flight.route.level, flight.route.from}];
    begin = std::max(now, free_at);
    free_at = begin + flight.seconds;
  }
  flight.sent = begin + flight.seconds;
  flights_.emplace(id, flight);
  return begin;
}

double LinkQueues::LeaveQueue(size_t id, double now) {
  const auto found = flights_.find(id);
  const Flight flight = found->second;
  flights_.erase(found);
  if (flight.route.level < 0) return now;
  double& free_at = down_[{flight.route.level, flight.route.to}];
  const double begin = std::max(now, free_at);
  free_at = std::max(begin + flight.seconds, flight.sent);
  return free_at + flight.route.link.latency_seconds;
}

}  // namespace pipework
