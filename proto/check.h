// PIPE_CHECK: stops at once, with the line, when an invariant of our own code
// is broken. Never for what a peer, a user, a file, a clock or a disk can do:
// that is an absl::Status.
#ifndef PIPEWORK_PROTO_CHECK_H_
#define PIPEWORK_PROTO_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace pipework {

[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition) {
  std::fprintf(stderr, "%s:%d: PIPE_CHECK(%s) does not hold\n", file, line,
               condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace pipework

#define PIPE_CHECK(condition)                                  \
  do {                                                         \
    if (!(condition)) {                                        \
      ::pipework::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                          \
  } while (false)

#endif  // PIPEWORK_PROTO_CHECK_H_
