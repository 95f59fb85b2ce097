#include "daemon/runner/oracle_mode.h"

#include <cstdio>

#include "daemon/oracle/verify.h"
#include "google/protobuf/text_format.h"
#include "proto/text_file.h"
#include "proto/verification.pb.h"

namespace pipework {

int RunOracleFile(const std::string& file) {
  v1::OracleRequest request;
  absl::Status status = ReadTextFile(file, &request);
  if (status.ok()) {
    absl::StatusOr<v1::Verification> verdict = RunOracle(request);
    status = verdict.status();
    if (status.ok()) {
      std::string text;
      google::protobuf::TextFormat::PrintToString(*verdict, &text);
      std::fputs(text.c_str(), stdout);
      return 0;
    }
  }
  std::fprintf(stderr, "pipe-runner: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace pipework
