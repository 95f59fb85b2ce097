#include "daemon/data/csv.h"

#include <catch2/catch.hpp>

#include "daemon/data/test_files.h"

namespace pipework {
namespace {

using Catch::Matchers::Contains;
using testing::FileBytes;
using testing::FromMemory;

Table Read(const std::string& text, const std::string& label = "y") {
  const auto table = ReadCsv(*FromMemory(text), label);
  INFO(text);
  INFO(table.status().message());
  REQUIRE(table.ok());
  return *table;
}

std::string ErrorOf(const std::string& text, const std::string& label = "y") {
  const auto table = ReadCsv(*FromMemory(text), label);
  return table.ok() ? "ok" : std::string(table.status().message());
}

TEST_CASE("csv: the label column may stand anywhere") {
  for (const char* text : {"a,b,y\n1,2,0\n3,4,1\n", "a,y,b\n1,0,2\n3,1,4\n",
                           "y,a,b\n0,1,2\n1,3,4\n"}) {
    const Table table = Read(text);
    CHECK(table.columns == std::vector<std::string>{"a", "b"});
    CHECK(table.values == std::vector<float>{1, 2, 3, 4});
    CHECK(table.labels == std::vector<double>{0, 1});
    CHECK(table.lines == std::vector<int64_t>{2, 3});
  }
}

TEST_CASE(
    "csv: line ends, quotes, a byte order mark and blanks are no matter") {
  const std::vector<float> values = {1.5f, -2e3f};
  for (const char* text :
       {"\xef\xbb\xbf"
        "a,y\r\n1.5,0\r\n-2e3,1\r\n",
        "a,y\n1.5,0\n-2e3,1", "\"a\",\"y\"\n\"1.5\",\"0\"\n\"-2e3\",\"1\"\n",
        "\"a\",\"y\"\r\n\"1.5\",\"0\"\r\n\"-2e3\",\"1\"\r\n\r\n\n",
        " a , y \n 1.5 , 0 \n -2e3 , 1 \n"}) {
    CHECK(Read(text).values == values);
  }
  const Table table = Read("\"a,\"\"b\"\"\n\",y\n1,2\n");
  CHECK(table.columns[0] == "a,\"b\"");
  CHECK(table.lines[0] == 3);
}

TEST_CASE("csv: a quote at the end of a block is read like any other") {
  const std::string name((64 << 10) - 2, 'a');
  CHECK(Read("\"" + name + "\"\"x\",y\n1,2\n").columns[0] == name + "\"x");
}

TEST_CASE("csv: what is wrong is refused with its line") {
  CHECK_THAT(ErrorOf(""), Contains("memory:1: the file is empty"));
  CHECK_THAT(ErrorOf("a,b\n1,2\n"),
             Contains("label column is \"y\", expected one of \"a\", \"b\""));
  CHECK_THAT(ErrorOf("y\n1\n"), Contains("memory:1"));
  CHECK_THAT(ErrorOf("a,a,y\n1,2,3\n"), Contains("memory:1: column name"));
  CHECK_THAT(ErrorOf("a,y\n1,2\n1\n"),
             Contains("memory:3: number of fields is 1, expected 2"));
  CHECK_THAT(ErrorOf("a,y\n1,2,3\n"), Contains("memory:2"));
  CHECK_THAT(ErrorOf("a,y\n1,2\n\n1,2\n"), Contains("memory:3: the line"));
  CHECK_THAT(ErrorOf("a,y\nfour,2\n"),
             Contains("memory:2: field 1 is \"four\", expected a finite"));
  CHECK_THAT(ErrorOf("a,y\n1,nan\n"), Contains("field 2"));
  CHECK_THAT(ErrorOf("a,y\n1e400,1\n"), Contains("field 1"));
  CHECK_THAT(ErrorOf("a,y\n1e300,1\n"), Contains("range of f32"));
  CHECK_THAT(ErrorOf("a,y\n,1\n"), Contains("field 1 is \"\""));
  CHECK_THAT(ErrorOf("a,y\n\"1,2\n"), Contains("open at the end of the file"));
  CHECK_THAT(ErrorOf("a,y\n\"1\"2,2\n"), Contains("what follows a quoted"));
  CHECK_THAT(ErrorOf("a,y\n1\"2\",2\n"), Contains("inside a field"));
  CHECK_THAT(ErrorOf("a,y\n1;2\n"), Contains("memory:2"));
}

TEST_CASE("csv: a real table is read whole") {
  const Table table = Read(FileBytes("testdata/data/iris.csv"), "kind");
  CHECK(table.rows() == 150);
  CHECK(table.columns.size() == 4);
}

}  // namespace
}  // namespace pipework
