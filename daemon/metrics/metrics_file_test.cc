#include "daemon/metrics/metrics_file.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>

#include "daemon/base/paths.h"
#include "proto/metrics.pb.h"

namespace pipework {
namespace {

std::string TempFile(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return JoinPath(folder == nullptr ? "/tmp" : folder, name);
}

v1::StepMetrics Step() {
  v1::StepMetrics step;
  step.set_step(7);
  step.set_epoch(1);
  step.set_loss(0.1);
  step.set_learning_rate(0.05);
  step.set_samples_per_second(1234.5);
  step.set_samples(32);
  return step;
}

TEST_CASE("metrics file: a .jsonl file has an object a line") {
  const std::string path = TempFile("steps.jsonl");
  auto file = MetricsFile::Create(path);
  REQUIRE(file.ok());
  REQUIRE(file->Write(Step()).ok());
  REQUIRE(file->Write(Step()).ok());
  REQUIRE(file->Flush().ok());
  const std::string line =
      "{\"step\":7,\"epoch\":1,\"loss\":0.1,\"learning_rate\":0.05,"
      "\"samples_per_second\":1234.5,\"samples\":32}\n";
  CHECK(*ReadFile(path) == line + line);
}

TEST_CASE("metrics file: a .csv file starts with the names") {
  const std::string path = TempFile("steps.csv");
  auto file = MetricsFile::Create(path);
  REQUIRE(file.ok());
  REQUIRE(file->Write(Step()).ok());
  REQUIRE(file->Flush().ok());
  CHECK(*ReadFile(path) ==
        "step,epoch,loss,learning_rate,samples_per_second,samples\n"
        "7,1,0.1,0.05,1234.5,32\n");
}

TEST_CASE("metrics file: a loss that is no number is null, or empty in csv") {
  v1::StepMetrics step = Step();
  step.set_loss(std::numeric_limits<double>::quiet_NaN());
  CHECK(MetricsLine(step, false).find("\"loss\":null,") != std::string::npos);
  step.set_loss(std::numeric_limits<double>::infinity());
  CHECK(MetricsLine(step, true) == "7,1,,0.05,1234.5,32");
}

TEST_CASE("metrics file: another ending is refused before anything is made") {
  const auto file = MetricsFile::Create(TempFile("steps.txt"));
  REQUIRE(file.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(file.status().message()).find(".jsonl") !=
        std::string::npos);
  CHECK_FALSE(FileExists(TempFile("steps.txt")));
}

TEST_CASE("metrics file: a folder that is missing is named") {
  const auto file = MetricsFile::Create("/no/such/folder/steps.csv");
  REQUIRE_FALSE(file.ok());
  CHECK(std::string(file.status().message()).find("/no/such/folder") !=
        std::string::npos);
}

}  // namespace
}  // namespace pipework
