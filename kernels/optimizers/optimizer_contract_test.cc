// Every optimizer on every back end of this build: its formula in double over
// 100 updates, and what optimizer.h promises.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "google/protobuf/text_format.h"
#include "kernels/backend_registry.h"
#include "kernels/optimizers/optimizer.h"

namespace pipework {
namespace {

v1::OptimizerSpec Parse(const std::string& text) {
  v1::OptimizerSpec spec;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

const char* const kSpecs[] = {
    "name: 'sgd'",
    "name: 'sgd' weight_decay: 0.01",
    "name: 'sgd' momentum: 0.9",
    "name: 'sgd' momentum: 0.9 weight_decay: 1e-4",
    "name: 'sgd' momentum: 0.8 nesterov: true weight_decay: 0.001",
    "name: 'adam'",
    "name: 'adam' beta1: 0.8 beta2: 0.95 epsilon: 1e-6 weight_decay: 0.01",
};

// One scalar parameter in double, straight from the papers.
class Formula {
 public:
  explicit Formula(const v1::OptimizerSpec& spec) : spec_(spec) {}

  double Next(double w, double mean_gradient, double rate) {
    ++step_;
    const double g = mean_gradient + spec_.weight_decay() * w;
    if (spec_.name() == "sgd") {
      a_ = spec_.momentum() * a_ + g;
      return w - rate * (spec_.nesterov() ? g + spec_.momentum() * a_ : a_);
    }
    const bool bare = spec_.epsilon() == 0;
    const double beta1 = bare ? 0.9 : spec_.beta1();
    const double beta2 = bare ? 0.999 : spec_.beta2();
    const double epsilon = bare ? 1e-8 : spec_.epsilon();
    a_ = beta1 * a_ + (1 - beta1) * g;
    b_ = beta2 * b_ + (1 - beta2) * g * g;
    const double m = a_ / (1 - std::pow(beta1, step_));
    const double v = b_ / (1 - std::pow(beta2, step_));
    return w - rate * m / (std::sqrt(v) + epsilon);
  }

 private:
  const v1::OptimizerSpec spec_;
  int step_ = 0;
  double a_ = 0, b_ = 0;
};

// The tensors of a model of two parameters.
struct Model {
  Model(const std::string& backend_name, const Optimizer& optimizer)
      : random(3) {
    auto made = MakeBackend(backend_name, BackendOptions());
    REQUIRE(made.ok());
    backend = *std::move(made);
    for (const Shape& shape : {Shape({5, 7}), Shape({1})}) {
      weights.push_back(New(shape));
      gradients.push_back(New(shape));
      for (size_t i = 0; i < optimizer.state_names().size(); ++i) {
        state.push_back(New(shape));
        std::memset(state.back().raw(), 0,
                    static_cast<size_t>(state.back().bytes()));
      }
      Fill(weights.back());
    }
  }

  Tensor New(const Shape& shape) {
    auto tensor = Tensor::Allocate(*backend->allocator(), shape, DType::kF32,
                                   MemoryUse::kWeights);
    REQUIRE(tensor.ok());
    return *std::move(tensor);
  }

  void Fill(Tensor& tensor) {
    std::uniform_real_distribution<float> draw(-1, 1);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      tensor.f32()[i] = draw(random);
    }
  }

  void Update(const Optimizer& optimizer, int64_t number, bool in_place) {
    UpdateContext context;
    context.learning_rate = 0.01 + 0.0001 * static_cast<double>(number);
    context.update = number;
    context.gradient_scale = 1.0 / 32;
    for (Tensor& gradient : gradients) Fill(gradient);
    TensorList updated = weights;
    if (!in_place) {
      for (Tensor& tensor : updated) tensor = New(tensor.shape());
    }
    REQUIRE(optimizer
                .Update(*backend, context, weights, gradients,
                        absl::MakeSpan(state), absl::MakeSpan(updated))
                .ok());
    weights = updated;
  }

  std::mt19937 random;
  std::unique_ptr<Backend> backend;
  TensorList weights, gradients, state;
};

bool SameBits(const TensorList& a, const TensorList& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].raw(), b[i].raw(),
                    static_cast<size_t>(a[i].bytes())) != 0) {
      return false;
    }
  }
  return true;
}

TEST_CASE("every optimizer is tested here") {
  std::set<std::string> tested;
  for (const char* text : kSpecs) tested.insert(Parse(text).name());
  for (const std::string& name : OptimizerNames()) {
    CHECK(tested.count(name) == 1);
  }
}

TEST_CASE("optimizers: 100 updates follow the formula in double") {
  for (const char* text : kSpecs) {
    for (const std::string& backend : LinkedBackends()) {
      CAPTURE(text, backend);
      const auto optimizer = MakeOptimizer(Parse(text));
      REQUIRE(optimizer.ok());
      Model model(backend, **optimizer);
      std::vector<std::vector<Formula>> formulas;
      std::vector<std::vector<double>> wanted;
      for (const Tensor& tensor : model.weights) {
        formulas.emplace_back(static_cast<size_t>(tensor.elements()),
                              Formula(Parse(text)));
        wanted.emplace_back(tensor.f32(), tensor.f32() + tensor.elements());
      }
      for (int64_t update = 0; update < 100; ++update) {
        model.Update(**optimizer, update, /*in_place=*/true);
        for (size_t i = 0; i < wanted.size(); ++i) {
          for (size_t j = 0; j < wanted[i].size(); ++j) {
            wanted[i][j] = formulas[i][j].Next(
                wanted[i][j],
                static_cast<double>(model.gradients[i].f32()[j]) / 32,
                0.01 + 0.0001 * static_cast<double>(update));
          }
        }
      }
      // 100 roundings of 6e-8 to weights of about 1.
      double largest = 0;
      for (size_t i = 0; i < wanted.size(); ++i) {
        for (size_t j = 0; j < wanted[i].size(); ++j) {
          largest = std::max(
              largest,
              std::fabs(wanted[i][j] -
                        static_cast<double>(model.weights[i].f32()[j])));
        }
      }
      CHECK(largest <= 4e-6);
    }
  }
}

TEST_CASE("optimizers: in place and out of place give the same bits") {
  for (const char* text : kSpecs) {
    for (const std::string& backend : LinkedBackends()) {
      CAPTURE(text, backend);
      const auto optimizer = MakeOptimizer(Parse(text));
      REQUIRE(optimizer.ok());
      Model in_place(backend, **optimizer);
      Model out_of_place(backend, **optimizer);
      for (int64_t update = 0; update < 20; ++update) {
        in_place.Update(**optimizer, update, true);
        const TensorList before = out_of_place.weights;
        TensorList copies;
        for (const Tensor& tensor : before) {
          copies.push_back(out_of_place.New(tensor.shape()));
          std::memcpy(copies.back().raw(), tensor.raw(),
                      static_cast<size_t>(tensor.bytes()));
        }
        out_of_place.Update(**optimizer, update, false);
        CHECK(SameBits(before, copies));  // the old version is still whole
      }
      CHECK(SameBits(in_place.weights, out_of_place.weights));
      CHECK(SameBits(in_place.state, out_of_place.state));
    }
  }
}

TEST_CASE("optimizers: every back end gives the bits of the reference") {
  for (const char* text : kSpecs) {
    const auto optimizer = MakeOptimizer(Parse(text));
    REQUIRE(optimizer.ok());
    Model reference("reference", **optimizer);
    for (int64_t i = 0; i < 10; ++i) reference.Update(**optimizer, i, true);
    for (const std::string& backend : LinkedBackends()) {
      CAPTURE(text, backend);
      Model model(backend, **optimizer);
      for (int64_t i = 0; i < 10; ++i) model.Update(**optimizer, i, true);
      CHECK(SameBits(model.weights, reference.weights));
      CHECK(SameBits(model.state, reference.state));
    }
  }
}

TEST_CASE("optimizers: the scale turns sums of gradients into means") {
  const auto optimizer = MakeOptimizer(Parse("name: 'sgd'"));
  REQUIRE(optimizer.ok());
  for (const std::string& backend : LinkedBackends()) {
    Model model(backend, **optimizer);
    model.weights[1].f32()[0] = 1;
    model.gradients[1].f32()[0] = 8;
    UpdateContext context;
    context.learning_rate = 0.5;
    context.gradient_scale = 0.25;
    REQUIRE((*optimizer)
                ->Update(*model.backend, context, model.weights,
                         model.gradients, absl::MakeSpan(model.state),
                         absl::MakeSpan(model.weights))
                .ok());
    CHECK(model.weights[1].f32()[0] == 0.0f);
  }
}

TEST_CASE("optimizers: state names are PyTorch's, and plain sgd has none") {
  const auto names = [](const char* text) {
    const auto optimizer = MakeOptimizer(Parse(text));
    REQUIRE(optimizer.ok());
    return (*optimizer)->state_names();
  };
  CHECK(names("name: 'sgd'").empty());
  CHECK(names("name: 'sgd' momentum: 0.5") ==
        std::vector<std::string>{"momentum"});
  CHECK(names("name: 'adam'") ==
        std::vector<std::string>{"exp_avg", "exp_avg_sq"});
}

TEST_CASE("optimizers: what cannot work is refused by name") {
  struct Row {
    const char* spec;
    const char* message;
  };
  const Row rows[] = {
      {"name: 'adamw'", "optimizer: name is \"adamw\", expected sgd, adam"},
      {"name: 'sgd' momentum: 1",
       "optimizer: momentum is 1, expected from 0 to below 1"},
      {"name: 'sgd' momentum: -0.1",
       "optimizer: momentum is -0.1, expected from 0 to below 1"},
      {"name: 'sgd' momentum: nan",
       "optimizer: momentum is nan, expected from 0 to below 1"},
      {"name: 'sgd' weight_decay: -1",
       "optimizer: weight_decay is -1, expected a number, at least 0"},
      {"name: 'sgd' nesterov: true",
       "optimizer: momentum is 0, expected above 0 with nesterov"},
      {"name: 'sgd' beta1: 0.5",
       "optimizer: beta1 is 0.5, expected none with sgd; leave it out"},
      {"name: 'adam' beta1: 1 beta2: 0.9 epsilon: 1e-8",
       "optimizer: beta1 is 1, expected from 0 to below 1"},
      {"name: 'adam' beta1: 0.9 beta2: 0.999",
       "optimizer: epsilon is 0, expected a number, at least 1e-30"},
      {"name: 'adam' momentum: 0.9",
       "optimizer: momentum is 0.9, expected none with adam; leave it out"},
      {"name: 'adam' nesterov: true",
       "optimizer: nesterov is true, expected false with adam"},
  };
  for (const Row& row : rows) {
    const auto optimizer = MakeOptimizer(Parse(row.spec));
    CHECK(optimizer.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(optimizer.status().message()) == row.message);
  }
}

}  // namespace
}  // namespace pipework
