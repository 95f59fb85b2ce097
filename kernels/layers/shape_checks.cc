#include "kernels/layers/shape_checks.h"

#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {
namespace {

// One axis; `output` is set where the kernel fits.
absl::Status AxisOutput(const std::string& who, absl::string_view axis,
                        int64_t input, int64_t kernel, int64_t stride,
                        int64_t padding, int64_t dilation, int64_t* output) {
  // Arguments are at most 2^31 and sides at most 2^33: no overflow.
  const int64_t reach = dilation * (kernel - 1) + 1;
  const int64_t padded = input + 2 * padding;
  if (reach > padded) {
    return Mismatch(
        who,
        absl::StrCat("kernel ", axis, dilation > 1 ? " with its dilation" : ""),
        absl::StrCat(reach),
        absl::StrCat("at most ", padded, ", the ", axis,
                     " of its padded input"),
        "use a smaller kernel or more padding");
  }
  *output = (padded - reach) / stride + 1;
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckShape(const std::string& who, absl::string_view what,
                        const Shape& shape) {
  if (shape.rank() > kMaxRank) {
    return Mismatch(who, absl::StrCat("rank of ", what),
                    absl::StrCat(shape.rank()),
                    absl::StrCat("at most ", kMaxRank));
  }
  int64_t elements = 1;
  for (int64_t dim : shape.dims()) {
    if (dim < 1) {
      return Mismatch(who, what, shape.ToString(), "every side at least 1");
    }
    if (dim > kMaxElements / elements) {
      return Mismatch(who, what, shape.ToString(),
                      absl::StrCat("at most ", kMaxElements, " elements"));
    }
    elements *= dim;
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const std::string& who,
                         absl::Span<const TensorSpec> inputs, size_t wanted) {
  if (inputs.size() != wanted) {
    return Mismatch(who, "number of inputs", absl::StrCat(inputs.size()),
                    absl::StrCat(wanted));
  }
  for (const TensorSpec& input : inputs) {
    if (input.dtype != DType::kF32) {
      return Mismatch(who, "type of its input", DTypeName(input.dtype), "f32",
                      "labels go to the loss only");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Image> ImageOf(const std::string& who, const Shape& shape) {
  if (shape.rank() == 2) return Image{1, shape.dim(0), shape.dim(1)};
  if (shape.rank() == 3) {
    return Image{shape.dim(0), shape.dim(1), shape.dim(2)};
  }
  return Mismatch(who, "shape of its input", shape.ToString(),
                  "[channels,height,width] or [height,width]");
}

Window2d ReadWindow(ArgReader& args, bool stride_is_kernel, bool has_dilation) {
  const auto kernel = args.RequiredPair("kernel");
  const auto stride = args.Pair(
      "stride", stride_is_kernel ? kernel : std::array<int64_t, 2>{1, 1});
  const auto padding = args.Pair("padding", {0, 0}, 0);
  const auto dilation = has_dilation ? args.Pair("dilation", {1, 1})
                                     : std::array<int64_t, 2>{1, 1};
  Window2d window;
  window.kernel_h = kernel[0];
  window.kernel_w = kernel[1];
  window.stride_h = stride[0];
  window.stride_w = stride[1];
  window.padding_h = padding[0];
  window.padding_w = padding[1];
  window.dilation_h = dilation[0];
  window.dilation_w = dilation[1];
  return window;
}

absl::StatusOr<Extent> WindowOutput(const std::string& who,
                                    const Window2d& window,
                                    const Image& image) {
  Extent out;
  absl::Status status =
      AxisOutput(who, "height", image.height, window.kernel_h, window.stride_h,
                 window.padding_h, window.dilation_h, &out.height);
  if (status.ok()) {
    status =
        AxisOutput(who, "width", image.width, window.kernel_w, window.stride_w,
                   window.padding_w, window.dilation_w, &out.width);
  }
  if (!status.ok()) return status;
  return out;
}

absl::Status CheckPoolPadding(const std::string& who, const Window2d& window) {
  if (2 * window.padding_h <= window.kernel_h &&
      2 * window.padding_w <= window.kernel_w) {
    return absl::OkStatus();
  }
  return Mismatch(
      who, "padding",
      absl::StrCat("[", window.padding_h, ",", window.padding_w, "]"),
      absl::StrCat("at most half the kernel [", window.kernel_h, ",",
                   window.kernel_w, "]"));
}

}  // namespace pipework
