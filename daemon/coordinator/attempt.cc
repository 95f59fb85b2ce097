#include "daemon/coordinator/attempt.h"

#include <sys/wait.h>

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/check.h"

namespace pipework {
namespace {

using R = v1::RunnerRecord;

// Where a runner's executors are, for messages: "stage 1 (node n2)".
std::string Who(absl::string_view node) { return absl::StrCat("node ", node); }

// The last line that tells of a problem: not one of the runner's own log
// about the course of things.
std::string LastLine(absl::string_view text) {
  std::string last;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StrContains(line, "Z info ") ||
        absl::StrContains(line, "Z debug ")) {
      continue;
    }
    last = std::string(line.substr(0, 300));
  }
  return last;
}

}  // namespace

std::string LeaderNode(const v1::Placement& placement) {
  for (const v1::Seat& seat : placement.seats()) {
    if (seat.stage() == 0 && seat.replica() == 0) return seat.node();
  }
  return std::string();
}

bool IsRetryable(absl::string_view reason, int code) {
  // The same run would end the same way again.
  static constexpr absl::string_view kFinal[] = {
      "TARGET_MISSED", "DATA_ERROR",   "INVALID_SPEC", "INFEASIBLE",
      "OUT_OF_MEMORY", "NOT_A_NUMBER", "DIVERGED"};
  if (std::find(std::begin(kFinal), std::end(kFinal), reason) !=
      std::end(kFinal)) {
    return false;
  }
  const auto canonical = static_cast<absl::StatusCode>(code);
  return canonical != absl::StatusCode::kInvalidArgument &&
         canonical != absl::StatusCode::kUnimplemented &&
         canonical != absl::StatusCode::kFailedPrecondition;
}

void Attempt::Begin(const v1::Placement& placement) {
  record_->clear_runners();
  record_->clear_causes();
  record_->clear_ending();
  record_->clear_ending_reason();
  record_->clear_ending_message();
  record_->clear_finished();
  record_->set_announced_step(-1);
  std::set<std::string> nodes;
  for (const v1::Seat& seat : placement.seats()) nodes.insert(seat.node());
  for (const std::string& node : nodes) record_->add_runners()->set_node(node);
}

R* Attempt::Find(absl::string_view node) {
  for (R& runner : *record_->mutable_runners()) {
    if (runner.node() == node) return &runner;
  }
  return nullptr;
}
const R* Attempt::Find(absl::string_view node) const {
  return const_cast<Attempt*>(this)->Find(node);
}

void Attempt::OnReady(absl::string_view node, const std::string& data_address) {
  R* runner = Find(node);
  if (runner == nullptr || runner->state() != R::ASKED) return;
  runner->set_state(R::READY);
  runner->set_data_address(data_address);
}

void Attempt::OnStarted(absl::string_view node) {
  R* runner = Find(node);
  if (runner == nullptr || runner->state() != R::READY) return;
  runner->set_state(R::STARTED);
}

void Attempt::OnConnected(absl::string_view node) {
  R* runner = Find(node);
  if (runner == nullptr || runner->state() >= R::CONNECTED) return;
  runner->set_state(R::CONNECTED);
}

void Attempt::OnEnded(absl::string_view node,
                      const v1::RunnerReport::Ended& ended) {
  R* runner = Find(node);
  if (runner == nullptr || runner->state() >= R::ENDED) return;
  runner->set_state(R::ENDED);
  *runner->mutable_ended() = ended;
  // A run that came to its end and missed its target has an error to say.
  if (ended.finished() && ended.code() == 0) record_->set_finished(true);
  if (ended.code() == 0) return;
  AddCause(ended.first_cause() ? kCauseOwnError : kCausePeerLost,
           ended.reason().empty() ? "RUNNER_ERROR" : ended.reason(),
           absl::StrCat(Who(node), ": ", ended.message()), std::string(node),
           IsRetryable(ended.reason(), ended.code()));
}

void Attempt::OnGone(absl::string_view node,
                     const v1::NodeMessage::RunnerGone& gone) {
  R* runner = Find(node);
  if (runner == nullptr || runner->state() == R::GONE) return;
  const bool said_goodbye = runner->state() == R::ENDED;
  runner->set_state(R::GONE);
  const std::string last = LastLine(gone.last_words());
  const std::string text = absl::StrCat(
      Who(node), ": the runner ended with ", gone.how(),
      last.empty() ? "" : absl::StrCat("; its last words: ", last));
  if (WIFSIGNALED(gone.wait_status())) {
    // A goodbye before a signal: the error of the goodbye is the cause.
    if (!said_goodbye) {
      AddCause(kCauseKilled, "RUNNER_KILLED", text, std::string(node), true);
    }
  } else if (!said_goodbye) {
    AddCause(kCauseQuietExit,
             WEXITSTATUS(gone.wait_status()) == 0 ? "RUNNER_EXITED_EARLY"
                                                  : "RUNNER_FAILED",
             text, std::string(node), true);
  }
}

void Attempt::OnNodeLost(absl::string_view node, const std::string& why) {
  R* runner = Find(node);
  if (runner == nullptr || runner->state() == R::GONE) return;
  const bool said_goodbye = runner->state() == R::ENDED;
  runner->set_state(R::GONE);
  if (said_goodbye && runner->ended().code() == 0) return;
  AddCause(kCauseNodeLost, "NODE_LOST", why, std::string(node), true);
}

void Attempt::AddCause(int rank, const std::string& reason,
                       const std::string& message, const std::string& node,
                       bool retryable) {
  v1::Cause* cause = record_->add_causes();
  cause->set_rank(rank);
  cause->set_reason(reason);
  cause->set_message(message);
  cause->set_node(node);
  cause->set_retryable(retryable);
}

bool Attempt::AllReached(R::State state) const {
  for (const R& runner : record_->runners()) {
    if (runner.state() < state || runner.state() >= R::ENDED) return false;
  }
  return record_->runners_size() > 0;
}

bool Attempt::AllGone() const {
  for (const R& runner : record_->runners()) {
    if (runner.state() != R::GONE) return false;
  }
  return true;
}

bool Attempt::AllEnded() const {
  for (const R& runner : record_->runners()) {
    if (runner.state() < R::ENDED) return false;
  }
  return true;
}

std::vector<std::string> Attempt::Living() const {
  std::vector<std::string> nodes;
  for (const R& runner : record_->runners()) {
    if (runner.state() != R::GONE) nodes.push_back(runner.node());
  }
  return nodes;
}

const v1::Cause& Attempt::FirstCause() const {
  PIPE_CHECK(broken());
  return *std::max_element(record_->causes().begin(), record_->causes().end(),
                           [](const v1::Cause& a, const v1::Cause& b) {
                             return a.rank() < b.rank();
                           });
}

std::string Attempt::Missing(R::State state) const {
  std::string list;
  for (const R& runner : record_->runners()) {
    if (runner.state() >= state) continue;
    absl::StrAppend(&list, list.empty() ? "" : ", ", runner.node());
  }
  return list;
}

}  // namespace pipework
