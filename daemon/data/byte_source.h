// Bytes of a data file, read where they are needed.
//
// Every reader of this folder takes a ByteSource, so that a file, a part of an
// archive and unpacked memory are read, checked and fuzzed by the same code.
#ifndef PIPEWORK_DAEMON_DATA_BYTE_SOURCE_H_
#define PIPEWORK_DAEMON_DATA_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pipework {

// Const, any thread.
class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  virtual ~ByteSource() = default;

  // What errors call it: a path, FILE.npz#KEY, or FILE.gz (unpacked).
  const std::string& name() const { return name_; }
  virtual int64_t size() const = 0;
  // Fills `into` with the bytes from `offset` on.
  // DataLoss: fewer are there than size() promised, or the file was written to
  // after it was opened; names file and offset.
  virtual absl::Status Read(int64_t offset, absl::Span<char> into) const = 0;

 private:
  const std::string name_;
};

// A regular file, kept open; its size and time are taken now.
// NotFound: no such file. InvalidArgument: not a regular file, or unreadable.
absl::StatusOr<std::shared_ptr<const ByteSource>> OpenFile(
    const std::string& path);

std::shared_ptr<const ByteSource> MemorySource(std::string name,
                                               std::string bytes);

// `size` bytes of `whole` from `offset`. REQUIRES: they lie within it.
std::shared_ptr<const ByteSource> Window(
    std::shared_ptr<const ByteSource> whole, std::string name, int64_t offset,
    int64_t size);

// <name> at byte <offset>: <what> is <got>, expected <wanted>; <remedy>
absl::Status ErrorAt(absl::string_view name, int64_t offset,
                     absl::string_view what, absl::string_view got,
                     absl::string_view wanted, absl::string_view remedy = "");

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_BYTE_SOURCE_H_
