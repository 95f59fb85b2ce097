#include "daemon/profiler/profiler.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "daemon/base/clock.h"
#include "daemon/base/failpoint.h"
#include "daemon/profiler/hand_over.h"
#include "daemon/profiler/round_times.h"
#include "kernels/backend_registry.h"
#include "kernels/layers/graph_shape.h"
#include "kernels/layers/layer.h"
#include "kernels/optimizers/optimizer.h"
#include "kernels/random.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// Rounds at least, the cold ones included; and those that shall count.
constexpr int kLeastRounds = 5;
constexpr size_t kEnoughRounds = 5;
// When that is not reached, the budget may be overdrawn this often.
constexpr double kMostBudgets = 4;
// A failpoint's cold start ends after so many rounds.
constexpr int kFailpointRounds = 3;

// One layer with everything it needs to run.
struct Bench {
  std::unique_ptr<LayerBody> body;
  TensorList params;
  TensorList buffers;
  TensorList gradients;
  TensorList state;
  absl::InlinedVector<bool, 4> wanted;
  std::vector<bool> last_use;  // of each input
  Saved saved;
  int64_t saved_bytes = 0;
  int64_t workspace_bytes = 0;
  // Of every round.
  std::vector<double> forward_seconds;
  std::vector<double> backward_seconds;
  std::vector<double> update_seconds;
};

class Stopwatch {
 public:
  Stopwatch() : begin_(MonotonicNow()) {}
  double Seconds() const {
    return absl::ToDoubleSeconds(MonotonicNow() - begin_);
  }

 private:
  const absl::Time begin_;
};

// Processor time of the calling thread.
double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Puts the thread onto the device's cores, and back.
class Pinned {
 public:
  Pinned(const v1::Device& device, bool pin) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (const int core : device.cores()) {
      if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &cores);
    }
    pinned_ =
        pin && CPU_COUNT(&cores) > 0 &&
        pthread_getaffinity_np(pthread_self(), sizeof(before_), &before_) ==
            0 &&
        pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores) == 0;
  }
  ~Pinned() {
    if (pinned_) {
      pthread_setaffinity_np(pthread_self(), sizeof(before_), &before_);
    }
  }

 private:
  cpu_set_t before_;
  bool pinned_ = false;
};

// "conv2d(out: 16, kernel: 3)".
std::string DescribeLayer(const v1::Layer& layer) {
  std::vector<std::string> args;
  for (const v1::Arg& arg : layer.args()) {
    std::string value;
    switch (arg.value_case()) {
      case v1::Arg::kIntValue:
        value = absl::StrCat(arg.int_value());
        break;
      case v1::Arg::kRealValue:
        value = absl::StrCat(arg.real_value());
        break;
      case v1::Arg::kBoolValue:
        value = arg.bool_value() ? "true" : "false";
        break;
      case v1::Arg::kTextValue:
        value = arg.text_value();
        break;
      case v1::Arg::kIntsValue:
        value = absl::StrCat(
            "[", absl::StrJoin(arg.ints_value().values(), ", "), "]");
        break;
      case v1::Arg::VALUE_NOT_SET:
        break;
    }
    args.push_back(absl::StrCat(arg.name(), ": ", value));
  }
  return absl::StrCat(layer.type(), "(", absl::StrJoin(args, ", "), ")");
}

class Profiler {
 public:
  Profiler(const v1::RunnerProfile& request, const ProfileOptions& options,
           GraphInfo info, std::unique_ptr<Backend> backend,
           std::unique_ptr<Optimizer> optimizer)
      : request_(request),
        options_(options),
        info_(std::move(info)),
        backend_(std::move(backend)),
        optimizer_(std::move(optimizer)) {}

  absl::Status Build() {
    Allocator& allocator = *backend_->allocator();
    const v1::Graph& graph = request_.graph();
    for (int i = 0; i < graph.layers_size(); ++i) {
      Bench bench;
      std::vector<TensorSpec> inputs;
      for (const int producer : info_.inputs[i]) {
        inputs.push_back(SpecOf(producer));
        bench.wanted.push_back(producer >= 0);
      }
      ASSIGN_OR_RETURN(bench.body,
                       MakeLayer(graph.layers(i), inputs, *backend_));
      const LayerInfo& info = info_.layers[i];
      RETURN_IF_ERROR(Fill(info.params, graph.layers(i).name(),
                           MemoryUse::kWeights, &bench.params));
      RETURN_IF_ERROR(Fill(info.buffers, graph.layers(i).name(),
                           MemoryUse::kOptimizer, &bench.buffers));
      for (const Tensor& param : bench.params) {
        ASSIGN_OR_RETURN(Tensor gradient,
                         Tensor::Zeros(allocator, param.shape(), DType::kF32,
                                       MemoryUse::kGradients));
        bench.gradients.push_back(std::move(gradient));
        for (size_t s = 0; s < optimizer_->state_names().size(); ++s) {
          ASSIGN_OR_RETURN(Tensor state,
                           Tensor::Zeros(allocator, param.shape(), DType::kF32,
                                         MemoryUse::kOptimizer));
          bench.state.push_back(std::move(state));
        }
      }
      benches_.push_back(std::move(bench));
    }
    // A value goes with its last reader.
    std::set<int> read;
    for (size_t i = benches_.size(); i-- > 0;) {
      const std::vector<int>& producers = info_.inputs[i];
      benches_[i].last_use.resize(producers.size());
      for (size_t j = producers.size(); j-- > 0;) {
        benches_[i].last_use[j] = read.insert(producers[j]).second;
      }
    }
    return MakeInputs();
  }

  // One pass over the whole graph and back.
  absl::Status Round() {
    StepContext context;
    context.seed = request_.spec().seed();
    context.minibatch = MinibatchId(0);
    const bool first = rounds_.size() < kFailpointRounds;
    // Between the layers are only small things; the whole shows who else had
    // the core.
    const Stopwatch whole;
    const double thread_before = ThreadSeconds();
    TensorList values(benches_.size());
    std::set<const void*> seen;
    for (size_t i = 0; i < benches_.size(); ++i) {
      Bench& bench = benches_[i];
      TensorList inputs;
      for (size_t j = 0; j < info_.inputs[i].size(); ++j) {
        const int producer = info_.inputs[i][j];
        if (producer == kInputX || producer == kInputY) {
          inputs.push_back(producer == kInputX ? x_ : y_);
        } else if (bench.last_use[j]) {
          inputs.push_back(std::exchange(values[producer], Tensor()));
        } else {
          inputs.push_back(values[producer]);
        }
      }
      const int64_t workspace = Workspace();
      bench.saved.tensors.clear();
      const Stopwatch forward;
      if (first) RETURN_IF_ERROR(FAILPOINT("profiler.first_rounds"));
      RETURN_IF_ERROR(FAILPOINT("profiler.layer"));
      absl::StatusOr<Tensor> output =
          bench.body->Forward(context, inputs, bench.params,
                              absl::MakeSpan(bench.buffers), &bench.saved);
      if (!output.ok()) return WithContext(NameOf(i), output.status());
      values[i] = *std::move(output);
      bench.forward_seconds.push_back(forward.Seconds());
      bench.workspace_bytes += Workspace() - workspace;
      bench.saved_bytes = 0;
      for (const Tensor& tensor : bench.saved.tensors) {
        // A buffer that two layers keep is counted at the first.
        if (!tensor.empty() && seen.insert(tensor.identity()).second) {
          bench.saved_bytes += tensor.bytes();
        }
      }
    }
    values.assign(benches_.size(), Tensor());
    // Sums of the gradients of each layer's output.
    TensorList& sums = values;
    for (size_t i = benches_.size(); i-- > 0;) {
      Bench& bench = benches_[i];
      const int64_t workspace = Workspace();
      const Stopwatch backward;
      if (first) RETURN_IF_ERROR(FAILPOINT("profiler.first_rounds"));
      const Tensor gradient = std::exchange(sums[i], Tensor());
      absl::StatusOr<TensorList> parts =
          bench.body->Backward(context, bench.saved, bench.params, gradient,
                               bench.wanted, absl::MakeSpan(bench.gradients));
      if (!parts.ok()) return WithContext(NameOf(i), parts.status());
      bench.saved.tensors.clear();
      for (size_t j = 0; j < info_.inputs[i].size(); ++j) {
        const int producer = info_.inputs[i][j];
        if (producer < 0) continue;
        RETURN_IF_ERROR(AddTo(&sums[producer], std::move((*parts)[j])));
      }
      bench.backward_seconds.push_back(backward.Seconds());
      bench.workspace_bytes += Workspace() - workspace;
    }
    for (Bench& bench : benches_) RETURN_IF_ERROR(UpdateLayer(bench));
    // Several threads share the work of one layer: then this one may wait for
    // the others.
    RoundTime round;
    round.wall_seconds = whole.Seconds();
    round.cpu_seconds = backend_->threads() > 1
                            ? round.wall_seconds
                            : ThreadSeconds() - thread_before;
    rounds_.push_back(round);
    return absl::OkStatus();
  }

  // Rounds until the medians can be relied on.
  absl::Status Run() {
    const absl::Duration budget =
        options_.budget > absl::ZeroDuration()
            ? options_.budget
            : std::clamp(absl::Milliseconds(40) *
                             static_cast<int64_t>(benches_.size()),
                         absl::Duration(absl::Milliseconds(400)),
                         absl::Duration(absl::Seconds(4)));
    const double seconds = absl::ToDoubleSeconds(budget);
    for (int round = 0; round < options_.most_rounds; ++round) {
      // A cold start costs what it costs; the budget is for the others.
      const size_t cold = ColdRounds(rounds_);
      double spent = 0;
      for (size_t i = cold; i < rounds_.size(); ++i) {
        spent += rounds_[i].wall_seconds;
      }
      if (round >= kLeastRounds && spent >= seconds &&
          (spent >= kMostBudgets * seconds ||
           rounds_.size() - cold >= kEnoughRounds)) {
        break;
      }
      RETURN_IF_ERROR(FAILPOINT("profiler.round"));
      RETURN_IF_ERROR(Round());
    }
    return absl::OkStatus();
  }

  v1::Profile Take() const {
    v1::Profile profile;
    const v1::Graph& graph = request_.graph();
    const int64_t batch = request_.batch();
    profile.set_graph_hash(GraphHash(graph));
    profile.set_name(graph.name());
    profile.set_batch(batch);
    profile.set_device_kind(request_.device().kind().empty()
                                ? CpuKind(backend_->threads())
                                : request_.device().kind());
    const std::vector<size_t> counted = CountedRounds(rounds_, kEnoughRounds);
    std::vector<LayerNoise> noise;
    for (size_t i = 0; i < benches_.size(); ++i) {
      const Bench& bench = benches_[i];
      const v1::Layer& described = graph.layers(static_cast<int>(i));
      v1::LayerProfile* layer = profile.add_layers();
      layer->set_name(described.name());
      layer->set_description(DescribeLayer(described));
      for (const int producer : info_.inputs[i]) {
        layer->add_inputs(producer == kInputX ? "x"
                          : producer == kInputY
                              ? "y"
                              : graph.layers(producer).name());
      }
      layer->set_forward_seconds(Quantile(bench.forward_seconds, counted, 0.5));
      layer->set_backward_seconds(
          Quantile(bench.backward_seconds, counted, 0.5));
      if (!bench.params.empty()) {
        layer->set_update_seconds(Quantile(bench.update_seconds, counted, 0.5));
      }
      layer->set_output_bytes(BytesOf(info_.layers[i].output, batch));
      layer->set_parameter_bytes(TotalBytes(bench.params));
      layer->set_saved_bytes(bench.saved_bytes);
      layer->set_workspace_bytes(bench.workspace_bytes);
      std::vector<double> both = bench.forward_seconds;
      for (size_t r = 0; r < both.size(); ++r) {
        both[r] += bench.backward_seconds[r];
      }
      const double median = Quantile(both, counted, 0.5);
      layer->set_spread(Spread(both, counted));
      layer->set_noisy(IsNoisy(median, layer->spread()));
      layer->set_rounds(static_cast<int>(counted.size()));
      noise.push_back({median, layer->noisy()});
    }
    profile.set_noisy(WasBusy(rounds_, counted, noise));
    profile.set_input_bytes(BytesOf(info_.x, batch));
    profile.set_label_bytes(BytesOf(info_.y, batch));
    profile.set_measured_at(absl::ToUnixSeconds(absl::Now()));
    profile.set_threads(backend_->threads());
    profile.set_optimizer(request_.spec().optimizer().name());
    return profile;
  }

 private:
  const std::string& NameOf(size_t layer) const {
    return request_.graph().layers(static_cast<int>(layer)).name();
  }
  TensorSpec SpecOf(int producer) const {
    return producer == kInputX   ? info_.x
           : producer == kInputY ? info_.y
                                 : info_.layers[producer].output;
  }
  static int64_t BytesOf(const TensorSpec& spec, int64_t batch) {
    return spec.shape.elements() * DTypeBytes(spec.dtype) * batch;
  }
  int64_t Workspace() const {
    return backend_->allocator()->bytes_in_use(MemoryUse::kWorkspace);
  }

  absl::Status Fill(const std::vector<ParamSpec>& specs,
                    const std::string& layer, MemoryUse use, TensorList* out) {
    for (const ParamSpec& spec : specs) {
      ASSIGN_OR_RETURN(Tensor tensor,
                       Tensor::Allocate(*backend_->allocator(), spec.shape,
                                        DType::kF32, use));
      Initialise(request_.spec().seed(), layer, spec, tensor.f32());
      out->push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  // Random samples, and labels that the loss takes.
  absl::Status MakeInputs() {
    Allocator& allocator = *backend_->allocator();
    ASSIGN_OR_RETURN(
        x_,
        Tensor::Allocate(allocator, info_.x.shape.WithBatch(request_.batch()),
                         info_.x.dtype, MemoryUse::kActivations));
    ASSIGN_OR_RETURN(
        y_,
        Tensor::Allocate(allocator, info_.y.shape.WithBatch(request_.batch()),
                         info_.y.dtype, MemoryUse::kActivations));
    const int logits = info_.inputs.back().front();
    const Shape& scores = SpecOf(logits).shape;
    const int64_t classes =
        scores.rank() == 0
            ? 1
            : std::max<int64_t>(1, scores.dim(scores.rank() - 1));
    const uint64_t key = RandomKey(request_.spec().seed(), HashName("profile"));
    const auto word = [key](int64_t i) {
      return Philox4x32(
          {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0},
          key)[0];
    };
    for (int64_t i = 0; i < x_.elements(); ++i) {
      x_.f32()[i] = UnitFloat(word(i));
    }
    for (int64_t i = 0; i < y_.elements(); ++i) {
      y_.i32()[i] = static_cast<int32_t>(word(i) % classes);
    }
    return absl::OkStatus();
  }

  absl::Status AddTo(Tensor* sum, Tensor part) {
    if (sum->empty()) {
      *sum = std::move(part);
      return absl::OkStatus();
    }
    // Somebody else may hold the buffer: then the sum is a new one.
    Tensor into = *sum;
    if (sum->users() > 2) {
      ASSIGN_OR_RETURN(into,
                       Tensor::Allocate(*backend_->allocator(), sum->shape(),
                                        sum->dtype(), MemoryUse::kActivations));
    }
    RETURN_IF_ERROR(
        backend_->Add({sum->elements(), sum->f32(), part.f32(), into.f32()}));
    *sum = std::move(into);
    return absl::OkStatus();
  }

  absl::Status UpdateLayer(Bench& bench) {
    if (bench.params.empty()) {
      bench.update_seconds.push_back(0);
      return absl::OkStatus();
    }
    UpdateContext context;
    // Weights stay what they are, however often the layer runs.
    context.learning_rate = 0;
    context.gradient_scale = 1.0 / static_cast<double>(request_.batch());
    const TensorList old = bench.params;
    const Stopwatch update;
    RETURN_IF_ERROR(optimizer_->Update(*backend_, context, old, bench.gradients,
                                       absl::MakeSpan(bench.state),
                                       absl::MakeSpan(bench.params)));
    for (Tensor& gradient : bench.gradients) {
      RETURN_IF_ERROR(
          backend_->Fill({gradient.elements(), 0.0f, gradient.f32()}));
    }
    bench.update_seconds.push_back(update.Seconds());
    return absl::OkStatus();
  }

  const v1::RunnerProfile& request_;
  const ProfileOptions& options_;
  const GraphInfo info_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<Bench> benches_;
  std::vector<RoundTime> rounds_;
  Tensor x_;
  Tensor y_;
};

}  // namespace

absl::StatusOr<v1::Profile> RunProfile(const v1::RunnerProfile& request,
                                       const ProfileOptions& options) {
  RETURN_IF_ERROR(FAILPOINT("profiler.run"));
  if (request.batch() < 1) {
    return Mismatch("profile", "batch", absl::StrCat(request.batch()),
                    "at least 1");
  }
  ASSIGN_OR_RETURN(GraphInfo info, InferGraph(request.graph()));
  BackendOptions backend_options;
  backend_options.threads = std::max(1, request.spec().threads_per_executor());
  backend_options.memory_limit_bytes = request.device().memory_bytes();
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend,
                   MakeBackend(options.backend, backend_options));
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                   MakeOptimizer(request.spec().optimizer()));
  const Pinned pinned(request.device(), options.pin);
  Profiler profiler(request, options, std::move(info), std::move(backend),
                    std::move(optimizer));
  RETURN_IF_ERROR(profiler.Build());
  RETURN_IF_ERROR(profiler.Run());
  v1::Profile profile = profiler.Take();
  // A unit meets about eight actions on a stage for two hand-overs.
  ASSIGN_OR_RETURN(const double hand_over, HandOverSeconds());
  profile.set_action_seconds(hand_over / 4);
  return profile;
}

}  // namespace pipework
