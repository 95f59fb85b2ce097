#include "partitioner/algorithms/partitioner.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {

int PartitionInput::workers() const {
  int workers = 1;
  for (const Level& level : levels) workers *= level.components;
  return workers;
}

absl::Status CheckPartitionInput(const PartitionInput& input) {
  if (input.layers() == 0) {
    return Mismatch("partitioner", "the number of layers", "0", "1 or more");
  }
  if (input.weight_bytes.size() != input.layer_seconds.size() ||
      input.cut_bytes.size() != input.layer_seconds.size()) {
    return Mismatch(
        "partitioner", "the number of weights or cuts",
        absl::StrCat(input.weight_bytes.size(), " or ", input.cut_bytes.size()),
        absl::StrCat(input.layers(), " as of layers"));
  }
  for (int l = 0; l < input.layers(); ++l) {
    for (const double value :
         {input.layer_seconds[l], input.weight_bytes[l], input.cut_bytes[l]}) {
      if (!std::isfinite(value) || value < 0) {
        return Mismatch("partitioner", absl::StrCat("a cost of layer ", l),
                        absl::StrCat(value), "a number from 0");
      }
    }
  }
  for (const Level& level : input.levels) {
    if (level.components < 1) {
      return Mismatch("partitioner", "the components of a level",
                      absl::StrCat(level.components), "1 or more");
    }
  }
  if (input.levels.empty() || input.cost_model == nullptr) {
    return Mismatch("partitioner", "levels or cost model", "missing",
                    "one level at least, and a cost model");
  }
  return absl::OkStatus();
}

}  // namespace pipework
