// Jobs and plans as pages of text, 80 columns wide.
#ifndef PIPEWORK_CLI_REPORT_H_
#define PIPEWORK_CLI_REPORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"
#include "proto/plan.pb.h"

namespace pipework {

// "RUNNING", "RUNNING (evaluating)".
std::string StateText(const v1::Job& job);

// One line: name, id, state.
std::string JobLine(const v1::Job& job);
// One line: step, speed, ETA, loss; empty before there are any.
std::string ProgressLine(const v1::Job& job);

// The closing summary: verdict, accuracy and loss per epoch, stages with
// their times and bytes, predicted beside measured, checkpoint.
std::string JobSummary(const v1::Job& job, int width);

// The per-stage table of `pipectl status`.
std::string StatusPage(const v1::Job& job, int width);

// What `pipectl plan` prints: stages with times and bytes, prediction, and of
// rivals, depths, pins, links and explanations what the plan has.
std::string PlanPage(const v1::Plan& plan, absl::string_view job, int width);

// The job's plan beside what its stages measured, and as a page.
v1::PlanDifference DifferenceOf(const v1::Job& job);
std::string DifferencePage(const v1::PlanDifference& difference, int width);

// Jobs, one a line.
std::string JobsTable(const google::protobuf::RepeatedPtrField<v1::Job>& jobs,
                      int width);

// "conv1..relu2" for consecutive layers.
std::string LayerRange(
    const google::protobuf::RepeatedPtrField<std::string>& layers);

// Whether nothing more will happen to the job by itself.
bool IsTerminal(v1::JobState state);
// 0, 10 or 11. REQUIRES: IsTerminal(state).
int VerdictCode(v1::JobState state);

}  // namespace pipework

#endif  // PIPEWORK_CLI_REPORT_H_
