#include "cli/output.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/json_printer.h"
#include "cli/report.h"
#include "proto/coordinator.pb.h"
#include "proto/node.pb.h"

namespace pipework {
namespace {

using nlohmann::json;

int WidestLine(const std::string& text) {
  size_t widest = 0;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    widest = std::max(widest, end - start);
    start = end + 1;
  }
  return static_cast<int>(widest);
}

v1::Job SampleJob() {
  v1::Job job;
  job.set_id("j-abc123");
  job.set_name("digits");
  job.set_state(v1::SUCCEEDED);
  job.set_step(900);
  job.set_total_steps(900);
  job.set_test_accuracy(0.98);
  for (int s = 0; s < 4; ++s) {
    v1::StageMetrics* stage = job.add_stages();
    stage->set_index(s);
    stage->set_device("n1/cpu:0");
    stage->add_layers("conv1_with_a_rather_long_name");
    stage->add_layers("another_long_layer_name_here");
    stage->mutable_shares()->set_compute(0.5);
  }
  for (int e = 1; e <= 20; ++e) job.add_epochs()->set_epoch(e);
  return job;
}

}  // namespace

TEST_CASE("json: kind and version first, snake_case, numbers as numbers") {
  v1::Job job = SampleJob();
  job.set_samples_per_second(std::numeric_limits<double>::quiet_NaN());
  job.set_eta_seconds(std::numeric_limits<double>::infinity());
  job.set_revision(int64_t{1} << 53);
  const std::string text = ToJson(job, "Job");
  CHECK(text.rfind("{\n  \"kind\": \"Job\",\n  \"api_version\": "
                   "\"pipework.v1\",\n  \"id\"",
                   0) == 0);
  const json parsed = json::parse(text);
  CHECK(parsed["samples_per_second"].is_null());
  CHECK(parsed["eta_seconds"].is_null());
  CHECK(parsed["revision"] == int64_t{1} << 53);
  CHECK(parsed["state"] == "SUCCEEDED");
  CHECK(parsed["loss"] == 0.0);          // a default is printed
  CHECK(parsed["attempts"].is_array());  // and so is an empty list
  CHECK_FALSE(parsed.contains("spec"));  // an unset message is not
  CHECK(parsed["stages"][1]["index"] == 1);
}

TEST_CASE("json: maps are objects with sorted keys; of a oneof the set one") {
  v1::Node node;
  (*node.mutable_jobs())["cpu:1"] = "b";
  (*node.mutable_jobs())["cpu:0"] = "a";
  CHECK(ToJson(node, "", {.pretty = false})
            .find(R"("jobs":{"cpu:0":"a","cpu:1":"b"})") != std::string::npos);
  v1::Arg arg;
  arg.set_bool_value(false);
  CHECK(ToJson(arg, "", {.pretty = false}) ==
        R"({"name":"","bool_value":false})");
}

TEST_CASE("json: strings are escaped, and bytes that are no UTF-8 replaced") {
  CHECK(JsonString("a\"b\\c\n\t\x01") == R"("a\"b\\c\n\t\u0001")");
  CHECK(JsonString("\xff"
                   "a\xc3") ==
        "\"\xef\xbf\xbd"
        "a\xef\xbf\xbd\"");
  CHECK(JsonString("\xed\xa0\x80") ==  // a surrogate is no character
        "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
  CHECK(JsonString("\xc3\xbc") == "\"\xc3\xbc\"");
}

TEST_CASE("json: numbers are short and read back as themselves") {
  CHECK(JsonNumber(0.1) == "0.1");
  CHECK(JsonNumber(1e300) == "1e+300");
  const double third = 1.0 / 3;
  CHECK(std::stod(JsonNumber(third)) == third);
  CHECK(JsonNumber(-std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("table: numbers to the right, and too wide a text is cut") {
  Table table({"NAME", ">N"});
  table.Row({"a", "1"});
  table.Row({"a long name indeed", "100"});
  CHECK(table.ToString() ==
        "NAME                  N\n"
        "a                     1\n"
        "a long name indeed  100\n");
  CHECK(WidestLine(table.ToString(15)) == 15);
  CHECK(table.ToString(15).find("a long na.. 100") != std::string::npos);
}

TEST_CASE("pages fit 80 columns whatever the names") {
  const v1::Job job = SampleJob();
  CHECK(WidestLine(JobSummary(job, 80)) <= 80);
  CHECK(WidestLine(StatusPage(job, 80)) <= 80);
  v1::Plan plan;
  plan.set_feasible(true);
  for (int s = 0; s < 4; ++s) {
    v1::PlanStage* stage = plan.add_stages();
    stage->add_layers("conv1_with_a_rather_long_name");
    stage->add_devices("n1/cpu:0");
    stage->set_replicas(1);
    stage->set_weight_bytes(1 << 30);
    stage->set_total_bytes(int64_t{1} << 33);
  }
  CHECK(WidestLine(PlanPage(plan, "digits", 80)) <= 80);
}

TEST_CASE("a plan's page has what the plan has, in 80 columns") {
  v1::Plan plan;
  plan.set_feasible(true);
  plan.set_schedule("1f1b");
  plan.set_weights("stash");
  plan.set_cost_model("public_code");
  plan.set_in_flight(2);
  plan.set_minibatch(64);
  plan.set_predicted_step_ms(100);
  plan.set_samples_per_second(640);
  plan.set_bottleneck("all-reduce of stage 0");
  const std::string names[] = {"features", "classifier"};
  for (int s = 0; s < 2; ++s) {
    v1::PlanStage* stage = plan.add_stages();
    stage->add_layers(names[s]);
    stage->set_replicas(s == 0 ? 15 : 1);
    for (int d = 0; d < stage->replicas(); ++d) {
      stage->add_devices(s == 0 ? absl::StrCat("n", d / 4 + 1, "/cuda:", d % 4)
                                : "n4/cuda:3");
    }
    stage->set_seconds(0.1 * (s + 1));
  }
  CHECK(PlanPage(plan, "vgg", 80).find("RIVAL") == std::string::npos);
  for (const bool fits : {true, false}) {
    v1::Rival* rival = plan.add_rivals();
    rival->set_name("data_parallel");
    rival->set_feasible(fits);
    rival->set_reason(
        "plan: stage 0 on n1/cuda:0 needs 20 GiB, expected at most 16 GiB; use "
        "a smaller minibatch");
  }
  v1::Depth* depth = plan.add_depths();
  depth->set_in_flight(2);
  depth->set_feasible(true);
  v1::PinCost* pin = plan.add_pin_costs();
  pin->set_pin("pipeline.stages: 2");
  pin->set_cost(0.25);
  pin->set_predicted_step_ms(80);
  v1::PinCost* helps = plan.add_pin_costs();
  helps->set_pin("pipeline.in_flight: 1");
  helps->set_cost(-0.307);
  helps->set_predicted_step_ms(144);
  plan.add_explanation(
      "Stage 0 waits for its all-reduce, which takes longer than its layers "
      "compute, because the network between the nodes is slow.");
  v1::Improvement* change = plan.add_improvements();
  change->set_change("links between nodes twice as fast");
  change->set_predicted_step_ms(50);
  v1::LinkLoad* link = plan.add_links();
  link->set_from("n1");
  link->set_to("n2");
  link->set_bytes_per_second(5e8);
  link->set_limit_bytes_per_second(1e9);
  const std::string page = PlanPage(plan, "vgg", 80);
  CHECK(WidestLine(page) <= 80);
  for (const char* part :
       {"2 stages on 16 devices", "15 on n1..n4", "n4/cuda:3", "minibatch 64",
        "it is all-reduce of stage 0", "cost model public_code",
        "busiest link n1-n2 500.0 MB/s of 1.00 GB/s", "does not fit", "<chosen",
        "Pin pipeline.stages: 2 costs 25.0%",
        "Pin pipeline.in_flight: 1 gains 30.7%: without it",
        "STEP ms is what cost model public_code charges", "Why it is as fast",
        "links between nodes twice as fast", "100.0%", "50.0%"}) {
    INFO(part);
    // Lines may break anywhere.
    std::string words = page;
    for (const char* gap : {"\n  ", "\n"}) {
      for (size_t at; (at = words.find(gap)) != std::string::npos;) {
        words.replace(at, std::string(gap).size(), " ");
      }
    }
    CHECK(words.find(part) != std::string::npos);
  }
  plan.mutable_stages(0)->mutable_devices()->DeleteSubrange(6, 9);
  plan.mutable_stages(0)->set_replicas(6);
  CHECK(PlanPage(plan, "vgg", 80).find("n1/cuda:0-3 n2/cuda:0-1") !=
        std::string::npos);
}

TEST_CASE("plan against measurement: by stage, and the largest in words") {
  v1::Job job;
  job.set_id("j-1");
  job.set_name("digits");
  CHECK(DifferenceOf(job).summary() == "Nothing was measured yet.");
  job.set_measured_step_ms(12);
  job.mutable_plan()->set_predicted_step_ms(10);
  for (int s = 0; s < 2; ++s) {
    v1::PlanStage* planned = job.mutable_plan()->add_stages();
    planned->set_replicas(s == 0 ? 2 : 1);
    planned->set_forward_seconds(0.004);
    planned->set_backward_seconds(0.006);
    for (int r = 0; r < planned->replicas(); ++r) {
      v1::StageMetrics* stage = job.add_stages();
      stage->set_index(s);
      stage->set_replica(r);
      stage->set_device("n1/cpu:0");
      stage->set_forward_ms(4.2);
      stage->set_backward_ms(s == 1 ? 8.8 : 5.8);
    }
  }
  const v1::PlanDifference difference = DifferenceOf(job);
  CHECK(difference.ratio() == Approx(1.2));
  REQUIRE(difference.stages_size() == 3);
  CHECK(difference.stages(0).predicted_step_ms() == Approx(5));
  CHECK(difference.stages(0).ratio() == Approx(1));
  CHECK(difference.stages(2).ratio() == Approx(1.3));
  CHECK(difference.summary() ==
        "Largest difference: stage 1 on n1/cpu:0 computes 13.00 ms a minibatch "
        "where the plan said 10.00 (+30%), mostly in its backward passes.");
  const std::string page = DifferencePage(difference, 80);
  CHECK(WidestLine(page) <= 80);
  CHECK(page.find("1.30x") != std::string::npos);
  CHECK(page.find("\n0.1 ") != std::string::npos);
}

TEST_CASE("a summary shows the first epoch and the last ones") {
  const std::string text = JobSummary(SampleJob(), 80);
  CHECK(text.find("\n    1 ") != std::string::npos);
  CHECK(text.find("\n   20 ") != std::string::npos);
  CHECK(text.find("\n    5 ") == std::string::npos);
  CHECK(text.find("10 epochs left out") != std::string::npos);
}

TEST_CASE("text from elsewhere cannot drive the terminal") {
  CHECK(SafeText("a\033[2Jb\n") == "a\\x1b[2Jb\\x0a");
}

TEST_CASE("statuses keep reason and problems; each code has its exit code") {
  absl::Status status = absl::InvalidArgumentError("bad");
  SetReason("INVALID_SPEC", &status);
  v1::Problem problem;
  problem.set_field("batch.minibatch");
  problem.set_line(3);
  SetProblems({problem, problem}, &status);
  CHECK(ReasonOf(status) == "INVALID_SPEC");
  REQUIRE(ProblemsOf(status).size() == 2);
  CHECK(ProblemsOf(status)[1].field() == "batch.minibatch");

  CHECK(ExitCodeOf(absl::OkStatus()) == 0);
  CHECK(ExitCodeOf(absl::InternalError("")) == 1);
  CHECK(ExitCodeOf(absl::DataLossError("")) == 1);
  CHECK(ExitCodeOf(absl::InvalidArgumentError("")) == 3);
  CHECK(ExitCodeOf(absl::FailedPreconditionError("")) == 3);
  CHECK(ExitCodeOf(absl::NotFoundError("")) == 4);
  CHECK(ExitCodeOf(absl::AbortedError("")) == 5);
  CHECK(ExitCodeOf(absl::UnauthenticatedError("")) == 6);
  CHECK(ExitCodeOf(absl::UnavailableError("")) == 7);
  CHECK(ExitCodeOf(absl::ResourceExhaustedError("")) == 8);
  CHECK(ExitCodeOf(absl::DeadlineExceededError("")) == 124);
}

TEST_CASE("statuses: a wrong flag and a wrong file have codes of their own") {
  Output quiet;
  quiet.format = OutputFormat::kName;
  const absl::Status flag = UsageError(absl::NotFoundError("--profile: gone"));
  CHECK(ReasonOf(flag) == "USAGE");
  CHECK(quiet.Error(flag) == kExitUsage);
  CHECK(UsageError(absl::OkStatus()).ok());
  absl::Status corrupt = absl::DataLossError("a hash differs");
  CHECK(quiet.Error(corrupt) == kExitUnexpected);
  SetReason("CHECKPOINT_CORRUPT", &corrupt);
  CHECK(quiet.Error(corrupt) == kExitRejected);
}

TEST_CASE("flags: numbers and durations are checked, and name themselves") {
  Invocation invocation;
  int64_t number = 7;
  CHECK(invocation.GetInt("steps", 1, &number).ok());
  CHECK(number == 7);
  for (const char* bad : {"", "x", "0", "-3", "1.5", "99999999999999999999"}) {
    invocation.flags["steps"] = {bad};
    CHECK_FALSE(invocation.GetInt("steps", 1, &number).ok());
  }
  double seconds = 0;
  const auto parse = [&](const char* text) {
    invocation.flags["timeout"] = {text};
    return invocation.GetSeconds("timeout", &seconds).ok();
  };
  CHECK((parse("90s") && seconds == 90));
  CHECK((parse("15m") && seconds == 900));
  CHECK((parse("2h") && seconds == 7200));
  CHECK((parse("250ms") && seconds == 0.25));
  CHECK((parse("3") && seconds == 3));
  for (const char* bad : {"", "s", "nan", "inf", "-1s", "1d", "1e99h"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse(bad));
  }
}

TEST_CASE("sizes and times read well") {
  CHECK(FormatBytes(512) == "512 B");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes(1536.0 * 1024 * 1024) == "1.5 GiB");
  CHECK(FormatSeconds(0.0123) == "12.3 ms");
  CHECK(FormatSeconds(65) == "65.0 s");
  CHECK(FormatSeconds(3700) == "1h01m");
  CHECK(FormatSeconds(-1) == "-");
  CHECK(FormatPercent(0.1234) == "12.3%");
  CHECK(FormatPercent(-1e-17) == "0.0%");
}

}  // namespace pipework
