#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"
#include "scheduler/chunks.h"
#include "scheduler/passes/assign_versions.h"
#include "scheduler/passes/refuse.h"
#include "scheduler/passes/validate.h"
#include "scheduler/schedules/schedule.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

// Reads one row as the grammar
//   training    (<F* F >F* | <B* B >B* [R] | W R | [A] U)* D [S]
//   evaluation  (<E* E >E*)*
// and keeps the books of units and versions beside it. R follows B, or W where
// the schedule splits the backward.
class RowReader {
 public:
  struct Tables {
    const Policy& policy;
    const ScheduleEntry& schedule;
    const std::vector<StageEdge>& edges;
    const std::vector<int64_t>& updates_at_entry;
  };

  RowReader(const Program& program, const Tables& tables, const Row& row)
      : program_(program),
        policy_(tables.policy),
        updates_at_entry_(tables.updates_at_entry),
        row_(row),
        own_(Owned()),
        to_come_(OldestToCome(row)),
        limit_(tables.schedule.in_flight(program.shape, program.segment,
                                         row.stage)),
        newest_(program.segment.first_version(row.stage)),
        oldest_(newest_) {
    for (int c = 0; c < program.shape.chunks; ++c) {
      chunks_.push_back(
          {NeighboursOf(program.shape, tables.edges, row.stage, c), {}});
    }
    for (const Action& action : row.actions) {
      split_ = split_ || action.kind == ActionKind::kWeightGradient;
    }
  }

  absl::Status Read() {
    const bool evaluation = program_.segment.evaluation;
    while (at_ < row_.actions.size()) {
      const Action& action = row_.actions[at_];
      if (action.chunk < 0 || action.chunk >= program_.shape.chunks) {
        return Refuse(absl::StrCat("has ", Shown(action), ", expected chunks ",
                                   "below ", program_.shape.chunks));
      }
      const bool trains = action.kind == ActionKind::kReceiveBackward ||
                          action.kind == ActionKind::kBackward ||
                          action.kind == ActionKind::kWeightGradient ||
                          action.kind == ActionKind::kAllReduce ||
                          action.kind == ActionKind::kUpdate;
      if (evaluation && trains) return Refuse("trains in an evaluation");
      switch (action.kind) {
        case ActionKind::kReceiveForward:
        case ActionKind::kForward:
        case ActionKind::kEvaluate:
          RETURN_IF_ERROR(ReadForward(action.number, action.chunk));
          break;
        case ActionKind::kReceiveBackward:
        case ActionKind::kBackward:
          RETURN_IF_ERROR(ReadBackward(action.number, action.chunk));
          break;
        case ActionKind::kWeightGradient:
          RETURN_IF_ERROR(ReadWeightGradient(action.number, action.chunk));
          break;
        case ActionKind::kAllReduce:
        case ActionKind::kUpdate:
          RETURN_IF_ERROR(ReadUpdate());
          break;
        case ActionKind::kDrain:
          if (evaluation) return Refuse("drains in an evaluation");
          RETURN_IF_ERROR(ReadEnd());
          return AtEnd();
        default:
          return Refuse(absl::StrCat("has ", Shown(action), " out of place"));
      }
    }
    if (!evaluation) return Refuse("ends without a drain");
    return AtEnd();
  }

 private:
  // What has been done of one chunk: counts of own units, each ascending.
  struct Chunk {
    Neighbours around;
    std::vector<int64_t> reads;  // by own unit: version of its forward
    size_t forwards = 0;
    size_t backwards = 0;
    size_t released = 0;
  };

  std::vector<int64_t> Owned() const {
    std::vector<int64_t> units;
    const int64_t first = program_.segment.first_unit();
    for (int64_t u = first; u < first + program_.segment.units(); ++u) {
      if (program_.owner(row_.stage, u) == row_.replica) units.push_back(u);
    }
    return units;
  }

  std::string Shown(const Action& action) const {
    return ToString(action, row_.stage);
  }

  absl::Status Refuse(absl::string_view problem) const {
    return RefuseRow(program_, row_, at_, problem);
  }

  // The next action is `kind` of `number`, and goes to or comes from `peer`.
  absl::Status Expect(ActionKind kind, int64_t number, int64_t unit, int chunk,
                      StageId peer = StageId{0}) {
    const Segment& segment = program_.segment;
    Action wanted;
    wanted.kind = kind;
    wanted.number = number;
    wanted.chunk = chunk;
    const int64_t m = program_.unit_is_microbatch ? segment.microbatches : 1;
    wanted.minibatch = MinibatchId{unit / m};
    wanted.microbatch = MicrobatchId{static_cast<int>(unit % m)};
    if (IsTransfer(kind)) {
      wanted.peer_stage = peer;
      wanted.peer_replica = program_.owner(peer, unit);
      wanted.evaluation = segment.evaluation;
    }
    if (at_ == row_.actions.size()) {
      return Refuse(absl::StrCat("ends, expected ", Shown(wanted)));
    }
    const Action& got = row_.actions[at_];
    const bool versioned =
        kind == ActionKind::kForward || kind == ActionKind::kBackward ||
        kind == ActionKind::kWeightGradient || kind == ActionKind::kEvaluate ||
        kind == ActionKind::kUpdate;
    if (versioned) wanted.version = got.version;  // the caller looks at it
    if (!(got == wanted)) {
      const bool named = Shown(got) != Shown(wanted);
      return Refuse(absl::StrCat(
          "has ", Shown(got), ", expected ", Shown(wanted),
          named ? "" : " with another minibatch, replica or version"));
    }
    ++at_;
    return absl::OkStatus();
  }

  // Transfers of `chunk` between it and `peers`, none within the stage.
  absl::Status ExpectTransfers(ActionKind kind, int64_t unit, int chunk,
                               const std::vector<Neighbour>& peers) {
    const bool receives = kind == ActionKind::kReceiveForward ||
                          kind == ActionKind::kReceiveBackward;
    const bool backward = kind == ActionKind::kReceiveBackward ||
                          kind == ActionKind::kSendBackward;
    for (const Neighbour& peer : peers) {
      if (peer.stage == row_.stage || (backward && !peer.has_gradient)) {
        continue;
      }
      RETURN_IF_ERROR(
          Expect(kind, unit, unit, receives ? chunk : peer.chunk, peer.stage));
    }
    return absl::OkStatus();
  }

  VersionQuery Query(int64_t unit) const {
    VersionQuery query =
        QueryOf(program_, row_.stage, unit,
                updates_at_entry_[unit - program_.segment.first_unit()]);
    query.newest = WeightVersion{newest_};
    return query;
  }

  // The action that was just read reads `wanted`.
  absl::Status ExpectVersion(absl::string_view pass, WeightVersion wanted,
                             bool as_forward) {
    --at_;
    const Action& got = row_.actions[at_];
    if (got.version != wanted) {
      return Refuse(absl::StrCat("reads version ", got.version.value(),
                                 " in the ", pass, " of unit ", got.number,
                                 ", expected ", wanted.value(),
                                 as_forward ? " as in its forward" : ""));
    }
    if (got.version.value() < oldest_ || got.version.value() > newest_) {
      return Refuse(absl::StrCat("reads version ", got.version.value(),
                                 " in the ", pass, " of unit ", got.number,
                                 ", expected one that is held, ",
                                 std::min(oldest_, newest_), " to ", newest_));
    }
    ++at_;
    return absl::OkStatus();
  }

  absl::Status ReadForward(int64_t unit, int c) {
    const bool evaluation = program_.segment.evaluation;
    Chunk& chunk = chunks_[c];
    RETURN_IF_ERROR(ExpectTransfers(ActionKind::kReceiveForward, unit, c,
                                    chunk.around.producers));
    if (chunk.forwards == own_.size() || own_[chunk.forwards] != unit) {
      return Refuse(
          absl::StrCat("runs unit ", unit, " forward, expected ",
                       chunk.forwards == own_.size()
                           ? "no further unit"
                           : absl::StrCat("unit ", own_[chunk.forwards])));
    }
    for (const Neighbour& from : chunk.around.producers) {
      if (from.stage == row_.stage &&
          chunks_[from.chunk].forwards <= chunk.forwards) {
        return Refuse(absl::StrCat("runs chunk ", c, " of unit ", unit,
                                   " before chunk ", from.chunk));
      }
    }
    RETURN_IF_ERROR(
        Expect(evaluation ? ActionKind::kEvaluate : ActionKind::kForward, unit,
               unit, c));
    ++chunk.forwards;
    if (evaluation) {
      RETURN_IF_ERROR(ExpectVersion("forward", WeightVersion{newest_}, false));
    } else {
      VersionQuery query = Query(unit);
      query.forward_read = query.newest;
      RETURN_IF_ERROR(
          ExpectVersion("forward", policy_.ForForward(query), false));
      chunk.reads.push_back(row_.actions[at_ - 1].version.value());
      if (++in_flight_ > limit_) {
        --at_;
        return Refuse(absl::StrCat(
            "has ", in_flight_, " units in flight, expected at most ", limit_));
      }
    }
    return ExpectTransfers(ActionKind::kSendForward, unit, c,
                           chunk.around.consumers);
  }

  absl::Status ReadBackward(int64_t unit, int c) {
    Chunk& chunk = chunks_[c];
    RETURN_IF_ERROR(ExpectTransfers(ActionKind::kReceiveBackward, unit, c,
                                    chunk.around.consumers));
    if (chunk.backwards == chunk.forwards || own_[chunk.backwards] != unit) {
      return Refuse(
          absl::StrCat("runs unit ", unit, " backward, expected ",
                       chunk.backwards == chunk.forwards
                           ? "its forward first"
                           : absl::StrCat("unit ", own_[chunk.backwards])));
    }
    for (const Neighbour& from : chunk.around.consumers) {
      if (from.stage == row_.stage &&
          chunks_[from.chunk].backwards <= chunk.backwards) {
        return Refuse(absl::StrCat("runs chunk ", c, " of unit ", unit,
                                   " backward before chunk ", from.chunk));
      }
    }
    const UnitRange range = NextUpdate();
    if (unit >= range.end) {
      return Refuse(absl::StrCat("runs unit ", unit, " backward before U",
                                 newest_, ", which sums units ", range.begin,
                                 " to ", range.end - 1));
    }
    RETURN_IF_ERROR(Expect(ActionKind::kBackward, unit, unit, c));
    RETURN_IF_ERROR(
        ExpectBackwardVersion("backward", unit, chunk.reads[chunk.backwards]));
    RETURN_IF_ERROR(ExpectTransfers(ActionKind::kSendBackward, unit, c,
                                    chunk.around.producers));
    ++chunk.backwards;
    return split_ ? absl::OkStatus() : ReadRelease(unit, c);
  }

  absl::Status ReadWeightGradient(int64_t unit, int c) {
    Chunk& chunk = chunks_[c];
    if (chunk.released == chunk.backwards || own_[chunk.released] != unit) {
      return Refuse(
          absl::StrCat("runs the weight gradient of unit ", unit, ", expected ",
                       chunk.released == chunk.backwards
                           ? "its backward first"
                           : absl::StrCat("unit ", own_[chunk.released])));
    }
    RETURN_IF_ERROR(Expect(ActionKind::kWeightGradient, unit, unit, c));
    RETURN_IF_ERROR(ExpectBackwardVersion("weight gradient", unit,
                                          chunk.reads[chunk.released]));
    return ReadRelease(unit, c);
  }

  absl::Status ExpectBackwardVersion(absl::string_view pass, int64_t unit,
                                     int64_t read) {
    VersionQuery query = Query(unit);
    query.forward_read = WeightVersion{read};
    const WeightVersion wanted = policy_.ForBackward(query);
    return ExpectVersion(pass, wanted, wanted == query.forward_read);
  }

  absl::Status ReadRelease(int64_t unit, int c) {
    RETURN_IF_ERROR(Expect(ActionKind::kRelease, unit, unit, c));
    ++chunks_[c].released;
    --in_flight_;
    return absl::OkStatus();
  }

  // The first own unit that is not released on every chunk; -1: none.
  int64_t FirstUnreleased() const {
    size_t least = own_.size();
    for (const Chunk& chunk : chunks_) {
      least = std::min(least, chunk.released);
    }
    return least == own_.size() ? -1 : own_[least];
  }

  absl::Status ReadUpdate() {
    const int64_t done = newest_ - program_.segment.first_version(row_.stage);
    if (done == program_.updates(row_.stage)) {
      return Refuse(
          absl::StrCat("updates once more, expected ", done, " updates"));
    }
    const UnitRange range = NextUpdate();
    const int64_t left = FirstUnreleased();
    if (left >= 0 && left < range.end) {
      return Refuse(absl::StrCat("updates before the backward of unit ", left));
    }
    if (program_.shape.replicas[row_.stage.value()] > 1) {
      RETURN_IF_ERROR(
          Expect(ActionKind::kAllReduce, newest_, range.end - 1, 0));
    }
    RETURN_IF_ERROR(Expect(ActionKind::kUpdate, newest_, range.end - 1, 0));
    // The books of a weight store.
    Flight flight;
    flight.newest = WeightVersion{newest_};
    for (const Chunk& chunk : chunks_) {
      for (size_t i = chunk.released; i < chunk.forwards; ++i) {
        flight.forward_reads.push_back(WeightVersion{chunk.reads[i]});
      }
    }
    flight.oldest_to_come = to_come_[at_ - 1];
    ++newest_;
    oldest_ = std::max(
        oldest_,
        std::min(newest_, policy_.OldestStillAskedFor(flight).value()));
    if (row_.actions[at_ - 1].version.value() != newest_) {
      --at_;
      return Refuse(absl::StrCat("writes version ",
                                 row_.actions[at_].version.value(),
                                 ", expected ", newest_));
    }
    const int64_t held = newest_ - oldest_ + 1;
    const int64_t most = policy_.MostVersions(program_.shape, row_.stage,
                                              program_.segment.accumulate);
    if (held > most) {
      --at_;
      return Refuse(absl::StrCat("holds ", held,
                                 " weight versions, expected at most ", most));
    }
    return absl::OkStatus();
  }

  absl::Status ReadEnd() {
    if (const int64_t left = FirstUnreleased(); left >= 0) {
      return Refuse(absl::StrCat("drains before the backward of unit ", left));
    }
    const int64_t done = newest_ - program_.segment.first_version(row_.stage);
    if (done < program_.updates(row_.stage)) {
      return Refuse(absl::StrCat("drains before U", newest_));
    }
    Action wanted;
    wanted.minibatch = MinibatchId{program_.segment.first_minibatch +
                                   program_.segment.minibatches};
    for (const ActionKind kind : {ActionKind::kDrain, ActionKind::kSave}) {
      if (kind == ActionKind::kSave && !program_.segment.save) break;
      wanted.kind = kind;
      if (at_ == row_.actions.size() || !(row_.actions[at_] == wanted)) {
        return Refuse("ends otherwise, expected D, then S where it saves");
      }
      ++at_;
    }
    return absl::OkStatus();
  }

  absl::Status AtEnd() {
    if (at_ < row_.actions.size()) return Refuse("goes on after its end");
    for (const Chunk& chunk : chunks_) {
      if (chunk.forwards == own_.size()) continue;
      return Refuse(absl::StrCat("ends before the forward of unit ",
                                 own_[chunk.forwards]));
    }
    return absl::OkStatus();
  }

  UnitRange NextUpdate() const {
    const int64_t first = program_.segment.first_version(row_.stage);
    if (newest_ - first == program_.updates(row_.stage)) return {0, 0};
    return program_.units_of_update(row_.stage, newest_);
  }

  const Program& program_;
  const Policy& policy_;
  const std::vector<int64_t>& updates_at_entry_;
  const Row& row_;
  const std::vector<int64_t> own_;            // units, ascending
  const std::vector<WeightVersion> to_come_;  // by action
  const int64_t limit_;                       // units in flight
  std::vector<Chunk> chunks_;
  bool split_ = false;  // backward in B and W
  size_t at_ = 0;
  int64_t in_flight_ = 0;
  int64_t newest_;
  int64_t oldest_;  // held
};

}  // namespace

absl::Status CheckRows(const Program& program) {
  ASSIGN_OR_RETURN(const Policy* policy, FindPolicy(program.weights));
  ASSIGN_OR_RETURN(const ScheduleEntry* schedule,
                   FindSchedule(program.schedule));
  const std::vector<StageEdge> edges = EdgesOf(program.shape);
  const std::vector<int64_t> entries = UpdatesAtEntry(program);
  const RowReader::Tables tables = {*policy, *schedule, edges, entries};
  size_t next = 0;
  for (int s = 0; s < program.shape.stages(); ++s) {
    for (int q = 0; q < program.shape.replicas[s]; ++q) {
      if (next == program.rows.size() ||
          program.rows[next].stage != StageId{s} ||
          program.rows[next].replica != ReplicaId{q}) {
        return absl::InvalidArgumentError(
            absl::StrCat("schedule: row ", next, " is not that of stage ", s,
                         " replica ", q, ", expected one row for each"));
      }
      RETURN_IF_ERROR(RowReader(program, tables, program.rows[next]).Read());
      ++next;
    }
  }
  if (next != program.rows.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule: ", program.rows.size(), " rows, expected ", next));
  }
  return absl::OkStatus();
}

}  // namespace pipework
