#include "cli/report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/exit_code.h"
#include "cli/output.h"

namespace pipework {
namespace {

std::string Milliseconds(double ms) {
  return ms > 0 ? absl::StrFormat("%.2f", ms) : "-";
}

std::string WithThousands(int64_t number) {
  std::string digits = absl::StrCat(number < 0 ? -number : number);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<size_t>(i), ",");
  }
  return (number < 0 ? "-" : "") + digits;
}

std::string StageName(const v1::StageMetrics& stage, bool replicated) {
  return replicated ? absl::StrCat(stage.index(), ".", stage.replica())
                    : absl::StrCat(stage.index());
}

bool IsReplicated(const v1::Job& job) {
  return std::any_of(job.stages().begin(), job.stages().end(),
                     [](const auto& stage) { return stage.replica() > 0; });
}

}  // namespace

bool IsTerminal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

int VerdictCode(v1::JobState state) {
  return state == v1::SUCCEEDED ? kExitOk
         : state == v1::FAILED  ? kExitJobFailed
                                : kExitJobCancelled;
}

std::string StateText(const v1::Job& job) {
  std::string text = v1::JobState_Name(job.state());
  if (job.state() == v1::RUNNING && job.phase() != v1::TRAINING) {
    absl::StrAppend(&text, " (",
                    absl::AsciiStrToLower(v1::JobPhase_Name(job.phase())), ")");
  }
  return text;
}

std::string LayerRange(
    const google::protobuf::RepeatedPtrField<std::string>& layers) {
  if (layers.empty()) return "-";
  if (layers.size() == 1) return layers[0];
  return absl::StrCat(layers[0], "..", layers[layers.size() - 1]);
}

std::string JobLine(const v1::Job& job) {
  std::string text =
      absl::StrCat(job.name(), "  ", job.id(), "  ", StateText(job));
  if (job.attempt() > 1) absl::StrAppend(&text, "  attempt ", job.attempt());
  return text;
}

std::string ProgressLine(const v1::Job& job) {
  std::vector<std::string> parts;
  if (job.total_steps() > 0) {
    parts.push_back(
        absl::StrFormat("step %s/%s (%.1f%%)", WithThousands(job.step()),
                        WithThousands(job.total_steps()),
                        100.0 * static_cast<double>(job.step()) /
                            static_cast<double>(job.total_steps())));
  }
  if (job.samples_per_second() > 0) {
    parts.push_back(
        absl::StrFormat("%.0f samples/s", job.samples_per_second()));
  }
  if (!IsTerminal(job.state()) && job.eta_seconds() > 0) {
    parts.push_back(absl::StrCat("ETA ", FormatSeconds(job.eta_seconds())));
  }
  if (job.loss() > 0) parts.push_back(absl::StrFormat("loss %.4f", job.loss()));
  return absl::StrJoin(parts, "  ");
}

std::string JobSummary(const v1::Job& job, int width) {
  std::string out;
  absl::StrAppendFormat(&out, "%s  %s  %s", job.name(), job.id(),
                        StateText(job));
  if (!job.reason().empty()) absl::StrAppend(&out, "  (", job.reason(), ")");
  out += '\n';
  if (!job.message().empty()) {
    absl::StrAppend(&out, "  ", SafeText(job.message()), "\n");
  }
  for (const v1::Attempt& attempt : job.attempts()) {
    if (job.attempts_size() < 2 && attempt.cause().empty()) continue;
    absl::StrAppend(&out, "  attempt ", attempt.number(), ": steps ",
                    attempt.from_step(), " to ", attempt.to_step());
    if (!attempt.end().empty()) absl::StrAppend(&out, ", ", attempt.end());
    if (!attempt.cause().empty() && attempt.cause() != job.message()) {
      absl::StrAppend(&out, ": ", SafeText(attempt.cause()));
    }
    out += '\n';
  }

  if (job.epochs_size() > 0) {
    Table table(
        {">EPOCH", ">TRAIN LOSS", ">TEST LOSS", ">ACCURACY", ">SECONDS"});
    constexpr int kShown = 10;
    const int skipped = std::max(0, job.epochs_size() - kShown);
    for (int i = 0; i < job.epochs_size(); ++i) {
      // The first, and the last ones.
      if (skipped > 0 && i > 0 && i <= skipped) continue;
      const v1::EpochMetrics& epoch = job.epochs(i);
      table.Row({absl::StrCat(epoch.epoch()),
                 absl::StrFormat("%.4f", epoch.train_loss()),
                 absl::StrFormat("%.4f", epoch.test_loss()),
                 FormatPercent(epoch.test_accuracy()),
                 absl::StrFormat("%.2f", epoch.seconds())});
    }
    absl::StrAppend(&out, "\n", table.ToString(width));
    if (skipped > 0) {
      absl::StrAppend(&out, "(", skipped,
                      " epochs left out; -o json has them all)\n");
    }
  }

  if (job.stages_size() > 0) {
    const bool replicated = IsReplicated(job);
    Table times({"STAGE", "LAYERS", "DEVICE", ">FWD ms", ">BWD ms", ">BUSY",
                 ">XFER", ">WAIT-UP", ">WAIT-DN", ">OTHER"});
    Table memory({"STAGE", ">VERSIONS", ">STALE", ">WEIGHTS", ">STASH",
                  ">ACTIVATIONS", ">SENT"});
    for (const v1::StageMetrics& stage : job.stages()) {
      const std::string name = StageName(stage, replicated);
      const v1::Shares& s = stage.shares();
      times.Row({name, LayerRange(stage.layers()), stage.device(),
                 Milliseconds(stage.forward_ms()),
                 Milliseconds(stage.backward_ms()), FormatPercent(s.compute()),
                 FormatPercent(s.transfer()), FormatPercent(s.wait_upstream()),
                 FormatPercent(s.wait_downstream()), FormatPercent(s.other())});
      memory.Row({name, absl::StrCat(stage.versions_held()),
                  absl::StrCat(stage.staleness()),
                  FormatBytes(static_cast<double>(stage.weight_bytes())),
                  FormatBytes(static_cast<double>(stage.stash_bytes())),
                  FormatBytes(static_cast<double>(stage.activation_bytes())),
                  FormatBytes(static_cast<double>(stage.bytes_sent()))});
    }
    absl::StrAppend(&out, "\n", times.ToString(width), "\n",
                    memory.ToString(width));
  }

  out += '\n';
  if (job.samples_per_second() > 0) {
    absl::StrAppendFormat(&out, "%.0f samples/s", job.samples_per_second());
    if (job.measured_step_ms() > 0) {
      absl::StrAppendFormat(&out, ", %.2f ms a step", job.measured_step_ms());
      if (job.predicted_step_ms() > 0) {
        absl::StrAppendFormat(
            &out, " (the plan said %.2f, %+.0f%%)", job.predicted_step_ms(),
            100 * (job.predicted_step_ms() / job.measured_step_ms() - 1));
      }
    }
    out += '\n';
  }
  absl::StrAppend(&out, WithThousands(job.step()), " steps");
  if (job.test_accuracy() >= 0 && job.epochs_size() > 0) {
    absl::StrAppend(&out, ", test accuracy ",
                    absl::StrFormat("%.2f%%", 100 * job.test_accuracy()));
  }
  absl::StrAppend(
      &out, ", ", FormatSeconds(job.wall_seconds()),
      IsTerminal(job.state()) ? " from submit to verdict" : " since submit");
  if (job.profile_seconds() > 0) {
    absl::StrAppend(&out, ", profile ", FormatSeconds(job.profile_seconds()));
  }
  out += '\n';
  return out;
}

std::string StatusPage(const v1::Job& job, int width) {
  std::string out = absl::StrCat(JobLine(job), "\n");
  const std::string progress = ProgressLine(job);
  if (!progress.empty()) absl::StrAppend(&out, progress, "\n");
  if (!job.message().empty()) {
    absl::StrAppend(&out, job.reason(), job.reason().empty() ? "" : ": ",
                    SafeText(job.message()), "\n");
  }
  if (!job.checkpoint().empty()) {
    absl::StrAppend(&out, "checkpoint step ",
                    WithThousands(job.checkpoint_step()), "\n");
  }
  if (job.stages_size() == 0) return out;
  const bool replicated = IsReplicated(job);
  Table table({"STAGE", "NODE/DEV", "STATE", ">BUSY", ">XFER", ">W-UP",
               ">W-DOWN", ">OTHER", ">F/B", ">STASH", ">VER(LAG)"});
  std::string waits;
  const auto percent = [](double share) {
    return absl::StrFormat("%.0f%%", 100 * share);
  };
  for (const v1::StageMetrics& stage : job.stages()) {
    const v1::Shares& s = stage.shares();
    table.Row(
        {StageName(stage, replicated), stage.device(), stage.state(),
         percent(s.compute()), percent(s.transfer()),
         percent(s.wait_upstream()), percent(s.wait_downstream()),
         percent(s.other()),
         absl::StrCat(stage.forwards(), "/", stage.backwards()),
         FormatBytes(static_cast<double>(stage.stash_bytes() +
                                         stage.activation_bytes())),
         absl::StrCat(stage.weight_version(), "(", stage.staleness(), ")")});
    if (!stage.waiting_for().empty() && !IsTerminal(job.state())) {
      absl::StrAppend(&waits, "stage ", StageName(stage, replicated),
                      " waits for ", SafeText(stage.waiting_for()), "\n");
    }
    if (stage.heard_seconds_ago() > 6 && !IsTerminal(job.state())) {
      absl::StrAppend(&waits, "stage ", StageName(stage, replicated),
                      " was last heard ",
                      FormatSeconds(stage.heard_seconds_ago()), " ago\n");
    }
  }
  absl::StrAppend(&out, "\n", table.ToString(width), waits);
  return out;
}

std::string JobsTable(const google::protobuf::RepeatedPtrField<v1::Job>& jobs,
                      int width) {
  Table table({"ID", "NAME", "STATE", ">STEP", ">ACCURACY", ">TIME", "REASON"});
  for (const v1::Job& job : jobs) {
    table.Row(
        {job.id(), job.name(), StateText(job),
         job.total_steps() > 0
             ? absl::StrCat(job.step(), "/", job.total_steps())
             : "-",
         job.test_accuracy() > 0 ? FormatPercent(job.test_accuracy()) : "-",
         FormatSeconds(job.wall_seconds()), job.reason()});
  }
  return table.ToString(width);
}

}  // namespace pipework
