// One member of a zip archive: as much of the format as NumPy writes.
#ifndef PIPEWORK_DAEMON_DATA_ZIP_H_
#define PIPEWORK_DAEMON_DATA_ZIP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/data/byte_source.h"

namespace pipework {

// The member KEY.npy, or one that is named `key` itself. Stored members stay
// in the file; deflated ones are unpacked into memory. The central directory
// is believed only as far as the archive's size allows; sizes in front of a
// member are not read at all.
// NotFound: no such member; lists those that are there.
// InvalidArgument names archive and byte: no zip archive, encrypted, packed
// another way, over 4 GiB (zip64), damaged, or cut off.
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenZipMember(
    std::shared_ptr<const ByteSource> archive, absl::string_view key);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_ZIP_H_
