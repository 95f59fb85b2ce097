#include "daemon/oracle/oracle.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// ---- plain
// -------------------------------------------------------------------

// Whether `unit` ends a group whose gradients make one update of stage `s`;
// `first` and `end` are the minibatches of the segment.
bool EndsGroup(const Network& network, int s, int64_t unit, int64_t first,
               int64_t end) {
  const int64_t per_minibatch = network.units_per_minibatch();
  if (unit + 1 == end * per_minibatch) return true;
  // Microbatches are updated after whole minibatches; else a group has
  // `accumulate` rounds of all replicas.
  const int64_t group = network.takes_microbatches()
                            ? network.accumulate() * per_minibatch
                            : network.accumulate() * network.units_per_round(s);
  return (unit - first * per_minibatch + 1) % group == 0;
}

absl::Status TrainSegment(Network& network, int64_t first, int64_t end) {
  const int64_t per_minibatch = network.units_per_minibatch();
  for (int64_t unit = first * per_minibatch; unit < end * per_minibatch;
       ++unit) {
    for (int s = 0; s < network.stages(); ++s) {
      RETURN_IF_ERROR(network.Forward(s, network.OwnerOf(s, unit), unit,
                                      network.newest(s)));
    }
    for (int s = network.stages() - 1; s >= 0; --s) {
      RETURN_IF_ERROR(network.Backward(s, network.OwnerOf(s, unit), unit,
                                       network.newest(s)));
      if (!EndsGroup(network, s, unit, first, end)) continue;
      const int64_t old = network.newest(s);
      RETURN_IF_ERROR(network.Update(s));
      network.DropVersion(s, old);
    }
  }
  return absl::OkStatus();
}

// ---- replay
// ------------------------------------------------------------------

class Replay {
 public:
  Replay(Network& network, const std::vector<Trace>& traces)
      : network_(network),
        forwarded_(network.stages()),
        backwarded_(network.stages()),
        reads_(network.stages()) {
    for (const Trace& trace : traces) {
      seats_.push_back({&trace, 0});
      for (const TraceRecord& record : trace.records) {
        if (record.operation == 'F' || record.operation == 'B') {
          ++reads_[trace.stage][record.version_read];
        }
      }
    }
  }

  // Any order that keeps each seat's own, and has tensors, gradients and
  // versions before they are read, gives the same values.
  absl::Status Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Seat& seat : seats_) {
        while (!seat.AtEnd()) {
          ASSIGN_OR_RETURN(const bool done, Try(seat));
          if (!done) break;
          moved = true;
        }
      }
    }
    for (const Seat& seat : seats_) {
      if (!seat.AtEnd()) {
        return absl::FailedPreconditionError(
            absl::StrCat(Describe(seat),
                         " waits for ever in the replay, "
                         "expected logs of one run"));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Seat {
    const Trace* trace;
    size_t next;

    bool AtEnd() const { return next == trace->records.size(); }
    const TraceRecord& record() const { return trace->records[next]; }
  };

  static std::string Describe(const Seat& seat) {
    return absl::StrCat("oracle: stage ", seat.trace->stage, " replica ",
                        seat.trace->replica, ": ",
                        absl::string_view(&seat.record().operation, 1),
                        seat.record().number);
  }

  static bool Holds(const std::set<int64_t>& units, int64_t unit) {
    return units.count(unit) > 0;
  }

  // Performs the next record of the seat, if what it needs is there.
  absl::StatusOr<bool> Try(Seat& seat) {
    const TraceRecord& record = seat.record();
    const int stage = seat.trace->stage;
    switch (record.operation) {
      case 'F':
      case 'B':
        return TryUnit(seat);
      case 'U':
        if (!AllAt(stage, record)) return false;
        if (record.version_written != network_.newest(stage) + 1 ||
            record.number != network_.newest(stage)) {
          return absl::FailedPreconditionError(absl::StrCat(
              Describe(seat), " writes version ", record.version_written,
              ", expected ", network_.newest(stage) + 1));
        }
        if (!has_gradients_.count(stage)) {
          return absl::FailedPreconditionError(absl::StrCat(
              Describe(seat), " follows no backward, expected one"));
        }
        has_gradients_.erase(stage);
        RETURN_IF_ERROR(network_.Update(stage));
        DropUnread(stage, network_.newest(stage) - 1);
        Pass(stage);
        return true;
      default:
        if (!AllAt(stage, record)) return false;
        RETURN_IF_ERROR(network_.Drain(stage));
        Pass(stage);
        return true;
    }
  }

  absl::StatusOr<bool> TryUnit(Seat& seat) {
    const TraceRecord& record = seat.record();
    const int stage = seat.trace->stage;
    const int replica = seat.trace->replica;
    const bool forward = record.operation == 'F';
    const int64_t unit = record.number;
    if (record.version_read > network_.newest(stage)) return false;
    if (!network_.HasVersion(stage, record.version_read)) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(seat), " reads version ", record.version_read,
                       ", expected one that exists"));
    }
    if (unit < 0 || Holds((forward ? forwarded_ : backwarded_)[stage], unit) ||
        network_.OwnerOf(stage, unit) != replica) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(seat),
                       " is not its own or is a repetition, "
                       "expected each unit once"));
    }
    if (forward) {
      for (int producer : network_.producers(stage)) {
        if (!Holds(forwarded_[producer], unit)) return false;
      }
      RETURN_IF_ERROR(
          network_.Forward(stage, replica, unit, record.version_read));
      forwarded_[stage].insert(unit);
    } else {
      if (!Holds(forwarded_[stage], unit)) return false;
      for (int consumer : network_.consumers(stage)) {
        if (!Holds(backwarded_[consumer], unit)) return false;
      }
      RETURN_IF_ERROR(
          network_.Backward(stage, replica, unit, record.version_read));
      backwarded_[stage].insert(unit);
      has_gradients_.insert(stage);
    }
    --reads_[stage][record.version_read];
    DropUnread(stage, record.version_read);
    ++seat.next;
    return true;
  }

  // Whether all replicas of the stage stand at this record.
  bool AllAt(int stage, const TraceRecord& record) const {
    for (const Seat& seat : seats_) {
      if (seat.trace->stage != stage) continue;
      if (seat.AtEnd() || seat.record().operation != record.operation ||
          seat.record().number != record.number) {
        return false;
      }
    }
    return true;
  }

  void Pass(int stage) {
    for (Seat& seat : seats_) {
      if (seat.trace->stage == stage) ++seat.next;
    }
  }

  // The memory of a version ends with its last read.
  void DropUnread(int stage, int64_t version) {
    if (version != network_.newest(stage) && reads_[stage][version] == 0 &&
        network_.HasVersion(stage, version)) {
      network_.DropVersion(stage, version);
    }
  }

  Network& network_;
  std::vector<Seat> seats_;
  std::vector<std::set<int64_t>> forwarded_;  // units, by stage
  std::vector<std::set<int64_t>> backwarded_;
  std::vector<std::map<int64_t, int64_t>> reads_;  // left, by stage and version
  std::set<int> has_gradients_;  // stages with backwards since their update
};

OracleResult ResultOf(const Network& network) {
  return {network.Tensors(), network.Losses()};
}

}  // namespace

absl::StatusOr<OracleResult> RunPlain(OracleJob job,
                                      const std::vector<int64_t>& drains) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   Network::Create(std::move(job)));
  int64_t step = 0;
  for (int64_t drain : drains) {
    PIPE_CHECK(drain >= step);
    RETURN_IF_ERROR(TrainSegment(*network, step, drain));
    for (int s = 0; s < network->stages(); ++s) {
      RETURN_IF_ERROR(network->Drain(s));
    }
    step = drain;
  }
  return ResultOf(*network);
}

std::vector<int64_t> UsualDrains(const OracleJob& job, int64_t steps) {
  const int64_t minibatch = job.spec.batch().minibatch();
  const int64_t per_epoch = (job.train->size() + minibatch - 1) / minibatch;
  const int64_t every = job.spec.checkpoint().every_steps();
  std::vector<int64_t> drains;
  for (int64_t step = 1; step <= steps; ++step) {
    if (step % per_epoch == 0 || step == steps ||
        (every > 0 && step % every == 0)) {
      drains.push_back(step);
    }
  }
  return drains;
}

absl::StatusOr<OracleResult> RunReplay(OracleJob job,
                                       const std::vector<Trace>& traces) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   Network::Create(std::move(job)));
  for (const Trace& trace : traces) {
    PIPE_CHECK(trace.stage >= 0 && trace.stage < network->stages());
    PIPE_CHECK(trace.replica >= 0 &&
               trace.replica < network->replicas(trace.stage));
  }
  RETURN_IF_ERROR(Replay(*network, traces).Run());
  return ResultOf(*network);
}

}  // namespace pipework
