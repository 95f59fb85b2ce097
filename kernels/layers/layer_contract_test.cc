// Every layer type on every back end of this build: gradients against finite
// differences, results against the reference back end, shapes and bytes against
// InferLayer, and what layer.h promises of a body.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "google/protobuf/text_format.h"
#include "kernels/backend_registry.h"
#include "kernels/layers/layer.h"
#include "kernels/layers/layer_shape.h"

namespace pipework {
namespace {

// Values that are all at least 0.05 apart and as far from 0, so that no
// perturbation of a gradient check crosses a kink.
enum class Values { kAny, kApart };

struct Case {
  std::string layer;  // text form
  std::vector<TensorSpec> inputs;
  Values values = Values::kAny;
  int64_t gradient_batch = 3;  // of the finite-difference check
};

TensorSpec F32(Shape shape) { return {std::move(shape), DType::kF32}; }
TensorSpec I32(Shape shape) { return {std::move(shape), DType::kI32}; }

std::string Type(const std::string& type, const std::string& args = "") {
  return "name: 'l' type: '" + type + "' " + args;
}
std::string Int(const std::string& name, int value) {
  return "args { name: '" + name + "' int_value: " + std::to_string(value) +
         " } ";
}
std::string Two(const std::string& name, int a, int b) {
  return "args { name: '" + name +
         "' ints_value { values: " + std::to_string(a) +
         " values: " + std::to_string(b) + " } } ";
}
std::string Real(const std::string& name, const std::string& value) {
  return "args { name: '" + name + "' real_value: " + value + " } ";
}
std::string No(const std::string& name) {
  return "args { name: '" + name + "' bool_value: false } ";
}

std::vector<Case> Cases() {
  return {
      {Type("linear", Int("out", 5)), {F32({7})}},
      {Type("linear", Int("out", 1) + No("bias")), {F32({1})}},
      {Type("linear", Int("out", 17)), {F32({3, 33})}},
      {Type("conv2d", Int("out", 4) + Int("kernel", 3) + Int("padding", 1)),
       {F32({3, 6, 5})}},
      {Type("conv2d", Int("out", 2) + Int("kernel", 3)), {F32({5, 6})}},
      {Type("conv2d", Int("out", 6) + Two("kernel", 1, 2) +
                          Two("stride", 2, 1) + Int("groups", 2) + No("bias")),
       {F32({4, 5, 5})}},
      {Type("conv2d", Int("out", 2) + Two("kernel", 2, 3) +
                          Two("padding", 2, 0) + Two("dilation", 2, 1)),
       {F32({2, 5, 7})}},
      {Type("conv2d", Int("out", 4) + Int("kernel", 3) + Int("groups", 4)),
       {F32({4, 4, 4})}},
      {Type("max_pool2d", Int("kernel", 2)), {F32({3, 6, 5})}, Values::kApart},
      {Type("max_pool2d",
            Int("kernel", 3) + Int("stride", 2) + Int("padding", 1)),
       {F32({2, 5, 5})},
       Values::kApart},
      {Type("max_pool2d", Int("kernel", 2)), {F32({4, 4})}, Values::kApart},
      {Type("avg_pool2d", Int("kernel", 2)), {F32({3, 6, 4})}},
      {Type("avg_pool2d",
            Two("kernel", 3, 2) + Int("stride", 1) + Int("padding", 1)),
       {F32({2, 4, 4})}},
      {Type("global_avg_pool2d"), {F32({3, 4, 5})}},
      {Type("relu"), {F32({11})}, Values::kApart},
      {Type("relu"), {F32({2, 3, 4})}, Values::kApart},
      {Type("relu"), {F32({})}, Values::kApart},
      {Type("batch_norm"), {F32({6})}, Values::kAny, 7},
      {Type("batch_norm", Real("eps", "1e-3") + Real("momentum", "0.3")),
       {F32({3, 4, 2})}},
      {Type("dropout", Real("p", "0.4")), {F32({3, 5})}},
      {Type("dropout", Real("p", "0.0")), {F32({9})}},
      {Type("flatten"), {F32({2, 3, 4})}},
      {Type("flatten"), {F32({})}},
      {Type("add"), {F32({3, 4}), F32({3, 4})}},
      {Type("add"), {F32({5}), F32({5}), F32({5}), F32({5})}},
      {Type("softmax_cross_entropy"), {F32({10}), I32({})}},
      {Type("softmax_cross_entropy"), {F32({4, 6}), I32({4})}},
      {Type("mse"), {F32({1}), I32({})}},
      {Type("mse"), {F32({2, 3}), I32({2, 3})}},
  };
}

v1::Layer Parse(const std::string& text) {
  v1::Layer layer;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &layer));
  return layer;
}

// One layer on one back end with a batch of random inputs.
class Rig {
 public:
  Rig(const Case& c, const std::string& backend, int64_t batch)
      : case_(c), layer_(Parse(c.layer)), random_(7) {
    BackendOptions options;
    options.poison = true;
    auto made = MakeBackend(backend, options);
    REQUIRE(made.ok());
    backend_ = *std::move(made);
    auto info = InferLayer(layer_, c.inputs);
    INFO(info.status());
    REQUIRE(info.ok());
    info_ = *std::move(info);
    auto body = MakeLayer(layer_, c.inputs, *backend_);
    INFO(body.status());
    REQUIRE(body.ok());
    body_ = *std::move(body);

    context_.seed = 5;
    context_.minibatch = MinibatchId(11);
    context_.first_sample = 3;
    for (const TensorSpec& spec : c.inputs) {
      inputs_.push_back(RandomInput(spec, batch));
    }
    for (const ParamSpec& spec : info_.params) {
      params_.push_back(Random(spec.shape));
    }
    // Where the gradient of the output comes from the layers behind.
    output_gradient_ =
        info_.is_loss ? Tensor() : Random(info_.output.shape.WithBatch(batch));
    buffers_ = Buffers();
    ClearGradients(0);
  }

  // Fresh buffers with values of their own.
  TensorList Buffers() {
    TensorList buffers;
    for (const ParamSpec& spec : info_.buffers) {
      Tensor buffer = New(spec.shape, DType::kF32);
      for (int64_t i = 0; i < buffer.elements(); ++i) {
        buffer.f32()[i] = 0.5f + 0.125f * static_cast<float>(i);
      }
      buffers.push_back(buffer);
    }
    return buffers;
  }

  void ClearGradients(float value) {
    gradients_.clear();
    for (const ParamSpec& spec : info_.params) {
      Tensor gradient = New(spec.shape, DType::kF32);
      std::fill_n(gradient.f32(), gradient.elements(), value);
      gradients_.push_back(gradient);
    }
  }

  Tensor Forward(Saved* saved) {
    auto y = body_->Forward(context_, inputs_, params_,
                            absl::MakeSpan(buffers_), saved);
    INFO(y.status());
    REQUIRE(y.ok());
    return *std::move(y);
  }

  TensorList Backward(const Saved& saved, bool wanted = true) {
    const std::unique_ptr<bool[]> flags(new bool[inputs_.size()]);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      flags[i] = wanted && inputs_[i].dtype() == DType::kF32;
    }
    auto gradients =
        body_->Backward(context_, saved, params_, output_gradient_,
                        absl::MakeConstSpan(flags.get(), inputs_.size()),
                        absl::MakeSpan(gradients_));
    INFO(gradients.status());
    REQUIRE(gradients.ok());
    REQUIRE(gradients->size() == inputs_.size());
    return *std::move(gradients);
  }

  // What Backward differentiates, in double: the output weighted by
  // output_gradient, or the loss.
  double Objective() {
    const TensorList kept = buffers_;
    buffers_ = Buffers();
    const Tensor y = Forward(nullptr);
    buffers_ = kept;
    if (info_.is_loss) return y.f32()[0];
    double sum = 0;
    for (int64_t i = 0; i < y.elements(); ++i) {
      sum += static_cast<double>(y.f32()[i]) * output_gradient_.f32()[i];
    }
    return sum;
  }

  Tensor New(const Shape& shape, DType dtype) {
    auto tensor = Tensor::Allocate(*backend_->allocator(), shape, dtype,
                                   MemoryUse::kActivations);
    REQUIRE(tensor.ok());
    return *std::move(tensor);
  }

  Tensor Random(const Shape& shape) {
    Tensor tensor = New(shape, DType::kF32);
    std::uniform_real_distribution<float> draw(-1, 1);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      tensor.f32()[i] = draw(random_);
    }
    return tensor;
  }

  Tensor RandomInput(const TensorSpec& spec, int64_t batch) {
    const Shape shape = spec.shape.WithBatch(batch);
    if (spec.dtype == DType::kI32) {
      Tensor labels = New(shape, DType::kI32);
      const Shape& logits = case_.inputs[0].shape;
      const int64_t classes =
          logits.rank() == 0 ? 1 : logits.dim(logits.rank() - 1);
      for (int64_t i = 0; i < labels.elements(); ++i) {
        labels.i32()[i] = static_cast<int32_t>(
            static_cast<int64_t>(random_() % 1000) % classes);
      }
      return labels;
    }
    if (case_.values == Values::kAny) return Random(shape);
    Tensor tensor = New(shape, DType::kF32);
    const int64_t n = tensor.elements();
    for (int64_t i = 0; i < n; ++i) {
      tensor.f32()[i] = 0.1f * static_cast<float>(i - n / 2) + 0.05f;
    }
    std::shuffle(tensor.f32(), tensor.f32() + n, random_);
    return tensor;
  }

  const Case& case_;
  v1::Layer layer_;
  std::mt19937 random_;
  std::unique_ptr<Backend> backend_;
  LayerInfo info_;
  std::unique_ptr<LayerBody> body_;
  StepContext context_;
  TensorList inputs_, params_, buffers_, gradients_;
  Tensor output_gradient_;
};

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.bytes())) == 0;
}

bool SameBits(const TensorList& a, const TensorList& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].empty() != b[i].empty()) return false;
    if (!a[i].empty() && !SameBits(a[i], b[i])) return false;
  }
  return true;
}

Tensor CopyOf(Rig& rig, const Tensor& from) {
  Tensor to = rig.New(from.shape(), from.dtype());
  std::memcpy(to.raw(), from.raw(), static_cast<size_t>(from.bytes()));
  return to;
}

TensorList CopyOf(Rig& rig, const TensorList& from) {
  TensorList to;
  for (const Tensor& tensor : from) {
    to.push_back(tensor.empty() ? Tensor() : CopyOf(rig, tensor));
  }
  return to;
}

// Largest difference as a share of the largest absolute value.
double Difference(const Tensor& got, const Tensor& wanted) {
  if (got.shape() != wanted.shape()) return INFINITY;
  double largest = 0;
  double scale = 1e-3;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double difference = std::fabs(static_cast<double>(got.f32()[i]) -
                                        static_cast<double>(wanted.f32()[i]));
    if (!(difference <= largest)) largest = difference;
    scale = std::max(scale, std::fabs(static_cast<double>(wanted.f32()[i])));
  }
  return largest / scale;
}

// Runs `body` for every case, back end and batch size.
template <typename Body>
void ForEach(const std::vector<int64_t>& batches, const Body& body) {
  for (const Case& c : Cases()) {
    for (const std::string& backend : LinkedBackends()) {
      for (int64_t batch : batches) {
        CAPTURE(c.layer, c.inputs[0].shape.ToString(), backend, batch);
        Rig rig(c, backend, batch);
        body(rig);
      }
    }
  }
}

const std::vector<int64_t> kBatches = {1, 2, 7, 32};

TEST_CASE("every layer type has a case here, and a body") {
  std::set<std::string> tested;
  for (const Case& c : Cases()) tested.insert(Parse(c.layer).type());
  for (const LayerType& type : LayerTypes()) {
    CAPTURE(std::string(type.name));
    CHECK(tested.count(std::string(type.name)) == 1);
  }
}

TEST_CASE("layers: gradients agree with finite differences") {
  for (const Case& c : Cases()) {
    for (const std::string& backend : LinkedBackends()) {
      CAPTURE(c.layer, c.inputs[0].shape.ToString(), backend);
      Rig rig(c, backend, c.gradient_batch);
      Saved saved;
      rig.Forward(&saved);
      const TensorList gradients = rig.Backward(saved);

      // f32 outputs carry a rounding of 6e-8 of themselves, divided by the
      // width of the step; 0.01 leaves about 1e-4 here and keeps within the
      // distance of kinks.
      constexpr float kStep = 0.01f;
      const auto check = [&](const char* what, Tensor at,
                             const Tensor& gradient) {
        const int64_t stride = std::max<int64_t>(1, at.elements() / 60);
        for (int64_t i = 0; i < at.elements(); i += stride) {
          float& value = at.f32()[i];
          const float kept = value;
          value = kept + kStep;
          const double above = rig.Objective();
          const double width = static_cast<double>(value);
          value = kept - kStep;
          const double below = rig.Objective();
          const double slope =
              (above - below) / (width - static_cast<double>(value));
          value = kept;
          CAPTURE(what, i, slope, gradient.f32()[i]);
          const double error = std::fabs(slope - gradient.f32()[i]);
          CHECK(error <= 2e-3 * (1 + std::fabs(slope)));
        }
      };
      for (size_t i = 0; i < rig.inputs_.size(); ++i) {
        if (rig.inputs_[i].dtype() != DType::kF32) {
          CHECK(gradients[i].empty());
          continue;
        }
        REQUIRE(gradients[i].shape() == rig.inputs_[i].shape());
        check("input", rig.inputs_[i], gradients[i]);
      }
      for (size_t i = 0; i < rig.params_.size(); ++i) {
        check("parameter", rig.params_[i], rig.gradients_[i]);
      }
    }
  }
}

TEST_CASE("layers: every back end agrees with the reference") {
  ForEach(kBatches, [](Rig& rig) {
    Rig reference(rig.case_, "reference", rig.inputs_[0].shape().dim(0));
    REQUIRE(SameBits(rig.inputs_, reference.inputs_));
    Saved saved, reference_saved;
    // Sums of a few hundred terms in f32 against sums in double.
    constexpr double kTolerance = 1e-5;
    CHECK(Difference(rig.Forward(&saved),
                     reference.Forward(&reference_saved)) <= kTolerance);
    const TensorList gradients = rig.Backward(saved);
    const TensorList wanted = reference.Backward(reference_saved);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].empty()) continue;
      CHECK(Difference(gradients[i], wanted[i]) <= kTolerance);
    }
    for (size_t i = 0; i < rig.gradients_.size(); ++i) {
      CHECK(Difference(rig.gradients_[i], reference.gradients_[i]) <=
            kTolerance);
    }
    for (size_t i = 0; i < rig.buffers_.size(); ++i) {
      CHECK(Difference(rig.buffers_[i], reference.buffers_[i]) <= kTolerance);
    }
  });
}

TEST_CASE("layers: shapes and saved bytes are those of InferLayer") {
  ForEach({0, 1, 2, 7, 32}, [](Rig& rig) {
    const int64_t batch = rig.inputs_[0].shape().dim(0);
    Saved saved;
    const Tensor y = rig.Forward(&saved);
    CHECK(y.shape() == (rig.info_.is_loss
                            ? Shape({2})
                            : rig.info_.output.shape.WithBatch(batch)));
    CHECK(y.dtype() == DType::kF32);

    bool saves_input = false;
    bool saves_output = false;
    int64_t bytes = 0;
    for (const Tensor& tensor : saved.tensors) {
      const bool is_input = tensor.identity() == rig.inputs_[0].identity();
      const bool is_output = tensor.identity() == y.identity();
      saves_input = saves_input || is_input;
      saves_output = saves_output || is_output;
      if (!is_input && !is_output) bytes += tensor.bytes();
    }
    CHECK(saves_input == rig.info_.saves_input);
    CHECK(saves_output == rig.info_.saves_output);
    CHECK(bytes ==
          rig.info_.saved_bytes * batch + rig.info_.saved_bytes_per_unit);

    const TensorList gradients = rig.Backward(saved);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].empty()) continue;
      CHECK(gradients[i].shape() == rig.inputs_[i].shape());
    }
  });
}

TEST_CASE("layers: evaluation keeps nothing and changes no buffer") {
  ForEach(kBatches, [](Rig& rig) {
    rig.context_.training = false;
    const TensorList buffers = CopyOf(rig, rig.buffers_);
    const TensorList inputs = CopyOf(rig, rig.inputs_);
    Saved saved;
    const Tensor y = rig.Forward(&saved);
    CHECK(saved.tensors.empty());
    CHECK(SameBits(rig.buffers_, buffers));
    CHECK(SameBits(rig.inputs_, inputs));
    CHECK(SameBits(y, rig.Forward(nullptr)));
  });
}

TEST_CASE("layers: a forward without a backward gives the same bits") {
  ForEach(kBatches, [](Rig& rig) {
    Saved saved;
    const Tensor y = rig.Forward(&saved);
    const TensorList buffers = rig.buffers_;
    rig.buffers_ = rig.Buffers();
    CHECK(SameBits(rig.Forward(nullptr), y));
    CHECK(SameBits(rig.buffers_, buffers));
  });
}

TEST_CASE("layers: two calls give equal bits, in another object and memory") {
  ForEach(kBatches, [](Rig& rig) {
    Rig other(rig.case_, rig.backend_->name(), rig.inputs_[0].shape().dim(0));
    // What ran before, and where the buffers lie, must not matter.
    Saved warm;
    other.Forward(&warm);
    other.Backward(warm);
    other.buffers_ = other.Buffers();
    other.inputs_ = CopyOf(other, other.inputs_);
    other.ClearGradients(0);

    Saved saved, other_saved;
    CHECK(SameBits(rig.Forward(&saved), other.Forward(&other_saved)));
    CHECK(SameBits(rig.buffers_, other.buffers_));
    CHECK(SameBits(rig.Backward(saved), other.Backward(other_saved)));
    CHECK(SameBits(rig.gradients_, other.gradients_));
  });
}

TEST_CASE("layers: a backward adds to the parameter gradients") {
  ForEach(kBatches, [](Rig& rig) {
    Saved saved;
    rig.Forward(&saved);
    rig.Backward(saved);
    const TensorList once = CopyOf(rig, rig.gradients_);
    rig.ClearGradients(2.5f);
    rig.Backward(saved);
    for (size_t i = 0; i < once.size(); ++i) {
      float* gradient = rig.gradients_[i].f32();
      for (int64_t j = 0; j < once[i].elements(); ++j) gradient[j] -= 2.5f;
      CHECK(Difference(rig.gradients_[i], once[i]) <= 1e-3);
    }
  });
}

TEST_CASE(
    "layers: a gradient that is not wanted is empty and changes nothing") {
  ForEach(kBatches, [](Rig& rig) {
    Saved saved;
    rig.Forward(&saved);
    rig.Backward(saved);
    const TensorList gradients = CopyOf(rig, rig.gradients_);
    rig.ClearGradients(0);
    for (const Tensor& gradient : rig.Backward(saved, /*wanted=*/false)) {
      CHECK(gradient.empty());
    }
    CHECK(SameBits(rig.gradients_, gradients));
  });
}

TEST_CASE("layers: forward and backward leave inputs and parameters alone") {
  ForEach(kBatches, [](Rig& rig) {
    const TensorList inputs = CopyOf(rig, rig.inputs_);
    const TensorList params = CopyOf(rig, rig.params_);
    const Tensor dy =
        rig.info_.is_loss ? Tensor() : CopyOf(rig, rig.output_gradient_);
    Saved saved;
    rig.Forward(&saved);
    rig.Backward(saved);
    CHECK(SameBits(rig.inputs_, inputs));
    CHECK(SameBits(rig.params_, params));
    if (!dy.empty()) CHECK(SameBits(rig.output_gradient_, dy));
  });
}

}  // namespace
}  // namespace pipework
