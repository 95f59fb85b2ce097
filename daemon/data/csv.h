// Tables of numbers in CSV files.
#ifndef PIPEWORK_DAEMON_DATA_CSV_H_
#define PIPEWORK_DAEMON_DATA_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/data/byte_source.h"

namespace pipework {

struct Table {
  std::vector<std::string> columns;  // features, in file order
  std::vector<float> values;         // row by row
  std::vector<double> labels;        // one a row
  std::vector<int64_t> lines;        // where each row starts, from 1

  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
};

// A header line with the names of the columns, then one row a line; fields
// between commas, quoted where they hold commas, quotes ("") or line ends; a
// byte order mark and empty lines at the end are skipped. All fields are
// finite numbers (RFC 4180 otherwise). `label` names the column that is kept
// apart.
// InvalidArgument names source and line: no such column, a name twice, a row
// with more or fewer fields, a field that is no number.
absl::StatusOr<Table> ReadCsv(const ByteSource& source,
                              absl::string_view label);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_CSV_H_
