// Every check of a spec that needs no data and no cluster.
#ifndef PIPEWORK_DAEMON_SPEC_CHECKS_H_
#define PIPEWORK_DAEMON_SPEC_CHECKS_H_

#include "daemon/spec/defaults.h"
#include "daemon/spec/problems.h"
#include "proto/job.pb.h"

namespace pipework {

// Adds what is missing, out of range, unknown or contradictory in `spec`,
// whose defaults are filled in. Fields that are spoilt are passed over.
void CheckFields(const v1::JobSpec& spec, const IsGiven& is_given,
                 Problems* problems);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_CHECKS_H_
