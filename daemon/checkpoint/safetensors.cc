#include "daemon/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/paths.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

using nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kLengthBytes = 8;
// Our data starts on a cache line.
constexpr size_t kAlignment = 64;

struct TypeSize {
  const char* name;
  int64_t bytes;
};
constexpr TypeSize kTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8},
};

std::string Quoted(absl::string_view text) {
  // A name may be as long as the header.
  return absl::StrCat("\"", text.substr(0, 100), text.size() > 100 ? "..." : "",
                      "\"");
}

// Reads the header as its events come: nothing is built that the format does
// not have, however the text is nested.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  SafetensorsHeader header;
  std::string problem;

  bool start_object(std::size_t) override {
    if (depth_ == 0) {
      depth_ = 1;
      return true;
    }
    if (depth_ != 1) return Wrong("an object is nested too deep");
    depth_ = 2;
    have_dtype_ = have_shape_ = have_offsets_ = false;
    entry_ = SafetensorsEntry();
    entry_.name = name_;
    return true;
  }
  bool end_object() override {
    if (depth_ == 2) {
      depth_ = 1;
      if (in_metadata()) return true;
      if (!have_dtype_ || !have_shape_ || !have_offsets_) {
        return Wrong("has not all of dtype, shape and data_offsets");
      }
      header.entries.push_back(std::move(entry_));
      return true;
    }
    depth_ = 0;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      name_ = text;
      if (!names_.insert(text).second) return Wrong("comes twice");
      return true;
    }
    field_ = text;
    if (in_metadata()) {
      if (header.metadata.count(text) > 0) {
        return Wrong(absl::StrCat("has the key ", Quoted(text), " twice"));
      }
      return true;
    }
    bool* const have = field_ == "dtype"          ? &have_dtype_
                       : field_ == "shape"        ? &have_shape_
                       : field_ == "data_offsets" ? &have_offsets_
                                                  : nullptr;
    if (have == nullptr) {
      return Wrong(absl::StrCat("has the key ", Quoted(text),
                                ", expected dtype, shape and data_offsets"));
    }
    if (std::exchange(*have, true)) {
      return Wrong(absl::StrCat("has the key ", field_, " twice"));
    }
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata()) {
      header.metadata.emplace(field_, text);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return Unexpected("a text");
    entry_.dtype = text;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata() || field_ == "dtype") {
      return Unexpected("a list");
    }
    depth_ = 3;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    depth_ = 2;
    if (field_ == "shape") {
      entry_.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) {
      return Wrong(
          absl::StrCat("has ", numbers_.size(), " data_offsets, expected 2"));
    }
    entry_.begin = numbers_[0];
    entry_.end = numbers_[1];
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3) return Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Wrong(absl::StrCat("has the number ", value));
    }
    // No real tensor has more dimensions.
    if (numbers_.size() >= 64) return Wrong("has over 64 dimensions");
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(number_integer_t) override {
    return Unexpected("a negative number");
  }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not whole");
  }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool binary(binary_t&) override { return Unexpected("binary"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    if (problem.empty()) {
      problem = absl::StrCat("the header is no JSON at byte ", position);
    }
    return false;
  }

 private:
  bool in_metadata() const { return name_ == kMetadata; }
  bool Wrong(absl::string_view what) {
    problem = name_.empty()
                  ? std::string(what)
                  : absl::StrCat("tensor ", Quoted(name_), ": ", what);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    return Wrong(absl::StrCat("has ", what, " where there should be none"));
  }

  int depth_ = 0;
  std::string name_;
  std::string field_;
  absl::flat_hash_set<std::string> names_;
  SafetensorsEntry entry_;
  bool have_dtype_ = false, have_shape_ = false, have_offsets_ = false;
  std::vector<int64_t> numbers_;
};

// Bytes that type and shape ask for; -1: the type is unknown, or too many.
int64_t WantedBytes(const SafetensorsEntry& entry) {
  int64_t bytes = SafetensorsTypeBytes(entry.dtype);
  if (bytes == 0) return -1;
  bool empty = false;
  for (const int64_t dim : entry.shape) empty = empty || dim == 0;
  if (empty) return 0;
  for (const int64_t dim : entry.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return -1;
  }
  return bytes;
}

absl::Status CheckEntries(std::vector<SafetensorsEntry>* entries,
                          int64_t data_bytes) {
  std::stable_sort(entries->begin(), entries->end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  int64_t at = 0;
  for (const SafetensorsEntry& entry : *entries) {
    const std::string who = absl::StrCat("tensor ", Quoted(entry.name));
    if (SafetensorsTypeBytes(entry.dtype) == 0) {
      return Mismatch(who, "its type", Quoted(entry.dtype),
                      "one of the safetensors types");
    }
    if (entry.begin != at || entry.end < entry.begin) {
      return Mismatch(
          who, "its place", absl::StrCat("[", entry.begin, ",", entry.end, ")"),
          absl::StrCat("to start at ", at,
                       ", so that no byte is left out or used twice"));
    }
    const int64_t wanted = WantedBytes(entry);
    if (wanted != entry.bytes()) {
      return Mismatch(
          who, "its data", absl::StrCat(entry.bytes(), " bytes"),
          wanted < 0 ? std::string("less than 2^63 bytes")
                     : absl::StrCat(wanted, " bytes for ", entry.TypeText()));
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file has ", data_bytes, " bytes of data, expected ",
                     at, " by its header; it is ",
                     at > data_bytes ? "cut off" : "followed by others"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string SafetensorsEntry::TypeText() const {
  return absl::StrCat(dtype, "[", absl::StrJoin(shape, ","), "]");
}

int64_t SafetensorsTypeBytes(absl::string_view dtype) {
  for (const TypeSize& type : kTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return 0;
}

bool IsLfsPointer(absl::string_view front) {
  return absl::StartsWith(front, "version https://git-lfs");
}

absl::StatusOr<SafetensorsHeader> ParseSafetensors(absl::string_view front,
                                                   int64_t file_bytes) {
  if (IsLfsPointer(front)) {
    return absl::InvalidArgumentError(
        "the file is a Git LFS pointer, not the file itself; run git lfs pull");
  }
  if (file_bytes < static_cast<int64_t>(kLengthBytes) ||
      front.size() < kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the file has ", file_bytes,
                                                   " bytes, expected at least ",
                                                   kLengthBytes));
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= uint64_t{static_cast<unsigned char>(front[i])} << (8 * i);
  }
  if (header_bytes > static_cast<uint64_t>(kMostHeaderBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the length of the header is ", header_bytes,
                     " bytes, expected at most ", kMostHeaderBytes));
  }
  const int64_t data_begin =
      static_cast<int64_t>(kLengthBytes) + static_cast<int64_t>(header_bytes);
  if (data_begin > file_bytes ||
      static_cast<int64_t>(front.size()) < data_begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("the length of the header is ", header_bytes,
                     " bytes, expected at most the ",
                     file_bytes - static_cast<int64_t>(kLengthBytes),
                     " that the file has after it; it is cut off"));
  }
  const absl::string_view text = front.substr(kLengthBytes, header_bytes);
  if (!absl::StartsWith(text, "{")) {
    return absl::InvalidArgumentError("the header does not start with {");
  }
  HeaderReader reader;
  if (!json::sax_parse(text.begin(), text.end(), &reader)) {
    return absl::InvalidArgumentError(reader.problem);
  }
  reader.header.data_begin = data_begin;
  RETURN_IF_ERROR(
      CheckEntries(&reader.header.entries, file_bytes - data_begin));
  return std::move(reader.header);
}

absl::StatusOr<std::string> FormatSafetensors(
    std::vector<SafetensorsEntry>* entries,
    const std::map<std::string, std::string>& metadata) {
  const auto text = [](const std::string& s) {
    return json(s).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string header = "{";
  if (!metadata.empty()) {
    absl::StrAppend(&header, "\"", kMetadata, "\":{");
    const char* separator = "";
    for (const auto& [key, value] : metadata) {
      absl::StrAppend(&header, separator, text(key), ":", text(value));
      separator = ",";
    }
    absl::StrAppend(&header, "}");
  }
  absl::flat_hash_set<std::string> names;
  int64_t at = 0;
  for (SafetensorsEntry& entry : *entries) {
    const std::string who = absl::StrCat("tensor ", Quoted(entry.name));
    if (!names.insert(entry.name).second || entry.name == kMetadata) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, ": the name is taken, expected another"));
    }
    const std::string name = text(entry.name);
    if (json::parse(name) != json(entry.name)) {
      return Mismatch(who, "its name", "no UTF-8", "UTF-8");
    }
    const int64_t bytes = WantedBytes(entry);
    if (bytes < 0 || __builtin_add_overflow(at, bytes, &entry.end)) {
      return Mismatch(who, "its type", entry.TypeText(),
                      "one of less than 2^63 bytes");
    }
    entry.begin = at;
    at = entry.end;
    absl::StrAppend(&header, header.size() > 1 ? "," : "", name,
                    ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[",
                    absl::StrJoin(entry.shape, ","), "],\"data_offsets\":[",
                    entry.begin, ",", entry.end, "]}");
  }
  header += "}";
  // Spaces are part of the header.
  while ((header.size() + kLengthBytes) % kAlignment != 0) header += ' ';
  if (static_cast<int64_t>(header.size()) > kMostHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header is ", header.size(),
                     " bytes, expected at most ", kMostHeaderBytes));
  }
  std::string front(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    front[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  }
  return front + header;
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Mismatch(path, "it", "no regular file", "a safetensors file");
  }
  const auto read_front = [&](int64_t bytes) -> absl::StatusOr<std::string> {
    std::string front(
        static_cast<size_t>(std::min<int64_t>(bytes, info.st_size)), '\0');
    size_t have = 0;
    while (have < front.size()) {
      const ssize_t n = ::pread(fd.get(), &front[have], front.size() - have,
                                static_cast<off_t>(have));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus("read", path, errno);
      if (n == 0) break;
      have += static_cast<size_t>(n);
    }
    front.resize(have);
    return front;
  };
  // The length first: a wrong one must not make us allocate.
  ASSIGN_OR_RETURN(std::string front, read_front(64));
  if (front.size() >= kLengthBytes && !IsLfsPointer(front)) {
    uint64_t length = 0;
    std::memcpy(&length, front.data(), sizeof length);
    if (length <= static_cast<uint64_t>(kMostHeaderBytes)) {
      ASSIGN_OR_RETURN(front, read_front(static_cast<int64_t>(kLengthBytes) +
                                         static_cast<int64_t>(length)));
    }
  }
  auto header = ParseSafetensors(front, info.st_size);
  if (!header.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", header.status().message()));
  }
  return SafetensorsFile(path, std::move(fd), *std::move(header));
}

const SafetensorsEntry* SafetensorsFile::Find(absl::string_view name) const {
  for (const SafetensorsEntry& entry : header_.entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::Status SafetensorsFile::Read(const SafetensorsEntry& entry,
                                   int64_t offset, int64_t bytes,
                                   void* into) const {
  char* to = static_cast<char*>(into);
  int64_t at = header_.data_begin + entry.begin + offset;
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_.get(), to, static_cast<size_t>(bytes), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", path_, errno);
    if (n == 0) {
      return absl::DataLossError(absl::StrCat(
          path_, ": the file ends at byte ", at, ", in the middle of tensor ",
          Quoted(entry.name), "; it was whole when it was opened"));
    }
    to += n;
    at += n;
    bytes -= n;
  }
  return absl::OkStatus();
}

}  // namespace pipework
