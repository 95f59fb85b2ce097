#include "cli/context.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/exit_code.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 4096;
constexpr char kDefaultServer[] = "127.0.0.1:7070";
// The parser refuses a spec that is this long.
constexpr size_t kMostSpecBytes = size_t{17} << 20;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What `in` has, but no more than one byte above `most`: there may be no end.
std::string ReadSome(std::istream& in, size_t most) {
  std::string text(64 << 10, '\0');
  std::string all;
  while (all.size() <= most && in.good()) {
    in.read(&text[0], static_cast<std::streamsize>(text.size()));
    all.append(text, 0, static_cast<size_t>(in.gcount()));
  }
  return all;
}

std::string FirstLine(const std::string& file) {
  std::ifstream in(file);
  const std::string text = ReadSome(in, 1 << 16);
  return std::string(absl::StripAsciiWhitespace(
      absl::string_view(text).substr(0, text.find('\n'))));
}

// Named by flag or environment, empty if it is not.
std::string NamedServer(const Invocation& invocation) {
  return invocation.Get("server", FromEnvironment("PIPEWORK_SERVER"));
}

absl::StatusOr<Client::Options> ClientOptions(const Invocation& invocation,
                                              const std::string& server) {
  Client::Options options;
  options.server = server;
  RETURN_IF_ERROR(invocation.GetSeconds("timeout", &options.timeout_seconds));
  const std::string file =
      invocation.Get("token-file", FromEnvironment("PIPEWORK_TOKEN_FILE"));
  if (!file.empty()) {
    options.token = FirstLine(file);
    // gRPC ends the process on what a header cannot hold.
    if (options.token.empty() || options.token.size() > kMostTokenBytes ||
        !std::all_of(options.token.begin(), options.token.end(),
                     absl::ascii_isgraph)) {
      return UsageError(Mismatch("--token-file", "file", file,
                                 "a readable file with a token in its first "
                                 "line"));
    }
  }
  return options;
}

}  // namespace

std::string StateDir(const Invocation& invocation) {
  std::error_code error;
  return fs::absolute(invocation.Get("state-dir", "pipework-state"), error)
      .string();
}

int LoadSpec(Invocation& invocation, const std::string& file, v1::JobSpec* spec,
             std::string* path, DataHere data) {
  const std::vector<std::string> sets = invocation.All("set");
  std::error_code error;
  ParsedSpec parsed;
  if (file == "-") {
    *path = (fs::current_path(error) / "stdin.yaml").string();
    parsed = ParseSpec(ReadSome(std::cin, kMostSpecBytes), *path, sets);
  } else {
    *path = fs::absolute(file, error).lexically_normal().string();
    absl::StatusOr<ParsedSpec> read = ReadSpec(file, sets);
    if (!read.ok()) {
      return invocation.out->Error(kExitUsage, "UNREADABLE_FILE",
                                   std::string(read.status().message()));
    }
    parsed = *std::move(read);
  }
  invocation.spec_file = parsed.file;
  invocation.spec_lines = parsed.lines;
  if (parsed.problems.empty()) {
    *spec = parsed.spec;
    MakePathsAbsolute(*path, spec);
    if (data != DataHere::kNotRead) {
      const DataCheck check = CheckWithData(*spec);
      if (data == DataHere::kWhereItIs && !check.missing.empty()) {
        invocation.out->Note(absl::StrCat(
            "note: not checked against its data: ", check.missing));
      } else {
        AddProblems(check.problems, &parsed);
      }
    }
  }
  if (parsed.problems.empty()) return kExitOk;
  const size_t count = parsed.problems.size();
  return invocation.out->Error(kExitRejected, "INVALID_SPEC",
                               absl::StrCat("job spec rejected: ", count,
                                            " problem", count == 1 ? "" : "s"),
                               parsed.problems);
}

int SpecError(const Invocation& invocation, const absl::Status& status) {
  const std::vector<v1::Problem> problems = ProblemsOf(status);
  if (problems.empty()) return invocation.out->Error(status);
  ParsedSpec parsed;
  parsed.file = invocation.spec_file;
  parsed.lines = invocation.spec_lines;
  AddProblems(problems, &parsed);
  absl::Status located = status;
  SetProblems(parsed.problems, &located);
  return invocation.out->Error(located);
}

absl::StatusOr<std::unique_ptr<Client>> MakeClient(
    const Invocation& invocation) {
  std::string server = NamedServer(invocation);
  if (server.empty()) {
    server = FirstLine(StateDir(invocation) + "/coordinator.address");
  }
  if (server.empty()) server = kDefaultServer;
  ASSIGN_OR_RETURN(const Client::Options options,
                   ClientOptions(invocation, server));
  return std::make_unique<Client>(options);
}

absl::StatusOr<v1::Job> JobSource::FindJob(const std::string& ref) {
  return client != nullptr ? client->GetJob(ref) : reader->FindJob(ref);
}

absl::StatusOr<JobSource> FindJobs(const Invocation& invocation) {
  JobSource source;
  source.state_dir = StateDir(invocation);
  if (NamedServer(invocation).empty()) {
    const std::string address =
        FirstLine(source.state_dir + "/coordinator.address");
    bool answers = false;
    if (!address.empty()) {
      ASSIGN_OR_RETURN(Client::Options options,
                       ClientOptions(invocation, address));
      options.timeout_seconds = std::min(options.timeout_seconds, 2.0);
      answers = Client(options).GetServerInfo().ok();
    }
    if (!answers) {
      absl::StatusOr<std::unique_ptr<JobStoreReader>> reader =
          JobStoreReader::Open(source.state_dir);
      if (reader.ok()) {
        source.reader = *std::move(reader);
        return source;
      }
      if (!absl::IsNotFound(reader.status()) || invocation.Has("state-dir")) {
        return reader.status();
      }
    }
  }
  ASSIGN_OR_RETURN(source.client, MakeClient(invocation));
  return source;
}

std::string NewRequestId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&id, "%08x", random());
  return id;
}

absl::StatusOr<std::string> FindCheckpoint(const Invocation& invocation,
                                           const std::string& ref) {
  std::error_code error;
  if (fs::is_directory(ref, error)) {
    return fs::absolute(ref, error).lexically_normal().string();
  }
  std::string job_ref = ref;
  int64_t step = -1;
  // JOB/STEP; but in name/NAME the word is no step.
  const size_t slash = ref.rfind('/');
  int64_t number = 0;
  if (slash != std::string::npos && ref.substr(0, slash) != "name" &&
      absl::SimpleAtoi(ref.substr(slash + 1), &number) && number >= 0) {
    job_ref = ref.substr(0, slash);
    step = number;
  }
  ASSIGN_OR_RETURN(JobSource source, FindJobs(invocation));
  ASSIGN_OR_RETURN(const v1::Job job, source.FindJob(job_ref));
  const std::string folder =
      (job.folder().empty() ? JobFolder(source.state_dir, job.id())
                            : job.folder()) +
      "/checkpoints";
  for (const CheckpointEntry& entry : ListCheckpoints(folder)) {
    if (entry.complete && (step < 0 || entry.manifest.step() == step)) {
      return entry.folder;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "checkpoint ", ref, ": job ", job.id(), " has no complete checkpoint",
      step < 0 ? "" : absl::StrCat(" of step ", step), " in ", folder));
}

}  // namespace pipework
