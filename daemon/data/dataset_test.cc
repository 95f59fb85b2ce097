#include "daemon/data/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>

#include "daemon/data/test_files.h"

namespace pipework {
namespace {

using Catch::Matchers::Contains;
using testing::FileBytes;
using testing::NpyFile;
using testing::RawBytes;
using testing::WriteTestFile;

struct Samples {
  std::vector<float> x;
  std::vector<int32_t> y;
};

Samples ReadAll(const Dataset& data) {
  std::vector<int64_t> indices(static_cast<size_t>(data.size()));
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int64_t>(i);
  }
  Samples samples;
  samples.x.resize(
      static_cast<size_t>(data.size() * data.sample_shape().elements()));
  samples.y.resize(
      static_cast<size_t>(data.size() * data.label_shape().elements()));
  REQUIRE(data.Read(indices, samples.x.data(), samples.y.data()).ok());
  return samples;
}

v1::DataSpec Digits() {
  v1::DataSpec spec;
  spec.mutable_train()->set_x("testdata/digits/train_x.npy");
  spec.mutable_train()->set_y("testdata/digits/train_y.npy");
  spec.mutable_test()->set_x("testdata/digits/test_x.npy");
  spec.mutable_test()->set_y("testdata/digits/test_y.npy");
  return spec;
}

// 10 samples of one number, i * 10, with label i % 3.
v1::DataSpec Ten() {
  std::vector<int16_t> x;
  std::vector<int64_t> y;
  for (int16_t i = 0; i < 10; ++i) {
    x.push_back(static_cast<int16_t>(i * 10));
    y.push_back(i % 3);
  }
  v1::DataSpec spec;
  spec.mutable_train()->set_x(
      WriteTestFile("ten_x.npy", NpyFile("<i2", "(10, 1)", RawBytes(x))));
  spec.mutable_train()->set_y(
      WriteTestFile("ten_y.npy", NpyFile("<i8", "(10,)", RawBytes(y))));
  return spec;
}

std::string ErrorOf(const v1::DataSpec& spec) {
  const auto sets = OpenData(spec);
  return sets.ok() ? "ok" : std::string(sets.status().message());
}

TEST_CASE("data: the digits are 1,437 and 360 images of 8 by 8") {
  const auto sets = OpenData(Digits());
  REQUIRE(sets.ok());
  CHECK(sets->train->size() == 1437);
  CHECK(sets->test->size() == 360);
  CHECK(sets->train->sample_shape().elements() == 64);
  CHECK(sets->train->label_shape() == Shape());
  CHECK(sets->train->classes() == 10);
  CHECK(sets->test->classes() == 10);
  const Samples samples = ReadAll(*sets->train);
  CHECK(*std::max_element(samples.x.begin(), samples.x.end()) == 16);
  CHECK(*std::min_element(samples.x.begin(), samples.x.end()) == 0);
}

TEST_CASE("data: samples are read in the order asked for, with their labels") {
  v1::DataSpec spec = Ten();
  spec.mutable_split()->set_first(9);
  spec.mutable_split()->set_last(1);
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  float x[4];
  int32_t y[4];
  REQUIRE(sets->train->Read({8, 0, 4, 4}, x, y).ok());
  CHECK(std::vector<float>(x, x + 4) == std::vector<float>{80, 0, 40, 40});
  CHECK(std::vector<int32_t>(y, y + 4) == std::vector<int32_t>{2, 0, 1, 1});
}

TEST_CASE("data: x is scaled, then normalised, and rounded once") {
  v1::DataSpec spec = Ten();
  spec.mutable_split()->set_first(9);
  spec.mutable_split()->set_last(1);
  spec.set_scale(0.1);
  spec.mutable_normalise()->set_mean(0.3);
  spec.mutable_normalise()->set_std(0.7);
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  const Samples samples = ReadAll(*sets->train);
  for (size_t i = 0; i < samples.x.size(); ++i) {
    const double raw = static_cast<double>(i) * 10;
    CHECK(samples.x[i] == static_cast<float>((raw * 0.1 - 0.3) / 0.7));
  }
}

TEST_CASE("data: a drawn split is disjoint, complete and keyed by its seed") {
  const auto split = [](int64_t test, int64_t seed) {
    v1::DataSpec spec = Ten();
    spec.mutable_split()->set_test(test);
    spec.mutable_split()->set_seed(seed);
    const auto sets = OpenData(spec);
    REQUIRE(sets.ok());
    return std::pair<std::vector<float>, std::vector<float>>(
        ReadAll(*sets->train).x, ReadAll(*sets->test).x);
  };
  for (int64_t test : {1, 4, 9}) {
    auto [train, rest] = split(test, 5);
    CHECK(static_cast<int64_t>(rest.size()) == test);
    CHECK(std::is_sorted(train.begin(), train.end()));
    CHECK(std::is_sorted(rest.begin(), rest.end()));
    train.insert(train.end(), rest.begin(), rest.end());
    std::sort(train.begin(), train.end());
    CHECK(train == std::vector<float>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90});
  }
  CHECK(split(4, 5) == split(4, 5));
  CHECK(split(4, 5) != split(4, 6));
}

TEST_CASE("data: first and last are taken from the two ends of the file") {
  v1::DataSpec spec = Ten();
  spec.mutable_split()->set_first(3);
  spec.mutable_split()->set_last(2);
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  CHECK(ReadAll(*sets->train).x == std::vector<float>{0, 10, 20});
  CHECK(ReadAll(*sets->test).x == std::vector<float>{80, 90});
  CHECK(sets->test->classes() == 3);  // of the whole source
}

TEST_CASE("data: a split that is larger than the source shows the numbers") {
  v1::DataSpec spec = Ten();
  spec.mutable_split()->set_test(10);
  CHECK_THAT(ErrorOf(spec),
             Contains("data.split.test is 10") && Contains("below 10"));
  spec.mutable_split()->Clear();
  spec.mutable_split()->set_first(9);
  spec.mutable_split()->set_last(2);
  CHECK_THAT(ErrorOf(spec),
             Contains("first 9 and last 2") && Contains("at most 10"));
  spec.mutable_split()->set_first(std::numeric_limits<int64_t>::max());
  CHECK_THAT(ErrorOf(spec), Contains("at most 10"));
  spec.clear_split();
  CHECK(ErrorOf(spec) != "ok");
}

TEST_CASE("data: train and test agree in shape, and share their classes") {
  v1::DataSpec spec = Ten();
  spec.mutable_test()->set_x(WriteTestFile(
      "wide_x.npy", NpyFile("<i2", "(2, 2)", std::string(8, '\0'))));
  spec.mutable_test()->set_y(WriteTestFile(
      "wide_y.npy", NpyFile("|u1", "(2,)", std::string("\0\7", 2))));
  CHECK_THAT(ErrorOf(spec), Contains("shape of a sample is [2], expected [1]"));
  spec.mutable_test()->set_x(WriteTestFile(
      "narrow_x.npy", NpyFile("<i2", "(2, 1)", std::string(4, '\0'))));
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  CHECK(sets->train->classes() == 8);
  CHECK(sets->test->classes() == 8);
}

TEST_CASE("data: labels must be whole numbers from 0 to below 2^31") {
  const auto with_labels = [](const std::string& descr,
                              const std::string& raw) {
    v1::DataSpec spec;
    spec.mutable_train()->set_x(WriteTestFile(
        "label_x.npy", NpyFile("|u1", "(2, 1)", std::string(2, '\0'))));
    spec.mutable_train()->set_y(
        WriteTestFile("label_y.npy", NpyFile(descr, "(2,)", raw)));
    spec.mutable_split()->set_test(1);
    return ErrorOf(spec);
  };
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK(with_labels("<f8", RawBytes<double>({0, 3})) == "ok");
  CHECK(with_labels("<i8", RawBytes<int64_t>({0, 2147483647})) == "ok");
  CHECK_THAT(with_labels("<f8", RawBytes<double>({0, kNan})),
             Contains("label_y.npy at byte 136: label of sample 1 is nan"));
  CHECK_THAT(with_labels("<f8", RawBytes<double>({0.5, 0})),
             Contains("at byte 128: label of sample 0 is 0.5"));
  CHECK_THAT(with_labels("<i8", RawBytes<int64_t>({0, 2147483648})),
             Contains("label of sample 1"));
  CHECK_THAT(with_labels("|i1", RawBytes<int8_t>({0, -1})),
             Contains("label of sample 1 is -1"));
}

TEST_CASE("data: a sample that is not finite is refused with file and byte") {
  v1::DataSpec spec;
  std::vector<float> x = {0, 1, 2, std::numeric_limits<float>::infinity()};
  spec.mutable_train()->set_x(
      WriteTestFile("inf_x.npy", NpyFile("<f4", "(2, 2)", RawBytes(x))));
  spec.mutable_train()->set_y(
      WriteTestFile("inf_y.npy", NpyFile("|u1", "(2,)", std::string(2, '\0'))));
  spec.mutable_split()->set_test(1);
  CHECK_THAT(ErrorOf(spec), Contains("inf_x.npy at byte 140: sample 1 is inf"));
}

TEST_CASE("data: x and y have as many samples as each other") {
  v1::DataSpec spec = Ten();
  spec.mutable_train()->set_y(WriteTestFile(
      "nine_y.npy", NpyFile("|u1", "(9,)", std::string(9, '\0'))));
  spec.mutable_split()->set_test(1);
  CHECK_THAT(ErrorOf(spec), Contains("nine_y.npy: number of labels is 9") &&
                                Contains("10, one for each sample"));
}

TEST_CASE("data: a missing file is not found, another kind of file is wrong") {
  v1::DataSpec spec = Digits();
  spec.mutable_test()->set_y("/nowhere/test_y.npy");
  CHECK(OpenData(spec).status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(ErrorOf(spec), Contains("/nowhere/test_y.npy"));

  spec.mutable_test()->set_y("testdata/digits");
  CHECK_THAT(ErrorOf(spec), Contains("ending"));
  const std::string folder = WriteTestFile("x", "") + "_folder.npy";
  mkdir(folder.c_str(), 0700);
  spec.mutable_test()->set_y(folder);
  CHECK_THAT(ErrorOf(spec), Contains("a folder"));
  const std::string fifo = WriteTestFile("x", "") + "_fifo.npy";
  mkfifo(fifo.c_str(), 0600);
  spec.mutable_test()->set_y(fifo);
  CHECK_THAT(ErrorOf(spec), Contains("not a regular file"));
}

TEST_CASE("data: a file that shrinks while it is used is a loss, not a crash") {
  const std::string bytes = FileBytes("testdata/digits/test_x.npy");
  v1::DataSpec spec = Digits();
  const std::string path = WriteTestFile("shrinks_x.npy", bytes);
  spec.mutable_test()->set_x(path);
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  REQUIRE(truncate(path.c_str(), 1000) == 0);
  float x[64];
  int32_t y[1];
  // What is still there is of a file that was written to.
  CHECK(absl::IsDataLoss(sets->test->Read({0}, x, y)));
  const absl::Status status = sets->test->Read({100}, x, y);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(status.message()),
             Contains("shrinks_x.npy at byte ") && Contains("expected 23168"));
}

TEST_CASE("data: every format gives the same samples") {
  v1::DataSpec spec;
  spec.mutable_train()->set_x("testdata/data/ramp-idx3-ubyte.gz");
  spec.mutable_train()->set_y("testdata/data/ramp-idx1-ubyte");
  spec.mutable_test()->set_x("testdata/data/ramp-idx3-ubyte");
  spec.mutable_test()->set_y("testdata/data/ramp-idx1-ubyte");
  const auto idx = OpenData(spec);
  REQUIRE(idx.ok());
  CHECK(idx->train->sample_shape() == Shape({4, 3}));
  CHECK(ReadAll(*idx->train).x == ReadAll(*idx->test).x);
  CHECK(ReadAll(*idx->train).y == std::vector<int32_t>{0, 1, 2, 2, 1, 0});

  spec.Clear();
  spec.mutable_train()->set_x("testdata/data/blobs.npz#x");
  spec.mutable_train()->set_y("testdata/data/blobs.npz#y");
  spec.mutable_test()->set_x("testdata/data/blobs_plain.npz#x");
  spec.mutable_test()->set_y("testdata/data/blobs_plain.npz#y");
  const auto npz = OpenData(spec);
  REQUIRE(npz.ok());
  const Samples all = ReadAll(*npz->train);
  const Samples few = ReadAll(*npz->test);
  CHECK(std::equal(few.x.begin(), few.x.end(), all.x.begin()));
  CHECK(std::equal(few.y.begin(), few.y.end(), all.y.begin()));
}

TEST_CASE("data: a table is split like an array, its label column kept apart") {
  v1::DataSpec spec;
  spec.mutable_train()->set_csv("testdata/data/iris.csv");
  spec.mutable_train()->set_label("kind");
  spec.mutable_split()->set_test(30);
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  CHECK(sets->train->size() == 120);
  CHECK(sets->train->sample_shape() == Shape({4}));
  CHECK(sets->train->label_shape() == Shape());
  CHECK(sets->train->classes() == 3);

  spec.mutable_train()->set_csv(WriteTestFile("bad.csv", "a,kind\n1,0\n2,x\n"));
  CHECK_THAT(ErrorOf(spec), Contains("bad.csv:3: field 2 is \"x\""));
  spec.mutable_train()->set_csv(
      WriteTestFile("bad.csv", "a,kind\n1,0\n2,1.5\n"));
  CHECK_THAT(ErrorOf(spec), Contains("bad.csv:3: label is 1.5"));
  spec.mutable_train()->set_csv(WriteTestFile("bad.csv", "a,kind\n"));
  CHECK_THAT(ErrorOf(spec), Contains("number of rows is 0"));
}

TEST_CASE("data: the labels of a text are the bytes that follow") {
  v1::DataSpec spec;
  spec.mutable_train()->set_text(WriteTestFile("text.txt", "abcdefgh\n"));
  spec.mutable_train()->set_length(3);
  spec.mutable_split()->set_first(1);
  spec.mutable_split()->set_last(1);
  const auto sets = OpenData(spec);
  REQUIRE(sets.ok());
  CHECK(sets->train->sample_shape() == Shape({3}));
  CHECK(sets->train->label_shape() == Shape({3}));
  CHECK(sets->train->classes() == 'h' + 1);
  CHECK(ReadAll(*sets->train).x == std::vector<float>{'a', 'b', 'c'});
  CHECK(ReadAll(*sets->train).y == std::vector<int32_t>{'b', 'c', 'd'});
  CHECK(ReadAll(*sets->test).y == std::vector<int32_t>{'e', 'f', 'g'});

  // Three samples would need a tenth byte.
  spec.mutable_split()->set_first(2);
  CHECK_THAT(ErrorOf(spec), Contains("at most 2"));
  spec.mutable_train()->set_length(9);
  CHECK_THAT(ErrorOf(spec), Contains("text.txt at byte 9"));
  spec.mutable_train()->set_length(std::numeric_limits<int64_t>::max());
  CHECK_THAT(ErrorOf(spec), Contains("text.txt at byte 9"));
  spec.mutable_train()->set_length(0);
  CHECK_THAT(ErrorOf(spec), Contains("at least 1 byte"));
}

TEST_CASE("data: empty arrays and samples without a number are refused") {
  v1::DataSpec spec = Ten();
  spec.mutable_split()->set_test(1);
  for (const char* shape : {"()", "(10,)", "(0, 1)", "(10, 0)"}) {
    CAPTURE(shape);
    const size_t n = std::string(shape) == "(10,)" ? 10
                     : std::string(shape) == "()"  ? 1
                                                   : 0;
    spec.mutable_train()->set_x(WriteTestFile(
        "empty_x.npy", NpyFile("|u1", shape, std::string(n, '\0'))));
    CHECK_THAT(ErrorOf(spec), Contains("empty_x.npy: shape of samples"));
  }
}

}  // namespace
}  // namespace pipework
