// Files for the tests of this folder, made in memory.
#ifndef PIPEWORK_DAEMON_DATA_TEST_FILES_H_
#define PIPEWORK_DAEMON_DATA_TEST_FILES_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/data/byte_source.h"

namespace pipework {
namespace testing {

// The bytes of a file, from the workspace root or absolute.
inline std::string FileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Writes `bytes` to a new file of this test; returns its absolute path.
inline std::string WriteTestFile(const std::string& name,
                                 const std::string& bytes) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      absl::StrCat(folder == nullptr ? "/tmp" : folder, "/", name);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

inline std::shared_ptr<const ByteSource> FromMemory(std::string bytes) {
  return MemorySource("memory", std::move(bytes));
}

template <typename T>
std::string RawBytes(const std::vector<T>& values) {
  std::string raw(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(&raw[0], values.data(), raw.size());
  return raw;
}

// A version 1 file with this header and these elements, as numpy.save pads it.
inline std::string NpyWithHeader(std::string header, const std::string& raw) {
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes = "\x93NUMPY\x01";
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + raw;
}

inline std::string NpyFile(const std::string& descr, const std::string& shape,
                           const std::string& raw) {
  return NpyWithHeader(
      absl::StrCat("{'descr': '", descr,
                   "', 'fortran_order': False, 'shape': ", shape, ", }"),
      raw);
}

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_DAEMON_DATA_TEST_FILES_H_
