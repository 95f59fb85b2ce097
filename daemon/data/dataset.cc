#include "daemon/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/data/array_dataset.h"
#include "daemon/data/byte_source.h"
#include "daemon/data/csv.h"
#include "daemon/data/idx.h"
#include "daemon/data/npy.h"
#include "daemon/data/random_order.h"
#include "daemon/data/table_dataset.h"
#include "daemon/data/text_dataset.h"
#include "daemon/data/transform.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

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
    return MakeTableDataset(file->name(), std::move(table), transform);
  }
  if (!source.text().empty()) {
    ASSIGN_OR_RETURN(auto file, OpenFile(source.text()));
    return MakeTextDataset(std::move(file), source.length(), transform);
  }
  ASSIGN_OR_RETURN(Array x, OpenArray(source.x()));
  ASSIGN_OR_RETURN(const Array y, OpenArray(source.y()));
  return MakeArrayDataset(std::move(x), y, transform);
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
