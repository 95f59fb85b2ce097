#include "daemon/oracle/oracle.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "kernels/layers/graph_shape.h"

namespace pipework {
namespace {

// Samples in memory, made by formulas.
class MadeUpData final : public Dataset {
 public:
  MadeUpData(int64_t size, Shape sample, int64_t classes)
      : size_(size), sample_(std::move(sample)), classes_(classes) {}

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return sample_; }
  const Shape& label_shape() const override { return label_; }
  int64_t classes() const override { return classes_; }
  absl::Status Read(absl::Span<const int64_t> indices, float* x,
                    int32_t* y) const override {
    for (int64_t index : indices) {
      for (int64_t i = 0; i < sample_.elements(); ++i) *x++ = X(index, i);
      *y++ = Y(index);
    }
    return absl::OkStatus();
  }
  float X(int64_t sample, int64_t i) const {
    if (classes_ == 0) return 1;  // of the scalar chain
    return static_cast<float>(
        std::sin(static_cast<double>(sample * 31 + i * 7) * 0.37));
  }
  int32_t Y(int64_t sample) const {
    return classes_ == 0 ? 1
                         : static_cast<int32_t>((sample * 5 + 2) % classes_);
  }

 private:
  const int64_t size_;
  const Shape sample_;
  const Shape label_;
  const int64_t classes_;
};

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

v1::Plan PlanOf(const std::string& schedule,
                const std::vector<std::pair<int, int>>& ends_and_replicas) {
  v1::Plan plan;
  plan.set_schedule(schedule);
  int first = 0;
  for (const auto& [end, replicas] : ends_and_replicas) {
    v1::PlanStage* stage = plan.add_stages();
    stage->set_first_layer(first);
    stage->set_end_layer(end);
    stage->set_replicas(replicas);
    first = end;
  }
  return plan;
}

// y = w0 w1 w2 x with every w 0.5, and loss (y - 1)^2 / 2: the chain of the
// published trajectories.
OracleJob Chain(const std::vector<std::pair<int, int>>& stages) {
  OracleJob job;
  job.spec = Parse<v1::JobSpec>(
      "batch { minibatch: 1 } optimizer { name: 'sgd' } learning_rate { base: "
      "0.1 } run { steps: 6 } seed: 1 pipeline { schedule: '1f1b' }");
  job.graph = Parse<v1::Graph>(
      "input_shape: 1"
      " layers { name: 'w0' type: 'linear' args { name: 'out' int_value: 1 } "
      "args { name: 'bias' bool_value: false } }"
      " layers { name: 'w1' type: 'linear' args { name: 'out' int_value: 1 } "
      "args { name: 'bias' bool_value: false } }"
      " layers { name: 'w2' type: 'linear' args { name: 'out' int_value: 1 } "
      "args { name: 'bias' bool_value: false } }"
      " layers { name: 'loss' type: 'mse' }");
  job.plan = PlanOf("1f1b", stages);
  job.train = std::make_shared<MadeUpData>(6, Shape({1}), 0);
  for (const char* name : {"w0.weight", "w1.weight", "w2.weight"}) {
    job.initial[name] = {0.5f};
  }
  return job;
}

// A network with batch norm, dropout and a skip across any cut.
OracleJob Residual(const v1::Plan& plan, const std::string& batch) {
  OracleJob job;
  job.spec = Parse<v1::JobSpec>(
      "batch { " + batch +
      " } optimizer { name: 'sgd' momentum: 0.9 weight_decay: 1e-3 } "
      "learning_rate { base: 0.1 schedule: 'cosine' warmup_epochs: 1 } "
      "run { epochs: 3 } seed: 9");
  job.graph = Parse<v1::Graph>(
      "input_shape: 6"
      " layers { name: 'fc1' type: 'linear' args { name: 'out' int_value: 8 } }"
      " layers { name: 'bn' type: 'batch_norm' }"
      " layers { name: 'relu' type: 'relu' }"
      " layers { name: 'drop' type: 'dropout' args { name: 'p' real_value: 0.2 "
      "} }"
      " layers { name: 'fc2' type: 'linear' args { name: 'out' int_value: 8 } }"
      " layers { name: 'sum' type: 'add' inputs: 'fc2' inputs: 'relu' inputs: "
      "'fc1' }"
      " layers { name: 'fc3' type: 'linear' args { name: 'out' int_value: 3 } }"
      " layers { name: 'loss' type: 'softmax_cross_entropy' }");
  job.plan = plan;
  job.train = std::make_shared<MadeUpData>(22, Shape({6}), 3);
  return job;
}

const v1::Plan kOneStage = PlanOf("1f1b", {{8, 1}});

OracleResult Plain(OracleJob job, int64_t steps) {
  const std::vector<int64_t> drains = UsualDrains(job, steps);
  auto result = RunPlain(std::move(job), drains);
  INFO(result.status());
  REQUIRE(result.ok());
  return *std::move(result);
}

bool SameBits(const OracleResult& a, const OracleResult& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const OracleTensor& x = a.tensors[i];
    const OracleTensor& y = b.tensors[i];
    if (x.name != y.name || x.tensor.shape() != y.tensor.shape() ||
        std::memcmp(x.tensor.raw(), y.tensor.raw(),
                    static_cast<size_t>(x.tensor.bytes())) != 0) {
      return false;
    }
  }
  return a.losses == b.losses;
}

double LargestDifference(const OracleResult& a, const OracleResult& b) {
  double largest = 0;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    for (int64_t j = 0; j < a.tensors[i].tensor.elements(); ++j) {
      largest = std::max(
          largest,
          std::fabs(static_cast<double>(a.tensors[i].tensor.f32()[j]) -
                    static_cast<double>(b.tensors[i].tensor.f32()[j])));
    }
  }
  return largest;
}

// The log of a straight 1F1B pipeline under weight stashing, of one segment.
std::vector<Trace> StashTraces(int stages, int64_t units) {
  std::vector<Trace> traces;
  for (int s = 0; s < stages; ++s) {
    Trace trace;
    trace.stage = s;
    const int64_t warm = stages - 1 - s;
    int64_t newest = 0;
    std::vector<int64_t> read(units);
    int64_t forward = 0;
    for (int64_t backward = 0; backward < units; ++backward) {
      for (; forward < units && forward <= backward + warm; ++forward) {
        trace.records.push_back({'F', forward, forward, newest, -1});
        read[forward] = newest;
      }
      trace.records.push_back({'B', backward, backward, read[backward], -1});
      trace.records.push_back({'U', newest, backward, newest, newest + 1});
      ++newest;
    }
    trace.records.push_back({'D', 0, 0, newest, -1});
    traces.push_back(trace);
  }
  return traces;
}

TEST_CASE("oracle: the published trajectory of plain SGD") {
  for (const auto& stages : std::vector<std::vector<std::pair<int, int>>>{
           {{4, 1}}, {{1, 1}, {2, 1}, {4, 1}}}) {
    const OracleResult result = Plain(Chain(stages), 6);
    REQUIRE(result.tensors.size() == 3);
    for (const OracleTensor& tensor : result.tensors) {
      CHECK(tensor.tensor.f32()[0] == Approx(0.6541776133).epsilon(1e-6));
    }
  }
}

TEST_CASE("oracle: the published trajectory of weight stashing") {
  const auto result =
      RunReplay(Chain({{1, 1}, {2, 1}, {4, 1}}), StashTraces(3, 6));
  INFO(result.status());
  REQUIRE(result.ok());
  const double wanted[] = {0.6510573865, 0.6466756523, 0.6418621748};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(result->tensors[i].tensor.f32()[0] ==
          Approx(wanted[i]).epsilon(1e-6));
  }
}

// The recurrence w_s(k+1) = w_s(k) - rate * d loss / d w_s at the versions that
// minibatch k read: v(k, s) = max(0, k - (stages - 1 - s)), in double.
TEST_CASE("oracle: stashing agrees with its recurrence at every depth") {
  for (int stages = 1; stages <= 3; ++stages) {
    const int layers = 3;
    std::vector<std::vector<double>> versions(layers, {0.5});
    const auto stage_of = [&](int layer) {
      return layer < stages - 1 ? layer : stages - 1;
    };
    for (int k = 0; k < 6; ++k) {
      double w[layers];
      double y = 1;
      for (int i = 0; i < layers; ++i) {
        const int delay = stages - 1 - stage_of(i);
        w[i] = versions[i][std::max(0, k - delay)];
        y *= w[i];
      }
      for (int i = 0; i < layers; ++i) {
        double others = 1;
        for (int j = 0; j < layers; ++j) {
          if (j != i) others *= w[j];
        }
        versions[i].push_back(versions[i].back() - 0.1 * (y - 1) * others);
      }
    }
    std::vector<std::pair<int, int>> cut;
    for (int s = 0; s + 1 < stages; ++s) cut.push_back({s + 1, 1});
    cut.push_back({4, 1});
    const auto result = RunReplay(Chain(cut), StashTraces(stages, 6));
    INFO(result.status());
    REQUIRE(result.ok());
    for (int i = 0; i < layers; ++i) {
      CAPTURE(stages, i);
      CHECK(result->tensors[i].tensor.f32()[0] ==
            Approx(versions[i].back()).epsilon(1e-6));
    }
  }
}

// Two features, two classes, no hidden layer, written out in double.
TEST_CASE("oracle: plain equals SGD with momentum written by hand") {
  OracleJob job;
  job.spec = Parse<v1::JobSpec>(
      "batch { minibatch: 4 } optimizer { name: 'sgd' momentum: 0.5 "
      "weight_decay: 0.01 } learning_rate { base: 0.3 schedule: 'polynomial' } "
      "run { epochs: 3 } "
      "seed: 4");
  job.graph = Parse<v1::Graph>(
      "input_shape: 2 layers { name: 'fc' type: 'linear' args { name: 'out' "
      "int_value: 2 } } layers { name: 'loss' type: 'softmax_cross_entropy' }");
  job.plan = PlanOf("1f1b", {{2, 1}});
  const auto data = std::make_shared<MadeUpData>(10, Shape({2}), 2);
  job.train = data;
  job.initial["fc.weight"] = {0.1f, -0.2f, 0.3f, 0.4f};
  job.initial["fc.bias"] = {0.05f, -0.05f};

  double w[6] = {0.1, -0.2, 0.3, 0.4, 0.05, -0.05};  // weight, then bias
  double v[6] = {};
  const Sampler sampler(10, 4, 4);
  std::vector<double> losses;
  for (int64_t k = 0; k < 9; ++k) {
    const std::vector<int64_t> samples = sampler.IndicesOf(k);
    double g[6] = {};
    double loss = 0;
    for (int64_t sample : samples) {
      const double x[2] = {data->X(sample, 0), data->X(sample, 1)};
      double p[2];
      double sum = 0;
      for (int c = 0; c < 2; ++c) {
        p[c] = std::exp(w[2 * c] * x[0] + w[2 * c + 1] * x[1] + w[4 + c]);
        sum += p[c];
      }
      const int label = data->Y(sample);
      loss -= std::log(p[label] / sum);
      for (int c = 0; c < 2; ++c) {
        const double d = p[c] / sum - (c == label ? 1 : 0);
        g[2 * c] += d * x[0];
        g[2 * c + 1] += d * x[1];
        g[4 + c] += d;
      }
    }
    const double n = static_cast<double>(samples.size());
    losses.push_back(loss / n);
    for (int i = 0; i < 6; ++i) {
      v[i] = 0.5 * v[i] + g[i] / n + 0.01 * w[i];
      w[i] -= 0.3 * (1 - static_cast<double>(k) / 9) * v[i];
    }
  }

  const OracleResult result = Plain(job, 9);
  REQUIRE(result.tensors.size() == 4);
  CHECK(result.tensors[0].name == "fc.weight");
  CHECK(result.tensors[1].name == "optimizer.momentum.fc.weight");
  CHECK(result.tensors[2].name == "fc.bias");
  for (int i = 0; i < 4; ++i) {
    CHECK(result.tensors[0].tensor.f32()[i] == Approx(w[i]).epsilon(1e-5));
    CHECK(result.tensors[1].tensor.f32()[i] == Approx(v[i]).epsilon(1e-5));
  }
  CHECK(result.tensors[2].tensor.f32()[1] == Approx(w[5]).epsilon(1e-5));
  REQUIRE(result.losses.size() == 9);
  for (int k = 0; k < 9; ++k) {
    CHECK(result.losses[k] == Approx(losses[k]).epsilon(1e-5));
  }
}

TEST_CASE("oracle: the cut changes no bit of plain training") {
  const OracleResult one = Plain(Residual(kOneStage, "minibatch: 5"), 13);
  for (const auto& stages : std::vector<std::vector<std::pair<int, int>>>{
           {{1, 1}, {8, 1}},
           {{3, 1}, {4, 1}, {8, 1}},
           {{1, 1}, {2, 1}, {5, 1}, {8, 1}}}) {
    CHECK(SameBits(
        one, Plain(Residual(PlanOf("1f1b", stages), "minibatch: 5"), 13)));
  }
}

TEST_CASE(
    "oracle: microbatches and replicas change the bits, not the mathematics") {
  // Without batch norm and its statistics per unit.
  const auto job = [](const v1::Plan& plan, const std::string& batch) {
    OracleJob out = Residual(plan, batch);
    out.graph.mutable_layers(1)->set_type("relu");
    return out;
  };
  const OracleResult one = Plain(job(kOneStage, "minibatch: 5"), 13);
  const OracleResult split = Plain(
      job(PlanOf("flush", {{3, 1}, {8, 1}}), "minibatch: 5 microbatches: 3"),
      13);
  CHECK(LargestDifference(one, split) < 1e-5);
  const OracleResult replicated =
      Plain(job(PlanOf("flush", {{3, 3}, {8, 2}}), "minibatch: 5"), 13);
  CHECK(LargestDifference(one, replicated) < 1e-5);
  // More microbatches than samples: some are empty.
  const OracleResult many =
      Plain(job(PlanOf("flush", {{8, 1}}), "minibatch: 5 microbatches: 8"), 13);
  CHECK(LargestDifference(one, many) < 1e-5);
}

TEST_CASE("oracle: one update after two minibatches is one of both together") {
  // Replicas of an asynchronous stage, and accumulation, in batches of 4
  // against batches of 8; the chain has the same sample everywhere.
  const auto job = [](const v1::Plan& plan, const std::string& batch) {
    OracleJob out = Chain({{4, 1}});
    out.plan = plan;
    out.spec.mutable_batch()->Clear();
    out.spec.mutable_batch()->MergeFrom(Parse<v1::BatchSpec>(batch));
    out.train = std::make_shared<MadeUpData>(16, Shape({1}), 0);
    return out;
  };
  const auto weight = [](const OracleResult& result) {
    return result.tensors[0].tensor.f32()[0];
  };
  const float wanted =
      weight(Plain(job(PlanOf("1f1b", {{4, 1}}), "minibatch: 8"), 4));
  CHECK(weight(Plain(job(PlanOf("1f1b", {{4, 2}}), "minibatch: 4"), 8)) ==
        Approx(wanted));
  CHECK(weight(Plain(
            job(PlanOf("1f1b", {{4, 1}}), "minibatch: 4 accumulate: 2"), 8)) ==
        Approx(wanted));
  CHECK(weight(Plain(
            job(PlanOf("flush", {{4, 1}}), "minibatch: 4 accumulate: 2"), 8)) ==
        Approx(wanted));
}

TEST_CASE("oracle: a drain averages the running statistics of replicas") {
  OracleJob job = Residual(PlanOf("flush", {{8, 2}}), "minibatch: 5");
  std::vector<float> weight(8 * 6, 0.25f);
  weight[2] = -0.5f;
  job.initial["fc1.weight"] = weight;
  job.initial["fc1.bias"] = std::vector<float>(8, 0.125f);

  // Channel 0 of fc1 over the two microbatches, of three samples and two.
  const MadeUpData data(22, Shape({6}), 3);
  const std::vector<int64_t> samples = Sampler(22, 5, 9).IndicesOf(0);
  double mean[2] = {};
  for (size_t n = 0; n < 5; ++n) {
    double y = 0.125;
    for (int64_t i = 0; i < 6; ++i) {
      y += static_cast<double>(weight[i]) * data.X(samples[n], i);
    }
    mean[n < 3 ? 0 : 1] += y / (n < 3 ? 3 : 2);
  }
  for (const auto& drains : std::vector<std::vector<int64_t>>{{1}, {1, 1}}) {
    const auto result = RunPlain(job, drains);
    REQUIRE(result.ok());
    for (const OracleTensor& tensor : result->tensors) {
      if (tensor.name != "bn.running_mean") continue;
      CHECK(tensor.tensor.f32()[0] ==
            Approx(0.1 * (mean[0] + mean[1]) / 2).epsilon(1e-5));
    }
  }
}

TEST_CASE("oracle: a replay with one unit in flight is plain") {
  // Three stages of which each finishes a unit before the next.
  std::vector<Trace> traces;
  for (int s = 0; s < 3; ++s) {
    Trace trace;
    trace.stage = s;
    for (int64_t k = 0; k < 13; ++k) {
      trace.records.push_back({'F', k, k, k, -1});
      trace.records.push_back({'B', k, k, k, -1});
      trace.records.push_back({'U', k, k, k, k + 1});
    }
    trace.records.push_back({'D', 0, 0, 13, -1});
    traces.push_back(trace);
  }
  CHECK(FirstBrokenPromise(traces).empty());
  CHECK(DrainsOf(traces) == std::vector<int64_t>{13});
  const v1::Plan plan = PlanOf("1f1b", {{2, 1}, {4, 1}, {8, 1}});
  const auto replayed = RunReplay(Residual(plan, "minibatch: 5"), traces);
  INFO(replayed.status());
  REQUIRE(replayed.ok());
  CHECK(SameBits(*replayed, Plain(Residual(plan, "minibatch: 5"), 13)));
}

TEST_CASE("oracle: the order of seats does not matter to a replay") {
  const v1::Plan plan = PlanOf("1f1b", {{2, 1}, {4, 1}, {8, 1}});
  std::vector<Trace> traces = StashTraces(3, 10);
  const auto one = RunReplay(Residual(plan, "minibatch: 5"), traces);
  std::reverse(traces.begin(), traces.end());
  const auto other = RunReplay(Residual(plan, "minibatch: 5"), traces);
  REQUIRE(one.ok());
  REQUIRE(other.ok());
  CHECK(SameBits(*one, *other));
  CHECK_FALSE(SameBits(*one, Plain(Residual(plan, "minibatch: 5"), 10)));
}

TEST_CASE("oracle: logs that contradict each other are refused") {
  const v1::Plan plan = PlanOf("1f1b", {{2, 1}, {8, 1}});
  const auto error = [&](const std::vector<Trace>& traces) {
    const auto result = RunReplay(Residual(plan, "minibatch: 5"), traces);
    CHECK(result.status().code() == absl::StatusCode::kFailedPrecondition);
    return std::string(result.status().message());
  };
  const std::vector<Trace> good = StashTraces(2, 4);
  REQUIRE(RunReplay(Residual(plan, "minibatch: 5"), good).ok());

  std::vector<Trace> traces = good;
  traces[0].records.erase(traces[0].records.begin());  // F0 of stage 0
  CHECK(absl::StrContains(error(traces), "waits for ever"));
  traces = good;
  traces[0].records[0].version_read = 99;
  CHECK(absl::StrContains(error(traces), "F0 waits for ever"));
  traces = good;
  traces[1].records[0].number = 1;
  CHECK_FALSE(error(traces).empty());
  traces = good;
  traces[0].records[1].number = 0;
  CHECK(absl::StrContains(error(traces), "each unit once"));
  traces = good;
  // F0 B0 U0 of the last stage: the update before its backward.
  std::swap(traces[1].records[1], traces[1].records[2]);
  CHECK(absl::StrContains(error(traces), "follows no backward"));
}

TEST_CASE("trace: a log is read back, other records left out") {
  const auto records = ParseTrace("oplog-s0-r0.txt",
                                  "F 3 1 1 5 -1\nE 0 0 0 5 -1\nU 5 1 0 5 6\n");
  REQUIRE(records.ok());
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].operation == 'F');
  CHECK((*records)[0].number == 3);
  CHECK((*records)[0].minibatch == 1);
  CHECK((*records)[0].version_read == 5);
  CHECK((*records)[1].version_written == 6);

  const auto bad = ParseTrace("oplog-s0-r0.txt", "F 3 1 1 5 -1\nF 4 x\n");
  CHECK(std::string(bad.status().message()) ==
        "oplog-s0-r0.txt:2: a record is \"F 4 x\", expected a letter and five "
        "whole numbers");
}

TEST_CASE("trace: what stashing promises is asked of every log") {
  const auto broken = [](const std::vector<TraceRecord>& records) {
    Trace trace;
    trace.stage = 2;
    trace.records = records;
    return FirstBrokenPromise({trace});
  };
  CHECK(broken({{'F', 0, 0, 0, -1},
                {'F', 1, 1, 0, -1},
                {'B', 0, 0, 0, -1},
                {'U', 0, 0, 0, 1},
                {'B', 1, 1, 0, -1},
                {'U', 1, 1, 1, 2},
                {'D', 0, 0, 2, -1}})
            .empty());
  CHECK(broken({{'F', 0, 0, 0, -1},
                {'F', 1, 1, 0, -1},
                {'B', 0, 0, 0, -1},
                {'U', 0, 0, 0, 1},
                {'B', 1, 1, 1, -1}}) ==
        "stage 2 replica 0: version that the backward of unit 1 read is 1, "
        "expected 0, that of its forward");
  CHECK(broken({{'F', 0, 0, 1, -1}}) ==
        "stage 2 replica 0: version that the forward of unit 0 read is 1, "
        "expected 0, the newest");
  CHECK(broken({{'U', 0, 0, 0, 2}}) ==
        "stage 2 replica 0: update 0 is of version 0 to 2, expected of version "
        "0 to 1");
  CHECK(broken({{'F', 0, 0, 0, -1}, {'D', 0, 0, 0, -1}}) ==
        "stage 2 replica 0: units in flight at a drain is 1, expected 0");
  CHECK(broken({{'B', 0, 0, 0, -1}}) ==
        "stage 2 replica 0: unit 0 is backwarded, expected a forward before "
        "it");
}

TEST_CASE("trace: what vertical sync promises is asked of every log") {
  // Two stages of one and two replicas; stage 1 makes an update of two units.
  Promise promise;
  promise.weights = "vertical_sync";
  promise.rounds = {1, 2};
  Trace entry, end;
  end.stage = 1;
  entry.records = {{'F', 0, 0, 0, -1}, {'F', 1, 1, 0, -1}, {'B', 0, 0, 0, -1},
                   {'U', 0, 0, 0, 1},  {'B', 1, 1, 0, -1}, {'U', 1, 1, 1, 2},
                   {'F', 2, 2, 2, -1}, {'B', 2, 2, 2, -1}, {'D', 0, 0, 2, -1}};
  end.records = {{'F', 0, 0, 0, -1}, {'B', 0, 0, 0, -1}, {'U', 0, 0, 0, 1},
                 {'U', 1, 1, 1, 2},  {'F', 2, 2, 1, -1}, {'B', 2, 2, 1, -1},
                 {'D', 0, 0, 2, -1}};
  CHECK(FirstBrokenPromise({entry, end}, promise) == "");
  // Entered after two updates of stage 0: one of stage 1, not its newest.
  end.records[4].version_read = end.records[5].version_read = 2;
  CHECK(FirstBrokenPromise({entry, end}, promise) ==
        "stage 1 replica 0: version that the forward of unit 2 read is 2, "
        "expected 1");
}

TEST_CASE("trace: what no stashing promises is asked of every log") {
  Promise promise;
  promise.weights = "none";
  Trace trace;
  trace.records = {{'F', 0, 0, 0, -1}, {'F', 1, 1, 0, -1}, {'B', 0, 0, 0, -1},
                   {'U', 0, 0, 0, 1},  {'B', 1, 1, 1, -1}, {'D', 0, 0, 1, -1}};
  CHECK(FirstBrokenPromise({trace}, promise) == "");
  trace.records[4].version_read = 0;
  CHECK(FirstBrokenPromise({trace}, promise) ==
        "stage 0 replica 0: version that the backward of unit 1 read is 0, "
        "expected 1, the newest");
}

TEST_CASE("trace: what two versions promise is asked of every log") {
  Promise promise;
  promise.weights = "two_version";
  // Two microbatches a minibatch, three minibatches, a drain, and two more: the
  // first two of each run read what was newest at its start.
  Trace trace;
  int64_t newest = 0;
  for (const auto& [minibatch, read] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 0}, {2, 1}, {3, 3}, {4, 3}}) {
    for (const int64_t unit : {2 * minibatch, 2 * minibatch + 1}) {
      trace.records.push_back({'F', unit, minibatch, read, -1});
      trace.records.push_back({'B', unit, minibatch, read, -1});
    }
    trace.records.push_back({'U', newest, minibatch, newest, newest + 1});
    ++newest;
    if (minibatch == 2) trace.records.push_back({'D', 0, 3, newest, -1});
  }
  CHECK(FirstBrokenPromise({trace}, promise) == "");
  trace.records[5].version_read = trace.records[6].version_read = 1;
  CHECK(FirstBrokenPromise({trace}, promise) ==
        "stage 0 replica 0: version that the forward of unit 2 read is 1, "
        "expected 0");
}

TEST_CASE("trace: drains are found among the replicas of a stage") {
  Trace even, odd;
  odd.replica = 1;
  even.records = {{'B', 0, 0, 0, -1}, {'B', 2, 2, 0, -1}, {'D', 0, 0, 0, -1},
                  {'D', 1, 3, 0, -1}, {'B', 4, 4, 0, -1}, {'D', 2, 3, 0, -1}};
  odd.records = {{'B', 1, 1, 0, -1},
                 {'D', 0, 0, 0, -1},
                 {'D', 1, 3, 0, -1},
                 {'B', 3, 3, 0, -1},
                 {'D', 2, 3, 0, -1}};
  CHECK(DrainsOf({even, odd}) == std::vector<int64_t>{3, 3, 5});
}

}  // namespace
}  // namespace pipework
