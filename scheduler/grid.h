// A program for the eye: text grid, SVG, and the message of
// `pipectl schedule -o json`. A forward lasts 1, a backward 2 (where it is
// split: B and W 1 each), a chunk its part of that, the rest 0.
#ifndef PIPEWORK_SCHEDULER_GRID_H_
#define PIPEWORK_SCHEDULER_GRID_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "scheduler/program.h"

namespace pipework {

// Time from left to right, a line for each stage replica, 80 columns at most;
// a long program continues in further blocks:
//
//   s0  F0 F1 .  .  B0--- F2 B1--- .  B2---
//   s1  .  F0 B0--- F1 B1--- .  F2 B2--- .
//
// InvalidArgument: the program waits for ever.
absl::StatusOr<std::string> TextGrid(const Program& program);

// The same as a picture of its own: forwards blue, backwards green, weight
// gradients amber, idle grey.
absl::StatusOr<std::string> SvgGrid(const Program& program);

// Rows, makespan, bubble, and per stage: most units in flight, most versions
// held, staleness in steady state.
absl::StatusOr<v1::Schedule> ToSchedule(const Program& program);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_GRID_H_
