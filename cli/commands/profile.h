// pipectl profile run|ls|show|rm.
#ifndef PIPEWORK_CLI_COMMANDS_PROFILE_H_
#define PIPEWORK_CLI_COMMANDS_PROFILE_H_

#include "cli/command.h"

namespace pipework {

int ProfileRun(Invocation& invocation);
int ProfileLs(Invocation& invocation);
int ProfileShow(Invocation& invocation);
int ProfileRm(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_PROFILE_H_
