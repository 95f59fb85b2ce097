#include "daemon/coordinator/job_machine.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>

namespace pipework {
namespace {

using T = JobTrigger;

const v1::JobState kStates[] = {
    v1::QUEUED,     v1::PROFILING,  v1::RESERVING, v1::STARTING, v1::RUNNING,
    v1::RECOVERING, v1::CANCELLING, v1::SUCCEEDED, v1::FAILED,   v1::CANCELLED};

TEST_CASE("job machine: every pair of state and trigger is as written here") {
  // One row for each state, one letter for each trigger in the order of
  // kJobTriggers: where it leads, '.' is refused.
  const std::pair<v1::JobState, std::string> rows[] = {
      //                 admitted requeued placed ready connected finished
      //                 fault error cancel stopped
      {v1::QUEUED, "P......FC."},     {v1::PROFILING, ".QV...RFC."},
      {v1::RESERVING, "...S..RFC."},  {v1::STARTING, "....U.RFC."},
      {v1::RUNNING, ".....ORFC."},    {v1::RECOVERING, "..V....FC."},
      {v1::CANCELLING, ".........X"}, {v1::SUCCEEDED, ".........."},
      {v1::FAILED, ".........."},     {v1::CANCELLED, ".........."},
  };
  const auto letter = [](v1::JobState state) -> char {
    switch (state) {
      case v1::QUEUED:
        return 'Q';
      case v1::PROFILING:
        return 'P';
      case v1::RESERVING:
        return 'V';
      case v1::STARTING:
        return 'S';
      case v1::RUNNING:
        return 'U';
      case v1::RECOVERING:
        return 'R';
      case v1::CANCELLING:
        return 'C';
      case v1::SUCCEEDED:
        return 'O';
      case v1::FAILED:
        return 'F';
      case v1::CANCELLED:
        return 'X';
      default:
        return '?';
    }
  };
  for (const auto& [state, row] : rows) {
    size_t i = 0;
    for (JobTrigger trigger : kJobTriggers) {
      CAPTURE(v1::JobState_Name(state), JobTriggerName(trigger));
      const auto next = NextJobState(state, trigger);
      CHECK((next.has_value() ? letter(*next) : '.') == row[i++]);
    }
  }
}

TEST_CASE("job machine: no pair has two answers, and ends have none") {
  std::set<std::pair<int, int>> seen;
  for (const JobEdge& edge : JobEdges()) {
    CAPTURE(v1::JobState_Name(edge.from), JobTriggerName(edge.on));
    CHECK(seen.insert({edge.from, static_cast<int>(edge.on)}).second);
    CHECK_FALSE(IsTerminal(edge.from));
  }
}

TEST_CASE(
    "job machine: every state is reached from queued, and leads to an end") {
  std::set<v1::JobState> reached = {v1::QUEUED};
  for (size_t round = 0; round < 10; ++round) {
    for (const JobEdge& edge : JobEdges()) {
      if (reached.count(edge.from) > 0) reached.insert(edge.to);
    }
  }
  for (v1::JobState state : kStates) {
    CAPTURE(v1::JobState_Name(state));
    CHECK(reached.count(state) == 1);
    if (IsTerminal(state) || state == v1::CANCELLING) continue;
    CHECK(NextJobState(state, T::kError) == v1::FAILED);
    CHECK(NextJobState(state, T::kCancelAsked) == v1::CANCELLING);
  }
}

TEST_CASE("job machine: a fault sends a job with runners to recovering") {
  for (v1::JobState state : kStates) {
    CAPTURE(v1::JobState_Name(state));
    const bool can = NextJobState(state, T::kFault) == v1::RECOVERING;
    CHECK(can == (HasRunners(state) || state == v1::PROFILING));
  }
}

}  // namespace
}  // namespace pipework
