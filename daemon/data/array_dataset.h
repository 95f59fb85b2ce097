// Samples and labels from two arrays.
#ifndef PIPEWORK_DAEMON_DATA_ARRAY_DATASET_H_
#define PIPEWORK_DAEMON_DATA_ARRAY_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/data/array.h"
#include "daemon/data/dataset.h"
#include "daemon/data/transform.h"

namespace pipework {

// `x` stays where it is, `y` is read into memory. Checks every number.
// InvalidArgument names file and byte: no samples, another number of labels, a
// sample that is not finite, a label that is none.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeArrayDataset(
    Array x, const Array& y, const Transform& transform);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_ARRAY_DATASET_H_
