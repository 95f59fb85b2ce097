#include "daemon/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/data/array.h"
#include "daemon/data/byte_source.h"
#include "daemon/data/csv.h"
#include "daemon/data/idx.h"
#include "daemon/data/npy.h"
#include "daemon/data/random_order.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kBlock = 4096;              // elements looked at in one go
constexpr double kLabelLimit = 2147483648.0;  // labels lie below 2^31

// x * scale, then (x - mean) / std; in double, rounded once.
class Transform {
 public:
  explicit Transform(const v1::DataSpec& spec)
      : scale_(spec.scale() == 0 ? 1 : spec.scale()),
        mean_(spec.normalise().mean()),
        std_(spec.normalise().std() == 0 ? 1 : spec.normalise().std()) {}

  float operator()(double x) const {
    return static_cast<float>((x * scale_ - mean_) / std_);
  }

 private:
  double scale_;
  double mean_;
  double std_;
};

std::string NumberText(double value) { return absl::StrCat(value); }

// One label as i32; `where` speaks when it is none.
template <typename Where>
absl::StatusOr<int32_t> Label(double value, Where where) {
  if (!(value >= 0 && value < kLabelLimit) || value != std::floor(value)) {
    return where(NumberText(value));
  }
  return static_cast<int32_t>(value);
}

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
            NumberText(block[i]),
            "a number that is finite as f32 after scale and normalise");
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
        ASSIGN_OR_RETURN(
            const int32_t label, Label(block[i], [&](const std::string& got) {
              return ErrorAt(y.source->name(), y.OffsetOf(done + i),
                             absl::StrCat("label of sample ",
                                          (done + i) / label_shape_.elements()),
                             got, "a whole number from 0 to below 2^31");
            }));
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
      ASSIGN_OR_RETURN(const int32_t label,
                       Label(table.labels[static_cast<size_t>(row)],
                             [&](const std::string& got) {
                               return Mismatch(
                                   where, "label", got,
                                   "a whole number from 0 to below 2^31");
                             }));
      data->classes_ = std::max(data->classes_, int64_t{label} + 1);
      data->y_.push_back(label);
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        float& x = table.values[static_cast<size_t>(i)];
        const float raw = x;
        x = transform(raw);
        if (std::isfinite(x)) continue;
        return Mismatch(
            where, table.columns[static_cast<size_t>(i % width)],
            NumberText(raw),
            "a number that is finite as f32 after scale and normalise");
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

// Sample i is bytes [i * length, (i + 1) * length), its labels the same range
// one byte further on.
class TextDataset final : public Dataset {
 public:
  static absl::StatusOr<std::shared_ptr<const Dataset>> Make(
      std::shared_ptr<const ByteSource> source, int64_t length,
      const Transform& transform) {
    if (length < 1) {
      return Mismatch(source->name(), "length of a sample",
                      absl::StrCat(length), "at least 1 byte");
    }
    if (source->size() - 1 < length) {
      return ErrorAt(source->name(), source->size(), "the text",
                     absl::StrCat(source->size(), " bytes long"),
                     absl::StrCat("at least ", length,
                                  " bytes for one sample, and one more"),
                     "shorten data.train.length");
    }
    auto data = std::make_shared<TextDataset>(transform);
    data->size_ = (source->size() - 1) / length;
    data->shape_ = Shape({length});
    std::vector<char> block(
        static_cast<size_t>(std::min<int64_t>(source->size(), 64 << 10)));
    for (int64_t at = 0; at < source->size();) {
      const int64_t n = std::min<int64_t>(static_cast<int64_t>(block.size()),
                                          source->size() - at);
      RETURN_IF_ERROR(source->Read(at, absl::MakeSpan(block.data(), n)));
      for (int64_t i = 0; i < n; ++i) {
        data->classes_ = std::max<int64_t>(
            data->classes_,
            static_cast<unsigned char>(block[static_cast<size_t>(i)]) + 1);
      }
      at += n;
    }
    data->source_ = std::move(source);
    return std::shared_ptr<const Dataset>(std::move(data));
  }

  explicit TextDataset(const Transform& transform) : transform_(transform) {}

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  const Shape& label_shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }

  absl::Status Read(absl::Span<const int64_t> indices, float* x,
                    int32_t* y) const override {
    const int64_t length = shape_.elements();
    std::string bytes(static_cast<size_t>(length + 1), '\0');
    for (int64_t index : indices) {
      RETURN_IF_ERROR(source_->Read(index * length, absl::MakeSpan(bytes)));
      for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
        *x++ = transform_(static_cast<unsigned char>(bytes[i]));
        *y++ = static_cast<unsigned char>(bytes[i + 1]);
      }
    }
    return absl::OkStatus();
  }

 private:
  const Transform transform_;
  std::shared_ptr<const ByteSource> source_;
  int64_t size_ = 0;
  Shape shape_;
  int64_t classes_ = 0;
};

// Some samples of another set, under the number of classes that train and
// test have together.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> chosen,
         int64_t classes)
      : whole_(std::move(whole)),
        chosen_(std::move(chosen)),
        classes_(classes) {}

  int64_t size() const override { return static_cast<int64_t>(chosen_.size()); }
  const Shape& sample_shape() const override { return whole_->sample_shape(); }
  const Shape& label_shape() const override { return whole_->label_shape(); }
  int64_t classes() const override { return classes_; }

  absl::Status Read(absl::Span<const int64_t> indices, float* x,
                    int32_t* y) const override {
    std::vector<int64_t> of_whole;
    of_whole.reserve(indices.size());
    for (int64_t i : indices) {
      of_whole.push_back(chosen_[static_cast<size_t>(i)]);
    }
    return whole_->Read(of_whole, x, y);
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::vector<int64_t> chosen_;
  const int64_t classes_;
};

absl::StatusOr<Array> OpenArray(const std::string& path) {
  const size_t hash = path.rfind('#');
  if (hash != std::string::npos &&
      absl::EndsWith(path.substr(0, hash), ".npz")) {
    ASSIGN_OR_RETURN(auto file, OpenFile(path.substr(0, hash)));
    return ReadNpz(std::move(file), path.substr(hash + 1));
  }
  if (absl::EndsWith(path, ".npy")) {
    ASSIGN_OR_RETURN(auto file, OpenFile(path));
    return ReadNpy(std::move(file));
  }
  if (absl::EndsWith(path, "-ubyte")) {
    ASSIGN_OR_RETURN(auto file, OpenFile(path));
    return ReadIdx(std::move(file));
  }
  if (absl::EndsWith(path, "-ubyte.gz")) {
    ASSIGN_OR_RETURN(auto file, OpenFile(path));
    return ReadIdxGz(std::move(file));
  }
  return Mismatch(path, "its ending", "none that is known",
                  ".npy, .npz#KEY, -ubyte or -ubyte.gz");
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenSource(
    const v1::Source& source, const Transform& transform) {
  if (!source.csv().empty()) {
    ASSIGN_OR_RETURN(auto file, OpenFile(source.csv()));
    ASSIGN_OR_RETURN(Table table, ReadCsv(*file, source.label()));
    return TableDataset::Make(file->name(), std::move(table), transform);
  }
  if (!source.text().empty()) {
    ASSIGN_OR_RETURN(auto file, OpenFile(source.text()));
    return TextDataset::Make(std::move(file), source.length(), transform);
  }
  ASSIGN_OR_RETURN(Array x, OpenArray(source.x()));
  ASSIGN_OR_RETURN(const Array y, OpenArray(source.y()));
  return ArrayDataset::Make(std::move(x), y, transform);
}

std::string SourceName(const v1::Source& source) {
  return !source.csv().empty()    ? source.csv()
         : !source.text().empty() ? source.text()
                                  : source.x();
}

// The file that its labels come from.
std::string LabelName(const v1::Source& source) {
  return source.y().empty() ? SourceName(source) : source.y();
}

std::vector<int64_t> Range(int64_t first, int64_t end) {
  std::vector<int64_t> indices(static_cast<size_t>(end - first));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

absl::StatusOr<DataSets> Split(std::shared_ptr<const Dataset> all,
                               const v1::DataSpec& spec) {
  const v1::SplitSpec& split = spec.split();
  const int64_t n = all->size();
  const std::string who = SourceName(spec.train());
  std::vector<int64_t> train;
  std::vector<int64_t> test;
  if (split.test() > 0) {
    if (split.test() >= n) {
      return Mismatch(who, "data.split.test", absl::StrCat(split.test()),
                      absl::StrCat("below ", n, ", the number of samples"));
    }
    const std::vector<int64_t> order = RandomOrder(n, split.seed(), 0);
    test.assign(order.begin(), order.begin() + split.test());
    train.assign(order.begin() + split.test(), order.end());
    // In file order: which samples, not their order, is what the seed draws.
    std::sort(test.begin(), test.end());
    std::sort(train.begin(), train.end());
  } else {
    if (split.first() < 1 || split.last() < 1 || split.first() > n ||
        split.last() > n - split.first()) {
      return Mismatch(
          who, "data.split",
          absl::StrCat("first ", split.first(), " and last ", split.last()),
          absl::StrCat("at least 1 each, and together at most ", n,
                       ", the number of samples"));
    }
    train = Range(0, split.first());
    test = Range(n - split.last(), n);
  }
  DataSets sets;
  sets.train = std::make_shared<Subset>(all, std::move(train), all->classes());
  sets.test = std::make_shared<Subset>(all, std::move(test), all->classes());
  return sets;
}

}  // namespace

absl::StatusOr<DataSets> OpenData(const v1::DataSpec& spec) {
  const Transform transform(spec);
  ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> train,
                   OpenSource(spec.train(), transform));
  if (!spec.has_test()) return Split(std::move(train), spec);

  ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> test,
                   OpenSource(spec.test(), transform));
  const std::string who = SourceName(spec.test());
  if (test->sample_shape() != train->sample_shape()) {
    return Mismatch(who, "shape of a sample", test->sample_shape().ToString(),
                    absl::StrCat(train->sample_shape().ToString(), ", as in ",
                                 SourceName(spec.train())));
  }
  if (test->label_shape() != train->label_shape()) {
    return Mismatch(LabelName(spec.test()), "shape of a label",
                    test->label_shape().ToString(),
                    absl::StrCat(train->label_shape().ToString(), ", as in ",
                                 LabelName(spec.train())));
  }
  const int64_t classes = std::max(train->classes(), test->classes());
  DataSets sets;
  sets.train =
      std::make_shared<Subset>(train, Range(0, train->size()), classes);
  sets.test = std::make_shared<Subset>(test, Range(0, test->size()), classes);
  return sets;
}

}  // namespace pipework
