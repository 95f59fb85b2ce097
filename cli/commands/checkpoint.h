// pipectl checkpoint ls|verify|export.
#ifndef PIPEWORK_CLI_COMMANDS_CHECKPOINT_H_
#define PIPEWORK_CLI_COMMANDS_CHECKPOINT_H_

#include "cli/command.h"

namespace pipework {

int CheckpointLs(Invocation& invocation);
int CheckpointVerify(Invocation& invocation);
int CheckpointExport(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_CHECKPOINT_H_
