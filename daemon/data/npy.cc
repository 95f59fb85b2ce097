#include "daemon/data/npy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/data/zip.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr int64_t kMagicBytes = 6;
constexpr int64_t kLongestHeader = 64 << 10;
constexpr size_t kMostDims = 32;

constexpr ElementType kTypes[] = {
    ElementType::kU1, ElementType::kI1, ElementType::kU2, ElementType::kI2,
    ElementType::kI4, ElementType::kI8, ElementType::kF4, ElementType::kF8};

// The header is a Python dictionary with three entries:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(const std::string& name, int64_t base, absl::string_view text)
      : name_(name), base_(base), text_(text) {}

  struct Header {
    ElementType type = ElementType::kU1;
    std::vector<int64_t> dims;
  };

  absl::StatusOr<Header> Parse() {
    RETURN_IF_ERROR(Expect('{'));
    bool have_type = false, have_order = false, have_shape = false;
    while (!Take('}')) {
      const size_t at = Skip();
      ASSIGN_OR_RETURN(const std::string key, String());
      RETURN_IF_ERROR(Expect(':'));
      bool* have = key == "descr"           ? &have_type
                   : key == "fortran_order" ? &have_order
                   : key == "shape"         ? &have_shape
                                            : nullptr;
      if (have == nullptr || *have) {
        return Error(at, "header key", absl::StrCat("\"", key, "\""),
                     "descr, fortran_order and shape, once each");
      }
      *have = true;
      if (key == "descr") {
        RETURN_IF_ERROR(Type());
      } else if (key == "shape") {
        RETURN_IF_ERROR(Dims());
      } else {
        RETURN_IF_ERROR(Order());
      }
      if (!Take(',')) {
        RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    const size_t end = Skip();
    if (end != text_.size()) {
      return Error(end, "header", "longer", "its end after \"}\"");
    }
    if (!have_type || !have_order || !have_shape) {
      return Error(0, "header", "incomplete", "descr, fortran_order and shape");
    }
    return header_;
  }

 private:
  // Where the next token starts.
  size_t Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
    return at_;
  }
  bool Take(char c) {
    if (Skip() == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(absl::string_view word) {
    Skip();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string Here() {
    return Skip() == text_.size()
               ? "the end of the header"
               : absl::StrCat("\"", text_.substr(at_, 1), "\"");
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Error(at_, "header", Here(),
                 absl::StrCat("\"", std::string(1, c), "\""));
  }

  absl::StatusOr<std::string> String() {
    const char quote = Take('\'') ? '\'' : Take('"') ? '"' : 0;
    const size_t end =
        quote == 0 ? absl::string_view::npos : text_.find(quote, at_);
    if (end == absl::string_view::npos) {
      return Error(at_, "header", Here(), "a string");
    }
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }

  absl::Status Type() {
    const size_t at = Skip();
    if (Skip() < text_.size() && text_[at_] == '[') {
      return Error(at, "element type", "a structure", "one number an element");
    }
    ASSIGN_OR_RETURN(const std::string descr, String());
    for (ElementType type : kTypes) {
      const std::string name = ElementName(type);
      if (descr == "<" + name ||
          (ElementBytes(type) == 1 && descr == "|" + name)) {
        header_.type = type;
        return absl::OkStatus();
      }
    }
    return Error(at, "element type", absl::StrCat("\"", descr, "\""),
                 "one of |u1, |i1, <u2, <i2, <i4, <i8, <f4, <f8",
                 "convert it with numpy's astype");
  }

  absl::Status Order() {
    const size_t at = Skip();
    if (TakeWord("False")) return absl::OkStatus();
    if (TakeWord("True")) {
      return Error(at, "order of elements", "Fortran's", "C's",
                   "save numpy.ascontiguousarray(x)");
    }
    return Error(at, "fortran_order", Here(), "True or False");
  }

  absl::Status Dims() {
    RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      const size_t at = Skip();
      while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) ++at_;
      int64_t dim = 0;
      if (!absl::SimpleAtoi(text_.substr(at, at_ - at), &dim)) {
        at_ = at;
        return Error(at, "dimension", Here(), "a whole number below 2^63");
      }
      header_.dims.push_back(dim);
      if (header_.dims.size() > kMostDims) {
        return Error(at, "number of dimensions", "larger",
                     absl::StrCat("at most ", kMostDims));
      }
      if (!Take(',')) {
        RETURN_IF_ERROR(Expect(')'));
        break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Error(size_t at, absl::string_view what, absl::string_view got,
                     absl::string_view wanted, absl::string_view remedy = "") {
    return ErrorAt(name_, base_ + static_cast<int64_t>(at), what, got, wanted,
                   remedy);
  }

  const std::string& name_;
  const int64_t base_;
  const absl::string_view text_;
  size_t at_ = 0;
  Header header_;
};

}  // namespace

absl::StatusOr<Array> ReadNpy(std::shared_ptr<const ByteSource> source) {
  const std::string& name = source->name();
  unsigned char start[12] = {};
  const int64_t start_bytes = std::min<int64_t>(source->size(), sizeof(start));
  RETURN_IF_ERROR(source->Read(
      0, absl::MakeSpan(reinterpret_cast<char*>(start), start_bytes)));
  if (start_bytes < kMagicBytes + 4 ||
      std::memcmp(start, kMagic, kMagicBytes) != 0) {
    return ErrorAt(name, 0, "the file",
                   start_bytes < kMagicBytes + 4
                       ? absl::StrCat(start_bytes, " bytes long")
                       : "without the mark of NumPy",
                   "an array saved by numpy.save");
  }
  const int version = start[6];
  if (version < 1 || version > 3) {
    return ErrorAt(name, 6, "format version", absl::StrCat(version),
                   "1, 2 or 3");
  }
  const int64_t length_bytes = version == 1 ? 2 : 4;
  const int64_t header_at = 8 + length_bytes;
  if (start_bytes < header_at) {
    return ErrorAt(name, 8, "header length", "cut off",
                   absl::StrCat(length_bytes, " bytes"),
                   "the file is cut off or damaged");
  }
  int64_t header_bytes = 0;
  for (int64_t i = 0; i < length_bytes; ++i) {
    header_bytes |= int64_t{start[8 + i]} << (8 * i);
  }
  const int64_t most = std::min(kLongestHeader, source->size() - header_at);
  if (header_bytes > most) {
    return ErrorAt(name, 8, "header length", absl::StrCat(header_bytes),
                   absl::StrCat("at most ", most),
                   "the file is cut off or damaged");
  }
  std::string text(static_cast<size_t>(header_bytes), '\0');
  RETURN_IF_ERROR(source->Read(header_at, absl::MakeSpan(text)));
  ASSIGN_OR_RETURN(HeaderParser::Header header,
                   HeaderParser(name, header_at, text).Parse());
  return ArrayToEnd(std::move(source), header_at + header_bytes, header.type,
                    /*big_endian=*/false, std::move(header.dims));
}

absl::StatusOr<Array> ReadNpz(std::shared_ptr<const ByteSource> source,
                              absl::string_view key) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ByteSource> member,
                   OpenZipMember(std::move(source), key));
  return ReadNpy(std::move(member));
}

}  // namespace pipework
