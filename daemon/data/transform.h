// What the data's numbers become: samples as f32, labels as class numbers.
#ifndef PIPEWORK_DAEMON_DATA_TRANSFORM_H_
#define PIPEWORK_DAEMON_DATA_TRANSFORM_H_

#include <cmath>
#include <cstdint>

#include "proto/job.pb.h"

namespace pipework {

// x * scale, then (x - mean) / std; in double, rounded once.
class Transform {
 public:
  explicit Transform(const v1::DataSpec& spec)
      : scale_(spec.scale() == 0 ? 1 : spec.scale()),
        mean_(spec.normalise().mean()),
        std_(spec.normalise().std() == 0 ? 1 : spec.normalise().std()) {}

  float operator()(double x) const {
    return static_cast<float>((x * scale_ - mean_) / std_);
  }

 private:
  double scale_;
  double mean_;
  double std_;
};

// Whether `value` is a class number: whole, from 0 to below 2^31. NaN is not.
inline bool IsLabel(double value) {
  return value >= 0 && value < 2147483648.0 && value == std::floor(value);
}
constexpr char kLabelWanted[] = "a whole number from 0 to below 2^31";
// Of a sample's number.
constexpr char kSampleWanted[] =
    "a number that is finite as f32 after scale and normalise";

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_TRANSFORM_H_
