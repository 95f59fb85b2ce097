#include "daemon/spec/checks.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/spec/layer_checks.h"
#include "daemon/spec/scalar.h"
#include "kernels/layers/args.h"
#include "kernels/models/registry.h"
#include "kernels/optimizers/learning_rate.h"
#include "kernels/optimizers/optimizer.h"
#include "scheduler/compile.h"

namespace pipework {
namespace {

// Products of any three of these stay within 64 bits.
constexpr int64_t kMostBatch = 1 << 20;
constexpr int64_t kMostEpochs = 1'000'000'000;
constexpr int64_t kMostSteps = 1'000'000'000'000'000;
constexpr int64_t kMostBytes = int64_t{1} << 30;
constexpr int64_t kMostShares = 64;  // of a stage, together
constexpr size_t kLongestName = 100;
constexpr int64_t kLeastSeconds = 10;

std::string OneOf(const std::vector<std::string>& names) {
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

std::string DidYouMean(const std::string& name,
                       const std::vector<std::string>& names) {
  const std::vector<absl::string_view> known(names.begin(), names.end());
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?");
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
}

// NODE/cpu:0
bool IsDevice(absl::string_view text) {
  const size_t slash = text.find('/');
  const size_t colon = text.rfind(':');
  if (slash == 0 || slash == absl::string_view::npos ||
      colon == absl::string_view::npos || colon < slash + 2 ||
      colon + 1 == text.size()) {
    return false;
  }
  const absl::string_view kind = text.substr(slash + 1, colon - slash - 1);
  const absl::string_view number = text.substr(colon + 1);
  return std::all_of(text.begin(), text.begin() + slash, IsNameCharacter) &&
         std::all_of(kind.begin(), kind.end(), absl::ascii_isalnum) &&
         std::all_of(number.begin(), number.end(), absl::ascii_isdigit) &&
         number.size() < 6;
}

class Checker {
 public:
  Checker(const v1::JobSpec& spec, const IsGiven& is_given, Problems* problems)
      : spec_(spec), is_given_(is_given), problems_(problems) {}

  void Run() {
    CheckName();
    CheckModelSection();
    CheckData();
    CheckBatch();
    CheckOptimizer();
    CheckRate();
    CheckPipeline();
    CheckRun();
    CheckCheckpoint();
    Range("restart.max", spec_.restart().max(), 0, 1000);
    Range("threads_per_executor", spec_.threads_per_executor(), 1, 1024);
  }

 private:
  // ---- what checks are written with ----

  bool Given(const std::string& field) const { return is_given_(field); }
  bool Skip(const std::string& field) const {
    return problems_->IsSpoilt(field);
  }

  void Add(const std::string& field, const std::string& got,
           const std::string& expected, const std::string& hint = "") {
    if (!Skip(field)) problems_->Add(field, got, expected, hint);
  }

  // Whether it is there; a problem if it is not.
  bool Need(const std::string& field, const std::string& expected) {
    if (Given(field)) return true;
    Add(field, "nothing", expected);
    return false;
  }

  void Range(const std::string& field, int64_t value, int64_t least,
             int64_t most) {
    if (value < least) {
      Add(field, absl::StrCat(value), absl::StrCat("at least ", least));
    } else if (value > most) {
      Add(field, absl::StrCat(value), absl::StrCat("at most ", most));
    }
  }

  // From `least`, up to and without `below`.
  void RealRange(const std::string& field, double value, double least,
                 double below) {
    if (value >= least && value < below) return;
    Add(field, RealText(value),
        absl::StrCat("from ", least, " to below ", below));
  }
  void NotNegative(const std::string& field, double value) {
    if (!(value >= 0)) Add(field, RealText(value), "0 or more");
  }
  void Positive(const std::string& field, double value) {
    if (!(value > 0)) Add(field, RealText(value), "above 0");
  }

  // A field that only has a meaning beside a certain value of another one.
  void OnlyWith(const std::string& field, bool fits, const std::string& what) {
    if (!fits && Given(field)) {
      Add(field, "given", absl::StrCat("it only with ", what),
          "remove one of them");
    }
  }

  // ---- sections ----

  void CheckName() {
    const std::string& name = spec_.name();
    if (name.size() > kLongestName) {
      Add("name", absl::StrCat(name.size(), " characters"),
          absl::StrCat("at most ", kLongestName));
    } else if (name.empty() ||
               !std::all_of(name.begin(), name.end(), IsNameCharacter) ||
               name[0] == '.' || name[0] == '-') {
      Add("name", Quoted(name),
          "letters, digits, '-', '_' and '.', the first no '.' or '-'");
    }
  }

  void CheckModelSection() {
    const v1::ModelSpec& model = spec_.model();
    if (!Need("model", "a network, such as {name: small_cnn}")) return;
    if (Given("model.name") && Given("model.layers")) {
      Add("model.layers", "name as well", "one of name and layers",
          "remove one of them");
      return;
    }
    if (!Given("model.name") && !Given("model.layers")) {
      if (!Skip("model.name") && !Skip("model.layers")) {
        Add("model", "neither name nor layers", "one of name and layers");
      }
      return;
    }
    if (Given("model.layers")) {
      if (Given("model.args")) {
        Add("model.args", "layers as well",
            "it only with the name of a built-in network",
            "give each layer its own args");
      }
      if (model.layers().empty()) Add("model.layers", "empty", "layers");
      CheckLayers(model, problems_);
      return;
    }
    std::vector<std::string> names;
    for (const ModelType& type : ModelTypes()) names.emplace_back(type.name);
    if (std::find(names.begin(), names.end(), model.name()) == names.end()) {
      Add("model.name", Quoted(model.name()), OneOf(names),
          DidYouMean(model.name(), names));
    } else {
      CheckBuiltIn(spec_, problems_);
    }
  }

  void CheckFile(const std::string& field, const std::string& path) {
    if (Skip(field)) return;
    const size_t hash = path.rfind('#');
    const bool is_member =
        hash != std::string::npos && hash + 1 < path.size() &&
        absl::EndsWith(absl::string_view(path).substr(0, hash), ".npz");
    if (is_member || absl::EndsWith(path, ".npy") ||
        absl::EndsWith(path, "-ubyte") || absl::EndsWith(path, "-ubyte.gz")) {
      return;
    }
    Add(field, Quoted(path), ".npy, .npz#KEY, -ubyte or -ubyte.gz at its end",
        absl::EndsWith(path, ".npz")   ? "name the array in it: FILE.npz#KEY"
        : absl::EndsWith(path, ".csv") ? "write csv: FILE, label: COLUMN"
                                       : "");
  }

  void CheckSource(const std::string& field, const v1::Source& source) {
    std::vector<std::string> kinds;
    for (const char* kind : {"x", "csv", "text"}) {
      if (Given(JoinField(field, kind))) kinds.push_back(kind);
    }
    if (kinds.size() > 1) {
      Add(JoinField(field, kinds[1]), absl::StrCat(kinds[0], " as well"),
          "one of x, csv and text", "remove one of them");
      return;
    }
    const std::string x = JoinField(field, "x");
    if (kinds.empty()) {
      if (Given(JoinField(field, "y"))) {
        Add(x, "nothing", "a file of samples beside y");
      } else if (!Skip(field)) {
        Add(field, "no file", "x and y, csv and label, or text and length");
      }
      return;
    }
    const bool is_x = kinds[0] == "x";
    if (is_x) {
      CheckFile(x, source.x());
      if (Need(JoinField(field, "y"), "a file of labels beside x")) {
        CheckFile(JoinField(field, "y"), source.y());
      }
    }
    OnlyWith(JoinField(field, "y"), is_x, "x");
    OnlyWith(JoinField(field, "label"), kinds[0] == "csv", "csv");
    OnlyWith(JoinField(field, "length"), kinds[0] == "text", "text");
    if (kinds[0] == "csv") {
      Need(JoinField(field, "label"), "the name of the label column");
    }
    if (kinds[0] == "text" &&
        Need(JoinField(field, "length"), "bytes in one sample")) {
      Range(JoinField(field, "length"), source.length(), 1, kMostBytes);
    }
  }

  void CheckSplit() {
    const v1::SplitSpec& split = spec_.data().split();
    const bool test = Given("data.split.test");
    const bool first = Given("data.split.first");
    const bool last = Given("data.split.last");
    if (test && (first || last)) {
      Add(first ? "data.split.first" : "data.split.last", "test as well",
          "either test, or first and last", "remove one of them");
      return;
    }
    if (!test && !first && !last) {
      if (!Skip("data.split")) {
        Add("data.split", "empty", "test, or first and last");
      }
      return;
    }
    if (test) Range("data.split.test", split.test(), 1, kMostSteps);
    OnlyWith("data.split.seed", test, "test");
    if (first || last) {
      if (Need("data.split.first", "how many samples train")) {
        Range("data.split.first", split.first(), 1, kMostSteps);
      }
      if (Need("data.split.last", "how many samples test")) {
        Range("data.split.last", split.last(), 1, kMostSteps);
      }
    }
  }

  void CheckData() {
    const v1::DataSpec& data = spec_.data();
    if (!Need("data", "where the samples come from")) return;
    if (Need("data.train", "the training samples, such as {x: ..., y: ...}")) {
      CheckSource("data.train", data.train());
    }
    if (Given("data.test") && Given("data.split")) {
      Add("data.split", "test as well", "one of test and split",
          "remove one of them");
    } else if (Given("data.test")) {
      CheckSource("data.test", data.test());
    } else if (Given("data.split")) {
      CheckSplit();
    } else if (!Skip("data.split") && !Skip("data.test")) {
      Add("data", "neither test nor split", "one of test and split",
          "for example split: {test: 100}");
    }
    if (data.scale() == 0) Add("data.scale", "0", "a factor that is not 0");
    if (Given("data.normalise")) {
      if (Need("data.normalise.std", "a divisor above 0")) {
        Positive("data.normalise.std", data.normalise().std());
      }
    }
  }

  void CheckBatch() {
    const v1::BatchSpec& batch = spec_.batch();
    if (!Need("batch", "how samples are grouped, such as {minibatch: 32}")) {
      return;
    }
    if (Need("batch.minibatch", "samples in one minibatch")) {
      Range("batch.minibatch", batch.minibatch(), 1, kMostBatch);
    }
    Range("batch.microbatches", batch.microbatches(), 1, kMostBatch);
    Range("batch.accumulate", batch.accumulate(), 1, kMostBatch);
  }

  void CheckOptimizer() {
    const v1::OptimizerSpec& optimizer = spec_.optimizer();
    if (!Need("optimizer", "the update rule, such as {name: sgd}")) return;
    const std::vector<std::string> names = OptimizerNames();
    if (!Need("optimizer.name", OneOf(names))) return;
    if (std::find(names.begin(), names.end(), optimizer.name()) ==
        names.end()) {
      Add("optimizer.name", Quoted(optimizer.name()), OneOf(names),
          DidYouMean(optimizer.name(), names));
      return;
    }
    const bool adam = optimizer.name() == "adam";
    for (const char* field : {"momentum", "nesterov"}) {
      OnlyWith(JoinField("optimizer", field), !adam, "sgd");
    }
    for (const char* field : {"beta1", "beta2", "epsilon"}) {
      OnlyWith(JoinField("optimizer", field), adam, "adam");
    }
    RealRange("optimizer.momentum", optimizer.momentum(), 0, 1);
    NotNegative("optimizer.weight_decay", optimizer.weight_decay());
    if (adam) {
      RealRange("optimizer.beta1", optimizer.beta1(), 0, 1);
      RealRange("optimizer.beta2", optimizer.beta2(), 0, 1);
      Positive("optimizer.epsilon", optimizer.epsilon());
    }
    if (!problems_->Has("optimizer") && !Skip("optimizer")) {
      const auto made = MakeOptimizer(optimizer);
      if (!made.ok()) problems_->AddStatus("optimizer", made.status());
    }
  }

  void CheckRate() {
    const v1::LearningRateSpec& rate = spec_.learning_rate();
    if (!Need("learning_rate", "the learning rate, such as {base: 0.05}")) {
      return;
    }
    const std::vector<std::string> names = LearningRateNames();
    if (std::find(names.begin(), names.end(), rate.schedule()) == names.end()) {
      Add("learning_rate.schedule", Quoted(rate.schedule()), OneOf(names),
          DidYouMean(rate.schedule(), names));
    } else {
      const bool step = rate.schedule() == "step";
      const bool polynomial = rate.schedule() == "polynomial";
      OnlyWith("learning_rate.every_epochs", step, "schedule: step");
      OnlyWith("learning_rate.factor", step, "schedule: step");
      OnlyWith("learning_rate.power", polynomial, "schedule: polynomial");
      OnlyWith("learning_rate.final", polynomial || rate.schedule() == "cosine",
               "schedule: cosine or polynomial");
      if (step && Need("learning_rate.every_epochs",
                       "epochs between two multiplications")) {
        Positive("learning_rate.every_epochs", rate.every_epochs());
      }
      if (step) Positive("learning_rate.factor", rate.factor());
      if (polynomial) Positive("learning_rate.power", rate.power());
    }
    if (Need("learning_rate.base", "a rate above 0")) {
      Positive("learning_rate.base", rate.base());
    }
    NotNegative("learning_rate.final", rate.final());
    NotNegative("learning_rate.warmup_epochs", rate.warmup_epochs());
    if (spec_.run().epochs() > 0 &&
        rate.warmup_epochs() > static_cast<double>(spec_.run().epochs())) {
      Add("learning_rate.warmup_epochs", RealText(rate.warmup_epochs()),
          absl::StrCat("at most run.epochs ", spec_.run().epochs()));
    }
    if (!problems_->Has("learning_rate") && !Skip("learning_rate")) {
      const absl::Status status = CheckLearningRate(rate);
      if (!status.ok()) problems_->AddStatus("learning_rate", status);
    }
  }

  void CheckInFlight() {
    const std::string& text = spec_.pipeline().in_flight();
    if (text == "noam" || text == "auto") return;
    int64_t value = 0;
    ScalarError error;
    if (!ParseWhole(text, &value, &error)) {
      Add("pipeline.in_flight", Quoted(text), "noam, auto or a number");
    } else {
      Range("pipeline.in_flight", value, 1, kMostBatch);
    }
  }

  void CheckRecipeFields() {
    const v1::PipelineSpec& pipeline = spec_.pipeline();
    const std::vector<std::string> schedules = ScheduleNames();
    if (std::find(schedules.begin(), schedules.end(), pipeline.schedule()) ==
        schedules.end()) {
      Add("pipeline.schedule", Quoted(pipeline.schedule()), OneOf(schedules),
          DidYouMean(pipeline.schedule(), schedules));
      return;
    }
    const std::vector<std::string> policies = WeightPolicyNames();
    const bool known = std::find(policies.begin(), policies.end(),
                                 pipeline.weights()) != policies.end();
    if (!known) {
      Add("pipeline.weights", Quoted(pipeline.weights()), OneOf(policies),
          DidYouMean(pipeline.weights(), policies));
    } else {
      const auto pair =
          CheckRecipe({pipeline.schedule(), pipeline.weights()}, 1);
      if (!pair.ok() && !Skip("pipeline.weights")) {
        Problems told;
        told.AddStatus("pipeline.weights", pair.status());
        const v1::Problem& problem = told.list()[0];
        Add("pipeline.weights", problem.got(),
            absl::StrCat(problem.expected(), " with schedule ",
                         pipeline.schedule()),
            problem.hint());
      }
    }
    const absl::Status runnable = CheckRunnable({pipeline.schedule(), ""});
    if (!runnable.ok()) {
      Add("pipeline.schedule", Quoted(pipeline.schedule()),
          "a schedule that can be run", std::string(runnable.message()));
    }
    CheckMicrobatches(TakesMicrobatches(pipeline.schedule()));
    CheckRecipeNumbers();
  }

  // What a schedule asks of the pipeline, as far as the spec says what it is.
  void CheckRecipeNumbers() {
    const v1::PipelineSpec& pipeline = spec_.pipeline();
    const v1::BatchSpec& batch = spec_.batch();
    PipelineShape shape;
    shape.replicas.assign(std::clamp<int64_t>(pipeline.stage_count(), 1, 4096),
                          1);
    if (!pipeline.stages().empty()) {
      shape.replicas.clear();
      for (const v1::StageSpec& stage : pipeline.stages()) {
        shape.replicas.push_back(std::clamp(stage.replicas(), 1, 4096));
        // Shares that make no sense have a problem of their own.
        const bool good =
            stage.shares_size() == stage.replicas() &&
            std::all_of(stage.shares().begin(), stage.shares().end(),
                        [](int n) { return n > 0 && n <= kMostShares; });
        shape.shares.push_back(good ? NormalShares(stage.shares())
                                    : std::vector<int>());
      }
    }
    int in_flight = 0;
    if (absl::SimpleAtoi(pipeline.in_flight(), &in_flight) && in_flight > 0) {
      shape.in_flight = in_flight;
    }
    Segment segment;
    segment.minibatches = 1;
    if (TakesMicrobatches(pipeline.schedule()) &&
        batch.microbatches() <= kMostBatch) {
      segment.microbatches =
          static_cast<int>(std::max<int64_t>(1, batch.microbatches()) *
                           (pipeline.stages().empty()
                                ? 1
                                : RoundUnits(pipeline.stages(0).replicas(),
                                             pipeline.stages(0).shares())));
    }
    segment.accumulate = static_cast<int>(
        std::clamp<int64_t>(batch.accumulate(), 1, kMostBatch));
    const absl::Status status =
        CheckNumbers({pipeline.schedule(), ""}, shape, segment);
    if (status.ok()) return;
    const absl::string_view text = status.message();
    const std::string field =
        absl::StrContains(text, ": microbatches")   ? "batch.microbatches"
        : absl::StrContains(text, ": in_flight is") ? "pipeline.in_flight"
                                                    : "pipeline.schedule";
    if (Skip(field)) return;
    Problems told;
    told.AddStatus(field, status);
    const v1::Problem& problem = told.list()[0];
    Add(field, problem.got(), problem.expected(), problem.hint());
  }

  // `takes`: the schedule takes microbatches.
  void CheckMicrobatches(bool takes) {
    const v1::BatchSpec& batch = spec_.batch();
    const std::string field = "batch.microbatches";
    if (batch.microbatches() < 1 || batch.microbatches() > kMostBatch) return;
    if (!takes) {
      if (batch.microbatches() > 1) {
        Add(field, absl::StrCat(batch.microbatches()),
            absl::StrCat("1 with schedule ", spec_.pipeline().schedule()),
            "it takes whole minibatches; schedule flush splits them");
      }
      return;
    }
    if (batch.minibatch() < 1 || batch.minibatch() > kMostBatch ||
        Skip("batch.minibatch")) {
      return;
    }
    int64_t round = 1;  // of the first stage
    bool has_shares = false;
    if (!spec_.pipeline().stages().empty()) {
      const v1::StageSpec& first = spec_.pipeline().stages(0);
      round = RoundUnits(first.replicas(), first.shares());
      has_shares = round != std::max(1, first.replicas());
    }
    const int64_t parts = batch.microbatches() * round;
    if (batch.minibatch() % parts == 0) return;
    if (round == 1) {
      Add(field, absl::StrCat(batch.microbatches()),
          absl::StrCat("a divisor of minibatch ", batch.minibatch()),
          "minibatch = microbatch x microbatches");
    } else {
      Add(field,
          absl::StrCat(batch.microbatches(), " x ", round,
                       has_shares ? ", the shares of the first stage = "
                                  : " replicas of the first stage = ",
                       parts),
          absl::StrCat("a divisor of minibatch ", batch.minibatch()),
          has_shares ? "minibatch = microbatch x microbatches x shares"
                     : "minibatch = microbatch x microbatches x replicas");
    }
  }

  void CheckShares(const v1::StageSpec& stage, const std::string& field) {
    if (stage.shares().empty()) return;
    int64_t sum = 0;
    bool good = true;
    for (int q = 0; q < stage.shares_size(); ++q) {
      const std::string at = IndexField(field, q);
      Range(at, stage.shares(q), 1, kMostShares);
      good = good && stage.shares(q) > 0 && !Skip(at);
      sum += stage.shares(q);
    }
    if (stage.shares_size() != stage.replicas()) {
      Add(field, absl::StrCat(stage.shares_size(), " shares"),
          absl::StrCat(stage.replicas(), ", one for each replica"));
    } else if (good && sum > kMostShares) {
      Add(field, absl::StrCat("shares that add up to ", sum),
          absl::StrCat("at most ", kMostShares, " units in a round"),
          "the shares of two replicas may be 2, 1 or 3, 2");
    }
  }

  void CheckStages() {
    const v1::PipelineSpec& pipeline = spec_.pipeline();
    std::map<std::string, std::string> owners;  // of devices
    const bool has_layers = HasStageLayers(pipeline);
    for (int s = 0; s < pipeline.stages_size(); ++s) {
      const v1::StageSpec& stage = pipeline.stages(s);
      const std::string at = IndexField("pipeline.stages", s);
      if (!Given(JoinField(at, "layers"))) {
        if (has_layers) {
          Add(at, "no layers", "names of its layers, such as [conv1..pool1]",
              "or leave them out in every stage, and the planner cuts");
        }
      } else if (stage.layers().empty()) {
        Add(JoinField(at, "layers"), "empty", "at least one layer");
      }
      Range(JoinField(at, "replicas"), stage.replicas(), 1, 4096);
      CheckShares(stage, JoinField(at, "shares"));
      for (int d = 0; d < stage.devices_size(); ++d) {
        const std::string field = IndexField(JoinField(at, "devices"), d);
        const std::string& device = stage.devices(d);
        if (!IsDevice(device)) {
          Add(field, Quoted(device), "NODE/KIND:NUMBER, such as n1/cpu:0");
          continue;
        }
        const auto [owner, fresh] = owners.emplace(device, field);
        if (!fresh) {
          Add(field, absl::StrCat(device, " again"),
              "a device for each replica",
              absl::StrCat("it is in ", owner->second, " too"));
        }
      }
      if (!stage.devices().empty() &&
          stage.devices_size() != stage.replicas()) {
        Add(JoinField(at, "devices"),
            absl::StrCat(stage.devices_size(), " devices"),
            absl::StrCat(stage.replicas(), ", one for each replica"));
      }
    }
  }

  void CheckPipeline() {
    CheckRecipeFields();
    CheckInFlight();
    if (spec_.pipeline().stage_count() < 0) {
      Add("pipeline.stages", absl::StrCat(spec_.pipeline().stage_count()),
          "at least 1, or auto");
    }
    CheckStages();
    const v1::ModelSpec& model = spec_.model();
    if (!model.layers().empty()) {
      std::vector<std::string> names;
      for (const v1::Layer& layer : model.layers()) {
        names.push_back(layer.name());
      }
      if (!problems_->Has("model.layers")) {
        CheckStageLayers(spec_.pipeline(), names, problems_);
      }
    }
  }

  void CheckRun() {
    const v1::RunSpec& run = spec_.run();
    if (!Need("run", "how long it runs, such as {epochs: 10}")) return;
    if (Given("run.epochs") && Given("run.steps")) {
      Add("run.steps", "epochs as well", "one of epochs and steps",
          "remove one of them");
    } else if (Given("run.epochs")) {
      Range("run.epochs", run.epochs(), 1, kMostEpochs);
    } else if (Given("run.steps")) {
      Range("run.steps", run.steps(), 1, kMostSteps);
    } else if (!Skip("run.epochs") && !Skip("run.steps")) {
      Add("run", "neither epochs nor steps", "one of epochs and steps");
    }
    const double target = run.target_accuracy();
    if (!(target >= 0 && target <= 1)) {
      Add("run.target_accuracy", RealText(target), "from 0 to 1",
          target > 1 && target <= 100 ? absl::StrCat("write ", target / 100)
                                      : "");
    }
  }

  void CheckCheckpoint() {
    const v1::CheckpointSpec& checkpoint = spec_.checkpoint();
    const struct {
      const char* name;
      int64_t value;
      int64_t least;
    } periods[] = {
        {"every_epochs", checkpoint.every_epochs(), 1},
        {"every_steps", checkpoint.every_steps(), 1},
        {"every_seconds", checkpoint.every_seconds(), kLeastSeconds},
    };
    std::string first;
    for (const auto& period : periods) {
      const std::string field = JoinField("checkpoint", period.name);
      if (!Given(field)) continue;
      if (!first.empty()) {
        Add(field, absl::StrCat(first, " as well"),
            "one of every_epochs, every_steps and every_seconds",
            "remove one of them");
        continue;
      }
      first = period.name;
      Range(field, period.value, period.least, kMostSteps);
    }
    Range("checkpoint.keep", checkpoint.keep(), 1, 1'000'000);
  }

  const v1::JobSpec& spec_;
  const IsGiven& is_given_;
  Problems* const problems_;
};

}  // namespace

void CheckFields(const v1::JobSpec& spec, const IsGiven& is_given,
                 Problems* problems) {
  Checker(spec, is_given, problems).Run();
}

}  // namespace pipework
