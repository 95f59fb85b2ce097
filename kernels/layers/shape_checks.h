// What the inference of several layers shares: checks of inputs and sizes.
#ifndef PIPEWORK_KERNELS_LAYERS_SHAPE_CHECKS_H_
#define PIPEWORK_KERNELS_LAYERS_SHAPE_CHECKS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/layers/args.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/tensor.h"
#include "kernels/window.h"

namespace pipework {

// Largest tensor of one sample, and largest parameter: bytes, sums over
// 100,000 layers and products with a batch then stay within 64 bits, and
// dropout can number the elements.
constexpr int64_t kMaxElements = int64_t{1} << 33;
constexpr int kMaxRank = 8;

// InvalidArgument: a dimension below 1, a rank over kMaxRank, or more than
// kMaxElements elements.
absl::Status CheckShape(const std::string& who, absl::string_view what,
                        const Shape& shape);

// InvalidArgument: another number of inputs, or one that is not f32.
absl::Status CheckInputs(const std::string& who,
                         absl::Span<const TensorSpec> inputs, size_t wanted);

// An image as channels, height, width. A sample [height,width] is an image of
// one channel. InvalidArgument: another rank.
struct Image {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
};
absl::StatusOr<Image> ImageOf(const std::string& who, const Shape& shape);

// Reads kernel, stride (0: as the kernel), padding and dilation; `args` must
// know the names. Problems are left in `args`.
Window2d ReadWindow(ArgReader& args, bool stride_is_kernel, bool has_dilation);

// Height and width of a window's output. InvalidArgument: the kernel is larger
// than the padded image.
struct Extent {
  int64_t height = 0;
  int64_t width = 0;
};
absl::StatusOr<Extent> WindowOutput(const std::string& who,
                                    const Window2d& window, const Image& image);

// InvalidArgument: padding of a pool over half its kernel, so that a window
// could lie in the padding alone.
absl::Status CheckPoolPadding(const std::string& who, const Window2d& window);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_SHAPE_CHECKS_H_
