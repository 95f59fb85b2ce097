// Quantiles of the newest values of a series, such as the median time of a
// forward pass.
#ifndef PIPEWORK_DAEMON_METRICS_QUANTILES_H_
#define PIPEWORK_DAEMON_METRICS_QUANTILES_H_

#include <cstdint>
#include <vector>

namespace pipework {

// Memory: `capacity` values. One thread at a time.
class Quantiles {
 public:
  explicit Quantiles(int capacity = 512);

  void Add(double value);

  // Values added so far, those that were pushed out included.
  int64_t count() const { return count_; }
  // q in [0, 1]; 0.5 is the median, the mean of the middle two where their
  // number is even. 0 where there is no value.
  double At(double q) const;
  double Median() const { return At(0.5); }

 private:
  int capacity_;
  int64_t count_ = 0;
  std::vector<double> newest_;  // a ring
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_METRICS_QUANTILES_H_
