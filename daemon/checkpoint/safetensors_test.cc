#include "daemon/checkpoint/safetensors.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

// A file with this header and so many bytes of data.
std::string Raw(const std::string& header, size_t data_bytes) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  }
  return bytes + header + std::string(data_bytes, '\1');
}

absl::StatusOr<SafetensorsHeader> Parse(const std::string& bytes) {
  return ParseSafetensors(bytes, static_cast<int64_t>(bytes.size()));
}

std::string ErrorOf(const std::string& bytes) {
  const auto parsed = Parse(bytes);
  REQUIRE(parsed.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST_CASE("safetensors: names, types, shapes, places and metadata are read") {
  const auto got = Parse(
      Raw(R"({"__metadata__":{"format":"pt"},)"
          R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]},)"
          R"("a":{"data_offsets":[0,24],"shape":[2,3],"dtype":"F32"}}   )",
          32));
  REQUIRE(got.ok());
  REQUIRE(got->entries.size() == 2);
  CHECK(got->entries[0].name == "a");
  CHECK(got->entries[0].TypeText() == "F32[2,3]");
  CHECK(got->entries[1].name == "b");
  CHECK(got->entries[1].shape.empty());
  CHECK(got->entries[1].bytes() == 8);
  CHECK(got->metadata.at("format") == "pt");
}

TEST_CASE("safetensors: a file without tensors, and one with an empty tensor") {
  CHECK(Parse(Raw("{}", 0)).ok());
  CHECK(Parse(Raw(R"({"a":{"dtype":"F32","shape":[0,)"
                  R"(4611686018427387904,8],"data_offsets":[0,0]}})",
                  0))
            .ok());
}

TEST_CASE("safetensors: what is written is read back, names escaped") {
  std::vector<SafetensorsEntry> entries(3);
  entries[0] = {"plain", "F32", {2, 2}};
  entries[1] = {"quote\" back\\ line\n", "I32", {}};
  entries[2] = {"größe", "F32", {0, 5}};
  const auto front = FormatSafetensors(&entries, {{"k", "v\""}});
  REQUIRE(front.ok());
  CHECK(front->size() % 64 == 0);
  const auto got = Parse(*front + std::string(20, 'x'));
  REQUIRE(got.ok());
  REQUIRE(got->entries.size() == 3);
  CHECK(got->metadata.at("k") == "v\"");
  for (size_t i = 0; i < 3; ++i) {
    // The empty one is sorted before whatever starts where it does.
    bool found = false;
    for (const SafetensorsEntry& entry : got->entries) {
      found =
          found ||
          (entry.name == entries[i].name && entry.shape == entries[i].shape &&
           entry.begin == entries[i].begin && entry.end == entries[i].end);
    }
    CHECK(found);
  }
}

TEST_CASE(
    "safetensors: writing refuses a name twice, no UTF-8, or a size that "
    "overflows") {
  std::vector<SafetensorsEntry> twice = {{"a", "F32", {1}}, {"a", "F32", {1}}};
  CHECK_FALSE(FormatSafetensors(&twice, {}).ok());
  std::vector<SafetensorsEntry> bytes = {{"a\xff", "F32", {1}}};
  CHECK_FALSE(FormatSafetensors(&bytes, {}).ok());
  std::vector<SafetensorsEntry> meta = {{"__metadata__", "F32", {1}}};
  CHECK_FALSE(FormatSafetensors(&meta, {}).ok());
  std::vector<SafetensorsEntry> huge = {
      {"a", "F32", {int64_t{1} << 40, int64_t{1} << 40}}};
  CHECK_FALSE(FormatSafetensors(&huge, {}).ok());
}

TEST_CASE("safetensors: every cut of a file is refused") {
  const std::string whole =
      Raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  REQUIRE(Parse(whole).ok());
  for (size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(Parse(whole.substr(0, n)).ok());
  }
  CHECK(absl::StrContains(ErrorOf(whole.substr(0, whole.size() - 1)),
                          "it is cut off"));
  CHECK(absl::StrContains(ErrorOf(whole + "x"), "followed by others"));
}

TEST_CASE("safetensors: a header of absurd length is refused by its length") {
  std::string bytes = Raw("{}", 0);
  bytes[7] = '\x7f';
  CHECK(absl::StrContains(ErrorOf(bytes), "length of the header is"));
  bytes[7] = '\xff';
  CHECK(absl::StrContains(ErrorOf(bytes), "length of the header is"));
  // Over the limit though the file may be as long.
  std::string long_one(8, '\0');
  const uint64_t length = kMostHeaderBytes + 1;
  for (int i = 0; i < 8; ++i) long_one[i] = static_cast<char>(length >> 8 * i);
  const auto got = ParseSafetensors(long_one, int64_t{1} << 40);
  CHECK(absl::StrContains(std::string(got.status().message()),
                          "expected at most 104857600"));
}

TEST_CASE("safetensors: each broken header names its problem") {
  struct Case {
    const char* header;
    size_t data;
    const char* text;
  };
  const Case cases[] = {
      {"[]", 0, "does not start with {"},
      {" {}", 0, "does not start with {"},
      {"{", 0, "no JSON at byte"},
      {"{} {}", 0, "no JSON at byte"},
      {R"({"a":1})", 0, "tensor \"a\": has a number"},
      {R"({"a":null})", 0, "tensor \"a\": has null"},
      {R"({"a":[1]})", 0, "tensor \"a\": has a list"},
      {R"({"a":{"b":{}}})", 0, "has the key \"b\""},
      {R"({"a":{"dtype":{}}})", 0, "nested too deep"},
      {R"({"a":{"shape":[[1]]}})", 0, "has a list"},
      {R"({"a":{}})", 0, "has not all of dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "has not all of"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4,
       "its type is \"F31\""},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "4 bytes, expected 8 bytes for F32[2]"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "a negative number"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
       "not whole"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551616],)"
       R"("data_offsets":[0,4]}})",
       4, "not whole"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],)"
       R"("data_offsets":[0,4]}})",
       4, "has the number 9223372036854775808"},
      // 2^62 times 4 bytes is 0 where nobody looks.
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904],)"
       R"("data_offsets":[0,0]}})",
       0, "expected less than 2^63 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
       "its place is [4,0)"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
       "has 3 data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       "to start at 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       6, "tensor \"b\": its place is [2,6), expected to start at 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
       12, "to start at 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "tensor \"a\": comes twice"},
      {R"({"a":{"dtype":"F32","dtype":"I32"}})", 0, "has the key dtype twice"},
      {R"({"__metadata__":{"k":1}})", 0, "has a number"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "\"k\" twice"},
      {"{\"a\xff\":1}", 0, "no JSON at byte"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.header, c.text);
    const std::string error = ErrorOf(Raw(c.header, c.data));
    CAPTURE(error);
    CHECK(absl::StrContains(error, c.text));
  }
}

TEST_CASE("safetensors: a million brackets are refused without building them") {
  CHECK_FALSE(Parse(Raw("{\"a\":" + std::string(1 << 20, '['), 0)).ok());
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  CHECK_FALSE(Parse(Raw(nested, 0)).ok());
}

TEST_CASE("safetensors: a Git LFS pointer is named as such") {
  CHECK(absl::StrContains(
      ErrorOf("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
      "Git LFS pointer"));
}

}  // namespace
}  // namespace pipework
