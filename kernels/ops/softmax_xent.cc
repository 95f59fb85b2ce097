#include "kernels/ops/softmax_xent.h"

#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {

absl::Status CheckLabels(const int32_t* labels, int64_t rows, int64_t classes) {
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] < 0 || labels[r] >= classes) {
      return Mismatch("softmax_xent", absl::StrCat("label of row ", r),
                      absl::StrCat(labels[r]),
                      absl::StrCat("a class from 0 to ", classes - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
