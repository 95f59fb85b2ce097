#include "scheduler/program.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "proto/check.h"

namespace pipework {
namespace {

// Rounds up; both are positive or zero.
int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Replicas of the stages before `stage`.
int WorkersBefore(const PipelineShape& shape, StageId stage) {
  int workers = 0;
  for (int t = 0; t < stage.value(); ++t) workers += shape.replicas[t];
  return workers;
}

// Sum of the rounds of the stages from `stage` on.
int64_t RoundsFrom(const PipelineShape& shape, int stage) {
  int64_t units = 0;
  for (int t = stage; t < shape.stages(); ++t) {
    units += shape.round(StageId{t});
  }
  return units;
}

// Where in a round the turns of one replica are, ascending.
std::vector<int> OwnTurns(const PipelineShape& shape, StageId stage,
                          ReplicaId replica) {
  if (!shape.has_shares(stage)) return {replica.value()};
  std::vector<int> own;
  const std::vector<int> turns = TurnsOf(shape, stage);
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i] == replica.value()) own.push_back(static_cast<int>(i));
  }
  return own;
}

// Units from turn i of `own` to the next one, over the end of the round.
int Step(const std::vector<int>& own, size_t i, int round) {
  return i + 1 < own.size() ? own[i + 1] - own[i] : own[0] + round - own[i];
}

bool IsCompute(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kWeightGradient || kind == ActionKind::kEvaluate;
}

}  // namespace

int PipelineShape::workers() const {
  int workers = 0;
  for (const int r : replicas) workers += r;
  return workers;
}

bool PipelineShape::has_shares(StageId stage) const {
  const size_t s = stage.value();
  return s < shares.size() && !shares[s].empty();
}

int PipelineShape::share(StageId stage, ReplicaId replica) const {
  return has_shares(stage) ? shares[stage.value()][replica.value()] : 1;
}

int PipelineShape::round(StageId stage) const {
  if (!has_shares(stage)) return replicas[stage.value()];
  int units = 0;
  for (const int share : shares[stage.value()]) units += share;
  return units;
}

std::vector<int> NormalShares(absl::Span<const int> shares) {
  int common = 0;
  for (const int share : shares) {
    if (share < 1) return {shares.begin(), shares.end()};
    common = std::gcd(common, share);
  }
  std::vector<int> normal;
  bool alike = true;
  for (const int share : shares) {
    normal.push_back(share / common);
    alike = alike && share == common;
  }
  return alike ? std::vector<int>{} : normal;
}

int RoundUnits(int replicas, absl::Span<const int> shares) {
  PipelineShape shape;
  shape.replicas = {std::max(1, replicas)};
  if (static_cast<int>(shares.size()) == replicas &&
      std::all_of(shares.begin(), shares.end(),
                  [](int share) { return share > 0; })) {
    shape.shares = {NormalShares(shares)};
  }
  return shape.round(StageId{0});
}

std::vector<int> TurnsOf(const PipelineShape& shape, StageId stage) {
  struct Wish {
    int replica;
    int64_t numerator;  // 2j + 1
    int64_t share;
  };
  std::vector<Wish> wishes;
  for (int q = 0; q < shape.replicas[stage.value()]; ++q) {
    const int share = shape.share(stage, ReplicaId{q});
    for (int j = 0; j < share; ++j) wishes.push_back({q, 2 * j + 1, share});
  }
  std::stable_sort(wishes.begin(), wishes.end(),
                   [](const Wish& a, const Wish& b) {
                     return a.numerator * b.share < b.numerator * a.share;
                   });
  std::vector<int> turns;
  for (const Wish& wish : wishes) turns.push_back(wish.replica);
  return turns;
}

int64_t Segment::first_version(StageId stage) const {
  if (first_versions.empty()) return 0;
  return first_versions[stage.value()];
}

const Row& Program::row(StageId stage, ReplicaId replica) const {
  const size_t index = WorkersBefore(shape, stage) + replica.value();
  PIPE_CHECK(index < rows.size());
  PIPE_CHECK(rows[index].stage == stage && rows[index].replica == replica);
  return rows[index];
}

ReplicaId Program::owner(StageId stage, int64_t unit) const {
  const int64_t turn = unit_is_microbatch ? unit % segment.microbatches : unit;
  if (!shape.has_shares(stage)) {
    return ReplicaId{static_cast<int>(turn % shape.replicas[stage.value()])};
  }
  const std::vector<int>& round = turns[stage.value()];
  return ReplicaId{round[turn % static_cast<int64_t>(round.size())]};
}

int64_t Program::units_per_update(StageId stage) const {
  return int64_t{segment.accumulate} *
         (unit_is_microbatch ? segment.microbatches : shape.round(stage));
}

int64_t Program::updates(StageId stage) const {
  if (segment.evaluation) return 0;
  return CeilDivide(segment.units(), units_per_update(stage));
}

UnitRange Program::units_of_update(StageId stage, int64_t update) const {
  const int64_t index = update - segment.first_version(stage);
  PIPE_CHECK(index >= 0 && index < updates(stage));
  const int64_t size = units_per_update(stage);
  const int64_t first = segment.first_unit();
  const int64_t end = first + segment.units();
  return {first + index * size, std::min(first + (index + 1) * size, end)};
}

std::vector<int64_t> Program::last_versions() const {
  std::vector<int64_t> versions;
  for (int s = 0; s < shape.stages(); ++s) {
    versions.push_back(segment.first_version(StageId{s}) + updates(StageId{s}));
  }
  return versions;
}

std::string RowName(const PipelineShape& shape, StageId stage,
                    ReplicaId replica) {
  if (shape.replicas[stage.value()] == 1) {
    return absl::StrCat("s", stage.value());
  }
  return absl::StrCat("s", stage.value(), ".r", replica.value());
}

std::string ToString(const Program& program, bool all) {
  size_t width = 0;
  for (const Row& row : program.rows) {
    width =
        std::max(width, RowName(program.shape, row.stage, row.replica).size());
  }
  std::string text;
  for (const Row& row : program.rows) {
    std::string name = RowName(program.shape, row.stage, row.replica);
    name.resize(width, ' ');
    absl::StrAppend(&text, name, " ");
    for (const Action& action : row.actions) {
      if (!all && !IsCompute(action.kind)) continue;
      absl::StrAppend(&text, " ", ToString(action, row.stage));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::vector<StageEdge> EdgesOf(const PipelineShape& shape) {
  std::vector<StageEdge> edges = shape.edges;
  if (edges.empty()) {
    for (int s = 0; s + 1 < shape.stages(); ++s) {
      edges.push_back({StageId{s}, StageId{s + 1}, true});
    }
  }
  std::sort(edges.begin(), edges.end(),
            [](const StageEdge& a, const StageEdge& b) {
              return a.from == b.from ? a.to < b.to : a.from < b.from;
            });
  return edges;
}

int RoundsInFlight(const PipelineShape& shape) {
  if (shape.stages() == 1) return 1;
  if (shape.in_flight != 0) return shape.in_flight;
  return static_cast<int>(
      CeilDivide(RoundsFrom(shape, 0), shape.round(StageId{0})));
}

int Lead(const PipelineShape& shape, StageId stage) {
  // The letters of the header.
  const int64_t N = RoundsFrom(shape, 0);
  const int64_t R0 = shape.round(StageId{0});
  const int64_t Rs = shape.round(stage);
  int64_t behind = RoundsFrom(shape, stage.value() + 1);
  if (behind == 0) return 0;
  const int64_t noam = CeilDivide(N, R0);
  const int64_t n = shape.in_flight == 0 ? noam : shape.in_flight;
  if (n <= noam) {
    behind -= (noam - n) * R0;
  } else {
    behind = behind * (N - R0 + (n - noam) * R0) / (N - R0);
  }
  return behind <= 0 ? 0 : static_cast<int>(behind + Rs - 1);
}

int Warmup(const PipelineShape& shape, StageId stage, ReplicaId replica) {
  const int round = shape.round(stage);
  const int lead = Lead(shape, stage);
  const std::vector<int> own = OwnTurns(shape, stage, replica);
  int most = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    int rest = lead % round;
    int begun = lead / round * static_cast<int>(own.size());
    for (size_t j = i; rest >= Step(own, j, round); ++begun) {
      rest -= Step(own, j, round);
      j = (j + 1) % own.size();
    }
    most = std::max(most, begun);
  }
  return most;
}

int Warmup(const PipelineShape& shape, StageId stage) {
  if (!shape.has_shares(stage)) return Warmup(shape, stage, ReplicaId{0});
  int most = 0;
  for (int q = 0; q < shape.replicas[stage.value()]; ++q) {
    most = std::max(most, Warmup(shape, stage, ReplicaId{q}));
  }
  return most;
}

int Versions(const PipelineShape& shape, StageId stage, int accumulate) {
  const int round = shape.round(stage);
  int shortest = round;
  if (shape.has_shares(stage)) {
    for (int q = 0; q < shape.replicas[stage.value()]; ++q) {
      const std::vector<int> own = OwnTurns(shape, stage, ReplicaId{q});
      for (size_t i = 0; i < own.size(); ++i) {
        shortest = std::min(shortest, Step(own, i, round));
      }
    }
  }
  const int lead = Lead(shape, stage);
  if (lead < shortest) return 1;
  return static_cast<int>((lead - shortest) / (int64_t{accumulate} * round)) +
         2;
}

}  // namespace pipework
