// pipectl completion.
#ifndef PIPEWORK_CLI_COMMANDS_COMPLETION_H_
#define PIPEWORK_CLI_COMMANDS_COMPLETION_H_

#include "cli/command.h"

namespace pipework {

int Completion(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_COMPLETION_H_
