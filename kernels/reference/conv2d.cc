//   y[n,o,p,q] = b[o] + sum over c, k, l of w[o,c,k,l] x[n,g(o)+c,h,v],
//     h = p stride_h - padding_h + k dilation_h,   v likewise,
// and its derivatives by x, w and b.
//
// All four walk over the same products: Walk() is the formula, and what is
// done with each product is what differs.
#include "kernels/ops/conv2d.h"

#include <vector>

#include "kernels/reference/reference_backend.h"

namespace pipework {
namespace {

// Calls product(y index, w index, x index) for each product of output channel
// o of image n whose input is inside the image.
template <typename Product>
void Walk(const Conv2dShape& s, int64_t n, int64_t o, const Product& product) {
  const Window2d& window = s.window;
  const int64_t in = s.in_channels / s.groups;
  const int64_t first_channel = o / (s.out_channels / s.groups) * in;
  for (int64_t p = 0; p < s.OutHeight(); ++p) {
    for (int64_t q = 0; q < s.OutWidth(); ++q) {
      for (int64_t c = 0; c < in; ++c) {
        for (int64_t k = 0; k < window.kernel_h; ++k) {
          for (int64_t l = 0; l < window.kernel_w; ++l) {
            const int64_t h =
                p * window.stride_h - window.padding_h + k * window.dilation_h;
            const int64_t v =
                q * window.stride_w - window.padding_w + l * window.dilation_w;
            if (h < 0 || h >= s.height || v < 0 || v >= s.width) continue;
            product(
                ((n * s.out_channels + o) * s.OutHeight() + p) * s.OutWidth() +
                    q,
                ((o * in + c) * window.kernel_h + k) * window.kernel_w + l,
                ((n * s.in_channels + first_channel + c) * s.height + h) *
                        s.width +
                    v);
          }
        }
      }
    }
  }
}

int64_t OutPixels(const Conv2dShape& s) { return s.OutHeight() * s.OutWidth(); }

}  // namespace

absl::Status ReferenceBackend::Conv2dForward(const Conv2dForwardArgs& a) {
  const Conv2dShape& s = a.shape;
  std::vector<double> y(s.batch * s.out_channels * OutPixels(s));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      Walk(s, n, o, [&](int64_t iy, int64_t iw, int64_t ix) {
        y[iy] += double{a.w[iw]} * double{a.x[ix]};
      });
    }
  }
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t o = i / OutPixels(s) % s.out_channels;
    a.y[i] = static_cast<float>(y[i] + (a.b == nullptr ? 0.0 : a.b[o]));
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Conv2dBackwardData(
    const Conv2dBackwardDataArgs& a) {
  const Conv2dShape& s = a.shape;
  std::vector<double> dx(s.batch * s.in_channels * s.height * s.width);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      Walk(s, n, o, [&](int64_t iy, int64_t iw, int64_t ix) {
        dx[ix] += double{a.w[iw]} * double{a.dy[iy]};
      });
    }
  }
  for (size_t i = 0; i < dx.size(); ++i) a.dx[i] = static_cast<float>(dx[i]);
  return absl::OkStatus();
}

absl::Status ReferenceBackend::Conv2dBackwardWeights(
    const Conv2dBackwardWeightsArgs& a) {
  const Conv2dShape& s = a.shape;
  std::vector<double> dw(s.out_channels * (s.in_channels / s.groups) *
                         s.window.kernel_h * s.window.kernel_w);
  std::vector<double> db(s.out_channels);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      Walk(s, n, o, [&](int64_t iy, int64_t iw, int64_t ix) {
        dw[iw] += double{a.dy[iy]} * double{a.x[ix]};
      });
      const float* dy = a.dy + (n * s.out_channels + o) * OutPixels(s);
      for (int64_t i = 0; i < OutPixels(s); ++i) db[o] += dy[i];
    }
  }
  for (size_t i = 0; i < dw.size(); ++i) {
    a.dw[i] = static_cast<float>(a.dw[i] + dw[i]);
  }
  if (a.db == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < db.size(); ++i) {
    a.db[i] = static_cast<float>(a.db[i] + db[i]);
  }
  return absl::OkStatus();
}

}  // namespace pipework
