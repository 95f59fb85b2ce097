#include "scheduler/passes/row_peaks.h"

#include <catch2/catch.hpp>

#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::MustCompile;
using testing::SegmentOf;

TEST_CASE(
    "row peaks: 1f1b holds its distance from the end, units and versions") {
  const Program program =
      MustCompile("1f1b", ChainOf({1, 1, 1, 1}), SegmentOf(20));
  PeakBytes bytes;
  bytes.activation_bytes = {10, 20, 30, 40};
  bytes.version_bytes = {1, 2, 3, 4};
  for (int s = 0; s < 4; ++s) {
    CAPTURE(s);
    const RowPeaks peaks = PeaksOf(program, program.rows[s], bytes);
    CHECK(peaks.in_flight == 4 - s);
    CHECK(peaks.versions == 4 - s);
    CHECK(peaks.staleness == 3 - s);
    CHECK(peaks.pending == 0);
    // The last forward comes after the update, when the oldest version is
    // still read by the oldest unit.
    CHECK(peaks.peak_bytes == (4 - s) * 11 * (s + 1));
  }
}

TEST_CASE(
    "row peaks: flush holds one version, and no more units than there are") {
  const Program program =
      MustCompile("flush", ChainOf({1, 1, 1}), SegmentOf(3, 2));
  CHECK(PeaksOf(program, program.rows[0]).versions == 1);
  CHECK(PeaksOf(program, program.rows[0]).in_flight == 2);
  CHECK(PeaksOf(program, program.rows[2]).in_flight == 1);
  CHECK(PeaksOf(program, program.rows[0]).staleness == 0);
}

Action Compute(ActionKind kind, int64_t number, int64_t version,
               int chunk = 0) {
  Action action;
  action.kind = kind;
  action.number = number;
  action.version = WeightVersion{version};
  action.chunk = chunk;
  return action;
}

TEST_CASE("row peaks: a unit waits for its W after its B") {
  Program program;
  program.shape = ChainOf({1});
  program.segment = SegmentOf(1, 2);
  program.rows.push_back({StageId{0}, ReplicaId{0}, {}});
  for (const auto& [kind, number] : std::vector<std::pair<ActionKind, int>>{
           {ActionKind::kForward, 0},
           {ActionKind::kForward, 1},
           {ActionKind::kBackward, 0},
           {ActionKind::kBackward, 1},
           {ActionKind::kWeightGradient, 0},
           {ActionKind::kWeightGradient, 1}}) {
    program.rows[0].actions.push_back(Compute(kind, number, 0));
  }
  PeakBytes bytes;
  bytes.activation_bytes = {10};
  bytes.weight_gradient_bytes = {4};
  const RowPeaks peaks = PeaksOf(program, program.rows[0], bytes);
  CHECK(peaks.in_flight == 2);
  CHECK(peaks.pending == 2);
  CHECK(peaks.peak_bytes == 20);
  bytes.weight_gradient_bytes.clear();
  CHECK(PeaksOf(program, program.rows[0], bytes).peak_bytes == 20);
}

TEST_CASE("row peaks: a version is kept for a forward that reads it later") {
  // As in vertical sync: the forward of unit 1 reads version 0 after version 1
  // is there.
  Program program;
  program.shape = ChainOf({1});
  program.segment = SegmentOf(2);
  program.rows.push_back(
      {StageId{0},
       ReplicaId{0},
       {Compute(ActionKind::kForward, 0, 0),
        Compute(ActionKind::kBackward, 0, 0),
        Compute(ActionKind::kRelease, 0, -1),
        Compute(ActionKind::kUpdate, 0, 1), Compute(ActionKind::kForward, 1, 0),
        Compute(ActionKind::kBackward, 1, 0),
        Compute(ActionKind::kRelease, 1, -1),
        Compute(ActionKind::kUpdate, 1, 2)}});
  const RowPeaks peaks = PeaksOf(program, program.rows[0]);
  CHECK(peaks.versions == 2);
  CHECK(peaks.staleness == 1);
}

TEST_CASE("row peaks: a chunk holds its part of the stage") {
  Program program;
  program.shape = ChainOf({1});
  program.segment = SegmentOf(1);
  program.rows.push_back({StageId{0},
                          ReplicaId{0},
                          {Compute(ActionKind::kForward, 0, 0, 0),
                           Compute(ActionKind::kForward, 0, 0, 1)}});
  PeakBytes bytes;
  bytes.activation_bytes = {10};
  const RowPeaks peaks = PeaksOf(program, program.rows[0], bytes);
  CHECK(peaks.in_flight == 2);
  CHECK(peaks.peak_bytes == 10);
}

}  // namespace
}  // namespace pipework
