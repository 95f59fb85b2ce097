#include "cli/follow.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/json_printer.h"
#include "cli/local_cluster.h"
#include "cli/report.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A bar that is drawn over itself on a terminal, plain lines elsewhere.
class Progress {
 public:
  explicit Progress(const Output& out, bool enabled)
      : out_(out),
        enabled_(enabled && !out.quiet && out.format == OutputFormat::kTable),
        terminal_(Output::OnTerminal()) {}
  ~Progress() { Clear(); }

  void Line(absl::string_view text) {
    if (!enabled_) return;
    Clear();
    out_.Text(text);
  }

  void Update(const v1::Job& job) {
    if (!enabled_ || job.total_steps() <= 0 || job.state() != v1::RUNNING) {
      return;
    }
    const double now = MonotonicSeconds();
    if (!terminal_) {
      // A plain line whenever a tenth of the run has passed.
      const int tenth = static_cast<int>(10 * job.step() / job.total_steps());
      if (tenth <= tenth_) return;
      tenth_ = tenth;
      out_.Text(absl::StrCat("  ", ProgressLine(job)));
      return;
    }
    if (now < next_) return;
    next_ = now + 0.1;
    const int width = Output::Width();
    const double share = static_cast<double>(job.step()) /
                         static_cast<double>(job.total_steps());
    const std::string right = absl::StrFormat(
        " %3.0f%% step %d/%d  %.0f samples/s  loss %.4f  ETA %s", 100 * share,
        job.step(), job.total_steps(), job.samples_per_second(), job.loss(),
        FormatSeconds(job.eta_seconds()));
    const int cells = std::max(8, width - static_cast<int>(right.size()) - 3);
    const int full = static_cast<int>(share * cells);
    std::string text = absl::StrCat(
        "[", std::string(static_cast<size_t>(full), '#'),
        std::string(static_cast<size_t>(cells - full), '.'), "]", right);
    text.resize(std::min<size_t>(text.size(), static_cast<size_t>(width - 1)));
    std::printf("\r%-*s", width - 1, text.c_str());
    std::fflush(stdout);
    drawn_ = true;
  }

 private:
  void Clear() {
    if (!drawn_) return;
    std::printf("\r%*s\r", Output::Width() - 1, "");
    std::fflush(stdout);
    drawn_ = false;
  }

  const Output& out_;
  const bool enabled_;
  const bool terminal_;
  bool drawn_ = false;
  double next_ = 0;
  int tenth_ = 0;
};

// Steps as JSON lines or as a table with commas.
class MetricsFile {
 public:
  absl::Status Open(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckMetricsFile(path));
    csv_ = absl::EndsWith(path, ".csv");
    file_.open(path, std::ios::trunc);
    if (!file_) {
      return UsageError(absl::InvalidArgumentError(
          absl::StrCat("--metrics: ", path, " cannot be written")));
    }
    if (csv_) {
      file_ << "step,epoch,loss,learning_rate,samples_per_second,samples\n";
    }
    return absl::OkStatus();
  }

  void Write(const v1::StepMetrics& step) {
    // After a broken watch or a restart some steps come again.
    if (!file_.is_open() || step.step() <= last_) return;
    last_ = step.step();
    if (csv_) {
      file_ << step.step() << ',' << step.epoch() << ','
            << JsonNumber(step.loss()) << ','
            << JsonNumber(step.learning_rate()) << ','
            << JsonNumber(step.samples_per_second()) << ',' << step.samples()
            << '\n';
    } else {
      file_ << ToJson(step, "", {.pretty = false}) << '\n';
    }
    file_.flush();
  }

  // The next attempt goes on from step `from`.
  void GoBackTo(int64_t from) { last_ = std::min(last_, from - 1); }

 private:
  std::ofstream file_;
  bool csv_ = false;
  int64_t last_ = -1;
};

}  // namespace

absl::Status CheckMetricsFile(const std::string& file) {
  if (file.empty()) return absl::OkStatus();
  if (!absl::EndsWith(file, ".jsonl") && !absl::EndsWith(file, ".csv")) {
    return UsageError(
        Mismatch("--metrics", "file", file, "a name ending in .jsonl or .csv"));
  }
  // Before the job runs; what the file holds stays until then.
  if (!std::ofstream(file, std::ios::app)) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--metrics: ", file, " cannot be written: ", std::strerror(errno))));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> FollowJob(Client& client, const std::string& job_id,
                                  const Output& out,
                                  const FollowOptions& options) {
  MetricsFile metrics;
  RETURN_IF_ERROR(metrics.Open(options.metrics_file));
  Progress progress(out, options.progress);
  v1::Job latest;
  int64_t last_event = 0;
  int epochs_shown = 0;
  int attempt = 0;
  bool over = false;
  absl::Status tended;
  const auto interrupted = [&] {
    if (options.tend && tended.ok()) tended = options.tend();
    return !tended.ok() || (options.interrupted && options.interrupted());
  };
  const auto on = [&](const v1::WatchJobsResponse& update) {
    if (update.has_job()) {
      latest = update.job();
      if (latest.attempt() != attempt) {
        attempt = latest.attempt();
        if (latest.attempts_size() > 0) {
          metrics.GoBackTo(
              latest.attempts(latest.attempts_size() - 1).from_step());
        }
      }
      // A new attempt may repeat epochs: it shows them again.
      epochs_shown = std::min(epochs_shown, latest.epochs_size());
      for (; epochs_shown < latest.epochs_size(); ++epochs_shown) {
        const v1::EpochMetrics& epoch = latest.epochs(epochs_shown);
        progress.Line(absl::StrFormat(
            "  epoch %3d  train loss %.4f  test loss %.4f  accuracy %6s  "
            "%.2f s",
            epoch.epoch(), epoch.train_loss(), epoch.test_loss(),
            FormatPercent(epoch.test_accuracy()), epoch.seconds()));
      }
      progress.Update(latest);
    }
    for (const v1::JobEvent& event : update.events()) {
      if (event.revision() <= last_event) continue;
      last_event = event.revision();
      // One line each: what is cut off here stands in `show --events`.
      const auto room = static_cast<size_t>(Output::Width() - 2);
      std::string text = SafeText(event.text());
      if (text.size() > room && !absl::StrContains(text, "/checkpoints/")) {
        text = absl::StrCat(text.substr(0, room - 2), "..");
      }
      progress.Line(absl::StrCat("  ", text));
    }
    for (const v1::StepMetrics& step : update.steps()) metrics.Write(step);
    over = IsTerminal(latest.state());
    return !over;
  };

  double deadline = MonotonicSeconds() + options.patience_seconds;
  while (true) {
    const double before = MonotonicSeconds();
    const absl::Status status = client.WatchJob(job_id, on, interrupted);
    if (over) return latest;
    RETURN_IF_ERROR(tended);
    if (absl::IsCancelled(status) || absl::IsNotFound(status) ||
        absl::IsUnauthenticated(status) || absl::IsInvalidArgument(status)) {
      return status;
    }
    // A watch that lived for a while starts the patience anew.
    if (MonotonicSeconds() - before > 2) {
      deadline = MonotonicSeconds() + options.patience_seconds;
    }
    if (MonotonicSeconds() > deadline) {
      return status.ok()
                 ? absl::UnavailableError("the watch ended before the job did")
                 : status;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (interrupted()) {
      RETURN_IF_ERROR(tended);
      return absl::CancelledError("interrupted");
    }
  }
}

}  // namespace pipework
