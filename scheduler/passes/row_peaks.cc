#include "scheduler/passes/row_peaks.h"

#include <algorithm>
#include <map>

namespace pipework {
namespace {

double Of(const std::vector<double>& list, StageId stage) {
  return list.empty() ? 0 : list[stage.value()];
}

bool Reads(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kWeightGradient || kind == ActionKind::kEvaluate;
}

}  // namespace

RowPeaks PeaksOf(const Program& program, const Row& row,
                 const PeakBytes& bytes) {
  int chunks = 1;
  bool split = false;
  // Version -> the last action that reads it.
  std::map<int64_t, size_t> last_read;
  for (size_t i = 0; i < row.actions.size(); ++i) {
    const Action& action = row.actions[i];
    chunks = std::max(chunks, action.chunk + 1);
    split |= action.kind == ActionKind::kWeightGradient;
    if (Reads(action.kind)) last_read[action.version.value()] = i;
  }

  const double activation = Of(bytes.activation_bytes, row.stage) / chunks;
  const double waiting =
      bytes.weight_gradient_bytes.empty()
          ? activation
          : Of(bytes.weight_gradient_bytes, row.stage) / chunks;
  const double version = Of(bytes.version_bytes, row.stage);
  const ActionKind frees = split ? ActionKind::kBackward : ActionKind::kRelease;

  RowPeaks peaks;
  int in_flight = 0;
  int pending = 0;
  int64_t newest = program.segment.first_version(row.stage);
  int versions = 1;  // held now
  const auto look = [&] {
    peaks.in_flight = std::max(peaks.in_flight, in_flight);
    peaks.pending = std::max(peaks.pending, pending);
    peaks.versions = std::max(peaks.versions, versions);
    peaks.peak_bytes =
        std::max(peaks.peak_bytes, in_flight * activation + pending * waiting +
                                       versions * version);
  };
  look();
  for (size_t i = 0; i < row.actions.size(); ++i) {
    const Action& action = row.actions[i];
    const int64_t read = action.version.value();
    if (action.kind == ActionKind::kForward) ++in_flight;
    if (action.kind == ActionKind::kBackward) {
      peaks.staleness =
          std::max(peaks.staleness, static_cast<int>(newest - read));
      if (split) ++pending;
    }
    if (action.kind == ActionKind::kWeightGradient) --pending;
    if (action.kind == frees) --in_flight;
    if (action.kind == ActionKind::kUpdate) {
      // The old newest stays where somebody still reads it, else the new one
      // takes its place.
      const auto found = last_read.find(newest);
      if (found != last_read.end() && found->second > i) ++versions;
      newest = read;
    }
    look();
    if (Reads(action.kind) && read != newest && last_read[read] == i) {
      --versions;
    }
  }
  return peaks;
}

}  // namespace pipework
