// Samples and labels from a table, in memory.
#ifndef PIPEWORK_DAEMON_DATA_TABLE_DATASET_H_
#define PIPEWORK_DAEMON_DATA_TABLE_DATASET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/data/csv.h"
#include "daemon/data/dataset.h"
#include "daemon/data/transform.h"

namespace pipework {

// `name` is the table's file. InvalidArgument names it and the line: no rows, a
// sample that is not finite after scaling, a label that is none.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeTableDataset(
    const std::string& name, Table table, const Transform& transform);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_TABLE_DATASET_H_
