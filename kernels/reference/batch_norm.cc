// m = batch * spatial values a channel:
//   mean = sum x / m,  variance = sum (x - mean)^2 / m,
//   rstd = 1 / sqrt(variance + epsilon),  xhat = (x - mean) rstd
//   y    = gain xhat + bias
//   dx   = gain rstd (dy - sum dy / m - xhat sum (dy xhat) / m)
//   dgain += sum dy xhat,  dbias += sum dy
#include "kernels/ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference_backend.h"

namespace pipework {
namespace {

// Calls value(index) for each value of channel c.
template <typename Value>
void Walk(const BatchNormShape& s, int64_t c, const Value& value) {
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t i = 0; i < s.spatial; ++i) {
      value((n * s.channels + c) * s.spatial + i);
    }
  }
}

double Or(const float* values, int64_t c, double otherwise) {
  return values == nullptr ? otherwise : values[c];
}

void Blend(float* running, int64_t c, double momentum, double value) {
  if (running == nullptr) return;
  running[c] =
      static_cast<float>((1 - momentum) * running[c] + momentum * value);
}

}  // namespace

absl::Status ReferenceBackend::BatchNormTraining(
    const BatchNormTrainingArgs& a) {
  const BatchNormShape& s = a.shape;
  const int64_t m = s.batch * s.spatial;
  for (int64_t c = 0; c < s.channels; ++c) {
    double mean = 0;
    Walk(s, c, [&](int64_t i) { mean += a.x[i]; });
    mean /= m;

    double squares = 0;
    Walk(s, c,
         [&](int64_t i) { squares += (a.x[i] - mean) * (a.x[i] - mean); });
    const double rstd = 1.0 / std::sqrt(squares / m + a.epsilon);

    const double gain = Or(a.gain, c, 1);
    const double bias = Or(a.bias, c, 0);
    Walk(s, c, [&](int64_t i) {
      a.y[i] = static_cast<float>(gain * ((a.x[i] - mean) * rstd) + bias);
    });
    a.mean[c] = static_cast<float>(mean);
    a.rstd[c] = static_cast<float>(rstd);
    Blend(a.running_mean, c, a.momentum, mean);
    Blend(a.running_variance, c, a.momentum,
          squares / std::max<int64_t>(m - 1, 1));
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::BatchNormInference(
    const BatchNormInferenceArgs& a) {
  const BatchNormShape& s = a.shape;
  for (int64_t c = 0; c < s.channels; ++c) {
    const double mean = a.running_mean[c];
    const double rstd =
        1.0 / std::sqrt(double{a.running_variance[c]} + double{a.epsilon});
    const double gain = Or(a.gain, c, 1);
    const double bias = Or(a.bias, c, 0);
    Walk(s, c, [&](int64_t i) {
      a.y[i] = static_cast<float>(gain * ((a.x[i] - mean) * rstd) + bias);
    });
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::BatchNormBackward(
    const BatchNormBackwardArgs& a) {
  const BatchNormShape& s = a.shape;
  const double m = s.batch * s.spatial;
  for (int64_t c = 0; c < s.channels; ++c) {
    const double mean = a.mean[c];
    const double rstd = a.rstd[c];
    double sum_dy = 0;
    double sum_dy_xhat = 0;
    Walk(s, c, [&](int64_t i) {
      sum_dy += a.dy[i];
      sum_dy_xhat += a.dy[i] * ((a.x[i] - mean) * rstd);
    });
    if (a.dx != nullptr) {
      const double gain = Or(a.gain, c, 1);
      Walk(s, c, [&](int64_t i) {
        const double xhat = (a.x[i] - mean) * rstd;
        a.dx[i] = static_cast<float>(
            gain * rstd * (a.dy[i] - sum_dy / m - xhat * sum_dy_xhat / m));
      });
    }
    if (a.dgain != nullptr) {
      a.dgain[c] = static_cast<float>(a.dgain[c] + sum_dy_xhat);
    }
    if (a.dbias != nullptr) {
      a.dbias[c] = static_cast<float>(a.dbias[c] + sum_dy);
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
