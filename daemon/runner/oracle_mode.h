// pipe-runner --oracle: what `pipectl verify` starts.
#ifndef PIPEWORK_DAEMON_RUNNER_ORACLE_MODE_H_
#define PIPEWORK_DAEMON_RUNNER_ORACLE_MODE_H_

#include <string>

namespace pipework {

// Reads an OracleRequest from the text file, prints the Verification as text
// on standard output. Returns the exit code: 0 whatever the verdict is, 1 where
// there is none; the reason is the last line of standard error then.
int RunOracleFile(const std::string& file);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_RUNNER_ORACLE_MODE_H_
