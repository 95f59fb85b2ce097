#include "daemon/spec/spec.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/bazel/golden.h"

namespace pipework {
namespace {

using Catch::Matchers::Contains;
using google::protobuf::util::MessageDifferencer;

constexpr char kGood[] = R"(name: good
model: {name: mlp, args: {hidden: [16]}}
data:
  train: {x: x.npy, y: y.npy}
  split: {test: 10}
batch:
  minibatch: 32
optimizer:
  name: sgd
learning_rate:
  base: 0.05
run:
  epochs: 2
)";

ParsedSpec Parse(const std::string& text,
                 const std::vector<std::string>& sets = {}) {
  return ParseSpec(text, "job.yaml", sets);
}

// Of the one problem: "LINE FIELD: GOT / EXPECTED / HINT".
std::string OneProblem(const ParsedSpec& parsed) {
  std::string all;
  for (const v1::Problem& problem : parsed.problems) {
    absl::StrAppend(&all, FormatProblem(problem), "\n");
  }
  INFO(all);
  CHECK(parsed.problems.size() == 1);
  if (parsed.problems.size() != 1) return all;
  const v1::Problem& p = parsed.problems[0];
  return absl::StrCat(p.line(), " ", p.field(), ": ", p.got(), " / ",
                      p.expected(), " / ", p.hint());
}

// The good spec with one piece of its text replaced.
std::string With(const std::string& from, const std::string& to) {
  const std::string good = kGood;
  REQUIRE(good.find(from) != std::string::npos);
  return absl::StrReplaceAll(good, {{from, to}});
}

std::string ErrorWith(const std::string& from, const std::string& to) {
  return OneProblem(Parse(With(from, to)));
}

std::string ErrorSet(const std::string& set) {
  return OneProblem(Parse(kGood, {set}));
}

TEST_CASE("spec: a good one is read, and defaults are filled in") {
  const ParsedSpec parsed = Parse(kGood);
  REQUIRE(parsed.problems.empty());
  const v1::JobSpec& spec = parsed.spec;
  CHECK(spec.name() == "good");
  CHECK(spec.model().args(0).ints_value().values(0) == 16);
  CHECK(spec.data().scale() == 1);
  CHECK_FALSE(spec.data().has_test());
  CHECK_FALSE(spec.data().has_normalise());
  CHECK(spec.batch().minibatch() == 32);
  CHECK(spec.batch().microbatches() == 1);
  CHECK(spec.batch().accumulate() == 1);
  CHECK(spec.learning_rate().schedule() == "constant");
  CHECK(spec.pipeline().schedule() == "1f1b");
  CHECK(spec.pipeline().weights() == "stash");
  CHECK(spec.pipeline().in_flight() == "noam");
  CHECK(spec.pipeline().stage_count() == 0);
  CHECK(spec.checkpoint().keep() == 2);
  CHECK(spec.threads_per_executor() == 1);
  CHECK(spec.seed() == 1);
  // Those of another optimizer or schedule stay away.
  CHECK(spec.optimizer().beta1() == 0);
  CHECK(spec.learning_rate().factor() == 0);
}

TEST_CASE("spec: a zero that was written is not taken for left out") {
  CHECK(Parse(kGood, {"seed=0"}).spec.seed() == 0);
  CHECK(Parse(kGood, {"seed=-5"}).spec.seed() == -5);
  CHECK_THAT(ErrorSet("batch.microbatches=0"), Contains("at least 1"));
  CHECK_THAT(ErrorSet("checkpoint.keep=0"), Contains("at least 1"));
  CHECK_THAT(ErrorSet("checkpoint.every_seconds=0"), Contains("at least 10"));
  CHECK_THAT(ErrorSet("data.scale=0"), Contains("not 0"));
}

TEST_CASE("spec: adam gets its defaults, and a zero beta stays zero") {
  const ParsedSpec parsed = Parse(With("name: sgd", "name: adam\n  beta1: 0"));
  REQUIRE(parsed.problems.empty());
  CHECK(parsed.spec.optimizer().beta1() == 0);
  CHECK(parsed.spec.optimizer().beta2() == 0.999);
  CHECK(parsed.spec.optimizer().epsilon() == 1e-8);
}

TEST_CASE("spec: without a name the job is called as its file") {
  const std::string text = With("name: good\n", "");
  CHECK(ParseSpec(text, "/jobs/my net.v2.yaml", {}).spec.name() == "my-net.v2");
  CHECK(ParseSpec(text, "-", {}).spec.name() == "job");
  CHECK(ParseSpec(text, "", {}).spec.name() == "job");
  CHECK(ParseSpec(text, ".hidden", {}).spec.name() == "hidden");
}

TEST_CASE("spec: twelve errors are twelve problems with lines and paths") {
  const auto read = ReadSpec("testdata/specs/twelve_errors.yaml", {});
  REQUIRE(read.ok());
  CHECK(read->problems.size() == 12);
  std::string text;
  for (const v1::Problem& problem : read->problems) {
    absl::StrAppend(&text, FormatProblem(problem), "\n");
  }
  CHECK(testing::GoldenMismatch("testdata/specs/twelve_errors.golden", text) ==
        "");
}

TEST_CASE("spec: JSON is read as well, with its lines") {
  const std::string json = R"({
    "model": {"name": "mlp", "args": {"hidden": [16]}},
    "data": {"train": {"x": "x.npy", "y": "y.npy"}, "split": {"test": 10}},
    "batch": {"minibatch": 32},
    "optimizer": {"name":"sgd", "nesterov":false},
	"learning_rate": {"base": 0.05},
    "run": {"epochs": 2}
})";
  CHECK(Parse(json).problems.empty());
  CHECK_THAT(OneProblem(Parse(absl::StrReplaceAll(json, {{"32", "\"32\""}}))),
             Contains("4 batch.minibatch: \"32\" / a whole number / remove "
                      "the quotes"));
}

TEST_CASE("spec: what a spec must not have is refused with its line") {
  CHECK_THAT(
      ErrorWith("  name: sgd\n", "  name: sgd\n  name: adam\n"),
      Contains("10 optimizer.name: given twice") && Contains("line 9 too"));
  CHECK_THAT(ErrorWith("  minibatch: 32", "  minibach: 32"),
             Contains("7 batch.minibach: an unknown field") &&
                 Contains("did you mean minibatch?"));
  CHECK_THAT(ErrorWith("base: 0.05", "base: &rate 0.05"),
             Contains("11 learning_rate.base: an anchor"));
  CHECK_THAT(ErrorWith("base: 0.05", "base: *rate"),
             Contains("11 : ") || Contains("11 learning_rate.base"));
  CHECK_THAT(ErrorWith("base: 0.05", "base: !!str 0.05"),
             Contains("11 learning_rate.base: the tag"));
  CHECK_THAT(OneProblem(Parse(absl::StrCat(kGood, "---\na: 1\n"))),
             Contains("a second document"));
  CHECK_THAT(ErrorWith("  epochs: 2", "  epochs: 2\n  [a, b]: 3"),
             Contains("14 run: a key that is no word"));
  CHECK_THAT(ErrorWith("  epochs: 2", "  epochs: 2\n  {a: b}: 3"),
             Contains("14 run: a key that is no word"));
}

TEST_CASE("spec: an anchor that holds itself ends") {
  CHECK_FALSE(Parse("&x [*x]").problems.empty());
  CHECK_FALSE(Parse("model: &x {name: *x}").problems.empty());
}

TEST_CASE("spec: text that is no YAML is one problem") {
  CHECK_THAT(OneProblem(Parse("a: [1, 2\nb: }\n")), Contains(": "));
  CHECK_THAT(OneProblem(Parse("")), Contains("nothing / a job spec"));
  CHECK_THAT(OneProblem(Parse("just words")), Contains("a job spec"));
  CHECK_THAT(OneProblem(Parse("- a\n- b\n")), Contains("a list of 2"));
  CHECK_THAT(OneProblem(Parse("a: b\nname: \xff\xfe\n")),
             Contains("2 : byte 0xff"));
  CHECK_THAT(OneProblem(Parse(std::string("a\0b", 3))),
             Contains("control character 0x00"));
  CHECK_THAT(OneProblem(Parse("name: \xed\xa0\x80")), Contains("UTF-8"));
  CHECK_THAT(OneProblem(Parse("name: \xc0\xaf")), Contains("UTF-8"));
}

TEST_CASE("spec: nesting and size have limits") {
  CHECK_THAT(OneProblem(Parse(std::string(200000, '['))),
             Contains("deeper than 32"));
  CHECK_THAT(OneProblem(Parse(std::string(200000, '{'))),
             Contains("deeper than 32"));
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    deep += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  }
  CHECK_THAT(OneProblem(Parse(deep)), Contains("deeper than 32"));
  CHECK_THAT(OneProblem(Parse(std::string((16 << 20) + 1, ' '))),
             Contains("at most 16777216"));
}

TEST_CASE("spec: a hostile file does not make a problem of each of its keys") {
  std::string text;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, "k", i, ": 1\n");
  CHECK_THAT(OneProblem(Parse(text)), Contains("more than 1000 fields"));
  text = "model:\n  layers:\n";
  for (int i = 0; i < 20000; ++i) {
    absl::StrAppend(&text, "  - {name: n", i, ", type: tpye, inputs: m", i,
                    "}\n");
  }
  CHECK(Parse(text).problems.size() == 1000);
}

TEST_CASE("spec: numbers are decimal, and truth is true or false") {
  const auto minibatch = [](const std::string& value) {
    return ErrorWith("minibatch: 32", "minibatch: " + value);
  };
  CHECK_THAT(minibatch("017"), Contains("without leading zeros"));
  CHECK_THAT(minibatch("0x20"), Contains("in decimal"));
  CHECK_THAT(minibatch("1_000"), Contains("without underscores"));
  CHECK_THAT(minibatch("3.5"), Contains("a whole number"));
  CHECK_THAT(minibatch("1e3"), Contains("write 1000"));
  CHECK_THAT(minibatch("many"), Contains("\"many\" / a whole number"));
  CHECK_THAT(minibatch("'32'"), Contains("remove the quotes"));
  CHECK_THAT(minibatch("9223372036854775808"), Contains("below 2^63"));
  CHECK_THAT(minibatch("9223372036854775807"), Contains("at most 1048576"));
  CHECK_THAT(minibatch("-1"), Contains("at least 1"));
  CHECK_THAT(minibatch(""), Contains("7 batch.minibatch: nothing"));
  CHECK_THAT(minibatch("~"), Contains("nothing"));
  CHECK_THAT(minibatch("[32]"), Contains("a list of 1"));
  CHECK_THAT(minibatch("{a: 32}"), Contains("a map"));

  const auto base = [](const std::string& value) {
    return ErrorWith("base: 0.05", "base: " + value);
  };
  CHECK_THAT(base("1e400"), Contains("1.8e308"));
  CHECK_THAT(base("1e-400"), Contains("close to 0"));
  CHECK_THAT(base(".nan"), Contains("finite"));
  CHECK_THAT(base("nan"), Contains("a number"));
  CHECK_THAT(base("-.inf"), Contains("finite"));
  CHECK_THAT(base("-0.1"), Contains("above 0"));
  CHECK_THAT(base("0"), Contains("above 0"));
  CHECK_THAT(base("0x1p3"), Contains("a number"));
  CHECK(Parse(With("base: 0.05", "base: +5e-2")).spec.learning_rate().base() ==
        0.05);
  CHECK(Parse(With("base: 0.05", "base: 1")).problems.empty());

  for (const char* word : {"yes", "True", "on", "1", "\"true\""}) {
    CAPTURE(word);
    CHECK_THAT(ErrorSet(absl::StrCat("optimizer.nesterov=", word)),
               Contains("true or false"));
  }
  CHECK_THAT(ErrorSet("threads_per_executor=4294967297"),
             Contains("below 2^31"));
}

TEST_CASE("spec: words may look like anything") {
  CHECK(Parse(kGood, {"name=123"}).spec.name() == "123");
  CHECK(Parse(With("name: good", "name: no")).spec.name() == "no");
  CHECK(Parse(kGood, {"pipeline.in_flight=4"}).spec.pipeline().in_flight() ==
        "4");
}

TEST_CASE("spec: arguments keep their kind") {
  const auto parsed = Parse(With(
      "model: {name: mlp, args: {hidden: [16]}}",
      "model:\n  layers:\n"
      "  - {name: a, type: linear, args: {i: 3, r: 0.5, e: 1e-3, b: true, w: "
      "word, q: '3', l: [1, -2], n: []}}\n"
      "  - {name: loss, type: mse}"));
  REQUIRE(parsed.problems.empty());
  const auto& args = parsed.spec.model().layers(0).args();
  REQUIRE(args.size() == 8);
  CHECK(args[0].int_value() == 3);
  CHECK(args[1].real_value() == 0.5);
  CHECK(args[2].real_value() == 1e-3);
  CHECK(args[3].bool_value());
  CHECK(args[4].text_value() == "word");
  CHECK(args[5].text_value() == "3");
  CHECK(args[6].ints_value().values(1) == -2);
  CHECK(args[7].has_ints_value());

  for (const char* odd : {"yes", "012", "0x1F", "1_0", ".inf"}) {
    CAPTURE(odd);
    CHECK_THAT(ErrorSet(absl::StrCat("model.args.hidden=", odd)),
               Contains("model.args.hidden"));
  }
  CHECK_THAT(ErrorSet("model.args.hidden=[1, two]"),
             Contains("model.args.hidden[1]"));
}

TEST_CASE("spec: stages are auto, a number or a list") {
  const auto stages = [](const std::string& value) {
    return Parse(kGood, {"pipeline.stages=" + value});
  };
  CHECK(stages("auto").spec.pipeline().stage_count() == 0);
  CHECK(stages("2").spec.pipeline().stage_count() == 2);
  const ParsedSpec list = stages(
      "[{layers: flatten..relu1, devices: n1/cpu:0}, {layers: [fc2, loss], "
      "replicas: 2}]");
  REQUIRE(list.problems.empty());
  REQUIRE(list.spec.pipeline().stages_size() == 2);
  CHECK(list.spec.pipeline().stage_count() == 0);
  CHECK(list.spec.pipeline().stages(0).layers(0) == "flatten..relu1");
  CHECK(list.spec.pipeline().stages(0).replicas() == 1);
  CHECK(list.spec.pipeline().stages(0).devices(0) == "n1/cpu:0");
  CHECK(list.spec.pipeline().stages(1).replicas() == 2);

  CHECK_THAT(OneProblem(stages("0")), Contains("at least 1"));
  CHECK_THAT(OneProblem(stages("-1")), Contains("at least 1"));
  CHECK_THAT(OneProblem(stages("some")), Contains("auto, a number"));
  CHECK_THAT(OneProblem(stages("[]")), Contains("at least one stage"));
  CHECK_THAT(OneProblem(stages("99")),
             Contains("99 stages / at most 5, the number of layers"));
  CHECK_THAT(ErrorSet("pipeline.stage_count=2"),
             Contains("an unknown field") && Contains("stages"));
  CHECK(stages("[{replicas: 2}, {}]").problems.empty());
  CHECK_THAT(OneProblem(stages("[{replicas: 2}, {layers: [loss]}]")),
             Contains("pipeline.stages[0]: no layers"));
  CHECK_THAT(
      OneProblem(stages(
          "[{layers: [a]}, {layers: [b], replicas: 2, devices: [n/cpu:0]}]")),
      Contains("pipeline.stages[1].devices: 1 devices / 2"));
  CHECK_THAT(OneProblem(stages("[{layers: [a], devices: [n/cpu:0]}, {layers: "
                               "[b], devices: [n/cpu:0]}]")),
             Contains("pipeline.stages[1].devices[0]: n/cpu:0 again"));
}

TEST_CASE("spec: what is missing is asked for where it should be") {
  CHECK_THAT(ErrorWith("run:\n  epochs: 2\n", ""), Contains("1 run: nothing"));
  CHECK_THAT(ErrorWith("  minibatch: 32", "  accumulate: 2"),
             Contains("6 batch.minibatch: nothing"));
  CHECK_THAT(ErrorWith("  epochs: 2", "  target_accuracy: 0.9"),
             Contains("12 run: neither epochs nor steps"));
  CHECK_THAT(ErrorWith("  split: {test: 10}\n", ""),
             Contains("3 data: neither test nor split"));
  CHECK_THAT(ErrorWith("model: {name: mlp, args: {hidden: [16]}}",
                       "model: {args: {hidden: [16]}}"),
             Contains("2 model: neither name nor layers"));
  const ParsedSpec empty = Parse("name: a\n");
  std::vector<std::string> fields;
  for (const v1::Problem& problem : empty.problems) {
    fields.push_back(problem.field());
    CHECK(problem.line() == 1);
  }
  CHECK(absl::StrJoin(fields, " ") ==
        "model data batch optimizer learning_rate run");
}

TEST_CASE("spec: contradictions and impossible values") {
  const struct {
    const char* set;
    const char* says;
  } cases[] = {
      {"run.steps=100", "run.steps: epochs as well"},
      {"run.target_accuracy=97.5", "from 0 to 1 / write 0.975"},
      {"run.target_accuracy=-0.1", "from 0 to 1"},
      {"run.epochs=0", "at least 1"},
      {"run.epochs=9223372036854775807", "at most"},
      {"batch.microbatches=4", "1 with schedule 1f1b"},
      {"pipeline.weights=flush",
       "pipeline.weights: \"flush\" / stash or vertical_sync or none with"},
      {"pipeline.weights=stsh", "did you mean stash?"},
      {"pipeline.schedule=2f2b", "one of 1f1b, model_parallel, gpipe, flush"},
      {"pipeline.in_flight=0", "at least 1"},
      {"pipeline.in_flight=much", "noam, auto or a number"},
      {"optimizer.name=sdg", "did you mean sgd?"},
      {"optimizer.momentum=1", "from 0 to below 1"},
      {"optimizer.beta1=0.9", "only with adam"},
      {"optimizer.nesterov=true", "momentum"},
      {"optimizer.weight_decay=-1", "0 or more"},
      {"learning_rate.schedule=cosin", "did you mean cosine?"},
      {"learning_rate.factor=0.1", "only with schedule: step"},
      {"learning_rate.power=2", "only with schedule: polynomial"},
      {"learning_rate.final=0.1", "cosine or polynomial"},
      {"learning_rate.schedule=step", "learning_rate.every_epochs: nothing"},
      {"learning_rate.warmup_epochs=3", "at most run.epochs 2"},
      {"learning_rate.warmup_epochs=-1", "0 or more"},
      {"data.split={test: 10, first: 5, last: 5}", "test as well"},
      {"data.split={first: 5}", "data.split.last: nothing"},
      {"data.split={first: 5, last: 5, seed: 1}", "only with test"},
      {"data.split={test: 0}", "at least 1"},
      {"data.split={}", "data.split: empty"},
      {"data.test={x: a.npy, y: b.npy}", "data.split: test as well"},
      {"data.train={csv: a.csv}", "data.train.label: nothing"},
      {"data.train={csv: a.csv, label: y, length: 3}", "only with text"},
      {"data.train={text: a.txt}", "data.train.length: nothing"},
      {"data.train={text: a.txt, length: 0}", "at least 1"},
      {"data.train={x: a.npy}", "data.train.y: nothing"},
      {"data.train={y: a.npy}", "data.train.x: nothing"},
      {"data.train={x: a.npy, y: b.npy, csv: c.csv}", "x as well"},
      {"data.train={}", "data.train: no file"},
      {"data.train.x=a.npz", "FILE.npz#KEY"},
      {"data.train.x=a.png", "-ubyte"},
      {"data.normalise={mean: 1}", "data.normalise.std: nothing"},
      {"data.normalise={std: 0}", "above 0"},
      {"checkpoint={every_epochs: 1, every_steps: 5}",
       "checkpoint.every_steps: every_epochs as well"},
      {"checkpoint.every_seconds=9", "at least 10"},
      {"restart.max=-1", "at least 0"},
      {"threads_per_executor=0", "at least 1"},
      {"model.name=mpl", "did you mean mlp?"},
      {"model.args.hiden=[3]", "argument \"hiden\" is not known"},
      {"name=a/b", "letters, digits"},
      {"name=-a", "letters, digits"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.set);
    CHECK_THAT(ErrorSet(one.set), Contains(one.says));
  }
}

TEST_CASE("spec: minibatch = microbatch x microbatches x replicas") {
  const std::vector<std::string> flush = {"pipeline.schedule=flush"};
  const auto with = [&](std::vector<std::string> sets) {
    sets.push_back("pipeline.schedule=flush");
    return Parse(kGood, sets);
  };
  CHECK(with({"batch.microbatches=8"}).problems.empty());
  CHECK(with({"batch.microbatches=8"}).spec.pipeline().weights() == "flush");
  CHECK_THAT(OneProblem(with({"batch.microbatches=7"})),
             Contains("batch.microbatches: 7 / a divisor of minibatch 32"));
  const std::string stages =
      "pipeline.stages=[{layers: flatten..relu1, replicas: 3}, {layers: "
      "fc2..loss}]";
  CHECK_THAT(OneProblem(with({"batch.microbatches=4", stages})),
             Contains("4 x 3 replicas of the first stage = 12 / a divisor of "
                      "minibatch 32"));
  CHECK(with({"batch.microbatches=4", "batch.minibatch=24", stages})
            .problems.empty());
}

// The replicas of a stage take turns within the microbatches of an update, and
// two versions are enough for no fewer of them than the pipeline is deep.
TEST_CASE("spec: what a schedule asks of microbatches, replicas and depth") {
  const auto with = [](const std::string& pipeline,
                       const std::string& microbatches = "1",
                       const std::string& accumulate = "1") {
    return Parse(kGood, {"pipeline=" + pipeline, "batch.minibatch=24",
                         "batch.microbatches=" + microbatches,
                         "batch.accumulate=" + accumulate});
  };
  const std::string two = "{schedule: two_version, stages: 3}";
  CHECK(with(two, "3").problems.empty());
  CHECK(with(two, "3").spec.pipeline().weights() == "two_version");
  CHECK_THAT(OneProblem(with(two, "2")),
             Contains("batch.microbatches: 2 / 3 or more, the depth of the "
                      "pipeline / use more microbatches, or fewer stages"));
  CHECK(with(two, "2", "2").problems.empty());
  // Each replica of the first stage has microbatches of its own.
  const auto stages = [&](const std::string& list,
                          const std::string& microbatches) {
    return with("{schedule: two_version, stages: " + list + "}", microbatches);
  };
  CHECK(stages("[{replicas: 2}, {replicas: 2}]", "2").problems.empty());
  CHECK(stages("[{replicas: 2}, {}]", "2").problems.empty());
  CHECK_THAT(
      OneProblem(stages("[{}, {replicas: 3}]", "4")),
      Contains("batch.microbatches: 4 / a multiple of 3, the replicas of "
               "stage 1"));
  CHECK_THAT(OneProblem(stages("[{}, {replicas: 2, shares: [2, 1]}]", "4")),
             Contains("batch.microbatches: 4 / a multiple of 3"));
  CHECK(stages("[{}, {replicas: 2, shares: [2, 1]}]", "6").problems.empty());
  CHECK_THAT(OneProblem(with("{schedule: model_parallel, in_flight: 3}")),
             Contains("pipeline.in_flight: 3 / 1 / 1f1b takes any number"));
  CHECK_THAT(OneProblem(with("{schedule: gpipe, weights: stash}", "4")),
             Contains("pipeline.weights: \"stash\" / flush with schedule gpipe "
                      "/ it updates only while nothing is in flight"));
  for (const char* drawn : {"interleaved", "zb_h1", "zb_h2"}) {
    CAPTURE(drawn);
    CHECK_THAT(OneProblem(with(std::string("{schedule: ") + drawn + "}", "4")),
               Contains(std::string("pipeline.schedule: \"") + drawn +
                        "\" / a schedule that can be run / ") &&
                   Contains("cannot be run yet") &&
                   Contains("run one of 1f1b, model_parallel, gpipe, flush, "
                            "two_version"));
  }
}

TEST_CASE("spec: shares are one for each replica, positive and few") {
  const auto stages = [](const std::string& first) {
    return Parse(kGood, {"pipeline.stages=[{layers: flatten..relu1, " + first +
                         "}, {layers: fc2..loss}]"});
  };
  const ParsedSpec good = stages("replicas: 2, shares: [2, 1]");
  REQUIRE(good.problems.empty());
  CHECK(good.spec.pipeline().stages(0).shares_size() == 2);
  CHECK(good.spec.pipeline().stages(0).shares(0) == 2);
  CHECK_THAT(SpecToYaml(good.spec), Contains("shares: [2, 1]"));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: [2]")),
             Contains("pipeline.stages[0].shares: 1 shares / 2, one for each "
                      "replica"));
  CHECK_THAT(OneProblem(stages("shares: [2, 1]")),
             Contains("2 shares / 1, one for each replica"));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: [2, 0]")),
             Contains("pipeline.stages[0].shares[1]: 0 / "));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: [-1, 3]")),
             Contains("pipeline.stages[0].shares[0]: -1 / "));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: [40, 25]")),
             Contains("shares that add up to 65 / at most 64"));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: 3")),
             Contains("pipeline.stages[0].shares: 3 / a list of whole "
                      "numbers"));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: [2, x]")),
             Contains("pipeline.stages[0].shares[1]"));
  CHECK_THAT(OneProblem(stages("replicas: 2, shares: [2, 9999999999]")),
             Contains("below 2^31"));
}

TEST_CASE("spec: with shares a minibatch splits into their sum") {
  const auto with = [](const std::string& microbatches) {
    return Parse(kGood,
                 {"pipeline.schedule=flush", "batch.minibatch=24",
                  "batch.microbatches=" + microbatches,
                  "pipeline.stages=[{layers: flatten..relu1, replicas: 2, "
                  "shares: [4, 2]}, {layers: fc2..loss}]"});
  };
  CHECK(with("4").problems.empty());
  CHECK_THAT(OneProblem(with("6")),
             Contains("6 x 3, the shares of the first stage = 18 / a divisor "
                      "of minibatch 24"));
}

TEST_CASE("spec: layers are checked by name, type and wiring") {
  const auto layers = [](const std::string& list) {
    return OneProblem(Parse(With("model: {name: mlp, args: {hidden: [16]}}",
                                 "model:\n  layers:\n" + list)));
  };
  CHECK_THAT(layers("  - {name: a, type: linaer}\n"
                    "  - {name: loss, type: mse}"),
             Contains("4 model.layers[0].type") && Contains("mean linear?"));
  CHECK_THAT(layers("  - {name: a, type: relu}\n"
                    "  - {name: a, type: relu}\n"
                    "  - {name: loss, type: mse}"),
             Contains("5 model.layers[1].name") && Contains("layers[0]"));
  CHECK_THAT(layers("  - {type: relu}\n"
                    "  - {name: loss, type: mse}"),
             Contains("4 model.layers[0].name: nothing"));
  CHECK_THAT(layers("  - {name: a b, type: relu}\n"
                    "  - {name: loss, type: mse, inputs: [x, y]}"),
             Contains("\"a b\""));
  CHECK_THAT(layers("  - {name: a, type: relu, inputs: b}\n"
                    "  - {name: b, type: relu}\n"
                    "  - {name: c, type: add, inputs: [a, b]}\n"
                    "  - {name: loss, type: mse}"),
             Contains("4 model.layers[0].inputs: \"b\""));
  CHECK_THAT(layers("  - {name: loss, type: mse}\n"
                    "  - {name: a, type: relu}"),
             Contains("model.layers[0].type: mse") ||
                 Contains("model.layers[1].type: relu"));
  CHECK_THAT(layers("  - {name: a, type: relu}\n"
                    "  - {name: b, type: relu, inputs: x}\n"
                    "  - {name: loss, type: mse}"),
             Contains("4 model.layers[0]: no reader of \"a\""));
}

TEST_CASE("spec: pinned stages hold each layer once") {
  const auto stages = [](const std::string& list) {
    const std::string text =
        With("model: {name: mlp, args: {hidden: [16]}}",
             "model:\n  layers:\n"
             "  - {name: a, type: linear, args: {out: 3}}\n"
             "  - {name: b, type: relu}\n"
             "  - {name: c, type: linear, args: {out: 3}}\n"
             "  - {name: loss, type: mse}");
    return Parse(text, {"pipeline.stages=" + list});
  };
  CHECK(stages("[{layers: [a, b]}, {layers: [c, loss]}]").problems.empty());
  CHECK(stages("[{layers: a..c}, {layers: [loss]}]").problems.empty());
  // Branches may be cut across: the planner knows who reads what.
  CHECK(stages("[{layers: [a, c]}, {layers: [b, loss]}]").problems.empty());
  CHECK_THAT(OneProblem(stages("[{layers: a..b}, {layers: b..loss}]")),
             Contains("pipeline.stages[1].layers[0]: \"b..loss\" / no layer "
                      "twice: b is in stages[0]"));
  CHECK_THAT(OneProblem(stages("[{layers: a..c}]")),
             Contains("pipeline.stages: without loss / every layer"));
  CHECK_THAT(OneProblem(stages("[{layers: a..los}]")), Contains("A..B"));
  CHECK_THAT(OneProblem(stages("[{layers: loss..a}]")),
             Contains("from earlier to later"));
  CHECK_THAT(OneProblem(stages("5")), Contains("5 stages / at most 4"));
}

TEST_CASE("spec: --set changes fields, sections, elements and lists") {
  const std::string text = With(
      "run:\n", "pipeline: {stages: [{layers: [a]}, {layers: [b]}]}\nrun:\n");
  const ParsedSpec parsed = Parse(
      text, {"pipeline.stages[1].replicas=2", "checkpoint.every_steps = 7",
             "pipeline.stages[2]={layers: [c]}", "data.dir=/a b/#c: d",
             "data.split=null", "data.test={x: a.npy, y: 'b.npy'}",
             "run.epochs=null", "run.steps=9", "name=\"quoted\""});
  for (const v1::Problem& problem : parsed.problems) {
    INFO(FormatProblem(problem));
    CHECK(problem.field() == "");
  }
  CHECK(parsed.spec.pipeline().stages(1).replicas() == 2);
  CHECK(parsed.spec.pipeline().stages(2).layers(0) == "c");
  CHECK(parsed.spec.checkpoint().every_steps() == 7);
  CHECK(parsed.spec.data().dir() == "/a b/#c: d");
  CHECK_FALSE(parsed.spec.data().has_split());
  CHECK(parsed.spec.data().test().y() == "b.npy");
  CHECK(parsed.spec.run().steps() == 9);
  CHECK(parsed.spec.name() == "quoted");
}

TEST_CASE(
    "spec: a wrong --set is a problem of --set, behind those of the file") {
  const ParsedSpec parsed = Parse(With("minibatch: 32", "minibatch: 0"),
                                  {"run.epocs=3", "optimizer.momentum=2"});
  REQUIRE(parsed.problems.size() == 3);
  CHECK(parsed.problems[0].file() == "job.yaml");
  CHECK(parsed.problems[0].line() == 7);
  CHECK(parsed.problems[1].file() == "--set");
  CHECK(parsed.problems[2].file() == "--set");
  for (const char* set : {"run.epochs", "=3", "run..epochs=3", "run[x]=3",
                          "run[0]=3", "seed.deep=1", "data[0].x=1",
                          "run.epochs=[1", "run.epochs=", "run.epochs=\x01",
                          "name=&a b", "run[99999999999999999999]=1"}) {
    CAPTURE(set);
    const ParsedSpec wrong = Parse(kGood, {set});
    REQUIRE_FALSE(wrong.problems.empty());
    CHECK(wrong.problems[0].file() == "--set");
    CHECK(wrong.problems[0].line() == 0);
  }
}

TEST_CASE("spec: its YAML form reads back as the same spec") {
  std::vector<std::string> names = {
      "digits.yaml", "mnist.yaml",          "mlp.yaml",  "cnn_bn.yaml",
      "flush.yaml",  "resnet_dropout.yaml", "iris.yaml", "replicas.yaml",
      "text.yaml",   "blobs.json"};
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto first = ReadSpec("testdata/jobs/" + name, {});
    REQUIRE(first.ok());
    REQUIRE(first->problems.empty());
    const std::string yaml = SpecToYaml(first->spec);
    INFO(yaml);
    const ParsedSpec second = ParseSpec(yaml, "other.yaml", {});
    CHECK(second.problems.empty());
    CHECK(MessageDifferencer::Equals(first->spec, second.spec));
  }
}

TEST_CASE("spec: odd words and numbers survive the YAML form") {
  v1::JobSpec spec = Parse(kGood).spec;
  spec.set_seed(0);
  spec.mutable_data()->set_dir("/a \"b\"/\\c: #d\t\xc3\xa9\n");
  spec.mutable_data()->mutable_train()->set_x("017.npy");
  spec.mutable_learning_rate()->set_base(0.1 + 0.2);
  v1::ModelSpec* model = spec.mutable_model();
  model->clear_args();
  const auto add = [&](const std::string& name) {
    v1::Arg* arg = model->add_args();
    arg->set_name(name);
    return arg;
  };
  for (const char* word : {"3", "yes", "true", "null", "1e3", "a b", "", "-",
                           "0x1F", "~", ".inf", "[1]"}) {
    add(absl::StrCat("w", word))->set_text_value(word);
  }
  add("whole")->set_real_value(3);
  add("tiny")->set_real_value(5e-324);
  add("none")->mutable_ints_value();
  const std::string yaml = SpecToYaml(spec);
  INFO(yaml);
  // The network takes no such arguments: only the reading counts here.
  CHECK(MessageDifferencer::Equals(spec, Parse(yaml).spec));
}

TEST_CASE("spec: paths become absolute by the spec's folder and data.dir") {
  v1::JobSpec spec = Parse(kGood).spec;
  spec.mutable_data()->mutable_test()->set_csv("/other/t.csv");
  MakePathsAbsolute("/jobs/net/job.yaml", &spec);
  CHECK(spec.data().dir() == "/jobs/net");
  CHECK(spec.data().train().x() == "/jobs/net/x.npy");
  CHECK(spec.data().test().csv() == "/other/t.csv");
  CHECK(spec.data().test().x() == "");

  spec = Parse(kGood, {"data.dir=../data"}).spec;
  MakePathsAbsolute("/jobs/net/job.yaml", &spec);
  CHECK(spec.data().train().y() == "/jobs/data/y.npy");
  const v1::JobSpec once = spec;
  MakePathsAbsolute("/jobs/net/job.yaml", &spec);
  CHECK(MessageDifferencer::Equals(once, spec));
}

TEST_CASE("spec: a message is checked like a text, but without lines") {
  CHECK(CheckSpec(Parse(kGood).spec).empty());
  v1::JobSpec bare;
  CHECK(CheckSpec(bare).size() >= 6);
  v1::JobSpec spec = Parse(kGood).spec;
  spec.mutable_learning_rate()->set_base(
      std::numeric_limits<double>::quiet_NaN());
  spec.mutable_optimizer()->set_weight_decay(
      std::numeric_limits<double>::infinity());
  spec.mutable_batch()->set_minibatch(-1);
  spec.mutable_pipeline()->set_stage_count(-1);
  const std::vector<v1::Problem> problems = CheckSpec(spec);
  REQUIRE(problems.size() == 4);
  CHECK(problems[0].got() == "an infinite number");
  CHECK(problems[1].got() == "NaN");
}

TEST_CASE("spec: the network is checked for the data it gets") {
  ModelEnds ends;
  ends.sample = Shape({8});
  ends.classes = 3;
  CHECK(CheckModel(Parse(kGood).spec, ends).empty());
  CHECK(GraphOf(Parse(kGood).spec, ends)->layers_size() == 5);

  ParsedSpec parsed = Parse(With(
      "model: {name: mlp, args: {hidden: [16]}}",
      "model:\n  layers:\n"
      "  - {name: a, type: linear, args: {out: 0}}\n"
      "  - {name: b, type: conv2d, args: {out: 3, kernel: 3}, inputs: x}\n"
      "  - {name: c, type: linear, args: {out: 4, bais: true}, inputs: x}\n"
      "  - {name: d, type: add, inputs: [a, b, c]}\n"
      "  - {name: loss, type: softmax_cross_entropy}"));
  REQUIRE(parsed.problems.empty());
  AddProblems(CheckModel(parsed.spec, ends), &parsed);
  REQUIRE(parsed.problems.size() == 3);
  CHECK(FormatProblem(parsed.problems[0]) ==
        "job.yaml:4  model.layers[0].args.out  got 0, expected a whole number, "
        "at least 1");
  CHECK(parsed.problems[1].line() == 5);
  CHECK(parsed.problems[1].field() == "model.layers[1]");
  CHECK(parsed.problems[2].field() == "model.layers[2].args.bais");
  CHECK_FALSE(GraphOf(parsed.spec, ends).ok());
}

TEST_CASE("spec: numbers are checked against those of the data") {
  ModelEnds ends;
  ends.sample = Shape({8});
  ends.classes = 3;
  v1::JobSpec spec = Parse(kGood).spec;
  const auto graph = GraphOf(spec, ends);
  REQUIRE(graph.ok());
  CHECK(CheckAgainstData(spec, *graph, 32, 1).empty());
  auto problems = CheckAgainstData(spec, *graph, 31, 1);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].field() == "batch.minibatch");
  CHECK(problems[0].expected() == "at most 31, the number of training samples");
  spec.mutable_pipeline()->set_stage_count(6);
  problems = CheckAgainstData(spec, *graph, 100, 10);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].got() == "6 stages");
  CHECK(problems[0].expected() == "at most 5, the number of layers");
}

TEST_CASE("spec: an estimated profile has a cost for each layer") {
  ModelEnds ends;
  ends.sample = Shape({8});
  ends.classes = 3;
  const auto graph = GraphOf(Parse(kGood).spec, ends);
  REQUIRE(graph.ok());
  const auto profile = EstimateProfile(*graph, 32);
  REQUIRE(profile.ok());
  CHECK(profile->estimated());
  CHECK(profile->batch() == 32);
  REQUIRE(profile->layers_size() == 5);
  CHECK(profile->layers(1).name() == "fc1");
  CHECK(profile->layers(1).parameter_bytes() == 4 * (8 * 16 + 16));
  CHECK(profile->layers(1).output_bytes() == 4 * 32 * 16);
  CHECK(profile->input_bytes() == 4 * 8 + 4);
  CHECK(profile->label_bytes() == 32 * 4);
  for (const v1::LayerProfile& layer : profile->layers()) {
    CHECK(layer.forward_seconds() > 0);
    CHECK(layer.backward_seconds() > 0);
    CHECK((layer.update_seconds() > 0) == (layer.parameter_bytes() > 0));
  }
  CHECK_FALSE(EstimateProfile(*graph, 0).ok());
}

TEST_CASE("spec: a file that cannot be read is no problem of a spec") {
  CHECK(ReadSpec("no/such.yaml", {}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK_FALSE(ReadSpec("testdata", {}).ok());
}

}  // namespace
}  // namespace pipework
