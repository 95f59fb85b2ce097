// Ctrl-C and its kin, noticed without a handler that does anything.
#ifndef PIPEWORK_CLI_INTERRUPT_H_
#define PIPEWORK_CLI_INTERRUPT_H_

namespace pipework {

// SIGINT, SIGTERM and SIGHUP are counted from now on instead of killing us.
void CatchInterrupts();
// How many came.
int Interrupts();

}  // namespace pipework

#endif  // PIPEWORK_CLI_INTERRUPT_H_
