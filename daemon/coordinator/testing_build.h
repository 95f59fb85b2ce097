// Whether this is a --config=testing build.
#ifndef PIPEWORK_DAEMON_COORDINATOR_TESTING_BUILD_H_
#define PIPEWORK_DAEMON_COORDINATOR_TESTING_BUILD_H_

namespace pipework {

extern const bool kTestingBuild;

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_TESTING_BUILD_H_
