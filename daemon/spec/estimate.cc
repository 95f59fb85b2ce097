#include "daemon/spec/spec.h"
#include "kernels/layers/graph_shape.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// One core of a common machine. Only ratios between layers matter to a plan,
// and a measured profile takes this one's place as soon as there is one.
constexpr double kOperationsPerSecond = 20e9;
constexpr double kBytesPerSecond = 10e9;
constexpr double kSecondsPerLayer = 5e-6;
constexpr double kSecondsPerAction = 20e-6;
constexpr int64_t kMostBatch = int64_t{1} << 24;
// Weights, gradient and one state tensor, read and written.
constexpr double kUpdatePasses = 5;

double Seconds(double operations, double bytes) {
  return operations / kOperationsPerSecond + bytes / kBytesPerSecond +
         kSecondsPerLayer;
}

int64_t Bytes(const TensorSpec& spec) {
  return spec.shape.elements() * DTypeBytes(spec.dtype);
}

}  // namespace

absl::StatusOr<v1::Profile> EstimateProfile(const v1::Graph& graph,
                                            int64_t batch) {
  if (batch < 1 || batch > kMostBatch) {
    return Mismatch("profile", "samples in a unit", absl::StrCat(batch),
                    absl::StrCat("1 to ", kMostBatch));
  }
  ASSIGN_OR_RETURN(const GraphInfo info, InferGraph(graph));
  v1::Profile profile;
  profile.set_graph_hash(GraphHash(graph));
  profile.set_batch(batch);
  profile.set_device_kind("estimated");
  profile.set_estimated(true);
  profile.set_input_bytes(Bytes(info.x) + Bytes(info.y));
  profile.set_label_bytes(batch * Bytes(info.y));
  profile.set_action_seconds(kSecondsPerAction);
  const auto samples = static_cast<double>(batch);
  for (size_t i = 0; i < info.layers.size(); ++i) {
    const LayerInfo& layer = info.layers[i];
    double inputs = 0;
    for (int from : info.inputs[i]) {
      inputs += static_cast<double>(Bytes(
          from == kInputX   ? info.x
          : from == kInputY ? info.y
                            : info.layers[static_cast<size_t>(from)].output));
    }
    int64_t parameters = 0;
    for (const ParamSpec& param : layer.params) {
      parameters += param.shape.elements() * DTypeBytes(DType::kF32);
    }
    const auto weights = static_cast<double>(parameters);
    const auto output = static_cast<double>(Bytes(layer.output));
    const double moved = samples * (inputs + output) + weights;
    v1::LayerProfile* out = profile.add_layers();
    out->set_name(graph.layers(static_cast<int>(i)).name());
    out->set_forward_seconds(
        Seconds(samples * layer.forward_operations, moved));
    out->set_backward_seconds(
        Seconds(samples * layer.backward_operations, 2 * moved));
    if (parameters > 0) {
      out->set_update_seconds(Seconds(0, kUpdatePasses * weights));
    }
    // A loss gives two numbers for a whole unit.
    out->set_output_bytes(layer.is_loss ? Bytes(layer.output)
                                        : batch * Bytes(layer.output));
    out->set_parameter_bytes(parameters);
    out->set_saved_bytes(batch * layer.saved_bytes);
  }
  return profile;
}

}  // namespace pipework
