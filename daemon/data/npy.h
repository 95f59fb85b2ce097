// NumPy's files: .npy (versions 1 to 3, C order) and the members of .npz.
#ifndef PIPEWORK_DAEMON_DATA_NPY_H_
#define PIPEWORK_DAEMON_DATA_NPY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/data/array.h"
#include "daemon/data/byte_source.h"

namespace pipework {

// InvalidArgument names source and byte: not such a file, an element type that
// is not in ElementType or not little endian, Fortran order, or data that is
// shorter or longer than the header says.
absl::StatusOr<Array> ReadNpy(std::shared_ptr<const ByteSource> source);

// Member `key` (KEY.npy) of a zip archive, stored or deflated. A deflated one
// is unpacked into memory. Checks sizes before it allocates and the checksum
// before it returns.
// NotFound: no such member; lists those that are there.
absl::StatusOr<Array> ReadNpz(std::shared_ptr<const ByteSource> source,
                              absl::string_view key);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_NPY_H_
