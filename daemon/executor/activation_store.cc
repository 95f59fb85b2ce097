#include "daemon/executor/activation_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/check.h"

namespace pipework {
namespace {

// Empties the lists and keeps their capacity.
void Reset(InFlight& flight) {
  flight.inputs.clear();
  for (Saved& saved : flight.saved) saved.tensors.clear();
  for (TensorList& list : flight.outputs) list.clear();
  for (TensorList& list : flight.output_gradients) list.clear();
  for (TensorList& list : flight.input_gradients) list.clear();
  flight.forward_version = WeightVersion(-1);
}

}  // namespace

InFlight& ActivationStore::Begin(UnitId unit) {
  std::unique_ptr<Entry> entry;
  if (spare_.empty()) {
    entry = std::make_unique<Entry>();
  } else {
    entry = std::move(spare_.back());
    spare_.pop_back();
  }
  entry->flight.unit = unit;
  InFlight& flight = entry->flight;
  const bool fresh = flights_.emplace(unit, std::move(entry)).second;
  PIPE_CHECK(fresh);
  return flight;
}

InFlight* ActivationStore::Find(UnitId unit) {
  const auto it = flights_.find(unit);
  return it == flights_.end() ? nullptr : &it->second->flight;
}

absl::StatusOr<InFlight*> ActivationStore::Get(UnitId unit) {
  InFlight* flight = Find(unit);
  if (flight == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("activation store: unit ", unit.value(),
                     " is not in flight, expected its forward before"));
  }
  return flight;
}

void ActivationStore::Recount(InFlight& flight) {
  Entry& entry = *flights_.at(flight.unit);
  Uncount(entry);
  seen_.clear();
  int64_t bytes = 0;
  for (const Saved& saved : flight.saved) {
    for (const Tensor& tensor : saved.tensors) {
      if (tensor.empty()) continue;
      const void* identity = tensor.identity();
      if (std::find(seen_.begin(), seen_.end(), identity) != seen_.end()) {
        continue;
      }
      seen_.push_back(identity);
      bytes += tensor.bytes();
    }
  }
  entry.counted_bytes = bytes;
  entry.counted = true;
  bytes_ += bytes;
  ++in_flight_;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  peak_in_flight_ = std::max(peak_in_flight_, in_flight_);
}

void ActivationStore::Uncount(Entry& entry) {
  if (!entry.counted) return;
  entry.counted = false;
  bytes_ -= entry.counted_bytes;
  --in_flight_;
}

void ActivationStore::End(UnitId unit) {
  const auto it = flights_.find(unit);
  if (it == flights_.end()) return;
  Uncount(*it->second);
  Reset(it->second->flight);
  spare_.push_back(std::move(it->second));
  flights_.erase(it);
}

void ActivationStore::Clear() {
  flights_.clear();
  in_flight_ = 0;
  bytes_ = 0;
}

}  // namespace pipework
