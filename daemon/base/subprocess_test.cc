#include "daemon/base/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/paths.h"

namespace pipework {
namespace {

absl::Time Soon() { return MonotonicNow() + absl::Seconds(30); }

Subprocess::Options Shell(const std::string& script) {
  Subprocess::Options options;
  options.program = "/bin/sh";
  options.args = {"-c", script};
  options.output_file = "-";
  return options;
}

// Everything the child writes, to its end.
std::string Output(Subprocess& process) {
  UniqueFd fd = process.TakeOutput();
  std::string text;
  char piece[4096];
  ssize_t n;
  while ((n = ::read(fd.get(), piece, sizeof piece)) > 0) text.append(piece, n);
  return text;
}

TEST_CASE("subprocess: arguments, environment, output and exit status") {
  ::setenv("KEPT", "yes", 1);
  ::setenv("REPLACED", "old", 1);
  Subprocess::Options options = Shell("echo $1 $KEPT $REPLACED; exit 7");
  options.args.push_back("sh");
  options.args.push_back("an argument");
  options.extra_environment = {"REPLACED=new"};
  auto process = Subprocess::Spawn(options);
  REQUIRE(process.ok());
  CHECK(Output(**process) == "an argument yes new\n");
  const auto status = (*process)->Wait(Soon());
  REQUIRE(status.ok());
  CHECK(DescribeWaitStatus(*status) == "exit 7");
  CHECK((*process)->exit_status() == status.value());
}

TEST_CASE("subprocess: output goes to a file, appended") {
  const char* base = std::getenv("TEST_TMPDIR");
  const std::string path =
      JoinPath(base == nullptr ? "/tmp" : base, "subprocess-output");
  (void)RemoveTree(path);
  for (const char* word : {"one", "two"}) {
    Subprocess::Options options = Shell(std::string("echo ") + word + " >&2");
    options.output_file = path;
    auto process = Subprocess::Spawn(options);
    REQUIRE(process.ok());
    REQUIRE((*process)->Wait(Soon()).ok());
  }
  CHECK(*ReadFile(path) == "one\ntwo\n");
}

TEST_CASE("subprocess: the child has the channel, and no other descriptor") {
  const int open_here = ::open("/dev/null", O_RDONLY);  // not close-on-exec
  Subprocess::Options options = Shell(
      "ls /proc/self/fd | grep -v '^[012]$' | wc -l; "
      "echo fd $CHANNEL; cat <&$CHANNEL >&$CHANNEL");
  options.channel_variable = "CHANNEL";
  auto process = Subprocess::Spawn(options);
  ::close(open_here);
  REQUIRE(process.ok());
  UniqueFd channel = (*process)->TakeChannel();
  REQUIRE(::write(channel.get(), "ping", 4) == 4);
  char answer[5] = "";
  REQUIRE(::read(channel.get(), answer, 4) == 4);
  CHECK(std::string(answer) == "ping");
  channel.Close();
  REQUIRE((*process)->Wait(Soon()).ok());
  // ls itself has the folder open; the channel is the other one.
  CHECK(Output(**process) == "2\nfd 3\n");
}

TEST_CASE("subprocess: a program that cannot be run is an error here") {
  Subprocess::Options options;
  options.program = "/no/such/program";
  CHECK(absl::IsNotFound(Subprocess::Spawn(options).status()));
  options.program = "/tmp";  // a folder
  CHECK(absl::IsPermissionDenied(Subprocess::Spawn(options).status()));
}

TEST_CASE("subprocess: Stop asks first, and kills after the grace") {
  auto polite = Subprocess::Spawn(
      Shell("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done"));
  REQUIRE(polite.ok());
  char up[3];
  UniqueFd out = (*polite)->TakeOutput();
  REQUIRE(::read(out.get(), up, 3) == 3);
  CHECK(DescribeWaitStatus((*polite)->Stop(absl::Seconds(30))) == "exit 5");
  CHECK(DescribeWaitStatus((*polite)->Stop(absl::Seconds(30))) == "exit 5");

  auto stubborn = Subprocess::Spawn(
      Shell("trap '' TERM; echo up; while :; do sleep 0.01; done"));
  REQUIRE(stubborn.ok());
  out = (*stubborn)->TakeOutput();
  REQUIRE(::read(out.get(), up, 3) == 3);
  CHECK(DescribeWaitStatus((*stubborn)->Stop(absl::Milliseconds(5))) ==
        "signal 9 (Killed)");
}

TEST_CASE("subprocess: the end is told once, and a wait has a deadline") {
  std::atomic<int> ends{0};
  std::atomic<int> status{-1};
  Subprocess::Options options = Shell("read line; exit 3");
  options.channel_variable = "CHANNEL";
  options.args[1] = "read line <&3; exit 3";
  options.on_exit = [&](int wait_status) {
    status = wait_status;
    ++ends;
  };
  {
    auto process = Subprocess::Spawn(options);
    REQUIRE(process.ok());
    CHECK(absl::IsDeadlineExceeded(
        (*process)->Wait(MonotonicNow() + absl::Milliseconds(1)).status()));
    CHECK_FALSE((*process)->exit_status().has_value());
    (*process)->TakeChannel().Close();
    REQUIRE((*process)->Wait(Soon()).ok());
  }
  CHECK(ends == 1);
  CHECK(WEXITSTATUS(status.load()) == 3);
}

TEST_CASE("subprocess: a handle that dies ends its child") {
  pid_t pid;
  {
    auto process = Subprocess::Spawn(Shell("while :; do sleep 1; done"));
    REQUIRE(process.ok());
    pid = (*process)->pid();
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("subprocess: a child outlives the thread that started it") {
  std::unique_ptr<Subprocess> process;
  std::thread starter([&] {
    Subprocess::Options options = Shell("cat <&$CHANNEL >&$CHANNEL");
    options.channel_variable = "CHANNEL";
    auto spawned = Subprocess::Spawn(options);
    if (spawned.ok()) process = *std::move(spawned);
  });
  starter.join();
  REQUIRE(process != nullptr);
  UniqueFd channel = process->TakeChannel();
  REQUIRE(::write(channel.get(), "x", 1) == 1);
  char answer = 0;
  CHECK(::read(channel.get(), &answer, 1) == 1);
  channel.Close();
  const auto status = process->Wait(Soon());
  REQUIRE(status.ok());
  CHECK(DescribeWaitStatus(*status) == "exit 0");
}

// The parent of the test below: its child says its process id, then waits.
TEST_CASE("a parent in a process of its own", "[.parent]") {
  Subprocess::Options options;
  options.program = "/bin/sh";
  options.args = {"-c", "echo $$; exec sleep 1000"};
  auto child = Subprocess::Spawn(options);
  REQUIRE(child.ok());
  (void)(*child)->Wait(Soon());
}

TEST_CASE("subprocess: a child dies with its parent, however that ends") {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  REQUIRE(n > 0);
  Subprocess::Options options;
  options.program = std::string(self, n);
  options.args = {"[.parent]"};
  options.output_file = "-";
  auto parent = Subprocess::Spawn(options);
  REQUIRE(parent.ok());
  UniqueFd out = (*parent)->TakeOutput();
  char text[32] = "";
  REQUIRE(::read(out.get(), text, sizeof text - 1) > 0);
  const pid_t grandchild = std::atoi(text);
  REQUIRE(grandchild > 0);
  (*parent)->Signal(SIGKILL);
  REQUIRE((*parent)->Wait(Soon()).ok());
  // The pipe ends when the last process that has it is gone.
  CHECK(::read(out.get(), text, sizeof text) == 0);
}

}  // namespace
}  // namespace pipework
