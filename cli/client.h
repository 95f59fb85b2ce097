// The coordinator as pipectl sees it: plain calls, a deadline on each, errors
// as statuses with reason and problems (output.h). gRPC stays in client.cc.
#ifndef PIPEWORK_CLI_CLIENT_H_
#define PIPEWORK_CLI_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"

namespace pipework {

class Client {
 public:
  struct Options {
    std::string server = "127.0.0.1:7070";
    std::string token;            // empty: none
    double timeout_seconds = 30;  // of each unary call
  };

  // Dials lazily: the first call finds out whether anyone is there.
  explicit Client(Options options);
  ~Client();

  const std::string& server() const { return options_.server; }
  const Options& options() const { return options_; }

  // Unavailable names the server and what to try.
  absl::StatusOr<v1::Job> CreateJob(const v1::CreateJobRequest& request);
  absl::StatusOr<v1::Job> GetJob(const std::string& job);
  absl::StatusOr<v1::ListJobsResponse> ListJobs(
      const v1::ListJobsRequest& request);
  absl::StatusOr<v1::Job> CancelJob(const v1::CancelJobRequest& request);
  absl::StatusOr<v1::Plan> PlanJob(const v1::PlanJobRequest& request);
  absl::StatusOr<v1::RunProfileResponse> RunProfile(
      const v1::RunProfileRequest& request);
  absl::StatusOr<v1::ListProfilesResponse> ListProfiles();
  absl::StatusOr<v1::StoredProfile> GetProfile(const std::string& profile);
  absl::Status DeleteProfile(const std::string& profile);
  absl::StatusOr<v1::PipelineStatus> GetPipelineStatus(const std::string& job);
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  absl::StatusOr<v1::ServerInfo> GetServerInfo();
  // true: SERVING. NotFound: no such service.
  absl::StatusOr<bool> Health(const std::string& service);

  // Calls `on` with each message until it returns false (OK), or the stream
  // ends: Unavailable when it was cut, else its status. `interrupted` is asked
  // about ten times a second; true ends with Cancelled. `quiet_seconds` without
  // any message count as cut.
  absl::Status WatchJob(
      const std::string& job,
      const std::function<bool(const v1::WatchJobsResponse&)>& on,
      const std::function<bool()>& interrupted, double quiet_seconds = 30);
  absl::Status StreamLogs(const v1::StreamLogsRequest& request,
                          const std::function<bool(const v1::LogChunk&)>& on,
                          const std::function<bool()>& interrupted);

 private:
  struct Stubs;
  Options options_;
  std::unique_ptr<Stubs> stubs_;
};

}  // namespace pipework

#endif  // PIPEWORK_CLI_CLIENT_H_
