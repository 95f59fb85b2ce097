// How long stages and cuts take, from what is known of layers and links.
#ifndef PIPEWORK_PARTITIONER_COST_MODEL_H_
#define PIPEWORK_PARTITIONER_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pipework {

// A link between components of one level.
struct Link {
  double bytes_per_second = 0;  // 0: free
  double latency_seconds = 0;   // per message
  // The part of a message's seconds in which a processor at either end cannot
  // compute, as measured: 0 where transfers overlap with computing entirely.
  double compute_share = 0;

  double Seconds(double bytes) const;
};

// What one stage does per minibatch, before it is replicated.
struct StageLoad {
  // With the update, which each replica makes once for its own minibatch. Of a
  // stage over components of an inner level: that of their slowest stage.
  double compute_seconds = 0;
  double weight_bytes = 0;   // synchronised between replicas
  double input_bytes = 0;    // from earlier stages; a gradient goes back
  double output_bytes = 0;   // to later stages; a gradient comes back
  int inner_components = 1;  // of the level below, in each replica
};

// Pure. All times are per minibatch.
class CostModel {
 public:
  virtual ~CostModel() = default;

  // A stage on `m` replicas that are joined by `link`. Never below
  // compute_seconds / m, and never less for more of compute_seconds: the
  // partitioners leave out what cannot pay on that ground.
  virtual double StageSeconds(const StageLoad& load, int m,
                              const Link& link) const = 0;

  // A cut that `bytes` cross, and their gradient back.
  virtual double CutSeconds(double bytes, const Link& link) const = 0;
};

struct CostModelEntry {
  absl::string_view name;
  absl::string_view summary;
  const CostModel* (*get)();
};

// pipework, paper, public_code.
std::vector<std::string> CostModelNames();

// Lives as long as the process. NotFound lists the known ones.
absl::StatusOr<const CostModel*> FindCostModel(absl::string_view name);

// Seconds of a ring all-reduce of `bytes` over `m` members: each sends and
// receives (m - 1) / m of them twice, in 2 (m - 1) messages.
double RingSeconds(double bytes, int m, const Link& link);

}  // namespace pipework

#endif  // PIPEWORK_PARTITIONER_COST_MODEL_H_
