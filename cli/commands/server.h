// pipectl node ls, health and version.
#ifndef PIPEWORK_CLI_COMMANDS_SERVER_H_
#define PIPEWORK_CLI_COMMANDS_SERVER_H_

#include "cli/command.h"

namespace pipework {

int NodeLs(Invocation& invocation);
int Health(Invocation& invocation);
int Version(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_SERVER_H_
