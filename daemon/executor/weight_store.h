// WeightStore holds the parameter versions that units in flight still read on
// one stage replica.
//
// Memory:  one copy of the stage's parameters per live version; a new copy is
//          made only where somebody may still ask for the newest one.
// Threads: none of its own; the stage executor's thread makes every call.
#ifndef PIPEWORK_DAEMON_EXECUTOR_WEIGHT_STORE_H_
#define PIPEWORK_DAEMON_EXECUTOR_WEIGHT_STORE_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/tensor.h"
#include "proto/ids.h"

namespace pipework {

class WeightStore {
 public:
  // Takes `initial`, whose buffers are of use kWeights and come from
  // `allocator`, over as version `first`. The allocator serves no other
  // weights, so its count of kWeights is the count of versions.
  WeightStore(std::shared_ptr<Allocator> allocator, TensorList initial,
              WeightVersion first);

  // The parameters of `version`, valid until a BeginUpdate that gives the
  // version up. NotFound: it was given up, or there never was one.
  absl::StatusOr<const TensorList*> Get(WeightVersion version) const;

  WeightVersion newest() const { return newest_; }
  const TensorList& newest_weights() const { return versions_.back().weights; }

  // Gives up every version below `oldest_asked_for`, then returns the buffers
  // to write version newest() + 1 into: the newest version's own when nobody
  // asks for it again (oldest_asked_for is newest() + 1), else fresh ones of
  // unspecified content, for which buffers that were given up are used again.
  // The newest version can be read until CommitUpdate in both cases.
  // ResourceExhausted: no memory for the copy; the store is as it was, but for
  // the versions given up.
  // REQUIRES: no update is open; oldest_asked_for <= newest() + 1.
  absl::StatusOr<TensorList*> BeginUpdate(WeightVersion oldest_asked_for);

  // Makes those buffers the newest version and returns its number.
  WeightVersion CommitUpdate();

  // Gives up all but the newest version: nothing is in flight.
  void KeepNewestOnly();

  // Gives the newest version another number: a run that goes on counts from
  // there. REQUIRES: it is the only one, and no update is open.
  void Renumber(WeightVersion number);

  // Versions whose buffers exist now, the one being written included.
  int versions() const;

  // Bytes of one version.
  int64_t version_bytes() const { return version_bytes_; }

  // Most versions held at once, newest included, counted from the allocator's
  // peak of kWeights; by the store's own count for a stage without parameters.
  int peak_versions() const;

 private:
  struct Version {
    WeightVersion number;
    TensorList weights;
  };

  void GiveUpBelow(WeightVersion oldest);

  std::shared_ptr<Allocator> allocator_;
  std::deque<Version> versions_;  // ascending; the last one is the newest
  WeightVersion newest_;
  TensorList spare_;    // given up by the BeginUpdate in progress
  TensorList pending_;  // being written, where not in place
  bool open_ = false;
  bool in_place_ = false;
  int64_t version_bytes_ = 0;
  int peak_count_ = 1;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_EXECUTOR_WEIGHT_STORE_H_
