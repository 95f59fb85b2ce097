// One thing a stage replica does: the letters of a program.
#ifndef PIPEWORK_SCHEDULER_ACTION_H_
#define PIPEWORK_SCHEDULER_ACTION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/ids.h"

namespace pipework {

enum class ActionKind {
  kForward,          // F3
  kBackward,         // B3   input and weight gradients
  kWeightGradient,   // W3   when split from B3
  kUpdate,           // U3   the fourth update of this stage
  kAllReduce,        // A3   sums the gradients of all replicas, before U3
  kRelease,          // R3   unit 3 gives up its activations and its version
  kEvaluate,         // E3   evaluation forward
  kSendForward,      // >F3  (>E3 when evaluating)
  kReceiveForward,   // <F3  (<E3 when evaluating)
  kSendBackward,     // >B3
  kReceiveBackward,  // <B3
  kDrain,            // D    nothing is in flight; replicas agree on buffers
  kSave,             // S    writes this stage's part of a checkpoint
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  // Unit for F B W R E and transfers; number of the update for U and A,
  // counted through the run on this stage.
  int64_t number = 0;
  // Where the unit belongs: minibatch through the run, microbatch within it
  // (0 where the schedule takes minibatches). U and A: the last unit of the
  // update. D and S: the first minibatch that comes after.
  MinibatchId minibatch;
  MicrobatchId microbatch;
  // F, B, W, E: version of this stage's weights that is read. U: version that
  // is written. Unset before the pass assign_versions: -1.
  WeightVersion version{-1};
  // Transfers: the other end.
  StageId peer_stage;
  ReplicaId peer_replica;
  // Transfers: belongs to an evaluation.
  bool evaluation = false;
  // Chunk of the stage's layers (interleaved schedules), else 0. Transfers: the
  // receiver's.
  int chunk = 0;

  friend bool operator==(const Action& a, const Action& b);
};

// F3, B3, U0, D, F3.1 for chunk 1; a transfer names the other end: >F3@2.
std::string ToString(const Action& action);

// As it stands in the row of stage `own`: a transfer names the other end only
// where it skips stages, so a chain reads >F3 <F3 >B3 <B3.
std::string ToString(const Action& action, StageId own);

// The reverse for kind, number, chunk and peer stage; the rest is default.
// InvalidArgument: not an action.
absl::StatusOr<Action> ParseAction(absl::string_view text);

// One of > and <.
bool IsTransfer(ActionKind kind);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_ACTION_H_
