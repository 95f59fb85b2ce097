#include "daemon/base/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "daemon/base/lock_file.h"

namespace pipework {
namespace {

std::string Temp() {
  const char* base = std::getenv("TEST_TMPDIR");
  std::string pattern =
      JoinPath(base == nullptr ? "/tmp" : base, "pathsXXXXXX");
  REQUIRE(::mkdtemp(&pattern[0]) != nullptr);
  return pattern;
}

TEST_CASE("paths: joining and splitting") {
  CHECK(JoinPath("a", "b") == "a/b");
  CHECK(JoinPath("a/", "b") == "a/b");
  CHECK(JoinPath("a", "/b") == "/b");
  CHECK(JoinPath("", "b") == "b");
  CHECK(FolderOf("a/b/c") == "a/b");
  CHECK(FolderOf("/a") == "/");
  CHECK(FolderOf("a") == ".");
  CHECK(AbsolutePath("/a/./b/../c") == "/a/c");
  CHECK(AbsolutePath("x")[0] == '/');
}

TEST_CASE("paths: a file is written whole, read, and its tail taken") {
  const std::string folder = Temp();
  const std::string path = folder + "/file";
  REQUIRE(WriteFileAtomically(path, "first").ok());
  REQUIRE(WriteFileAtomically(path, "the second", 0600).ok());
  CHECK(*ReadFile(path) == "the second");
  CHECK(TailOfFile(path, 6) == "second");
  CHECK(TailOfFile(path, 600) == "the second");
  CHECK(TailOfFile(folder + "/none", 5).empty());
  struct stat info;
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(absl::IsResourceExhausted(ReadFile(path, 3).status()));
  REQUIRE(RemoveTree(folder).ok());
  CHECK_FALSE(FileExists(folder));
  CHECK(RemoveTree(folder).ok());
}

TEST_CASE("paths: errors name the path and have the code that fits") {
  CHECK(absl::IsNotFound(ReadFile("/no/such/file").status()));
  CHECK(std::string(ReadFile("/no/such/file").status().message()) ==
        "open /no/such/file: No such file or directory");
  CHECK(absl::IsNotFound(WriteFileAtomically("/no/such/file", "x")));
  const std::string folder = Temp();
  REQUIRE(WriteFileAtomically(folder + "/file", "x").ok());
  CHECK_FALSE(MakeFolders(folder + "/file/below").ok());
  CHECK(MakeFolders(folder + "/a/b/c").ok());
  CHECK(MakeFolders(folder + "/a/b/c").ok());
  CHECK(FsyncFolder(folder + "/a/b").ok());
}

TEST_CASE("paths: a tree is removed without following its links") {
  const std::string kept = Temp(), removed = Temp();
  REQUIRE(WriteFileAtomically(kept + "/file", "x").ok());
  REQUIRE(::symlink(kept.c_str(), (removed + "/link").c_str()) == 0);
  REQUIRE(RemoveTree(removed).ok());
  CHECK(FileExists(kept + "/file"));
}

TEST_CASE("paths: a program that is not beside this one is named") {
  const auto sibling = SiblingBinary("no-such-program");
  REQUIRE(absl::IsNotFound(sibling.status()));
  CHECK(std::string(sibling.status().message()).find("no-such-program") == 0);
}

TEST_CASE(
    "lock file: a second lock is refused and names the holder, until "
    "the first is let go") {
  const std::string path = Temp() + "/lock";
  {
    auto first = LockFile::Acquire(path);
    REQUIRE(first.ok());
    const auto second = LockFile::Acquire(path);
    REQUIRE(absl::IsFailedPrecondition(second.status()));
    CHECK(std::string(second.status().message())
              .find("locked by process " + std::to_string(::getpid()) + ",") !=
          std::string::npos);
  }
  CHECK(LockFile::Acquire(path).ok());
  CHECK_FALSE(LockFile::Acquire("/no/such/folder/lock").ok());
}

}  // namespace
}  // namespace pipework
