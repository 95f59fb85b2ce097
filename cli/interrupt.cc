#include "cli/interrupt.h"

#include <signal.h>

#include <atomic>
#include <initializer_list>

namespace pipework {
namespace {

std::atomic<int> interrupts{0};

void Count(int) { interrupts.fetch_add(1); }

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = &Count;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(signal, &action, nullptr);
  }
}

int Interrupts() { return interrupts.load(); }

}  // namespace pipework
