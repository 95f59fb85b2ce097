// pipectl validate and explain.
#ifndef PIPEWORK_CLI_COMMANDS_SPEC_H_
#define PIPEWORK_CLI_COMMANDS_SPEC_H_

#include "cli/command.h"

namespace pipework {

int Validate(Invocation& invocation);
int Explain(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_SPEC_H_
