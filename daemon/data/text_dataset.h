// Samples of raw text, for networks that guess the next character.
#ifndef PIPEWORK_DAEMON_DATA_TEXT_DATASET_H_
#define PIPEWORK_DAEMON_DATA_TEXT_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/data/byte_source.h"
#include "daemon/data/dataset.h"
#include "daemon/data/transform.h"

namespace pipework {

// Sample i is bytes [i * length, (i + 1) * length) of `source`, its labels the
// same range one byte further on. InvalidArgument: a text too short for one.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeTextDataset(
    std::shared_ptr<const ByteSource> source, int64_t length,
    const Transform& transform);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_TEXT_DATASET_H_
