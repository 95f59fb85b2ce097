// pipectl schedule.
#ifndef PIPEWORK_CLI_COMMANDS_SCHEDULE_H_
#define PIPEWORK_CLI_COMMANDS_SCHEDULE_H_

#include "cli/command.h"

namespace pipework {

int ScheduleCommand(Invocation& invocation);

}  // namespace pipework

#endif  // PIPEWORK_CLI_COMMANDS_SCHEDULE_H_
