#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"
#include "scheduler/passes/refuse.h"
#include "scheduler/passes/validate.h"
#include "scheduler/versioning/policy.h"

namespace pipework {
namespace {

// Reads one row as the grammar
//   training    (<F* F >F* | <B* B >B* R | [A] U)* D [S]
//   evaluation  (<E* E >E*)*
// and keeps the books of units and versions beside it.
class RowReader {
 public:
  RowReader(const Program& program, const Policy& policy,
            const std::vector<StageEdge>& edges, const Row& row)
      : program_(program),
        policy_(policy),
        row_(row),
        own_(Owned()),
        warmup_(Warmup(program.shape, row.stage, row.replica)),
        newest_(program.segment.first_version(row.stage)) {
    for (const StageEdge& edge : edges) {
      if (edge.to == row.stage) {
        producers_.push_back(edge.from);
        if (edge.has_gradient) gradient_to_.push_back(edge.from);
      }
      if (edge.from == row.stage) {
        consumers_.push_back(edge.to);
        if (edge.has_gradient) gradient_from_.push_back(edge.to);
      }
    }
  }

  absl::Status Read() {
    const bool evaluation = program_.segment.evaluation;
    while (at_ < row_.actions.size()) {
      const Action& action = row_.actions[at_];
      switch (action.kind) {
        case ActionKind::kReceiveForward:
        case ActionKind::kForward:
        case ActionKind::kEvaluate:
          RETURN_IF_ERROR(ReadForward(action.number));
          break;
        case ActionKind::kReceiveBackward:
        case ActionKind::kBackward:
          if (evaluation) return Refuse("trains in an evaluation");
          RETURN_IF_ERROR(ReadBackward(action.number));
          break;
        case ActionKind::kAllReduce:
        case ActionKind::kUpdate:
          if (evaluation) return Refuse("trains in an evaluation");
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
  absl::Status Expect(ActionKind kind, int64_t number, int64_t unit,
                      StageId peer = StageId{0}) {
    const Segment& segment = program_.segment;
    Action wanted;
    wanted.kind = kind;
    wanted.number = number;
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
        kind == ActionKind::kEvaluate || kind == ActionKind::kUpdate;
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

  absl::Status ReadForward(int64_t unit) {
    const bool evaluation = program_.segment.evaluation;
    for (const StageId from : producers_) {
      RETURN_IF_ERROR(Expect(ActionKind::kReceiveForward, unit, unit, from));
    }
    if (forwards_ == own_.size() || own_[forwards_] != unit) {
      return Refuse(absl::StrCat("runs unit ", unit, " forward, expected ",
                                 forwards_ == own_.size()
                                     ? "no further unit"
                                     : absl::StrCat("unit ", own_[forwards_])));
    }
    const WeightVersion version =
        at_ < row_.actions.size() ? row_.actions[at_].version : WeightVersion{};
    RETURN_IF_ERROR(Expect(
        evaluation ? ActionKind::kEvaluate : ActionKind::kForward, unit, unit));
    ++forwards_;
    const int64_t wanted =
        evaluation
            ? newest_
            : policy_
                  .ForForward({WeightVersion{newest_}, WeightVersion{newest_},
                               WeightVersion{newest_}})
                  .value();
    if (version.value() != wanted) {
      --at_;
      return Refuse(absl::StrCat("reads version ", version.value(),
                                 " in the forward of unit ", unit,
                                 ", expected ", wanted));
    }
    if (!evaluation) {
      reads_.push_back(version.value());
      ++held_[version.value()];
      const size_t limit = warmup_ + 1;
      if (forwards_ - backwards_ > limit) {
        --at_;
        return Refuse(absl::StrCat("has ", forwards_ - backwards_,
                                   " units in flight, expected at most ",
                                   limit));
      }
    }
    for (const StageId to : consumers_) {
      RETURN_IF_ERROR(Expect(ActionKind::kSendForward, unit, unit, to));
    }
    return absl::OkStatus();
  }

  absl::Status ReadBackward(int64_t unit) {
    for (const StageId from : gradient_from_) {
      RETURN_IF_ERROR(Expect(ActionKind::kReceiveBackward, unit, unit, from));
    }
    if (backwards_ == forwards_ || own_[backwards_] != unit) {
      return Refuse(absl::StrCat(
          "runs unit ", unit, " backward, expected ",
          backwards_ == forwards_ ? "its forward first"
                                  : absl::StrCat("unit ", own_[backwards_])));
    }
    const UnitRange range = NextUpdate();
    if (unit >= range.end) {
      return Refuse(absl::StrCat("runs unit ", unit, " backward before U",
                                 newest_, ", which sums units ", range.begin,
                                 " to ", range.end - 1));
    }
    const WeightVersion version =
        at_ < row_.actions.size() ? row_.actions[at_].version : WeightVersion{};
    RETURN_IF_ERROR(Expect(ActionKind::kBackward, unit, unit));
    const int64_t read = reads_[backwards_];
    if (version.value() != read) {
      --at_;
      return Refuse(absl::StrCat("reads version ", version.value(),
                                 " in the backward of unit ", unit,
                                 ", expected ", read, " as in its forward"));
    }
    for (const StageId to : gradient_to_) {
      RETURN_IF_ERROR(Expect(ActionKind::kSendBackward, unit, unit, to));
    }
    RETURN_IF_ERROR(Expect(ActionKind::kRelease, unit, unit));
    ++backwards_;
    if (--held_[read] == 0) held_.erase(read);
    return absl::OkStatus();
  }

  absl::Status ReadUpdate() {
    const int64_t done = newest_ - program_.segment.first_version(row_.stage);
    if (done == program_.updates(row_.stage)) {
      return Refuse(
          absl::StrCat("updates once more, expected ", done, " updates"));
    }
    const UnitRange range = NextUpdate();
    if (backwards_ < own_.size() && own_[backwards_] < range.end) {
      return Refuse(absl::StrCat("updates before the backward of unit ",
                                 own_[backwards_]));
    }
    if (program_.shape.replicas[row_.stage.value()] > 1) {
      RETURN_IF_ERROR(Expect(ActionKind::kAllReduce, newest_, range.end - 1));
    }
    RETURN_IF_ERROR(Expect(ActionKind::kUpdate, newest_, range.end - 1));
    ++newest_;
    if (row_.actions[at_ - 1].version.value() != newest_) {
      --at_;
      return Refuse(absl::StrCat("writes version ",
                                 row_.actions[at_].version.value(),
                                 ", expected ", newest_));
    }
    const size_t held = held_.size() + 1;  // nobody has read the newest yet
    const size_t limit = policy_.MostVersions(program_.shape, row_.stage,
                                              program_.segment.accumulate);
    if (held > limit) {
      --at_;
      return Refuse(absl::StrCat("holds ", held,
                                 " weight versions, expected at most ", limit));
    }
    return absl::OkStatus();
  }

  absl::Status ReadEnd() {
    if (backwards_ < own_.size()) {
      return Refuse(
          absl::StrCat("drains before the ",
                       forwards_ == backwards_ ? "forward" : "backward",
                       " of unit ", own_[backwards_]));
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
    if (forwards_ < own_.size()) {
      return Refuse(
          absl::StrCat("ends before the forward of unit ", own_[forwards_]));
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
  const Row& row_;
  std::vector<StageId> producers_;
  std::vector<StageId> consumers_;
  std::vector<StageId> gradient_to_;
  std::vector<StageId> gradient_from_;
  const std::vector<int64_t> own_;  // units, ascending
  const size_t warmup_;
  size_t at_ = 0;
  size_t forwards_ = 0;
  size_t backwards_ = 0;
  int64_t newest_;
  std::vector<int64_t> reads_;   // by own unit: version of its forward
  std::map<int64_t, int> held_;  // version -> units in flight that read it
};

}  // namespace

absl::Status CheckRows(const Program& program) {
  ASSIGN_OR_RETURN(const Policy* policy, FindPolicy(program.weights));
  const std::vector<StageEdge> edges = EdgesOf(program.shape);
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
      RETURN_IF_ERROR(
          RowReader(program, *policy, edges, program.rows[next]).Read());
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
