// pipectl plan.
#ifndef PIPEWORK_CLI_COMMANDS_PLAN_H_
#define PIPEWORK_CLI_COMMANDS_PLAN_H_

#include "cli/command.h"

namespace pipework {

int PlanCommand(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_PLAN_H_
