#include "daemon/executor/weight_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {

WeightStore::WeightStore(std::shared_ptr<Allocator> allocator,
                         TensorList initial, WeightVersion first)
    : allocator_(std::move(allocator)),
      newest_(first),
      version_bytes_(TotalBytes(initial)) {
  versions_.push_back({first, std::move(initial)});
}

absl::StatusOr<const TensorList*> WeightStore::Get(
    WeightVersion version) const {
  for (auto it = versions_.rbegin(); it != versions_.rend(); ++it) {
    if (it->number == version) return &it->weights;
  }
  return absl::NotFoundError(absl::StrCat(
      "weight store: version ", version.value(), " is not held, expected ",
      versions_.front().number.value(), " to ", newest_.value()));
}

void WeightStore::GiveUpBelow(WeightVersion oldest) {
  while (versions_.size() > 1 && versions_.front().number < oldest) {
    spare_ = std::move(versions_.front().weights);
    versions_.pop_front();
  }
}

absl::StatusOr<TensorList*> WeightStore::BeginUpdate(
    WeightVersion oldest_asked_for) {
  PIPE_CHECK(!open_);
  PIPE_CHECK(oldest_asked_for.value() <= newest_.value() + 1);
  GiveUpBelow(oldest_asked_for);
  if (oldest_asked_for > newest_) {
    spare_.clear();
    in_place_ = true;
    open_ = true;
    return &versions_.back().weights;
  }
  pending_ = std::move(spare_);
  spare_.clear();
  if (pending_.empty()) {
    TensorList fresh;
    fresh.reserve(newest_weights().size());
    for (const Tensor& weight : newest_weights()) {
      ASSIGN_OR_RETURN(Tensor copy,
                       Tensor::Allocate(*allocator_, weight.shape(),
                                        weight.dtype(), MemoryUse::kWeights));
      fresh.push_back(std::move(copy));
    }
    pending_ = std::move(fresh);
  }
  in_place_ = false;
  open_ = true;
  peak_count_ = std::max(peak_count_, versions());
  return &pending_;
}

WeightVersion WeightStore::CommitUpdate() {
  PIPE_CHECK(open_);
  open_ = false;
  newest_ = WeightVersion(newest_.value() + 1);
  if (in_place_) {
    versions_.back().number = newest_;
  } else {
    versions_.push_back({newest_, std::move(pending_)});
    pending_.clear();
  }
  return newest_;
}

void WeightStore::KeepNewestOnly() {
  PIPE_CHECK(!open_);
  GiveUpBelow(newest_);
  spare_.clear();
}

void WeightStore::Renumber(WeightVersion number) {
  PIPE_CHECK(!open_ && versions_.size() == 1);
  newest_ = number;
  versions_.back().number = number;
}

int WeightStore::versions() const {
  return static_cast<int>(versions_.size()) + (open_ && !in_place_ ? 1 : 0);
}

int WeightStore::peak_versions() const {
  if (version_bytes_ == 0) return peak_count_;
  return static_cast<int>(allocator_->peak_bytes(MemoryUse::kWeights) /
                          version_bytes_);
}

}  // namespace pipework
