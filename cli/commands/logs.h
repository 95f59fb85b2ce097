// pipectl logs.
#ifndef PIPEWORK_CLI_COMMANDS_LOGS_H_
#define PIPEWORK_CLI_COMMANDS_LOGS_H_

#include "cli/command.h"

namespace pipework {

int Logs(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_LOGS_H_
