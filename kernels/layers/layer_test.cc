// What a layer computes, on values that can be checked by hand, and initial
// values.
#include "kernels/layers/layer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "absl/strings/match.h"
#include "google/protobuf/text_format.h"
#include "kernels/backend_registry.h"

namespace pipework {
namespace {

v1::Layer Parse(const std::string& text) {
  v1::Layer layer;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &layer));
  return layer;
}

Tensor Make(Backend& backend, const Shape& shape,
            const std::vector<float>& values) {
  auto tensor = Tensor::Allocate(*backend.allocator(), shape, DType::kF32,
                                 MemoryUse::kActivations);
  REQUIRE(tensor.ok());
  REQUIRE(tensor->elements() == static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), tensor->f32());
  return *std::move(tensor);
}

Tensor MakeLabels(Backend& backend, const std::vector<int32_t>& values) {
  auto tensor = Tensor::Allocate(*backend.allocator(),
                                 Shape({static_cast<int64_t>(values.size())}),
                                 DType::kI32, MemoryUse::kActivations);
  REQUIRE(tensor.ok());
  std::copy(values.begin(), values.end(), tensor->i32());
  return *std::move(tensor);
}

std::vector<float> Values(const Tensor& tensor) {
  return {tensor.f32(), tensor.f32() + tensor.elements()};
}

// Runs `body(backend)` on every back end of this build.
template <typename Body>
void OnEveryBackend(const Body& body) {
  for (const std::string& name : LinkedBackends()) {
    CAPTURE(name);
    auto backend = MakeBackend(name, BackendOptions());
    REQUIRE(backend.ok());
    body(**backend);
  }
}

std::unique_ptr<LayerBody> MakeBody(const std::string& layer,
                                    const std::vector<TensorSpec>& inputs,
                                    Backend& backend) {
  auto body = MakeLayer(Parse(layer), inputs, backend);
  INFO(body.status());
  REQUIRE(body.ok());
  return *std::move(body);
}

TEST_CASE(
    "batch_norm: running statistics take a share of mean and unbiased "
    "variance") {
  OnEveryBackend([](Backend& backend) {
    auto body = MakeBody("name: 'bn' type: 'batch_norm'",
                         {{Shape({1}), DType::kF32}}, backend);
    const TensorList params = {Make(backend, Shape({1}), {2}),
                               Make(backend, Shape({1}), {1})};
    TensorList buffers = {Make(backend, Shape({1}), {0}),
                          Make(backend, Shape({1}), {1})};
    const Tensor x = Make(backend, Shape({4, 1}), {1, 2, 3, 6});
    // mean 3, biased variance 3.5, unbiased 14/3.
    auto y = body->Forward(StepContext(), {x}, params, absl::MakeSpan(buffers),
                           nullptr);
    REQUIRE(y.ok());
    const float rstd = 1.0f / std::sqrt(3.5f + 1e-5f);
    CHECK(y->f32()[0] == Approx(1 + 2 * (1 - 3) * rstd));
    CHECK(y->f32()[3] == Approx(1 + 2 * (6 - 3) * rstd));
    CHECK(buffers[0].f32()[0] == Approx(0.3));
    CHECK(buffers[1].f32()[0] == Approx(0.9 + 0.1 * 14 / 3));

    // Evaluation uses them, and leaves them.
    StepContext evaluation;
    evaluation.training = false;
    auto z = body->Forward(evaluation, {x}, params, absl::MakeSpan(buffers),
                           nullptr);
    REQUIRE(z.ok());
    const double deviation = std::sqrt(0.9 + 0.1 * 14 / 3 + 1e-5);
    CHECK(z->f32()[1] == Approx(1 + 2 * (2 - 0.3) / deviation));
    CHECK(buffers[0].f32()[0] == Approx(0.3));
  });
}

TEST_CASE("softmax_cross_entropy: sums losses and counts right answers") {
  OnEveryBackend([](Backend& backend) {
    auto body =
        MakeBody("name: 'loss' type: 'softmax_cross_entropy'",
                 {{Shape({2}), DType::kF32}, {Shape(), DType::kI32}}, backend);
    const Tensor logits =
        Make(backend, Shape({3, 2}), {0, 0, 2, 0, 0, std::log(3.0f)});
    const Tensor labels = MakeLabels(backend, {0, 1, 1});
    Saved saved;
    auto result =
        body->Forward(StepContext(), {logits, labels}, {}, {}, &saved);
    REQUIRE(result.ok());
    const double wanted =
        std::log(2.0) + std::log(1 + std::exp(2.0)) + std::log(4.0 / 3.0);
    CHECK(result->f32()[0] == Approx(wanted));
    CHECK(result->f32()[1] == 2);  // a tie counts for the first class

    const bool both[] = {true, true};
    auto gradients =
        body->Backward(StepContext(), saved, {}, Tensor(), both, {});
    REQUIRE(gradients.ok());
    CHECK((*gradients)[1].empty());
    // Of the sum: nothing is divided by the number of samples.
    CHECK((*gradients)[0].f32()[0] == Approx(-0.5));
    CHECK((*gradients)[0].f32()[1] == Approx(0.5));
    CHECK((*gradients)[0].f32()[4] == Approx(0.25));
  });
}

TEST_CASE(
    "softmax_cross_entropy: a label that is no class is an error that "
    "names the layer") {
  OnEveryBackend([](Backend& backend) {
    auto body =
        MakeBody("name: 'loss' type: 'softmax_cross_entropy'",
                 {{Shape({2}), DType::kF32}, {Shape(), DType::kI32}}, backend);
    const Tensor logits = Make(backend, Shape({1, 2}), {0, 0});
    auto result = body->Forward(
        StepContext(), {logits, MakeLabels(backend, {2})}, {}, {}, nullptr);
    CHECK(result.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(result.status().message(), "loss: "));
  });
}

TEST_CASE("mse: half the squared error, and right within 0.5") {
  OnEveryBackend([](Backend& backend) {
    auto body =
        MakeBody("name: 'loss' type: 'mse'",
                 {{Shape({1}), DType::kF32}, {Shape(), DType::kI32}}, backend);
    const Tensor x = Make(backend, Shape({3, 1}), {1.25f, 4.0f, -0.5f});
    Saved saved;
    auto result = body->Forward(
        StepContext(), {x, MakeLabels(backend, {1, 2, 0})}, {}, {}, &saved);
    REQUIRE(result.ok());
    CHECK(result->f32()[0] == Approx((0.0625 + 4 + 0.25) / 2));
    CHECK(result->f32()[1] == 1);
    const bool wanted[] = {true, false};
    auto gradients =
        body->Backward(StepContext(), saved, {}, Tensor(), wanted, {});
    REQUIRE(gradients.ok());
    CHECK(Values((*gradients)[0]) == std::vector<float>{0.25f, 2.0f, -0.5f});
  });
}

TEST_CASE(
    "dropout: a mask belongs to seed, layer, minibatch and sample alone") {
  OnEveryBackend([](Backend& backend) {
    const std::vector<TensorSpec> spec = {{Shape({50}), DType::kF32}};
    const std::string p = "type: 'dropout' args { name: 'p' real_value: 0.3 }";
    auto body = MakeBody("name: 'd1' " + p, spec, backend);
    auto other = MakeBody("name: 'd2' " + p, spec, backend);
    const auto run = [&](LayerBody& layer, const StepContext& context,
                         int64_t samples) {
      const Tensor ones =
          Make(backend, Shape({samples, 50}),
               std::vector<float>(static_cast<size_t>(samples) * 50, 1));
      auto y = layer.Forward(context, {ones}, {}, {}, nullptr);
      REQUIRE(y.ok());
      return Values(*y);
    };
    StepContext context;
    context.seed = 3;
    context.minibatch = MinibatchId(8);
    const std::vector<float> whole = run(*body, context, 40);

    // Microbatches of the minibatch see its mask.
    std::vector<float> parts;
    for (int64_t first : {0, 10, 25}) {
      context.first_sample = first;
      const int64_t samples = first == 0 ? 10 : 15;
      const std::vector<float> part = run(*body, context, samples);
      parts.insert(parts.end(), part.begin(), part.end());
    }
    CHECK(parts == whole);

    context.first_sample = 0;
    CHECK(run(*other, context, 40) != whole);
    context.minibatch = MinibatchId(9);
    CHECK(run(*body, context, 40) != whole);
    context.minibatch = MinibatchId(8);
    context.seed = 4;
    CHECK(run(*body, context, 40) != whole);

    // 2000 draws at 0.3: five deviations are 0.05.
    const auto zeros = std::count(whole.begin(), whole.end(), 0.0f);
    CHECK(static_cast<double>(zeros) / 2000 == Approx(0.3).margin(0.05));
    for (float value : whole) {
      if (value != 0) CHECK(value == Approx(1 / 0.7));
    }
  });
}

TEST_CASE("dropout: evaluation hands its input on") {
  OnEveryBackend([](Backend& backend) {
    auto body = MakeBody("name: 'd' type: 'dropout'",
                         {{Shape({3}), DType::kF32}}, backend);
    const Tensor x = Make(backend, Shape({1, 3}), {1, 2, 3});
    StepContext context;
    context.training = false;
    auto y = body->Forward(context, {x}, {}, {}, nullptr);
    REQUIRE(y.ok());
    CHECK(Values(*y) == std::vector<float>{1, 2, 3});
  });
}

TEST_CASE("initialise: keyed by seed, layer, parameter and element alone") {
  const ParamSpec weight{"weight", Shape({40, 25}), InitKind::kUniform, 0.2};
  const auto draw = [](int64_t seed, absl::string_view layer,
                       const ParamSpec& spec) {
    std::vector<float> values(static_cast<size_t>(spec.shape.elements()));
    Initialise(seed, layer, spec, values.data());
    return values;
  };
  const std::vector<float> values = draw(1, "fc", weight);
  CHECK(draw(1, "fc", weight) == values);
  CHECK(draw(2, "fc", weight) != values);
  CHECK(draw(1, "fc2", weight) != values);
  ParamSpec bias = weight;
  bias.name = "bias";
  CHECK(draw(1, "fc", bias) != values);

  // The first elements of a larger tensor are those of a smaller one.
  ParamSpec row = weight;
  row.shape = Shape({25});
  const std::vector<float> first = draw(1, "fc", row);
  CHECK(std::equal(first.begin(), first.end(), values.begin()));

  double sum = 0;
  double squares = 0;
  for (float value : values) {
    CHECK(value >= -0.2f);
    CHECK(value < 0.2f);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  // Mean 0 and variance bound^2 / 3, within five deviations of 1000 draws.
  CHECK(sum / 1000 == Approx(0).margin(0.02));
  CHECK(squares / 1000 == Approx(0.04 / 3).margin(0.002));

  CHECK(draw(1, "bn", {"weight", Shape({2}), InitKind::kOnes}) ==
        std::vector<float>{1, 1});
  CHECK(draw(1, "bn", {"bias", Shape({2}), InitKind::kZeros}) ==
        std::vector<float>{0, 0});
}

}  // namespace
}  // namespace pipework
