#include "daemon/data/text_dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

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

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> MakeTextDataset(
    std::shared_ptr<const ByteSource> source, int64_t length,
    const Transform& transform) {
  return TextDataset::Make(std::move(source), length, transform);
}

}  // namespace pipework
