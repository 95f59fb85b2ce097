#include "daemon/data/idx.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/data/inflate.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kMostHeaderBytes = 4 + 4 * 255;

struct Header {
  ElementType type = ElementType::kU1;
  std::vector<int64_t> dims;
  int64_t bytes = 0;  // of the header itself
};

// From the first bytes of a file.
absl::StatusOr<Header> ParseHeader(const std::string& name,
                                   const std::string& bytes) {
  const auto byte = [&](int64_t i) {
    return static_cast<unsigned char>(bytes[i]);
  };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0) {
    return ErrorAt(name, 0, "the file",
                   bytes.size() < 4 ? absl::StrCat(bytes.size(), " bytes long")
                                    : "without the mark of IDX",
                   "an IDX file, which starts with two zero bytes");
  }
  Header header;
  switch (byte(2)) {
    case 0x08:
      header.type = ElementType::kU1;
      break;
    case 0x09:
      header.type = ElementType::kI1;
      break;
    case 0x0b:
      header.type = ElementType::kI2;
      break;
    case 0x0c:
      header.type = ElementType::kI4;
      break;
    case 0x0d:
      header.type = ElementType::kF4;
      break;
    case 0x0e:
      header.type = ElementType::kF8;
      break;
    default:
      return ErrorAt(name, 2, "element type", absl::StrCat(int{byte(2)}),
                     "8 (u1), 9 (i1), 11 (i2), 12 (i4), 13 (f4) or 14 (f8)");
  }
  const int dims = byte(3);
  header.bytes = 4 + 4 * dims;
  if (static_cast<int64_t>(bytes.size()) < header.bytes) {
    return ErrorAt(name, static_cast<int64_t>(bytes.size()), "the header",
                   "cut off", absl::StrCat(header.bytes, " bytes"),
                   "fetch or make the file again");
  }
  for (int64_t at = 4; at < header.bytes; at += 4) {
    int64_t dim = 0;
    for (int64_t i = 0; i < 4; ++i) dim = dim << 8 | byte(at + i);
    header.dims.push_back(dim);
  }
  return header;
}

}  // namespace

absl::StatusOr<Array> ReadIdx(std::shared_ptr<const ByteSource> source) {
  std::string start(std::min(source->size(), kMostHeaderBytes), '\0');
  RETURN_IF_ERROR(source->Read(0, absl::MakeSpan(start)));
  ASSIGN_OR_RETURN(Header header, ParseHeader(source->name(), start));
  return ArrayToEnd(std::move(source), header.bytes, header.type,
                    /*big_endian=*/true, std::move(header.dims));
}

absl::StatusOr<Array> ReadIdxGz(std::shared_ptr<const ByteSource> source) {
  const std::string name = absl::StrCat(source->name(), " (unpacked)");
  ASSIGN_OR_RETURN(const Inflated start,
                   Inflate(*source, 0, source->size(), InflateFormat::kGzip,
                           kMostHeaderBytes));
  ASSIGN_OR_RETURN(const Header header, ParseHeader(name, start.bytes));

  // What the header claims, against what the packed bytes can hold.
  const int64_t most =
      std::min(kMostInflatedBytes, source->size() * kMostBytesPerPackedByte);
  const int64_t width = ElementBytes(header.type);
  const int64_t elements =
      ElementsUpTo(header.dims, (most - header.bytes) / width);
  if (elements < 0) {
    return ErrorAt(name, 4, "the array's shape", DimsText(header.dims),
                   absl::StrCat("at most ", most, " bytes, which is what ",
                                source->size(), " packed bytes can hold"),
                   "the file is damaged");
  }
  ASSIGN_OR_RETURN(Inflated all,
                   Inflate(*source, 0, source->size(), InflateFormat::kGzip,
                           header.bytes + elements * width + 1));
  if (!all.ended) {
    return ErrorAt(
        name, header.bytes + elements * width,
        absl::StrCat("what follows the array ", DimsText(header.dims)),
        "more data", "the end of the file", "the header and the data disagree");
  }
  return ReadIdx(MemorySource(name, std::move(all.bytes)));
}

}  // namespace pipework
