#include "daemon/data/array_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kBlock = 4096;  // elements looked at in one go

// Arrays x and y. x stays where it is, y is in memory.
class ArrayDataset final : public Dataset {
 public:
  static absl::StatusOr<std::shared_ptr<const Dataset>> Make(
      Array x, const Array& y, const Transform& transform) {
    auto data = std::shared_ptr<ArrayDataset>(new ArrayDataset(transform));
    data->x_ = std::move(x);
    RETURN_IF_ERROR(data->TakeShapes(y));
    RETURN_IF_ERROR(data->CheckSamples());
    RETURN_IF_ERROR(data->TakeLabels(y));
    return std::shared_ptr<const Dataset>(std::move(data));
  }

  int64_t size() const override { return x_.dims[0]; }
  const Shape& sample_shape() const override { return sample_shape_; }
  const Shape& label_shape() const override { return label_shape_; }
  int64_t classes() const override { return classes_; }

  absl::Status Read(absl::Span<const int64_t> indices, float* x,
                    int32_t* y) const override {
    const int64_t width = sample_shape_.elements();
    const int64_t labels = label_shape_.elements();
    double block[kBlock];
    for (int64_t index : indices) {
      for (int64_t done = 0; done < width;) {
        const int64_t n = std::min(kBlock, width - done);
        RETURN_IF_ERROR(
            x_.Read(index * width + done, absl::MakeSpan(block, n)));
        for (int64_t i = 0; i < n; ++i) *x++ = transform_(block[i]);
        done += n;
      }
      y = std::copy_n(y_.begin() + index * labels, labels, y);
    }
    return absl::OkStatus();
  }

 private:
  explicit ArrayDataset(const Transform& transform) : transform_(transform) {}

  absl::Status TakeShapes(const Array& y) {
    for (const Array* array : {static_cast<const Array*>(&x_), &y}) {
      const bool is_x = array == &x_;
      if (array->dims.empty() || array->elements() <= 0 ||
          (is_x && array->dims.size() < 2)) {
        return Mismatch(
            array->source->name(),
            is_x ? "shape of samples" : "shape of labels",
            DimsText(array->dims),
            is_x ? "(samples, ...), none of them 0" : "(samples) or more");
      }
    }
    if (x_.dims[0] != y.dims[0]) {
      return Mismatch(y.source->name(), "number of labels",
                      absl::StrCat(y.dims[0]),
                      absl::StrCat(x_.dims[0], ", one for each sample of ",
                                   x_.source->name()));
    }
    sample_shape_ =
        Shape(std::vector<int64_t>(x_.dims.begin() + 1, x_.dims.end()));
    label_shape_ =
        Shape(std::vector<int64_t>(y.dims.begin() + 1, y.dims.end()));
    return absl::OkStatus();
  }

  // Every x is a finite f32 after scaling and normalising.
  absl::Status CheckSamples() const {
    const int64_t all = x_.elements();
    double block[kBlock];
    for (int64_t done = 0; done < all;) {
      const int64_t n = std::min(kBlock, all - done);
      RETURN_IF_ERROR(x_.Read(done, absl::MakeSpan(block, n)));
      for (int64_t i = 0; i < n; ++i) {
        if (std::isfinite(transform_(block[i]))) continue;
        return ErrorAt(
            x_.source->name(), x_.OffsetOf(done + i),
            absl::StrCat("sample ", (done + i) / sample_shape_.elements()),
            absl::StrCat(block[i]), kSampleWanted);
      }
      done += n;
    }
    return absl::OkStatus();
  }

  absl::Status TakeLabels(const Array& y) {
    const int64_t all = y.elements();
    double block[kBlock];
    int32_t largest = 0;
    for (int64_t done = 0; done < all;) {
      const int64_t n = std::min(kBlock, all - done);
      RETURN_IF_ERROR(y.Read(done, absl::MakeSpan(block, n)));
      for (int64_t i = 0; i < n; ++i) {
        if (!IsLabel(block[i])) {
          return ErrorAt(y.source->name(), y.OffsetOf(done + i),
                         absl::StrCat("label of sample ",
                                      (done + i) / label_shape_.elements()),
                         absl::StrCat(block[i]), kLabelWanted);
        }
        const auto label = static_cast<int32_t>(block[i]);
        largest = std::max(largest, label);
        y_.push_back(label);
      }
      done += n;
    }
    classes_ = int64_t{largest} + 1;
    return absl::OkStatus();
  }

  const Transform transform_;
  Array x_;
  std::vector<int32_t> y_;
  Shape sample_shape_;
  Shape label_shape_;
  int64_t classes_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> MakeArrayDataset(
    Array x, const Array& y, const Transform& transform) {
  return ArrayDataset::Make(std::move(x), y, transform);
}

}  // namespace pipework
