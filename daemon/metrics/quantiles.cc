#include "daemon/metrics/quantiles.h"

#include <algorithm>
#include <cmath>

#include "proto/check.h"

namespace pipework {

Quantiles::Quantiles(int capacity) : capacity_(capacity) {
  PIPE_CHECK(capacity > 0);
}

void Quantiles::Add(double value) {
  if (static_cast<int>(newest_.size()) < capacity_) {
    newest_.push_back(value);
  } else {
    newest_[count_ % capacity_] = value;
  }
  ++count_;
}

double Quantiles::At(double q) const {
  if (newest_.empty()) return 0;
  std::vector<double> sorted = newest_;
  std::sort(sorted.begin(), sorted.end());
  const double position =
      std::min(std::max(q, 0.0), 1.0) * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(position));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = position - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

}  // namespace pipework
