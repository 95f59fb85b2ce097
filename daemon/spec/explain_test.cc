#include <catch2/catch.hpp>

#include "daemon/spec/spec.h"

namespace pipework {
namespace {

using Catch::Matchers::Contains;

std::string Explain(const std::string& path, bool recursive = false) {
  const auto text = ExplainField(path, recursive);
  return text.ok() ? *text : std::string(text.status().message());
}

TEST_CASE("explain: the whole spec lists its sections") {
  const std::string text = Explain("");
  for (const char* field : {"name", "model", "data", "batch", "optimizer",
                            "learning_rate", "pipeline", "run", "checkpoint",
                            "restart", "threads_per_executor", "seed"}) {
    CAPTURE(field);
    CHECK_THAT(text, Contains(std::string("\n  ") + field + "  <"));
  }
  CHECK_THAT(text, !Contains("minibatch  <"));
  CHECK_THAT(Explain("", true), Contains("minibatch  <a whole number>"));
}

TEST_CASE("explain: a field has its type, its default and its comment") {
  CHECK_THAT(Explain("batch.microbatches"),
             Contains("batch.microbatches  <a whole number>  default 1\n") &&
                 Contains("replicas of the first stage"));
  CHECK_THAT(Explain("pipeline.stages[2].devices[0]"),
             Contains("pipeline.stages.devices  <a word or a list of words>") &&
                 Contains("one for each replica"));
}

TEST_CASE("explain: stages are told as a spec writes them") {
  CHECK_THAT(Explain("pipeline.stages"),
             Contains("<auto, a number, or a list of stages>  default auto") &&
                 Contains("\n  layers  <") && Contains("\n  replicas  <"));
  CHECK_THAT(Explain("pipeline"), !Contains("stage_count"));
  CHECK_THAT(Explain("pipeline.stage_count"), Contains("expected one of"));
}

TEST_CASE("explain: names of a table are listed") {
  CHECK_THAT(Explain("model.layers.type"), Contains("conv2d"));
  CHECK_THAT(Explain("model.name"), Contains("small_cnn"));
  CHECK_THAT(Explain("pipeline.schedule"), Contains("flush"));
  CHECK_THAT(Explain("optimizer.name"), Contains("adam"));
  CHECK_THAT(Explain("learning_rate.schedule"), Contains("polynomial"));
}

TEST_CASE("explain: an unknown field names the nearest") {
  CHECK(ExplainField("pipeline.stagse", false).status().code() ==
        absl::StatusCode::kNotFound);
  CHECK_THAT(Explain("pipeline.stagse"),
             Contains("did you mean pipeline.stages?"));
  CHECK_THAT(Explain("seed.more"), Contains("no fields of its own"));
}

TEST_CASE("explain: every field has a comment and no line is too long") {
  const std::string text = Explain("", true);
  size_t start = 0;
  std::string before;
  while (start < text.size()) {
    const size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    CAPTURE(line);
    CHECK(line.size() <= 80);
    // A field is followed by its comment, which is indented further.
    if (!before.empty() && before.find("  <") != std::string::npos) {
      CHECK(line.find("  <") == std::string::npos);
    }
    before = line;
    start = end + 1;
  }
}

}  // namespace
}  // namespace pipework
