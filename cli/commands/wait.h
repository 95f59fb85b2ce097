// pipectl wait and cancel.
#ifndef PIPEWORK_CLI_COMMANDS_WAIT_H_
#define PIPEWORK_CLI_COMMANDS_WAIT_H_

#include "cli/command.h"

namespace pipework {

int Wait(Invocation& invocation);
int Cancel(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_WAIT_H_
