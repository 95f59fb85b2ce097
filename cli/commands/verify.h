// pipectl verify.
#ifndef PIPEWORK_CLI_COMMANDS_VERIFY_H_
#define PIPEWORK_CLI_COMMANDS_VERIFY_H_

#include "cli/command.h"

namespace pipework {

int Verify(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_VERIFY_H_
