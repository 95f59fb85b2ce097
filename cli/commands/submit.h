// pipectl submit.
#ifndef PIPEWORK_CLI_COMMANDS_SUBMIT_H_
#define PIPEWORK_CLI_COMMANDS_SUBMIT_H_

#include "cli/command.h"

namespace pipework {

int Submit(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_SUBMIT_H_
