#include "scheduler/passes/jitter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"

namespace pipework {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t Finalise(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

}  // namespace

absl::Status CheckJitter(const Jitter& jitter) {
  for (const double number : {jitter.spread, jitter.delay_probability,
                              jitter.delay_scale, jitter.delay_base_seconds}) {
    if (!std::isfinite(number) || number < 0) {
      return Mismatch("simulation", "a number of the jitter",
                      absl::StrCat(number), "0 or more");
    }
  }
  if (jitter.delay_probability > 1) {
    return Mismatch("simulation", "delay_probability",
                    absl::StrCat(jitter.delay_probability), "0 to 1");
  }
  return absl::OkStatus();
}

uint64_t MixKey(uint64_t key, uint64_t number) {
  return Finalise(key + kGolden + Finalise(number + kGolden));
}

double KeyedDraws::Next() {
  state_ += kGolden;
  return static_cast<double>(Finalise(state_) >> 11) * 0x1p-53;
}

double RowJitter::Apply(const Action& action, double seconds) {
  uint64_t key = jitter_->seed;
  key = MixKey(key, static_cast<uint64_t>(stage_.value()));
  key = MixKey(key, static_cast<uint64_t>(action.kind));
  key = MixKey(key, static_cast<uint64_t>(action.number));
  key = MixKey(key, static_cast<uint64_t>(action.chunk));
  KeyedDraws draws(key);
  if (jitter_->spread > 0) {
    double z = -6;
    for (int i = 0; i < 12; ++i) z += draws.Next();
    seconds *= std::max(0.1, 1 + jitter_->spread * z);
  }
  average_ = average_ < 0 ? seconds : 0.9 * average_ + 0.1 * seconds;
  if (jitter_->delay_probability > 0 &&
      draws.Next() < jitter_->delay_probability) {
    seconds += jitter_->delay_scale *
               std::max(jitter_->delay_base_seconds, average_) *
               (0.5 + draws.Next());
  }
  return seconds;
}

}  // namespace pipework
