// IDX files, the format of MNIST; plain, or packed with gzip.
#ifndef PIPEWORK_DAEMON_DATA_IDX_H_
#define PIPEWORK_DAEMON_DATA_IDX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/data/array.h"
#include "daemon/data/byte_source.h"

namespace pipework {

// Two zero bytes, element type, number of dimensions; the dimensions, 4 bytes
// each; the elements. Everything is big endian.
// InvalidArgument names source and byte: no such file, or data shorter or
// longer than the header says.
absl::StatusOr<Array> ReadIdx(std::shared_ptr<const ByteSource> source);

// The same through gzip, unpacked into memory. Offsets in its errors count
// packed bytes where the packing is wrong, else unpacked ones ("(unpacked)").
absl::StatusOr<Array> ReadIdxGz(std::shared_ptr<const ByteSource> source);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_IDX_H_
