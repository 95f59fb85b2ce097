#include "daemon/coordinator/scripted_node.h"

#include <signal.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/spec/spec.h"
#include "proto/check.h"
#include "proto/version.h"

namespace pipework {

v1::DataFacts ScriptedFacts() {
  v1::DataFacts facts;
  facts.set_train_samples(320);
  facts.set_test_samples(40);
  facts.add_sample_shape(8);
  facts.set_classes(4);
  return facts;
}

v1::JobSpec ScriptedSpec(const std::string& name, int stages) {
  const ParsedSpec parsed =
      ParseSpec(absl::StrCat("name: ", name, R"(
model:
  layers:
    - {name: fc1, type: linear, args: {out: 16}}
    - {name: relu1, type: relu}
    - {name: fc2, type: linear, args: {out: 16}}
    - {name: relu2, type: relu}
    - {name: fc3, type: linear, args: {out: 4}}
    - {name: loss, type: softmax_cross_entropy}
data: {train: {x: /data/x.npy, y: /data/y.npy}, split: {test: 40, seed: 0}}
batch: {minibatch: 32}
optimizer: {name: sgd}
learning_rate: {base: 0.1}
pipeline: {schedule: 1f1b, stages: )",
                             stages == 0 ? "auto" : absl::StrCat(stages), R"(}
run: {epochs: 2}
)"),
                "/jobs/test.yaml", {});
  for (const v1::Problem& problem : parsed.problems) {
    std::fprintf(stderr, "%s\n", FormatProblem(problem).c_str());
  }
  PIPE_CHECK(parsed.problems.empty());
  return parsed.spec;
}

v1::Hello ScriptedNode::Hello() const {
  v1::Hello hello;
  hello.set_node(options_.name);
  hello.set_incarnation(options_.incarnation);
  for (int i = 0; i < options_.devices; ++i) {
    v1::Device* device = hello.add_devices();
    device->set_name(absl::StrCat("cpu:", i));
    const int kinds = static_cast<int>(options_.kinds.size());
    device->set_kind(options_.kinds[std::min(i, kinds - 1)]);
    device->set_usable(true);
    device->add_cores(i);
    device->set_memory_bytes(int64_t{1} << 30);
  }
  hello.set_address(options_.address);
  hello.set_version(kVersion);
  for (const auto& [job, attempt] : runners) {
    v1::RunnerRef* ref = hello.add_runners();
    ref->set_job(job);
    ref->set_attempt(attempt);
  }
  hello.set_first_sequence(kept_.empty() ? next_sequence_
                                         : kept_.begin()->first);
  return hello;
}

v1::NodeMessage ScriptedNode::Keep(v1::NodeMessage message) {
  message.set_sequence(next_sequence_++);
  kept_[message.sequence()] = message;
  return message;
}

v1::NodeMessage ScriptedNode::Answer(int64_t command, int code,
                                     const std::string& text) {
  v1::NodeMessage message;
  message.mutable_answer()->set_command(command);
  message.mutable_answer()->set_code(code);
  message.mutable_answer()->set_message(text);
  return message;
}

std::vector<v1::NodeMessage> ScriptedNode::Unacknowledged() const {
  std::vector<v1::NodeMessage> all;
  for (const auto& [sequence, message] : kept_) all.push_back(message);
  return all;
}

std::vector<v1::NodeMessage> ScriptedNode::Handle(
    const v1::CoordinatorMessage& message) {
  std::vector<v1::NodeMessage> out;
  if (message.has_welcome()) {
    acknowledged = message.welcome().acknowledged();
    std::set<std::pair<std::string, int>> wanted;
    for (const v1::RunnerRef& ref : message.welcome().runners()) {
      wanted.insert({ref.job(), ref.attempt()});
    }
    for (auto it = runners.begin(); it != runners.end();) {
      it = wanted.count(*it) > 0 ? std::next(it) : runners.erase(it);
    }
  } else if (message.acknowledged() > 0) {
    acknowledged = message.acknowledged();
  }
  while (!kept_.empty() && kept_.begin()->first <= acknowledged) {
    kept_.erase(kept_.begin());
  }
  if (message.command() == 0) return out;
  if (!done_.insert(message.command()).second) {
    out.push_back(Answer(message.command(), 0, ""));
    return out;
  }
  seen.push_back(message);

  switch (message.body_case()) {
    case v1::CoordinatorMessage::kCheckData:
      if (options_.has_data) {
        out.push_back(Answer(message.command(), 0, ""));
        *out.back().mutable_answer()->mutable_data() = ScriptedFacts();
      } else {
        out.push_back(Answer(message.command(),
                             static_cast<int>(absl::StatusCode::kNotFound),
                             "data.train.x: /data/x.npy is not there"));
      }
      break;
    case v1::CoordinatorMessage::kRunProfile: {
      if (!options_.answers_profile) break;
      const auto profile = EstimateProfile(message.run_profile().graph(),
                                           message.run_profile().batch());
      PIPE_CHECK(profile.ok());
      out.push_back(Answer(message.command(), 0, ""));
      *out.back().mutable_answer()->mutable_profile() = *profile;
      v1::Profile* answer = out.back().mutable_answer()->mutable_profile();
      answer->set_estimated(false);
      answer->set_noisy(options_.noisy_profiles > 0);
      options_.noisy_profiles = std::max(0, options_.noisy_profiles - 1);
      break;
    }
    case v1::CoordinatorMessage::kListenLinks: {
      links_ = message.listen_links();
      const auto code = options_.measures_links
                            ? absl::StatusCode::kOk
                            : absl::StatusCode::kUnavailable;
      out.push_back(Answer(message.command(), static_cast<int>(code),
                           options_.measures_links ? "" : "no port is free"));
      out.back().mutable_answer()->set_data_address(
          absl::StrCat(options_.address, ":", 5000 + links_.index()));
      break;
    }
    case v1::CoordinatorMessage::kMeasureLinks: {
      out.push_back(Answer(message.command(), 0, ""));
      for (const v1::RunnerLinks::Pair& pair : links_.pairs()) {
        if (pair.a() != links_.index()) continue;
        v1::LinkMeasurement* link = out.back().mutable_answer()->add_links();
        link->set_a(links_.nodes(pair.a()));
        link->set_b(links_.nodes(pair.b()));
        link->set_bytes_per_second(options_.link_bytes_per_second);
        link->set_latency_seconds(20e-6);
        link->set_measured_at(absl::ToUnixSeconds(absl::Now()));
      }
      break;
    }
    case v1::CoordinatorMessage::kStartRunner: {
      const v1::RunnerSetup& setup = message.start_runner().setup();
      out.push_back(Answer(message.command(), 0, ""));
      runners.insert({setup.job(), setup.attempt()});
      if (!options_.gets_ready) break;
      v1::RunnerReport report;
      report.mutable_ready()->set_data_address(
          absl::StrCat("127.0.0.1:", 4000 + setup.attempt()));
      out.push_back(Report(setup.job(), setup.attempt(), report));
      break;
    }
    case v1::CoordinatorMessage::kToRunner: {
      const v1::RunnerRef& ref = message.to_runner().runner();
      out.push_back(Answer(message.command(), 0, ""));
      if (message.to_runner().command().has_start() && options_.gets_running) {
        v1::RunnerReport report;
        report.mutable_running();
        out.push_back(Report(ref.job(), ref.attempt(), report));
      }
      if (message.to_runner().command().has_stop() && options_.obeys_stop &&
          runners.count({ref.job(), ref.attempt()}) > 0) {
        v1::RunnerReport report;
        report.mutable_ended()->set_stopped(true);
        report.mutable_ended()->set_test_accuracy(-1);
        out.push_back(Report(ref.job(), ref.attempt(), report));
        out.push_back(Gone(ref.job(), ref.attempt(), 0));
      }
      break;
    }
    case v1::CoordinatorMessage::kKillRunner: {
      const v1::RunnerRef& ref = message.kill_runner().runner();
      if (ref.attempt() > 0 && runners.count({ref.job(), ref.attempt()}) == 0) {
        out.push_back(Answer(message.command(),
                             static_cast<int>(absl::StatusCode::kNotFound),
                             "has no runner here"));
        break;
      }
      out.push_back(Answer(message.command(), 0, ""));
      if (ref.attempt() == 0) {
        // The profiler goes, and its command is answered.
        for (const v1::CoordinatorMessage& earlier : seen) {
          if (earlier.has_run_profile() &&
              earlier.run_profile().job() == ref.job()) {
            out.push_back(
                Answer(earlier.command(),
                       static_cast<int>(absl::StatusCode::kUnavailable),
                       "the profiler ended with signal 9 (Killed)"));
          }
        }
      } else if (runners.count({ref.job(), ref.attempt()}) > 0) {
        out.push_back(Gone(ref.job(), ref.attempt(), SIGKILL));
      }
      break;
    }
    default:
      out.push_back(Answer(message.command(), 0, ""));
  }
  return out;
}

v1::NodeMessage ScriptedNode::Report(const std::string& job, int attempt,
                                     v1::RunnerReport report) {
  v1::NodeMessage message;
  message.mutable_report()->mutable_runner()->set_job(job);
  message.mutable_report()->mutable_runner()->set_attempt(attempt);
  *message.mutable_report()->mutable_report() = std::move(report);
  return Keep(std::move(message));
}

v1::NodeMessage ScriptedNode::Progress(const std::string& job, int attempt,
                                       int64_t step, int64_t steps_in_it) {
  v1::RunnerReport report;
  report.mutable_progress()->set_step(step);
  report.mutable_progress()->set_total_steps(20);
  for (int64_t i = step - steps_in_it; i < step; ++i) {
    v1::StepMetrics* metrics = report.mutable_progress()->add_steps();
    metrics->set_step(i);
    metrics->set_loss(1.0 / static_cast<double>(i + 1));
  }
  return Report(job, attempt, std::move(report));
}

v1::NodeMessage ScriptedNode::Ended(const std::string& job, int attempt,
                                    int code, const std::string& reason,
                                    const std::string& message,
                                    bool first_cause) {
  v1::RunnerReport report;
  auto* ended = report.mutable_ended();
  ended->set_code(code);
  ended->set_reason(reason);
  ended->set_message(message);
  ended->set_first_cause(first_cause);
  ended->set_test_accuracy(-1);
  return Report(job, attempt, std::move(report));
}

v1::NodeMessage ScriptedNode::Finished(const std::string& job, int attempt,
                                       bool leader) {
  v1::RunnerReport report;
  report.mutable_ended()->set_finished(leader);
  report.mutable_ended()->set_test_accuracy(leader ? 0.99 : -1);
  return Report(job, attempt, std::move(report));
}

v1::NodeMessage ScriptedNode::Gone(const std::string& job, int attempt,
                                   int wait_status) {
  runners.erase({job, attempt});
  v1::NodeMessage message;
  auto* gone = message.mutable_gone();
  gone->mutable_runner()->set_job(job);
  gone->mutable_runner()->set_attempt(attempt);
  gone->set_wait_status(wait_status);
  gone->set_how(wait_status == 0
                    ? "exit 0"
                    : absl::StrCat("signal ", wait_status, " (Killed)"));
  return Keep(std::move(message));
}

int ScriptedNode::CountSeen(v1::CoordinatorMessage::BodyCase kind) const {
  int count = 0;
  for (const v1::CoordinatorMessage& message : seen) {
    count += message.body_case() == kind ? 1 : 0;
  }
  return count;
}

}  // namespace pipework
