// Exit codes of pipectl; scripts rely on them.
#ifndef PIPEWORK_CLI_EXIT_CODE_H_
#define PIPEWORK_CLI_EXIT_CODE_H_

#include "absl/status/status.h"

namespace pipework {

constexpr int kExitOk = 0;
constexpr int kExitUnexpected = 1;     // our bug; verify: not equal
constexpr int kExitUsage = 2;          // bad flag, unreadable file
constexpr int kExitRejected = 3;       // wrong content, wrong state, no room
constexpr int kExitNotFound = 4;       //
constexpr int kExitConflict = 5;       // exists already, or moved on
constexpr int kExitNotAllowed = 6;     //
constexpr int kExitUnreachable = 7;    // no coordinator, or the stream was cut
constexpr int kExitOverloaded = 8;     //
constexpr int kExitJobFailed = 10;     // waited-for job FAILED
constexpr int kExitJobCancelled = 11;  // ... CANCELLED
constexpr int kExitWouldQueue = 20;    // plan --detailed-exitcode
constexpr int kExitNeverFits = 21;     //
constexpr int kExitTimeout = 124;      // --timeout elapsed
constexpr int kExitInterrupted = 130;  // Ctrl-C

// The exit code behind a status of an RPC or of our own code.
int ExitCodeOf(const absl::Status& status);

}  // namespace pipework

#endif  // PIPEWORK_CLI_EXIT_CODE_H_
