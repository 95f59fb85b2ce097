#include "kernels/layers/global_avg_pool2d.h"

#include "kernels/layers/avg_pool2d.h"
#include "kernels/layers/global_avg_pool2d_shape.h"
#include "proto/status_macros.h"

namespace pipework {

absl::StatusOr<std::unique_ptr<LayerBody>> MakeGlobalAvgPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs,
    Backend& backend) {
  ASSIGN_OR_RETURN(const AvgPool2dSpec spec,
                   ReadGlobalAvgPool2d(layer, inputs));
  return MakeAvgPool2d(spec, inputs[0].shape, backend);
}

}  // namespace pipework
