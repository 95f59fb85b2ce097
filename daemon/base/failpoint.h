// Named places where a test can make things go wrong:
//   RETURN_IF_ERROR(FAILPOINT("checkpoint.write"));
//
// They exist in --config=testing only; elsewhere FAILPOINT is always OK. They
// are set from the environment of the process or from a test:
//   PIPEWORK_FAILPOINTS="checkpoint.write=skip(2):once:error(disk is full);
//                        runner.forward=sleep(50)"
//   spec    := entry (";" entry)*
//   entry   := NAME "=" modifier* action
//   modifier:= "skip(" N "):"   the first N times nothing happens
//            | "once:"          only one time
//   action  := "error(" TEXT ")"  Unavailable with TEXT and the name
//            | "sleep(" MS ")"    sleeps, then OK
//            | "kill"             SIGKILL to this process
//            | "exit(" CODE ")"   _exit
//            | "off"
#ifndef PIPEWORK_DAEMON_BASE_FAILPOINT_H_
#define PIPEWORK_DAEMON_BASE_FAILPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace pipework {

// What to do at `name`. Any thread.
absl::Status Failpoint(const char* name);

// Replaces all settings; "" clears them. InvalidArgument: not in the grammar.
// Unimplemented: this is not a testing build.
absl::Status SetFailpoints(const std::string& spec);

// How often `name` was reached since the last SetFailpoints.
int64_t FailpointHits(const std::string& name);

}  // namespace pipework

#define FAILPOINT(name) ::pipework::Failpoint(name)

#endif  // PIPEWORK_DAEMON_BASE_FAILPOINT_H_
