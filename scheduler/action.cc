#include "scheduler/action.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {
namespace {

struct Letter {
  ActionKind kind;
  absl::string_view text;
  bool numbered;
  bool evaluation;
};

// The letters of a program. A text is the first that it starts with.
constexpr Letter kLetters[] = {
    {ActionKind::kForward, "F", true, false},
    {ActionKind::kBackward, "B", true, false},
    {ActionKind::kWeightGradient, "W", true, false},
    {ActionKind::kUpdate, "U", true, false},
    {ActionKind::kAllReduce, "A", true, false},
    {ActionKind::kRelease, "R", true, false},
    {ActionKind::kEvaluate, "E", true, false},
    {ActionKind::kSendForward, ">F", true, false},
    {ActionKind::kReceiveForward, "<F", true, false},
    {ActionKind::kSendForward, ">E", true, true},
    {ActionKind::kReceiveForward, "<E", true, true},
    {ActionKind::kSendBackward, ">B", true, false},
    {ActionKind::kReceiveBackward, "<B", true, false},
    {ActionKind::kDrain, "D", false, false},
    {ActionKind::kSave, "S", false, false},
};

std::string Text(const Action& action, bool name_peer) {
  std::string text = "?";
  for (const Letter& letter : kLetters) {
    if (letter.kind != action.kind) continue;
    if (IsTransfer(action.kind) && letter.evaluation != action.evaluation) {
      continue;
    }
    text = std::string(letter.text);
    if (letter.numbered) absl::StrAppend(&text, action.number);
    break;
  }
  if (action.chunk != 0) absl::StrAppend(&text, ".", action.chunk);
  if (name_peer) absl::StrAppend(&text, "@", action.peer_stage.value());
  return text;
}

}  // namespace

bool operator==(const Action& a, const Action& b) {
  return a.kind == b.kind && a.number == b.number &&
         a.minibatch == b.minibatch && a.microbatch == b.microbatch &&
         a.version == b.version && a.peer_stage == b.peer_stage &&
         a.peer_replica == b.peer_replica && a.evaluation == b.evaluation &&
         a.chunk == b.chunk;
}

bool IsTransfer(ActionKind kind) {
  return kind == ActionKind::kSendForward ||
         kind == ActionKind::kReceiveForward ||
         kind == ActionKind::kSendBackward ||
         kind == ActionKind::kReceiveBackward;
}

std::string ToString(const Action& action) {
  return Text(action, IsTransfer(action.kind));
}

std::string ToString(const Action& action, StageId own) {
  const bool downstream = action.kind == ActionKind::kSendForward ||
                          action.kind == ActionKind::kReceiveBackward;
  const int neighbour = own.value() + (downstream ? 1 : -1);
  return Text(action, IsTransfer(action.kind) &&
                          action.peer_stage.value() != neighbour);
}

absl::StatusOr<Action> ParseAction(absl::string_view text) {
  const absl::Status refused =
      Mismatch("program", "an action", absl::StrCat("\"", text, "\""),
               "one such as F3, B3, U0, >F3, <B3@1, E0, D or S");
  for (const Letter& letter : kLetters) {
    absl::string_view rest = text;
    if (rest.substr(0, letter.text.size()) != letter.text) continue;
    rest.remove_prefix(letter.text.size());
    Action action;
    action.kind = letter.kind;
    action.evaluation = letter.evaluation;
    if (!letter.numbered) {
      if (!rest.empty()) return refused;
      return action;
    }
    // Digits only: SimpleAtoi alone would take a sign and spaces.
    for (const char c : rest) {
      if ((c < '0' || c > '9') && c != '.' && c != '@') return refused;
    }
    const size_t at = rest.find('@');
    if (at != absl::string_view::npos) {
      int peer = 0;
      if (!IsTransfer(letter.kind) ||
          !absl::SimpleAtoi(rest.substr(at + 1), &peer)) {
        return refused;
      }
      action.peer_stage = StageId{peer};
      rest = rest.substr(0, at);
    }
    const size_t dot = rest.find('.');
    if (dot != absl::string_view::npos) {
      if (!absl::SimpleAtoi(rest.substr(dot + 1), &action.chunk)) {
        return refused;
      }
      rest = rest.substr(0, dot);
    }
    if (!absl::SimpleAtoi(rest, &action.number)) return refused;
    return action;
  }
  return refused;
}

}  // namespace pipework
