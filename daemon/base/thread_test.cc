#include "daemon/base/thread.h"

#include <pthread.h>

#include <atomic>
#include <catch2/catch.hpp>

namespace pipework {
namespace {

TEST_CASE("thread: it has its name, and is joined when its handle dies") {
  std::atomic<bool> done{false};
  char name[16] = "";
  {
    Thread thread("a-rather-long-name-for-a-thread", [&] {
      pthread_getname_np(pthread_self(), name, sizeof name);
      done = true;
    });
    CHECK(thread.running());
  }
  CHECK(done);
  CHECK(std::string(name) == "a-rather-long-n");
}

TEST_CASE("thread: assigning waits for the one before") {
  std::atomic<int> done{0};
  Thread thread("one", [&] { ++done; });
  thread = Thread("two", [&] { ++done; });
  CHECK(done >= 1);
  thread.Join();
  CHECK(done == 2);
  CHECK_FALSE(thread.running());
  thread.Join();
}

}  // namespace
}  // namespace pipework
