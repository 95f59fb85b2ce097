// The example jobs: each of them is a spec without a problem, for data that is
// there and fits.
#include <catch2/catch.hpp>
#include <filesystem>

#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

std::string All(const std::vector<v1::Problem>& problems) {
  std::string text;
  for (const v1::Problem& problem : problems) {
    text += FormatProblem(problem) + "\n";
  }
  return text;
}

TEST_CASE("jobs: every example is valid and fits its data") {
  int seen = 0;
  for (const auto& entry : fs::directory_iterator("testdata/jobs")) {
    const std::string file = entry.path().string();
    CAPTURE(file);
    ++seen;
    const auto parsed = ReadSpec(file, {});
    REQUIRE(parsed.ok());
    CHECK(All(parsed->problems) == "");
    CHECK(All(CheckSpec(parsed->spec)) == "");
    // The files of MNIST are not in the tree.
    if (entry.path().filename() == "mnist.yaml") continue;
    v1::JobSpec spec = parsed->spec;
    MakePathsAbsolute(fs::absolute(file).string(), &spec);
    const auto facts = DataFactsOf(spec);
    INFO(facts.status().message());
    REQUIRE(facts.ok());
    CHECK(All(CheckModel(spec, EndsOf(*facts))) == "");
    const auto graph = GraphOf(spec, EndsOf(*facts));
    REQUIRE(graph.ok());
    CHECK(All(CheckAgainstData(spec, *graph, facts->train_samples(),
                               facts->test_samples())) == "");
    CHECK(EstimateProfile(*graph, spec.batch().minibatch()).ok());
  }
  CHECK(seen >= 10);
}

TEST_CASE("jobs: data on this machine adds its problems to those of the spec") {
  const std::string file = fs::absolute("testdata/jobs/digits.yaml").string();
  const auto check = [&](std::vector<std::string> sets) {
    auto parsed = ReadSpec(file, sets);
    REQUIRE(parsed.ok());
    CHECK(All(parsed->problems) == "");
    v1::JobSpec spec = parsed->spec;
    MakePathsAbsolute(file, &spec);
    const DataCheck found = CheckWithData(spec);
    AddProblems(found.problems, &*parsed);
    return std::pair<std::string, std::string>(All(parsed->problems),
                                               found.missing);
  };
  using Catch::Matchers::Contains;
  CHECK(check({}).first == "");
  const auto missing = check({"data.train.x=none.npy"});
  CHECK_THAT(missing.second, Contains("none.npy: cannot be opened"));
  CHECK_THAT(missing.first, Contains("--set  data.train.x  ") &&
                                Contains("none.npy: cannot be opened"));
  const auto swapped = check({"data.test.y=../data/v1.npy"});
  CHECK(swapped.second == "");
  CHECK_THAT(swapped.first, Contains("--set  data.test.y") &&
                                Contains("number of labels is 2"));
  CHECK_THAT(check({"batch.minibatch=2000"}).first,
             Contains("at most 1437, the number of training samples"));
  CHECK_THAT(check({"model.name=lenet5", "model.args=null"}).first,
             Contains("digits.yaml") || Contains("--set"));
}

TEST_CASE("jobs: LeNet-5 takes the images of MNIST in 2, 3 and 4 stages") {
  ModelEnds ends;
  ends.sample = Shape({28, 28});
  ends.classes = 10;
  for (const char* stages : {"2", "3", "4"}) {
    const auto parsed = ReadSpec("testdata/jobs/mnist.yaml",
                                 {std::string("pipeline.stages=") + stages});
    REQUIRE(parsed.ok());
    CHECK(All(parsed->problems) == "");
    CHECK(All(CheckModel(parsed->spec, ends)) == "");
  }
}

}  // namespace
}  // namespace pipework
