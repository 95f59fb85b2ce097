#include "daemon/oracle/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/check.h"

namespace pipework {
namespace {

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

double Distance(float a, float b) {
  const double distance =
      std::fabs(static_cast<double>(a) - static_cast<double>(b));
  return std::isnan(distance) ? std::numeric_limits<double>::infinity()
                              : distance;
}

}  // namespace

void CompareTensors(const v1::Graph& graph,
                    const std::vector<OracleTensor>& oracle,
                    const std::vector<Tensor>& pipeline,
                    v1::Verification* out) {
  PIPE_CHECK(oracle.size() == pipeline.size());
  out->set_equal(true);
  int layer = -1;
  v1::LayerVerdict* verdict = nullptr;
  for (size_t i = 0; i < oracle.size(); ++i) {
    const OracleTensor& wanted = oracle[i];
    PIPE_CHECK(wanted.layer >= layer);
    PIPE_CHECK(wanted.tensor.shape() == pipeline[i].shape());
    if (wanted.layer != layer) {
      layer = wanted.layer;
      verdict = out->add_layers();
      verdict->set_name(graph.layers(layer).name());
      verdict->set_bit_equal(true);
    }
    const float* a = pipeline[i].f32();
    const float* b = wanted.tensor.f32();
    for (int64_t j = 0; j < wanted.tensor.elements(); ++j) {
      if (SameBits(a[j], b[j])) continue;
      if (out->first_difference().empty()) {
        out->set_first_difference(absl::StrFormat(
            "layer %s: element %d of %s is %.9g in the pipeline, expected %.9g "
            "by the oracle",
            verdict->name(), j, wanted.name, a[j], b[j]));
      }
      out->set_equal(false);
      verdict->set_bit_equal(false);
      verdict->set_max_abs_difference(
          std::max(verdict->max_abs_difference(), Distance(a[j], b[j])));
    }
  }
}

double LargestDifference(const std::vector<double>& a,
                         const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace pipework
