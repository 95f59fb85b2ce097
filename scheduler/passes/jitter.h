// Times that vary, the same on every machine.
//
// A draw depends on the seed and on what is computed, not on when, so two
// schedules of the same work meet the same slow tasks. Additions and
// multiplications of doubles only: equal seeds give equal bits everywhere.
#ifndef PIPEWORK_SCHEDULER_PASSES_JITTER_H_
#define PIPEWORK_SCHEDULER_PASSES_JITTER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "scheduler/action.h"

namespace pipework {

struct Jitter {
  uint64_t seed = 0;
  // Each computing takes its time times max(0.1, 1 + spread z), z a draw of
  // mean 0 and deviation 1 (twelve uniform draws, summed, less 6).
  double spread = 0;
  // With this probability it takes longer by
  //   delay_scale max(delay_base_seconds, e) (0.5 + u),
  // u uniform in 0..1, e the row's moving average of its times (0.9 old, 0.1
  // new): the injection of RRFP, section 6.7 of the algorithms.
  double delay_probability = 0;
  double delay_scale = 0;
  double delay_base_seconds = 0;

  bool any() const { return spread > 0 || delay_probability > 0; }
};

// InvalidArgument: a field is negative, no number, or a probability above 1.
absl::Status CheckJitter(const Jitter& jitter);

// The draws of one row.
class RowJitter {
 public:
  RowJitter(const Jitter& jitter, StageId stage)
      : jitter_(&jitter), stage_(stage) {}

  // What `seconds` of `action` become.
  double Apply(const Action& action, double seconds);

 private:
  const Jitter* jitter_;
  StageId stage_;
  double average_ = -1;  // e; -1: nothing ran yet
};

// Uniform draws in 0..1 from a key: draw(0), draw(1), ..
class KeyedDraws {
 public:
  explicit KeyedDraws(uint64_t key) : state_(key) {}

  // In [0, 1), 53 bits.
  double Next();

 private:
  uint64_t state_;
};

// A key of several numbers.
uint64_t MixKey(uint64_t key, uint64_t number);

}  // namespace pipework

#endif  // PIPEWORK_SCHEDULER_PASSES_JITTER_H_
