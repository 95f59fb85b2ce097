// A data plane with faults on purpose, around another one: for tests.
#ifndef PIPEWORK_DAEMON_TRANSPORT_FAULTY_H_
#define PIPEWORK_DAEMON_TRANSPORT_FAULTY_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "daemon/transport/transport.h"

namespace pipework {

struct Faults {
  uint64_t seed = 1;
  // Each message is held for a time between 0 and this, so that messages
  // overtake one another.
  absl::Duration delay;
  // Collects up to so many messages and lets them go in another order (those
  // that are left: after two milliseconds). 0: no.
  int shuffle = 0;
  // Probabilities.
  double drop = 0;
  double repeat = 0;
  double corrupt_id = 0;  // another number, tensor or receiver
};

// Takes `inner`. What goes wrong when a held message is let go (a repeated or
// corrupt one is refused) is not reported: the sender has moved on.
std::unique_ptr<DataPlane> MakeFaultyPlane(std::unique_ptr<DataPlane> inner,
                                           const Faults& faults);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_TRANSPORT_FAULTY_H_
