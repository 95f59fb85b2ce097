// Typed numbers for the things of the papers. Two of them cannot be swapped,
// added, or mixed up with a count.
#ifndef PIPEWORK_PROTO_IDS_H_
#define PIPEWORK_PROTO_IDS_H_

#include <cstdint>
#include <functional>

namespace pipework {

// A number that only compares with its own kind.
template <typename Tag, typename T = int>
class Id {
 public:
  using Value = T;

  constexpr Id() : value_(0) {}
  constexpr explicit Id(T value) : value_(value) {}
  constexpr T value() const { return value_; }

  friend constexpr bool operator==(Id a, Id b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(Id a, Id b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(Id a, Id b) { return a.value_ < b.value_; }
  friend constexpr bool operator<=(Id a, Id b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>(Id a, Id b) { return a.value_ > b.value_; }
  friend constexpr bool operator>=(Id a, Id b) { return a.value_ >= b.value_; }

  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  T value_;
};

// Stage s of the pipeline, 0 is the input stage.
using StageId = Id<struct StageTag>;
// Replica q of a stage.
using ReplicaId = Id<struct ReplicaTag>;
// A unit of pipelined work, numbered through the whole run: a minibatch where
// the schedule takes minibatches, a microbatch where it takes microbatches.
using UnitId = Id<struct UnitTag, int64_t>;
// A minibatch, numbered through the whole run; a step is one minibatch.
using MinibatchId = Id<struct MinibatchTag, int64_t>;
// Microbatch j of its minibatch.
using MicrobatchId = Id<struct MicrobatchTag>;
// Version v of a stage's weights exists after v updates of that stage.
using WeightVersion = Id<struct WeightVersionTag, int64_t>;
// Attempt n of a job, from 1.
using AttemptId = Id<struct AttemptTag>;

}  // namespace pipework

#endif  // PIPEWORK_PROTO_IDS_H_
