#include "daemon/data/npy.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "daemon/data/test_files.h"

namespace pipework {
namespace {

using testing::FileBytes;
using testing::FromMemory;
using testing::NpyFile;
using testing::NpyWithHeader;
using testing::RawBytes;

std::vector<double> ValuesOf(const Array& array) {
  std::vector<double> values(static_cast<size_t>(array.elements()));
  REQUIRE(array.Read(0, absl::MakeSpan(values)).ok());
  return values;
}

std::string ErrorOf(const std::string& bytes) {
  const auto array = ReadNpy(FromMemory(bytes));
  return array.ok() ? "ok" : std::string(array.status().message());
}

std::string NpzError(const std::string& bytes, const std::string& key) {
  const auto array = ReadNpz(FromMemory(bytes), key);
  return array.ok() ? "ok" : std::string(array.status().message());
}

using Catch::Matchers::Contains;

TEST_CASE("npy: a file that is overwritten while it is open is noticed") {
  const std::string bytes =
      NpyFile("<f4", "(2,)", RawBytes(std::vector<float>{1, 2}));
  const std::string path = testing::WriteTestFile("overwritten.npy", bytes);
  const auto file = OpenFile(path);
  REQUIRE(file.ok());
  const auto array = ReadNpy(*file);
  REQUIRE(array.ok());
  CHECK(ValuesOf(*array) == std::vector<double>{1, 2});
  // As long as before, in place; a second later, whatever the clock's grain.
  { std::fstream(path, std::ios::in | std::ios::out) << bytes; }
  struct stat info = {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  const timespec times[2] = {info.st_atim, {info.st_mtim.tv_sec + 1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  std::vector<double> values(2);
  const absl::Status status = array->Read(0, absl::MakeSpan(values));
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()),
             Contains("overwritten.npy at byte"));
}

TEST_CASE("npy: files of NumPy are read, in all three versions of the format") {
  const std::vector<double> small = {0, 1, 2, 3, 4, 5};
  for (const char* version : {"v1", "v2", "v3"}) {
    CAPTURE(version);
    const auto array = ReadNpy(
        FromMemory(FileBytes(absl::StrCat("testdata/data/", version, ".npy"))));
    REQUIRE(array.ok());
    CHECK(array->dims == std::vector<int64_t>{2, 3});
    CHECK(ValuesOf(*array) == small);
  }
}

TEST_CASE("npy: every element type keeps its sign, range and byte order") {
  const auto read = [](const std::string& descr, const std::string& raw) {
    const auto array = ReadNpy(FromMemory(NpyFile(descr, "(2,)", raw)));
    REQUIRE(array.ok());
    return ValuesOf(*array);
  };
  using Two = std::vector<double>;
  CHECK(read("|u1", RawBytes<uint8_t>({1, 255})) == Two{1, 255});
  CHECK(read("<u1", RawBytes<uint8_t>({1, 255})) == Two{1, 255});
  CHECK(read("|i1", RawBytes<int8_t>({-128, 127})) == Two{-128, 127});
  CHECK(read("<u2", RawBytes<uint16_t>({258, 65535})) == Two{258, 65535});
  CHECK(read("<i2", RawBytes<int16_t>({-2, 258})) == Two{-2, 258});
  CHECK(read("<i4", RawBytes<int32_t>({-3, 1 << 30})) == Two{-3, 1 << 30});
  CHECK(read("<i8", RawBytes<int64_t>({-4, int64_t{1} << 40})) ==
        Two{-4, 1099511627776.0});
  CHECK(read("<f4", RawBytes<float>({0.5f, -2})) == Two{0.5, -2});
  CHECK(read("<f8", RawBytes<double>({1e-300, 3})) == Two{1e-300, 3});
}

TEST_CASE("npy: arrays that we do not read are refused with what to do") {
  const std::string raw(16, '\0');
  CHECK_THAT(ErrorOf(NpyFile(">f4", "(4,)", raw)),
             Contains("element type is \">f4\"") && Contains("astype") &&
                 Contains("at byte 20"));
  CHECK_THAT(ErrorOf(NpyFile("<c8", "(2,)", raw)), Contains("\"<c8\""));
  CHECK_THAT(ErrorOf(NpyFile("|O", "(2,)", raw)), Contains("\"|O\""));
  CHECK_THAT(
      ErrorOf(NpyWithHeader("{'descr': [('a', '<f4')], 'fortran_order': False, "
                            "'shape': (4,), }",
                            raw)),
      Contains("a structure"));
  CHECK_THAT(ErrorOf(NpyWithHeader("{'descr': '<f4', 'fortran_order': True, "
                                   "'shape': (2, 2), }",
                                   raw)),
             Contains("Fortran") && Contains("ascontiguousarray"));
}

TEST_CASE("npy: a damaged header is refused with the byte") {
  const std::string raw(16, '\0');
  CHECK_THAT(ErrorOf(""), Contains("memory at byte 0: the file is 0 bytes"));
  CHECK_THAT(ErrorOf(std::string(40, 'x')), Contains("at byte 0"));
  std::string bytes = NpyFile("<f4", "(4,)", raw);
  bytes[6] = 4;
  CHECK_THAT(ErrorOf(bytes), Contains("at byte 6: format version is 4"));
  // Long enough for version 1, but not for the length of version 2.
  CHECK_THAT(ErrorOf(std::string("\x93NUMPY\x02\0\0\0", 10)),
             Contains("at byte 8: header length is cut off"));
  bytes = NpyFile("<f4", "(4,)", raw);
  bytes[9] = 127;
  CHECK_THAT(ErrorOf(bytes), Contains("at byte 8: header length"));

  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "[1]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), } x",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4.0,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, "
        "'shape': (99999999999999999999,), }"}) {
    CAPTURE(header);
    CHECK_THAT(ErrorOf(NpyWithHeader(header, raw)),
               Contains("memory at byte ") && Contains("expected"));
  }
}

TEST_CASE("npy: data must be exactly as long as its header says") {
  const std::string bytes = NpyFile("<f4", "(2, 3)", std::string(24, '\0'));
  CHECK(ErrorOf(bytes) == "ok");
  CHECK_THAT(ErrorOf(bytes + "z"),
             Contains("at byte 152") && Contains("what follows"));
  CHECK_THAT(ErrorOf(bytes.substr(0, bytes.size() - 1)),
             Contains("at byte 151") && Contains("cut off"));
  for (size_t n = 0; n < bytes.size(); ++n) {
    CAPTURE(n);
    CHECK_THAT(ErrorOf(bytes.substr(0, n)), Contains("memory at byte "));
  }
}

TEST_CASE("npy: a shape that no file can hold costs no memory") {
  for (const char* shape :
       {"(4611686018427387904,)", "(9223372036854775807, 2)",
        "(4294967296, 4294967296, 4)", "(0, 9223372036854775807, 3)"}) {
    CAPTURE(shape);
    CHECK_THAT(ErrorOf(NpyFile("<f4", shape, std::string(16, '\0'))),
               Contains("memory at byte "));
  }
}

TEST_CASE("npz: stored and deflated members are read by name") {
  for (const char* file : {"blobs.npz", "blobs_plain.npz"}) {
    CAPTURE(file);
    const std::string bytes = FileBytes(absl::StrCat("testdata/data/", file));
    const auto x = ReadNpz(FromMemory(bytes), "x");
    const auto y = ReadNpz(FromMemory(bytes), "y.npy");
    REQUIRE(x.ok());
    REQUIRE(y.ok());
    CHECK(x->dims[1] == 2);
    CHECK(x->dims[0] == y->dims[0]);
    CHECK(x->type == ElementType::kF4);
    CHECK(y->type == ElementType::kI8);
    const std::vector<double> labels = ValuesOf(*y);
    for (size_t i = 0; i < labels.size(); ++i) CHECK(labels[i] == i % 3);
  }
}

TEST_CASE("npz: a key that is not there lists those that are") {
  const std::string bytes = FileBytes("testdata/data/blobs.npz");
  const auto array = ReadNpz(FromMemory(bytes), "z");
  CHECK(array.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(NpzError(bytes, "z"),
             Contains("member is \"z\", expected one of x, y"));
}

TEST_CASE("npz: cut off or damaged anywhere, it is an error or the same data") {
  for (const char* file : {"blobs.npz", "blobs_plain.npz"}) {
    CAPTURE(file);
    const std::string bytes = FileBytes(absl::StrCat("testdata/data/", file));
    const auto want = ReadNpz(FromMemory(bytes), "x");
    REQUIRE(want.ok());
    for (size_t n = 0; n < bytes.size(); n += 7) {
      CAPTURE(n);
      CHECK_THAT(NpzError(bytes.substr(0, n), "x"), Contains("memory"));
    }
    int refused = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
      const auto got = ReadNpz(FromMemory(damaged), "x");
      if (!got.ok()) {
        ++refused;
      } else {
        CAPTURE(i);
        CHECK(ValuesOf(*got) == ValuesOf(*want));
      }
    }
    CHECK(refused > 100);  // x itself is longer than that
  }
}

TEST_CASE("npz: a size that its packed bytes cannot hold is refused") {
  std::string bytes = FileBytes("testdata/data/blobs.npz");
  const size_t entry = bytes.find("PK\x01\x02");
  REQUIRE(entry != std::string::npos);
  std::string huge = bytes;
  huge.replace(entry + 24, 4, "\xfe\xff\xff\x7f");
  CHECK_THAT(NpzError(huge, "x"), Contains("packed bytes can hold"));

  std::string wide = bytes;
  wide.replace(entry + 24, 4, "\xff\xff\xff\xff");
  CHECK_THAT(NpzError(wide, "x"), Contains("zip64"));

  std::string longer = bytes;
  longer[entry + 24] = static_cast<char>(longer[entry + 24] + 1);
  CHECK_THAT(NpzError(longer, "x"), Contains("the member's size"));

  std::string encrypted = bytes;
  encrypted[entry + 8] = 1;
  CHECK_THAT(NpzError(encrypted, "x"), Contains("encrypted"));

  std::string other = bytes;
  other[entry + 10] = 12;
  CHECK_THAT(NpzError(other, "x"), Contains("method 12"));
}

TEST_CASE("npz: a wrong checksum is refused") {
  std::string bytes = FileBytes("testdata/data/blobs_plain.npz");
  // The last element of x, just before the header of y.
  const size_t second = bytes.find("PK\x03\x04", 4);
  REQUIRE(second != std::string::npos);
  bytes[second - 1] = static_cast<char>(bytes[second - 1] ^ 1);
  CHECK_THAT(NpzError(bytes, "x"), Contains("checksum"));
}

}  // namespace
}  // namespace pipework
