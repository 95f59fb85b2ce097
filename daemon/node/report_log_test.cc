#include "daemon/node/report_log.h"

#include <catch2/catch.hpp>

#include "daemon/base/clock.h"

namespace pipework {
namespace {

v1::NodeMessage Progress(int64_t from, int64_t to) {
  v1::NodeMessage message;
  message.mutable_report()->mutable_runner()->set_job("j-a");
  auto* progress =
      message.mutable_report()->mutable_report()->mutable_progress();
  progress->set_step(to);
  for (int64_t i = from; i < to; ++i) progress->add_steps()->set_step(i);
  return message;
}

v1::NodeMessage Log(const std::string& text) {
  v1::NodeMessage message;
  message.mutable_report()->mutable_runner()->set_job("j-a");
  message.mutable_report()
      ->mutable_report()
      ->mutable_log()
      ->add_lines()
      ->set_text(text);
  return message;
}

v1::NodeMessage Stages(int64_t forwards) {
  v1::NodeMessage message;
  message.mutable_report()->mutable_runner()->set_job("j-a");
  message.mutable_report()
      ->mutable_report()
      ->mutable_stages()
      ->add_stages()
      ->set_forwards(forwards);
  return message;
}

v1::NodeMessage Heartbeat() {
  v1::NodeMessage message;
  message.set_heartbeat(true);
  return message;
}

// What is to be sent now.
std::vector<v1::NodeMessage> Drain(ReportLog& log) {
  std::vector<v1::NodeMessage> all;
  v1::NodeMessage message;
  while (log.Take(&message, MonotonicNow())) all.push_back(message);
  return all;
}

TEST_CASE(
    "report log: what was not acknowledged is sent again in the next session") {
  ReportLog log;
  log.BeginSession(0);
  log.Add(Log("a"));
  log.Add(Log("b"));
  log.Add(Log("c"));
  CHECK(Drain(log).size() == 3);
  CHECK(Drain(log).empty());
  log.Acknowledge(1);
  log.EndSession();
  CHECK(Drain(log).empty());
  log.BeginSession(2);
  const auto again = Drain(log);
  REQUIRE(again.size() == 1);
  CHECK(again[0].sequence() == 3);
  CHECK(log.first_sequence() == 3);
  log.Acknowledge(3);
  CHECK(log.AwaitEmpty(MonotonicNow()));
  CHECK(log.first_sequence() == 4);
}

TEST_CASE("report log: progress that waits is joined and loses no step") {
  ReportLog log;
  log.Add(Progress(0, 3));
  log.Add(Progress(3, 5));
  log.Add(Progress(5, 6));
  CHECK(log.size() == 1);
  log.BeginSession(0);
  const auto sent = Drain(log);
  REQUIRE(sent.size() == 1);
  const auto& progress = sent[0].report().report().progress();
  CHECK(progress.step() == 6);
  REQUIRE(progress.steps_size() == 6);
  for (int i = 0; i < 6; ++i) CHECK(progress.steps(i).step() == i);
}

TEST_CASE("report log: what was ever sent is not changed any more") {
  // The coordinator may have the first report, and would take a longer one of
  // the same number for a repetition.
  ReportLog log;
  log.BeginSession(0);
  log.Add(Progress(0, 3));
  CHECK(Drain(log).size() == 1);
  log.EndSession();
  log.Add(Progress(3, 5));
  log.Add(Progress(5, 7));
  CHECK(log.size() == 2);
  log.BeginSession(1);
  const auto sent = Drain(log);
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].sequence() == 2);
  CHECK(sent[0].report().report().progress().steps_size() == 4);
}

TEST_CASE(
    "report log: progress is not joined across an epoch's end or another "
    "report") {
  ReportLog log;
  v1::NodeMessage epoch = Progress(0, 3);
  epoch.mutable_report()
      ->mutable_report()
      ->mutable_progress()
      ->mutable_epoch()
      ->set_epoch(1);
  log.Add(epoch);
  log.Add(Progress(3, 5));
  CHECK(log.size() == 2);
  log.Add(Log("between"));
  log.Add(Progress(5, 6));
  CHECK(log.size() == 4);
}

TEST_CASE("report log: only the newest stage metrics wait") {
  ReportLog log;
  log.Add(Stages(1));
  log.Add(Progress(0, 1));
  log.Add(Stages(2));
  CHECK(log.size() == 2);
  log.BeginSession(0);
  const auto sent = Drain(log);
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].report().report().stages().stages(0).forwards() == 2);
}

TEST_CASE("report log: signs of life come first and do not pile up") {
  ReportLog log;
  log.Add(Log("a"));
  for (int i = 0; i < 100; ++i) log.AddOnce(Heartbeat());
  log.BeginSession(0);
  const auto sent = Drain(log);
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].has_heartbeat());
  CHECK(sent[0].sequence() == 0);
}

TEST_CASE("report log: an answer outlives the session that it was made in") {
  ReportLog log;
  v1::NodeMessage answer;
  answer.mutable_answer()->set_command(9);
  log.AddOnce(answer);
  CHECK(Drain(log).empty());
  log.BeginSession(0);
  REQUIRE(Drain(log).size() == 1);
}

}  // namespace
}  // namespace pipework
