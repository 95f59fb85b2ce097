#include "daemon/data/table_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A CSV table, in memory.
class TableDataset final : public Dataset {
 public:
  static absl::StatusOr<std::shared_ptr<const Dataset>> Make(
      const std::string& name, Table table, const Transform& transform) {
    auto data = std::make_shared<TableDataset>();
    if (table.rows() == 0) {
      return Mismatch(name, "number of rows", "0", "at least 1");
    }
    const auto width = static_cast<int64_t>(table.columns.size());
    data->sample_shape_ = Shape({width});
    for (int64_t row = 0; row < table.rows(); ++row) {
      const std::string where =
          absl::StrCat(name, ":", table.lines[static_cast<size_t>(row)]);
      const double value = table.labels[static_cast<size_t>(row)];
      if (!IsLabel(value)) {
        return Mismatch(where, "label", absl::StrCat(value), kLabelWanted);
      }
      const auto label = static_cast<int32_t>(value);
      data->classes_ = std::max(data->classes_, int64_t{label} + 1);
      data->y_.push_back(label);
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        float& x = table.values[static_cast<size_t>(i)];
        const float raw = x;
        x = transform(raw);
        if (std::isfinite(x)) continue;
        return Mismatch(where, table.columns[static_cast<size_t>(i % width)],
                        absl::StrCat(raw), kSampleWanted);
      }
    }
    data->x_ = std::move(table.values);
    return std::shared_ptr<const Dataset>(std::move(data));
  }

  int64_t size() const override { return static_cast<int64_t>(y_.size()); }
  const Shape& sample_shape() const override { return sample_shape_; }
  const Shape& label_shape() const override { return label_shape_; }
  int64_t classes() const override { return classes_; }

  absl::Status Read(absl::Span<const int64_t> indices, float* x,
                    int32_t* y) const override {
    const int64_t width = sample_shape_.elements();
    for (int64_t index : indices) {
      x = std::copy_n(x_.begin() + index * width, width, x);
      *y++ = y_[static_cast<size_t>(index)];
    }
    return absl::OkStatus();
  }

 private:
  std::vector<float> x_;  // transformed
  std::vector<int32_t> y_;
  Shape sample_shape_;
  Shape label_shape_;
  int64_t classes_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> MakeTableDataset(
    const std::string& name, Table table, const Transform& transform) {
  return TableDataset::Make(name, std::move(table), transform);
}

}  // namespace pipework
