#include "daemon/coordinator/job_service.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/coordinator/call.h"
#include "daemon/coordinator/job_machine.h"
#include "daemon/coordinator/job_store.h"
#include "proto/errors.h"

namespace pipework {
namespace {

constexpr absl::Duration kSignOfLife = absl::Seconds(10);
// How often a waiting stream looks whether its caller is still there.
constexpr absl::Duration kLook = absl::Milliseconds(500);
// A watcher sees at most so many updates a second of one job.
constexpr absl::Duration kLeastInterval = absl::Milliseconds(100);
constexpr int64_t kStepsPerMessage = 2000;
constexpr int64_t kLinesPerChunk = 500;
constexpr int kMostPerPage = 1000;

grpc::Status ShuttingDown() {
  return ToRpc(WithReason(
      absl::UnavailableError("the server is shutting down; call again"),
      "DRAINING"));
}

}  // namespace

grpc::Status JobServiceImpl::CreateJob(grpc::ServerContext* context,
                                       const v1::CreateJobRequest* request,
                                       v1::Job* reply) {
  PIPE_GATE(gate_, context);
  return Reply(core_.CreateJob(*request, DeadlineOf(*context)), reply);
}

grpc::Status JobServiceImpl::GetJob(grpc::ServerContext* context,
                                    const v1::GetJobRequest* request,
                                    v1::Job* reply) {
  PIPE_GATE(gate_, context);
  auto job = core_.board().Find(request->job(), /*exact=*/false);
  if (!job.ok()) return ToRpc(job.status());
  *reply = **job;
  return grpc::Status::OK;
}

grpc::Status JobServiceImpl::ListJobs(grpc::ServerContext* context,
                                      const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* reply) {
  PIPE_GATE(gate_, context);
  if (request->page_size() < 0) {
    return ToRpc(
        WithReason(Mismatch("ListJobs", "page_size",
                            absl::StrCat(request->page_size()), "0 or more"),
                   "PAGE_SIZE_NEGATIVE"));
  }
  const int size = request->page_size() == 0
                       ? 100
                       : std::min(request->page_size(), kMostPerPage);
  // A page goes on behind the job that ended the one before.
  bool started = request->page_token().empty();
  std::string last;
  for (const JobSnapshot& job : core_.board().List()) {
    if (!started) {
      started = job->id() == request->page_token();
      continue;
    }
    if (request->states_size() > 0 &&
        std::find(request->states().begin(), request->states().end(),
                  job->state()) == request->states().end()) {
      continue;
    }
    if (reply->jobs_size() == size) {
      reply->set_next_page_token(last);
      break;
    }
    last = job->id();
    v1::Job* out = reply->add_jobs();
    *out = *job;
    out->clear_spec();
    out->clear_plan();
    out->clear_stages();
    out->clear_placement();
  }
  if (!started) {
    return ToRpc(Mismatch("ListJobs", "page_token", request->page_token(),
                          "a token of an earlier reply"));
  }
  return grpc::Status::OK;
}

grpc::Status JobServiceImpl::WatchOne(
    grpc::ServerContext* context, const std::string& id, int64_t since,
    grpc::ServerWriter<v1::WatchJobsResponse>* writer) {
  const JobBoard& board = core_.board();
  JobBoard::Position position;
  bool snapshot = true;
  absl::Time last_sent = MonotonicNow();
  for (;;) {
    const int64_t seen = board.Change();
    JobBoard::Update update;
    const bool news = board.Next(id, kStepsPerMessage, &position, &update);
    if (update.missed_steps) {
      return ToRpc(WithReason(
          absl::ResourceExhaustedError(absl::StrCat(
              "watch of job ", id,
              ": this watcher is too slow and has missed steps; watch again")),
          "WATCHER_TOO_SLOW"));
    }
    const bool more =
        update.steps.size() == static_cast<size_t>(kStepsPerMessage);
    if (news || MonotonicNow() - last_sent >= kSignOfLife) {
      v1::WatchJobsResponse response;
      if (news && update.job->revision() >= since) {
        *response.mutable_job() = *update.job;
      }
      response.set_snapshot(snapshot);
      for (v1::StepMetrics& step : update.steps) {
        *response.add_steps() = std::move(step);
      }
      for (v1::JobEvent& event : update.events) {
        *response.add_events() = std::move(event);
      }
      if (!writer->Write(response)) return grpc::Status::CANCELLED;
      snapshot = false;
      last_sent = MonotonicNow();
    }
    if (more) continue;
    if (IsTerminal(update.job->state())) return grpc::Status::OK;
    if (board.closed()) return ShuttingDown();
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    if (news) board.WaitForChange(INT64_MAX, MonotonicNow() + kLeastInterval);
    board.WaitForChange(seen, MonotonicNow() + kLook);
  }
}

grpc::Status JobServiceImpl::WatchAll(
    grpc::ServerContext* context,
    grpc::ServerWriter<v1::WatchJobsResponse>* writer) {
  const JobBoard& board = core_.board();
  std::map<std::string, int64_t> revisions;
  bool snapshot = true;
  absl::Time last_sent = MonotonicNow();
  for (;;) {
    const int64_t seen = board.Change();
    std::vector<JobSnapshot> jobs = board.List();
    std::reverse(jobs.begin(), jobs.end());
    for (const JobSnapshot& job : jobs) {
      const auto [it, fresh] = revisions.emplace(job->id(), -1);
      if (!fresh && it->second == job->revision()) continue;
      it->second = job->revision();
      v1::WatchJobsResponse response;
      *response.mutable_job() = *job;
      response.set_snapshot(snapshot);
      if (!writer->Write(response)) return grpc::Status::CANCELLED;
      last_sent = MonotonicNow();
    }
    snapshot = false;
    if (MonotonicNow() - last_sent >= kSignOfLife) {
      if (!writer->Write(v1::WatchJobsResponse())) {
        return grpc::Status::CANCELLED;
      }
      last_sent = MonotonicNow();
    }
    if (board.closed()) return ShuttingDown();
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    board.WaitForChange(INT64_MAX, MonotonicNow() + kLeastInterval);
    board.WaitForChange(seen, MonotonicNow() + kLook);
  }
}

grpc::Status JobServiceImpl::WatchJobs(
    grpc::ServerContext* context, const v1::WatchJobsRequest* request,
    grpc::ServerWriter<v1::WatchJobsResponse>* writer) {
  PIPE_GATE(gate_, context);
  if (request->job().empty()) return WatchAll(context, writer);
  const auto job = core_.board().Find(request->job(), /*exact=*/false);
  if (!job.ok()) return ToRpc(job.status());
  return WatchOne(context, (*job)->id(), request->since_revision(), writer);
}

grpc::Status JobServiceImpl::CancelJob(grpc::ServerContext* context,
                                       const v1::CancelJobRequest* request,
                                       v1::Job* reply) {
  PIPE_GATE(gate_, context);
  if (!(request->grace_seconds() >= 0)) {
    return ToRpc(Mismatch("CancelJob", "grace_seconds",
                          absl::StrCat(request->grace_seconds()), "0 or more"));
  }
  return Reply(core_.CancelJob(*request, DeadlineOf(*context)), reply);
}

grpc::Status JobServiceImpl::StreamLogs(
    grpc::ServerContext* context, const v1::StreamLogsRequest* request,
    grpc::ServerWriter<v1::LogChunk>* writer) {
  PIPE_GATE(gate_, context);
  if (request->tail() < 0) {
    return ToRpc(Mismatch("StreamLogs", "tail", absl::StrCat(request->tail()),
                          "0 or more"));
  }
  JobBoard& board = core_.board();
  const auto found = board.Find(request->job(), /*exact=*/false);
  if (!found.ok()) return ToRpc(found.status());
  const std::string id = (*found)->id();
  const auto wanted = [request](const v1::LogLine& line) {
    if (request->attempt() > 0 && line.attempt() != request->attempt()) {
      return false;
    }
    return request->stages_size() == 0 ||
           std::find(request->stages().begin(), request->stages().end(),
                     line.stage()) != request->stages().end();
  };
  const auto send = [writer](const std::deque<v1::LogLine>& lines) {
    v1::LogChunk chunk;
    for (const v1::LogLine& line : lines) {
      *chunk.add_lines() = line;
      if (chunk.lines_size() < kLinesPerChunk) continue;
      if (!writer->Write(chunk)) return false;
      chunk.Clear();
    }
    return chunk.lines_size() == 0 || writer->Write(chunk);
  };

  LogCursor cursor(LogFile(core_.state_dir(), id));
  int64_t after = request->after_sequence();
  bool first = true;
  absl::Time last_sent = MonotonicNow();
  for (;;) {
    const int64_t seen = board.Change();
    // Looked at before the lines: what a job wrote before its end is read.
    const auto job = board.Find(id, /*exact=*/true);
    const bool over = !job.ok() || IsTerminal((*job)->state());
    // Up to what the file holds now.
    std::deque<v1::LogLine> lines;
    for (;;) {
      auto some = cursor.Next(after, kLinesPerChunk);
      if (!some.ok()) return ToRpc(some.status());
      if (some->empty()) break;
      for (v1::LogLine& line : *some) {
        after = line.sequence();
        if (!wanted(line)) continue;
        lines.push_back(std::move(line));
        if (first && request->tail() > 0 &&
            static_cast<int64_t>(lines.size()) > request->tail()) {
          lines.pop_front();
        }
      }
      // The tail is only known at the end; everything else goes out in pieces.
      if (first && request->tail() > 0) continue;
      if (!send(lines)) return grpc::Status::CANCELLED;
      if (!lines.empty()) last_sent = MonotonicNow();
      lines.clear();
    }
    if (!send(lines)) return grpc::Status::CANCELLED;
    first = false;
    if (over || !request->follow()) return grpc::Status::OK;
    if (board.closed()) return ShuttingDown();
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    if (MonotonicNow() - last_sent >= kSignOfLife) {
      if (!writer->Write(v1::LogChunk())) return grpc::Status::CANCELLED;
      last_sent = MonotonicNow();
    }
    board.WaitForChange(seen, MonotonicNow() + kLook);
    board.WaitForChange(INT64_MAX, MonotonicNow() + kLeastInterval);
  }
}

}  // namespace pipework
