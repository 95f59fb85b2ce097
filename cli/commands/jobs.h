// pipectl jobs, show, status.
#ifndef PIPEWORK_CLI_COMMANDS_JOBS_H_
#define PIPEWORK_CLI_COMMANDS_JOBS_H_

#include "cli/command.h"

namespace pipework {

int Jobs(Invocation& invocation);
int Show(Invocation& invocation);
int Status(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_JOBS_H_
