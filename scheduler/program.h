// A program: what every stage replica does in one segment, in order.
//
// A segment is the work between two drains: an epoch, or less where a
// checkpoint or an evaluation falls inside it. Programs are compiled segment
// by segment, by the same pure function on every node, so a run of any length
// costs the memory of one segment.
#ifndef PIPEWORK_SCHEDULER_PROGRAM_H_
#define PIPEWORK_SCHEDULER_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/ids.h"
#include "scheduler/action.h"

namespace pipework {

// Tensors go from stage `from` to stage `to`. Labels and integer tensors have
// no gradient.
struct StageEdge {
  StageId from;
  StageId to;
  bool has_gradient = true;
};

// The pipeline that a program runs on.
struct PipelineShape {
  std::vector<int> replicas;     // of each stage, in stage order
  std::vector<StageEdge> edges;  // empty: a chain
  int in_flight = 0;             // rounds admitted by stage 0; 0: NOAM
  // Units of a round that each replica of a stage runs, by stage and replica;
  // a stage without an entry: one each.
  std::vector<std::vector<int>> shares;
  // Parts that each stage's layers are in (interleaved schedules): chunk c of
  // stage s of P is virtual stage c P + s, or, where `folded`, for odd c
  // (c + 1) P - 1 - s. See chunks.h.
  int chunks = 1;
  bool folded = false;

  int stages() const { return static_cast<int>(replicas.size()); }
  int workers() const;  // sum of replicas
  // Of a stage: whether it has shares, the share of a replica, and the units of
  // a round, which are the sum of the shares.
  bool has_shares(StageId stage) const;
  int share(StageId stage, ReplicaId replica) const;
  int round(StageId stage) const;
};

// The same shares with nothing in common: 4, 2 is 2, 1. Empty where all are
// alike; unchanged where one of them is not positive.
std::vector<int> NormalShares(absl::Span<const int> shares);

// Units of a round of a stage with these replicas and shares: what `round` says
// of a shape. Takes what a user wrote; shares that make no sense count as none.
int RoundUnits(int replicas, absl::Span<const int> shares);

// The replica of each unit of a round. Replica q with a share of n wants its
// unit j (from 0) at (2j + 1) / 2n of the round; units are given in this order,
// to the lower replica where two want the same. So each is spread evenly, and
// shares of one each are replicas 0, 1, ... in turn. 2, 1 is 0 1 0; 3, 1 is
// 0 0 1 0.
std::vector<int> TurnsOf(const PipelineShape& shape, StageId stage);

// Which units a segment runs, and from where it counts.
struct Segment {
  int64_t first_minibatch = 0;  // numbered through the run
  int64_t minibatches = 0;
  int microbatches = 1;  // per minibatch; 1 for asynchronous schedules
  int accumulate = 1;    // rounds of minibatches per update
  std::vector<int64_t> first_versions;  // of each stage; empty: all 0
  bool evaluation = false;  // E instead of F, B, U; units start at 0
  bool save = false;        // ends with S after the drain

  // An evaluation takes whole minibatches, whatever the schedule takes.
  int64_t units() const {
    return evaluation ? minibatches : minibatches * microbatches;
  }
  int64_t first_unit() const {
    return evaluation ? 0 : first_minibatch * microbatches;
  }
  // Version of stage s before the segment.
  int64_t first_version(StageId stage) const;
};

// Units begin..end-1, numbered through the run.
struct UnitRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

struct Row {
  StageId stage;
  ReplicaId replica;
  std::vector<Action> actions;
};

struct Program {
  std::string schedule;
  std::string weights;
  bool unit_is_microbatch = false;
  PipelineShape shape;
  Segment segment;
  std::vector<Row> rows;  // by stage, then replica
  // TurnsOf each stage that has shares, by stage.
  std::vector<std::vector<int>> turns;

  // REQUIRES: the row exists.
  const Row& row(StageId stage, ReplicaId replica) const;
  // The replica that runs `unit`, forward and backward: unit mod r_s, or the
  // turn of unit mod the round where the stage has shares. Where units are
  // microbatches, the same of the microbatch within its minibatch.
  ReplicaId owner(StageId stage, int64_t unit) const;
  // The units of all replicas whose gradients update `update` sums. Numbered
  // as U is: through the run. REQUIRES: the update is one of this segment's.
  UnitRange units_of_update(StageId stage, int64_t update) const;
  // Units of all replicas that a full update of the stage sums.
  int64_t units_per_update(StageId stage) const;
  // Updates of the stage in this segment.
  int64_t updates(StageId stage) const;
  // Versions of each stage after this segment.
  std::vector<int64_t> last_versions() const;
};

// One row a line: "s0  F0 F1 B0 ..."; with replicas "s0.r1  F1 ...". Without
// `all` as the papers print it: F, B, W and E only.
std::string ToString(const Program& program, bool all = false);

// "s0", or "s0.r1" where the stage has replicas.
std::string RowName(const PipelineShape& shape, StageId stage,
                    ReplicaId replica);

// The edges of `shape`, by producer, then consumer; a chain where it has none.
std::vector<StageEdge> EdgesOf(const PipelineShape& shape);

// What in_flight says, or NOAM = ceil(N / R_0); N is the sum of all rounds, R_s
// the round of stage s, which is its number of replicas where it has no shares.
// 1 where there is but one stage.
int RoundsInFlight(const PipelineShape& shape);

// 1F1B of PipeDream, algorithms of section 1.4, counted in units instead of
// a replica's own turns, so that it holds for shares as well: a replica of
// stage s may begin its unit u while its oldest unfinished unit is u - Lead or
// later,
//
//   Lead(s) = N - 1 - sum over t < s of R_t,  but 0 on the last stage.
//
// With one unit each that is the paper's
//
//   warm(s) = floor((N - 1 - sum over t < s of r_t) / r_s)
//
// forwards before the alternating phase. A smaller in_flight n takes (NOAM - n)
// R_0 units off every stage, to 0 where no more than R_s - 1 are left; with 1
// every stage finishes a unit before it begins the next. A larger one deepens
// each stage in proportion to the units behind it, which hides transfers.
//
// Nothing waits for ever, whatever the turns: before F(u) a replica of stage t
// waits for the backwards of its own units before u - Lead(t), and with the
// all-reduce after them for those of others, less than a round later: all
// before u - Lead(t) + R_t - 1. Before B(k) a later stage s wants F(u) of stage
// t for no u above k + Lead(s), and Lead(s) <= Lead(t) - R_t: only units before
// k are waited for. Where Lead(s) is 0 that is so because a round that F(u)
// waits for ends before u.
int Lead(const PipelineShape& shape, StageId stage);

// Most units of its own that a replica has begun beside its oldest, and the
// most of all replicas of the stage.
int Warmup(const PipelineShape& shape, StageId stage, ReplicaId replica);
int Warmup(const PipelineShape& shape, StageId stage);

// Most weight versions that a replica of stage s holds under stashing, the
// newest included: one more than the updates that its Lead reaches across,
//
//   floor((Lead(s) - shortest) / (accumulate R_s)) + 2,  or 1 where negative,
//
// shortest being the fewest units from one of a replica's own to its next. With
// one unit each ceil(warm(s) / accumulate) + 1.
int Versions(const PipelineShape& shape, StageId stage, int accumulate = 1);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PROGRAM_H_
