// ActivationStore holds what the units in flight on one stage replica keep
// until their backward: keyed by unit, never by order of arrival.
//
// Memory:  every buffer is counted once, however many tensors share it.
// Threads: none of its own; the stage executor's thread makes every call.
#ifndef PIPEWORK_DAEMON_EXECUTOR_ACTIVATION_STORE_H_
#define PIPEWORK_DAEMON_EXECUTOR_ACTIVATION_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kernels/layers/layer.h"
#include "kernels/tensor.h"
#include "proto/ids.h"

namespace pipework {

// Everything of one unit on one stage replica.
struct InFlight {
  UnitId unit;
  MinibatchId minibatch;
  MicrobatchId microbatch;
  int64_t first_sample = 0;  // within the minibatch
  int64_t samples = 0;
  WeightVersion forward_version{-1};

  // By slot of the stage (stage_builder.h): received before the forward.
  TensorList inputs;
  // By local layer: what its backward reads again.
  std::vector<Saved> saved;
  // By output edge and tensor: computed, not yet sent.
  std::vector<TensorList> outputs;
  // By output edge and gradient part: received, not yet used.
  std::vector<TensorList> output_gradients;
  // By input edge and gradient part: computed, not yet sent.
  std::vector<TensorList> input_gradients;
};

class ActivationStore {
 public:
  // Makes the flight of `unit`. REQUIRES: there is none yet.
  InFlight& Begin(UnitId unit);
  // The flight of `unit`, nullptr where there is none.
  InFlight* Find(UnitId unit);
  // NotFound: no flight of that unit.
  absl::StatusOr<InFlight*> Get(UnitId unit);

  // Counts the unit's saved tensors anew; call it when its forward is done.
  void Recount(InFlight& flight);
  // Forgets the unit.
  void End(UnitId unit);
  // Forgets every unit (after an error).
  void Clear();

  // Calls `visit` for every unit that has been forwarded and keeps something
  // for its backward, in no order.
  template <typename Visit>
  void ForEachForwarded(Visit visit) const {
    for (const auto& [unit, entry] : flights_) {
      if (entry->counted) visit(entry->flight);
    }
  }

  // Units that have been forwarded and not yet been backwarded.
  int in_flight() const { return in_flight_; }
  int peak_in_flight() const { return peak_in_flight_; }
  // Bytes kept for backwards, now and at most.
  int64_t bytes() const { return bytes_; }
  int64_t peak_bytes() const { return peak_bytes_; }
  // Flights that exist, whatever their state.
  int flights() const { return static_cast<int>(flights_.size()); }

 private:
  struct Entry {
    InFlight flight;
    int64_t counted_bytes = 0;
    bool counted = false;
  };

  void Uncount(Entry& entry);

  absl::flat_hash_map<UnitId, std::unique_ptr<Entry>> flights_;
  std::vector<std::unique_ptr<Entry>> spare_;  // keeps vectors' capacity
  std::vector<const void*> seen_;              // scratch of Recount
  int in_flight_ = 0;
  int peak_in_flight_ = 0;
  int64_t bytes_ = 0;
  int64_t peak_bytes_ = 0;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_ACTIVATION_STORE_H_
