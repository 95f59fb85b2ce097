// pipectl local run|up|down|status.
#ifndef PIPEWORK_CLI_COMMANDS_LOCAL_H_
#define PIPEWORK_CLI_COMMANDS_LOCAL_H_

#include "cli/command.h"

namespace pipework {

int LocalRun(Invocation& invocation);
int LocalUp(Invocation& invocation);
int LocalDown(Invocation& invocation);
int LocalStatus(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_LOCAL_H_
