// The safetensors file format: a length, a JSON header, the bytes of the
// tensors. Strict: what the public library refuses is refused here too, and
// duplicate names, holes and overlaps with a word about which tensor.
#ifndef PIPEWORK_DAEMON_CHECKPOINT_SAFETENSORS_H_
#define PIPEWORK_DAEMON_CHECKPOINT_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/unique_fd.h"

namespace pipework {

constexpr int64_t kMostHeaderBytes = 100 << 20;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // F32, I32, I64, ...
  std::vector<int64_t> shape;
  int64_t begin = 0;  // within the data
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
  // f32-like "F32[2,3]", for messages.
  std::string TypeText() const;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  // offset of the data in the file
};

// Bytes of one element; 0 where the type is not known.
int64_t SafetensorsTypeBytes(absl::string_view dtype);

// `front` holds at least the length and the header of a file of `file_bytes`
// bytes, or all of a shorter file. InvalidArgument says what is wrong, without
// the file's name. Memory: a small multiple of the header.
absl::StatusOr<SafetensorsHeader> ParseSafetensors(absl::string_view front,
                                                   int64_t file_bytes);

// The length and the header of a file with these entries; fills in their
// offsets. InvalidArgument: a name twice, or no UTF-8.
absl::StatusOr<std::string> FormatSafetensors(
    std::vector<SafetensorsEntry>* entries,
    const std::map<std::string, std::string>& metadata);

// A file that is open for reading. Any thread may read.
class SafetensorsFile {
 public:
  // NotFound: no such file. DataLoss: it is not a whole safetensors file; a
  // Git LFS pointer is named as such.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  // nullptr: none.
  const SafetensorsEntry* Find(absl::string_view name) const;
  // Writes bytes [offset, offset + bytes) of the entry's data to `into`.
  absl::Status Read(const SafetensorsEntry& entry, int64_t offset,
                    int64_t bytes, void* into) const;

 private:
  SafetensorsFile(std::string path, UniqueFd fd, SafetensorsHeader header)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        header_(std::move(header)) {}

  std::string path_;
  UniqueFd fd_;
  SafetensorsHeader header_;
};

// Whether these first bytes are those of a Git LFS pointer.
bool IsLfsPointer(absl::string_view front);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_CHECKPOINT_SAFETENSORS_H_
