// Makespans of published schedules on the simulator, against the closed forms
// of sections 5.1 and 5.2 of the algorithms. The orders of operations are
// written down here from the formulas, so the simulator is judged by itself.
#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/passes/row_peaks.h"
#include "scheduler/passes/simulate.h"
#include "scheduler/testing/programs.h"

namespace pipework {
namespace {

using testing::ChainOf;
using testing::SegmentOf;

struct Op {
  ActionKind kind;
  int64_t unit;
  int chunk = 0;
};

// Rows of compute operations, with the transfers between the virtual stages
// chunk * stages + stage around them.
Program WithTransfers(const std::vector<std::vector<Op>>& rows, int chunks,
                      int microbatches) {
  const int p = static_cast<int>(rows.size());
  Program program;
  program.unit_is_microbatch = true;
  program.shape = ChainOf(std::vector<int>(p, 1));
  program.segment = SegmentOf(1, microbatches);
  for (int s = 0; s < p; ++s) {
    Row row{StageId{s}, ReplicaId{0}, {}};
    for (const Op& op : rows[s]) {
      Action action;
      action.kind = op.kind;
      action.number = op.unit;
      action.chunk = op.chunk;
      const int here = op.chunk * p + s;
      // The receiver's chunk names a message.
      const auto transfer = [&](ActionKind kind, int there, int receiver) {
        if (there < 0 || there >= chunks * p || p == 1) return;
        Action moves = action;
        moves.kind = kind;
        moves.peer_stage = StageId{there % p};
        moves.chunk = receiver / p;
        row.actions.push_back(moves);
      };
      const bool forward = op.kind == ActionKind::kForward;
      const bool backward = op.kind == ActionKind::kBackward;
      if (forward) transfer(ActionKind::kReceiveForward, here - 1, here);
      if (backward) transfer(ActionKind::kReceiveBackward, here + 1, here);
      row.actions.push_back(action);
      if (forward) transfer(ActionKind::kSendForward, here + 1, here + 1);
      if (backward) transfer(ActionKind::kSendBackward, here - 1, here - 1);
    }
    program.rows.push_back(row);
  }
  return program;
}

ActionTimes TimesOf(int p, double forward, double backward, double weight = 0) {
  ActionTimes times;
  times.forward_seconds.assign(p, forward);
  times.backward_seconds.assign(p, backward);
  times.weight_gradient_seconds.assign(p, weight);
  return times;
}

Timeline MustSimulate(const Program& program, const ActionTimes& times) {
  absl::StatusOr<Timeline> timeline = Simulate(program, times);
  CAPTURE(timeline.status().ToString());
  REQUIRE(timeline.ok());
  return *std::move(timeline);
}

// Each worker's time from its first operation to its last, less its work.
std::vector<double> Idle(const Timeline& timeline) {
  std::vector<double> begin(timeline.busy_seconds.size(), 1e300);
  std::vector<double> end(timeline.busy_seconds.size(), 0);
  for (const Timeline::Span& span : timeline.spans) {
    begin[span.row] = std::min(begin[span.row], span.begin);
    end[span.row] = std::max(end[span.row], span.end);
  }
  std::vector<double> idle;
  for (size_t row = 0; row < begin.size(); ++row) {
    idle.push_back(end[row] - begin[row] - timeline.busy_seconds[row]);
  }
  return idle;
}

// ---- gpipe
// -------------------------------------------------------------------

TEST_CASE("makespan: every forward, then every backward: (m + P - 1)(F + B)") {
  for (const auto& [P, m] : std::vector<std::array<int, 2>>{{4, 8}, {3, 5}}) {
    std::vector<std::vector<Op>> rows(P);
    for (std::vector<Op>& row : rows) {
      for (int j = 0; j < m; ++j) row.push_back({ActionKind::kForward, j});
      for (int j = 0; j < m; ++j) row.push_back({ActionKind::kBackward, j});
    }
    const Timeline timeline =
        MustSimulate(WithTransfers(rows, 1, m), TimesOf(P, 1, 2));
    CHECK(timeline.makespan == (m + P - 1) * 3);
  }
}

// ---- interleaved 1F1B
// ----------------------------------------------------------

Program Interleaved(int p, int v, int m) {
  std::vector<std::vector<Op>> rows(p);
  for (int r = 0; r < p; ++r) {
    const auto op = [&](ActionKind kind, int k) {
      const int chunk = (k % (p * v)) / p;
      return Op{kind, (k / (p * v)) * p + k % p,
                kind == ActionKind::kForward ? chunk : v - 1 - chunk};
    };
    int warm = std::min(2 * (p - r - 1) + (v - 1) * p, m * v);
    if (m == p) warm = m * v;
    if (v == 1) warm = std::min(p - r - 1, m);
    for (int k = 0; k < warm; ++k) {
      rows[r].push_back(op(ActionKind::kForward, k));
    }
    for (int k = 0; k < m * v; ++k) {
      if (warm + k < m * v) {
        rows[r].push_back(op(ActionKind::kForward, warm + k));
      }
      rows[r].push_back(op(ActionKind::kBackward, k));
    }
  }
  return WithTransfers(rows, v, m);
}

TEST_CASE(
    "makespan: interleaved 1F1B, a forward 1 and a backward 2 per stage") {
  struct Golden {
    int p, v, m;
    double makespan;
  };
  for (const Golden& golden : std::vector<Golden>{{4, 1, 8, 33},
                                                  {4, 2, 4, 16.5},
                                                  {4, 2, 8, 28.5},
                                                  {4, 2, 16, 52.5},
                                                  {4, 4, 16, 50.25},
                                                  {8, 2, 16, 58.5},
                                                  {8, 4, 32, 101.25}}) {
    CAPTURE(golden.p, golden.v, golden.m);
    const Program program = Interleaved(golden.p, golden.v, golden.m);
    const Timeline timeline = MustSimulate(program, TimesOf(golden.p, 1, 2));
    CHECK(timeline.makespan == golden.makespan);
    // The bubble over the work is (p - 1) / (v m).
    const double work = golden.m * 3.0;
    CHECK(timeline.makespan / work - 1 ==
          Approx((golden.p - 1.0) / (golden.v * golden.m)));
  }
}

TEST_CASE("makespan: chunks in flight of interleaved 1F1B") {
  const Program program = Interleaved(4, 2, 8);
  std::vector<int> in_flight;
  for (Row row : program.rows) {
    // Without a pass that adds releases.
    std::vector<Action> actions;
    for (const Action& action : row.actions) {
      actions.push_back(action);
      if (action.kind != ActionKind::kBackward) continue;
      actions.push_back(action);
      actions.back().kind = ActionKind::kRelease;
    }
    row.actions = actions;
    in_flight.push_back(PeaksOf(program, row).in_flight);
  }
  CHECK(in_flight == std::vector<int>{11, 9, 7, 5});
}

TEST_CASE("makespan: a chunk may take more than its equal share") {
  const Program program = Interleaved(4, 2, 4);
  ActionTimes times = TimesOf(4, 1, 2);
  times.chunk_shares.assign(4, {0.5, 0.5});
  CHECK(Simulate(program, times)->makespan == 16.5);
  times.chunk_shares.assign(4, {0.25, 0.75});
  CHECK(Simulate(program, times)->makespan > 16.5);
  times.chunk_shares.pop_back();
  CHECK_FALSE(Simulate(program, times).ok());
}

TEST_CASE("makespan: chunks send from the last stage to the first") {
  // One microbatch: 2 v p - 2 messages of 1 beside its work.
  const Program program = Interleaved(4, 2, 4);
  ActionTimes times = TimesOf(4, 0, 0);
  times.transfer_seconds = {1, 1, 1};
  CHECK(Simulate(program, times)->makespan == 2 * (2 * 4 - 1));
}

// ---- zero bubble
// ---------------------------------------------------------------

// warm forwards, then per j: B_j, from j = lag on the oldest W, and a forward.
Program ZeroBubble(int p, int m, bool h2) {
  std::vector<std::vector<Op>> rows(p);
  for (int s = 0; s < p; ++s) {
    const int warm = std::min(m, h2 ? 2 * (p - s) - 1 : p - s);
    const int lag = std::min(m, h2 ? 2 * s : s);
    int forward = 0;
    int weight = 0;
    while (forward < warm) {
      rows[s].push_back({ActionKind::kForward, forward++});
    }
    for (int j = 0; j < m; ++j) {
      rows[s].push_back({ActionKind::kBackward, j});
      if (j >= lag) rows[s].push_back({ActionKind::kWeightGradient, weight++});
      if (forward < m) rows[s].push_back({ActionKind::kForward, forward++});
    }
    while (weight < m) {
      rows[s].push_back({ActionKind::kWeightGradient, weight++});
    }
  }
  return WithTransfers(rows, 1, m);
}

TEST_CASE("makespan: ZB-H1 idles (p - 1)(F + B - W)") {
  const Timeline unit =
      MustSimulate(ZeroBubble(4, 8, false), TimesOf(4, 1, 1, 1));
  CHECK(unit.makespan == 27);
  CHECK(Idle(unit) == std::vector<double>{3, 2, 1, 0});
  CHECK(MustSimulate(ZeroBubble(4, 12, false), TimesOf(4, 1, 1, 1)).makespan ==
        39);
  CHECK(MustSimulate(ZeroBubble(8, 24, false), TimesOf(8, 1, 1, 1)).makespan ==
        79);
  for (const int p : {4, 8}) {
    for (const int m : {8, 12, 24}) {
      for (const auto& [F, B, W] : std::vector<std::array<double, 3>>{
               {1, 1, 1}, {2, 2, 2}, {4, 5, 3}}) {
        CAPTURE(p, m, F, B, W);
        const std::vector<double> idle =
            Idle(MustSimulate(ZeroBubble(p, m, false), TimesOf(p, F, B, W)));
        CHECK(*std::max_element(idle.begin(), idle.end()) ==
              (p - 1) * (F + B - W));
      }
    }
  }
}

TEST_CASE("makespan: ZB-H2 idles (p - 1)(F + B - 2 W)") {
  const Timeline unit =
      MustSimulate(ZeroBubble(4, 8, true), TimesOf(4, 1, 1, 1));
  CHECK(unit.makespan == 27);
  CHECK(Idle(unit) == std::vector<double>{0, 0, 0, 0});
  CHECK(Idle(MustSimulate(ZeroBubble(4, 8, true), TimesOf(4, 4, 5, 3))) ==
        std::vector<double>{9, 6, 3, 0});
  const std::vector<double> idle =
      Idle(MustSimulate(ZeroBubble(8, 24, true), TimesOf(8, 1, 1, 1)));
  CHECK(*std::max_element(idle.begin(), idle.end()) == 0);
  // Too few microbatches to fill it.
  const std::vector<double> few =
      Idle(MustSimulate(ZeroBubble(8, 8, true), TimesOf(8, 1, 1, 1)));
  CHECK(*std::max_element(few.begin(), few.end()) == 7);
}

TEST_CASE("makespan: what zero bubble holds, forwards and pending weights") {
  const auto peaks = [](bool h2) {
    const Program program = ZeroBubble(4, 8, h2);
    std::vector<std::pair<int, int>> list;
    for (const Row& row : program.rows) {
      const RowPeaks peaks = PeaksOf(program, row);
      list.emplace_back(peaks.in_flight, peaks.pending);
    }
    return list;
  };
  CHECK(peaks(false) ==
        std::vector<std::pair<int, int>>{{4, 1}, {3, 2}, {2, 3}, {1, 4}});
  CHECK(peaks(true) ==
        std::vector<std::pair<int, int>>{{7, 1}, {5, 3}, {3, 5}, {1, 7}});
}

}  // namespace
}  // namespace pipework
