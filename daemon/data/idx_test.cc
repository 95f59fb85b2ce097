#include "daemon/data/idx.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "daemon/data/test_files.h"

namespace pipework {
namespace {

using Catch::Matchers::Contains;
using testing::FileBytes;
using testing::FromMemory;

std::vector<double> ValuesOf(const Array& array) {
  std::vector<double> values(static_cast<size_t>(array.elements()));
  REQUIRE(array.Read(0, absl::MakeSpan(values)).ok());
  return values;
}

std::string ErrorOf(const absl::StatusOr<Array>& array) {
  return array.ok() ? "ok" : std::string(array.status().message());
}

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(bytes.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(&out[0]);
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Header(char type, const std::vector<uint32_t>& dims) {
  std::string bytes(2, '\0');
  bytes += type;
  bytes += static_cast<char>(dims.size());
  for (uint32_t dim : dims) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(dim >> shift);
  }
  return bytes;
}

TEST_CASE("idx: images and labels are read, plain and packed") {
  std::vector<double> ramp(72);
  std::iota(ramp.begin(), ramp.end(), 0);
  const auto plain =
      ReadIdx(FromMemory(FileBytes("testdata/data/ramp-idx3-ubyte")));
  const auto packed =
      ReadIdxGz(FromMemory(FileBytes("testdata/data/ramp-idx3-ubyte.gz")));
  REQUIRE(plain.ok());
  REQUIRE(packed.ok());
  CHECK(plain->dims == std::vector<int64_t>{6, 4, 3});
  CHECK(packed->dims == plain->dims);
  CHECK(ValuesOf(*plain) == ramp);
  CHECK(ValuesOf(*packed) == ramp);
}

TEST_CASE("idx: every element type is big endian") {
  const auto read = [](char type, const std::string& raw) {
    const auto array = ReadIdx(FromMemory(Header(type, {1}) + raw));
    REQUIRE(array.ok());
    return ValuesOf(*array)[0];
  };
  CHECK(read(0x08, "\xff") == 255);
  CHECK(read(0x09, "\xff") == -1);
  CHECK(read(0x0b, std::string("\x01\x02", 2)) == 258);
  CHECK(read(0x0c, std::string("\xff\xff\xff\xfe", 4)) == -2);
  CHECK(read(0x0d, std::string("\x3f\x80\x00\x00", 4)) == 1);
  CHECK(read(0x0e, std::string("\xc0\x00\x00\x00\x00\x00\x00\x00", 8)) == -2);
}

TEST_CASE(
    "idx: cut off, damaged and appended files are refused with the byte") {
  const std::string bytes = FileBytes("testdata/data/ramp-idx3-ubyte");
  for (size_t n = 0; n < bytes.size(); ++n) {
    CAPTURE(n);
    CHECK_THAT(ErrorOf(ReadIdx(FromMemory(bytes.substr(0, n)))),
               Contains("memory at byte "));
  }
  CHECK_THAT(ErrorOf(ReadIdx(FromMemory(bytes + "z"))),
             Contains("at byte 88") && Contains("1 bytes"));
  CHECK_THAT(ErrorOf(ReadIdx(FromMemory("PK" + bytes))), Contains("at byte 0"));
  CHECK_THAT(ErrorOf(ReadIdx(FromMemory(Header(0x0a, {1}) + "a"))),
             Contains("at byte 2: element type is 10"));
}

TEST_CASE("idx: a packed file is as strict, and a bomb costs no memory") {
  const std::string packed = FileBytes("testdata/data/ramp-idx3-ubyte.gz");
  for (size_t n = 0; n < packed.size(); ++n) {
    CAPTURE(n);
    CHECK_THAT(ErrorOf(ReadIdxGz(FromMemory(packed.substr(0, n)))),
               Contains("at byte "));
  }
  CHECK_THAT(ErrorOf(ReadIdxGz(FromMemory(packed + "z"))),
             Contains("memory at byte "));

  const std::string plain = FileBytes("testdata/data/ramp-idx3-ubyte");
  CHECK_THAT(ErrorOf(ReadIdxGz(FromMemory(Gzip(plain + "z")))),
             Contains("(unpacked) at byte 88"));
  CHECK_THAT(ErrorOf(ReadIdxGz(FromMemory(Gzip(plain.substr(0, 80))))),
             Contains("(unpacked) at byte 80"));
  CHECK_THAT(ErrorOf(ReadIdxGz(FromMemory(
                 Gzip(Header(0x0e, {0xffffffff, 0xffffffff, 0xffffffff}))))),
             Contains("packed bytes can hold"));
  // Three gigabytes are claimed, which these packed bytes could not give.
  CHECK_THAT(ErrorOf(ReadIdxGz(FromMemory(Gzip(Header(0x08, {3000000000}))))),
             Contains("packed bytes can hold"));
}

TEST_CASE("idx: members of a gzip file that follow one another are one file") {
  const std::string plain = FileBytes("testdata/data/ramp-idx3-ubyte");
  const auto array =
      ReadIdxGz(FromMemory(Gzip(plain.substr(0, 30)) + Gzip(plain.substr(30))));
  REQUIRE(array.ok());
  CHECK(ValuesOf(*array)[71] == 71);
}

}  // namespace
}  // namespace pipework
