// m = batch * spatial values a channel:
//   mean = sum x / m,  variance = sum (x - mean)^2 / m,
//   rstd = 1 / sqrt(variance + epsilon),  xhat = (x - mean) rstd
//   y    = gain xhat + bias
//   dx   = gain rstd (dy - sum dy / m - xhat sum (dy xhat) / m)
//   dgain += sum dy xhat,  dbias += sum dy
//
// Everything inside is in double, which costs little: a channel's values are
// read three times forward and twice backward, from cache where it is small.
// Lanes run along space, so feature vectors (spatial = 1) go one by one.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/batch_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pipework {
namespace HWY_NAMESPACE {

using Wide = hn::ScalableTag<double>;
using Single = hn::CappedTag<double, 1>;

template <typename D>
HWY_INLINE hn::Vec<D> Load(D d, const float* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), p));
}

template <typename D>
HWY_INLINE void Store(hn::Vec<D> v, D d, float* p) {
  const hn::Rebind<float, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, p);
}

// Calls body(tag, index) for the values of channel c.
template <typename Body>
HWY_INLINE void ForChannel(const BatchNormShape& s, int64_t c,
                           const Body& body) {
  const Wide wide;
  const Single single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t first = (n * s.channels + c) * s.spatial;
    int64_t i = 0;
    for (; i + lanes <= s.spatial; i += lanes) body(wide, first + i);
    for (; i < s.spatial; ++i) body(single, first + i);
  }
}

// A sum over lanes, and over what did not fill a vector.
class Sum {
 public:
  template <typename D>
  HWY_INLINE void Add(D d, hn::Vec<D> v) {
    double* sum = hn::Lanes(d) == 1 ? &rest_ : lanes_;
    hn::StoreU(hn::Add(hn::LoadU(d, sum), v), d, sum);
  }
  HWY_INLINE double Total() const {
    return hn::GetLane(hn::SumOfLanes(Wide(), hn::Load(Wide(), lanes_))) +
           rest_;
  }

 private:
  HWY_ALIGN double lanes_[hn::MaxLanes(Wide())] = {};
  double rest_ = 0;
};

HWY_INLINE double Or(const float* values, int64_t c, double otherwise) {
  return values == nullptr ? otherwise : values[c];
}

HWY_INLINE void Blend(float* running, int64_t c, double momentum,
                      double value) {
  if (running == nullptr) return;
  running[c] =
      static_cast<float>((1 - momentum) * running[c] + momentum * value);
}

// y = (x - mean) scale + bias
HWY_INLINE void Normalise(const BatchNormShape& s, int64_t c, const float* x,
                          double mean, double scale, double bias, float* y) {
  ForChannel(s, c, [&](auto d, int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(Load(d, x + i), hn::Set(d, mean));
    Store(hn::MulAdd(centred, hn::Set(d, scale), hn::Set(d, bias)), d, y + i);
  });
}

void BatchNormTrainingLoop(const BatchNormTrainingArgs& a) {
  const BatchNormShape& s = a.shape;
  const int64_t m = s.batch * s.spatial;
  for (int64_t c = 0; c < s.channels; ++c) {
    Sum sum;
    ForChannel(s, c, [&](auto d, int64_t i) HWY_ATTR {
      sum.Add(d, Load(d, a.x + i));
    });
    const double mean = sum.Total() / static_cast<double>(m);

    Sum sum_squares;
    ForChannel(s, c, [&](auto d, int64_t i) HWY_ATTR {
      const auto centred = hn::Sub(Load(d, a.x + i), hn::Set(d, mean));
      sum_squares.Add(d, hn::Mul(centred, centred));
    });
    const double squares = sum_squares.Total();
    const double rstd =
        1.0 / std::sqrt(squares / static_cast<double>(m) + a.epsilon);

    Normalise(s, c, a.x, mean, Or(a.gain, c, 1) * rstd, Or(a.bias, c, 0), a.y);
    a.mean[c] = static_cast<float>(mean);
    a.rstd[c] = static_cast<float>(rstd);
    Blend(a.running_mean, c, a.momentum, mean);
    Blend(a.running_variance, c, a.momentum,
          squares / static_cast<double>(std::max<int64_t>(m - 1, 1)));
  }
}

void BatchNormInferenceLoop(const BatchNormInferenceArgs& a) {
  for (int64_t c = 0; c < a.shape.channels; ++c) {
    const double rstd =
        1.0 / std::sqrt(double{a.running_variance[c]} + double{a.epsilon});
    Normalise(a.shape, c, a.x, a.running_mean[c], Or(a.gain, c, 1) * rstd,
              Or(a.bias, c, 0), a.y);
  }
}

void BatchNormBackwardLoop(const BatchNormBackwardArgs& a) {
  const BatchNormShape& s = a.shape;
  const auto m = static_cast<double>(s.batch * s.spatial);
  for (int64_t c = 0; c < s.channels; ++c) {
    const double mean = a.mean[c];
    const double rstd = a.rstd[c];
    Sum sum_dy;
    Sum sum_dy_centred;
    ForChannel(s, c, [&](auto d, int64_t i) HWY_ATTR {
      const auto dy = Load(d, a.dy + i);
      const auto centred = hn::Sub(Load(d, a.x + i), hn::Set(d, mean));
      sum_dy.Add(d, dy);
      sum_dy_centred.Add(d, hn::Mul(dy, centred));
    });
    const double total_dy = sum_dy.Total();
    const double total_dy_xhat = sum_dy_centred.Total() * rstd;
    if (a.dx != nullptr) {
      const double scale = Or(a.gain, c, 1) * rstd;
      const double per_centred = -scale * rstd * total_dy_xhat / m;
      const double constant = -scale * total_dy / m;
      ForChannel(s, c, [&](auto d, int64_t i) HWY_ATTR {
        const auto centred = hn::Sub(Load(d, a.x + i), hn::Set(d, mean));
        const auto rest =
            hn::MulAdd(centred, hn::Set(d, per_centred), hn::Set(d, constant));
        Store(hn::MulAdd(Load(d, a.dy + i), hn::Set(d, scale), rest), d,
              a.dx + i);
      });
    }
    if (a.dgain != nullptr) {
      a.dgain[c] = static_cast<float>(a.dgain[c] + total_dy_xhat);
    }
    if (a.dbias != nullptr) {
      a.dbias[c] = static_cast<float>(a.dbias[c] + total_dy);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pipework
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pipework {

HWY_EXPORT(BatchNormTrainingLoop);
HWY_EXPORT(BatchNormInferenceLoop);
HWY_EXPORT(BatchNormBackwardLoop);

absl::Status CpuBackend::BatchNormTraining(const BatchNormTrainingArgs& a) {
  HWY_DYNAMIC_DISPATCH(BatchNormTrainingLoop)(a);
  return absl::OkStatus();
}

absl::Status CpuBackend::BatchNormInference(const BatchNormInferenceArgs& a) {
  HWY_DYNAMIC_DISPATCH(BatchNormInferenceLoop)(a);
  return absl::OkStatus();
}

absl::Status CpuBackend::BatchNormBackward(const BatchNormBackwardArgs& a) {
  HWY_DYNAMIC_DISPATCH(BatchNormBackwardLoop)(a);
  return absl::OkStatus();
}

}  // namespace pipework
#endif  // HWY_ONCE
