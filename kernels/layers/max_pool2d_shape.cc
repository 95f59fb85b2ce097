#include "kernels/layers/max_pool2d_shape.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr absl::string_view kArgs[] = {"kernel", "stride", "padding"};

}  // namespace

absl::StatusOr<MaxPool2dSpec> ReadMaxPool2d(
    const v1::Layer& layer, absl::Span<const TensorSpec> inputs) {
  const std::string who = LayerWho(layer);
  ArgReader args(who, ArgsOf(layer), kArgs);
  MaxPool2dSpec spec;
  spec.window = ReadWindow(args, /*stride_is_kernel=*/true,
                           /*has_dilation=*/false);
  RETURN_IF_ERROR(args.status());
  RETURN_IF_ERROR(CheckPoolPadding(who, spec.window));
  RETURN_IF_ERROR(CheckInputs(who, inputs, 1));
  ASSIGN_OR_RETURN(spec.image, ImageOf(who, inputs[0].shape));
  // The position of a maximum within its plane is kept as an i32.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (spec.image.height > kMost / spec.image.width) {
    return Mismatch(who, "shape of its input", inputs[0].shape.ToString(),
                    absl::StrCat("at most ", kMost, " elements a channel"));
  }
  return spec;
}

absl::StatusOr<LayerInfo> InferMaxPool2d(const v1::Layer& layer,
                                         absl::Span<const TensorSpec> inputs) {
  ASSIGN_OR_RETURN(const MaxPool2dSpec spec, ReadMaxPool2d(layer, inputs));
  const std::string who = LayerWho(layer);
  ASSIGN_OR_RETURN(const Extent extent,
                   WindowOutput(who, spec.window, spec.image));

  LayerInfo info;
  info.output.shape = Shape({spec.image.channels, extent.height, extent.width});
  RETURN_IF_ERROR(CheckShape(who, "shape of its output", info.output.shape));
  const double outputs = static_cast<double>(info.output.shape.elements());
  info.forward_operations = outputs *
                            static_cast<double>(spec.window.kernel_h) *
                            static_cast<double>(spec.window.kernel_w);
  info.backward_operations = outputs;
  info.saved_bytes =
      info.output.shape.elements() * DTypeBytes(DType::kI32);  // positions
  return info;
}

}  // namespace pipework
