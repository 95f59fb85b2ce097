#include "daemon/runner/control_message.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/errors.h"

namespace pipework {
namespace {

absl::Status Refuse(absl::string_view text, absl::string_view wanted) {
  return Mismatch("control message", "text",
                  absl::StrCat("\"", text.substr(0, 80), "\""), wanted);
}

// The words after the first. Peers may send anything.
class Words {
 public:
  explicit Words(absl::string_view text)
      : words_(absl::StrSplit(text, ' ', absl::SkipEmpty())) {}

  bool more() const { return next_ < words_.size(); }
  size_t left() const { return words_.size() - next_; }

  template <typename T>
  bool Take(T* out) {
    return more() && absl::SimpleAtoi(words_[next_++], out);
  }
  bool Take(bool* out) {
    int value = 0;
    if (!Take(&value) || (value != 0 && value != 1)) return false;
    *out = value == 1;
    return true;
  }
  bool Take(double* out) {
    return more() && absl::SimpleAtod(words_[next_++], out);
  }

 private:
  std::vector<absl::string_view> words_;
  size_t next_ = 1;
};

constexpr size_t kRecordWords = 7;

}  // namespace

absl::StatusOr<ControlKind> KindOf(absl::string_view text) {
  const absl::string_view word = text.substr(0, text.find(' '));
  if (word == "segment") return ControlKind::kSegment;
  if (word == kStopText) return ControlKind::kStop;
  if (word == kFinishText) return ControlKind::kFinish;
  if (word == "losses") return ControlKind::kLosses;
  if (word == "done") return ControlKind::kDone;
  return Refuse(text, "segment, stop, finish, losses or done");
}

std::string EncodeSegment(const Segment& segment) {
  std::string text = absl::StrCat(
      "segment ", segment.first_minibatch, " ", segment.minibatches, " ",
      segment.evaluation ? 1 : 0, " ", segment.save ? 1 : 0);
  for (const int64_t version : segment.first_versions) {
    absl::StrAppend(&text, " ", version);
  }
  return text;
}

absl::StatusOr<Segment> DecodeSegment(absl::string_view text) {
  Segment segment;
  Words words(text);
  bool good = words.Take(&segment.first_minibatch) &&
              words.Take(&segment.minibatches) &&
              words.Take(&segment.evaluation) && words.Take(&segment.save);
  while (good && words.more()) {
    segment.first_versions.push_back(0);
    good = words.Take(&segment.first_versions.back());
  }
  if (!good) return Refuse(text, "segment FIRST COUNT 0|1 0|1 VERSION...");
  return segment;
}

std::string EncodeLosses(const std::vector<LossRecord>& records) {
  std::string text = "losses";
  for (const LossRecord& r : records) {
    absl::StrAppendFormat(&text, " %d %d %d %.17g %d %d %.17g",
                          r.evaluation ? 1 : 0, r.unit, r.minibatch, r.loss_sum,
                          r.right, r.samples, r.at_seconds);
  }
  return text;
}

absl::StatusOr<std::vector<LossRecord>> DecodeLosses(absl::string_view text) {
  Words words(text);
  std::vector<LossRecord> records;
  bool good = words.left() % kRecordWords == 0;
  while (good && words.more()) {
    LossRecord r;
    good = words.Take(&r.evaluation) && words.Take(&r.unit) &&
           words.Take(&r.minibatch) && words.Take(&r.loss_sum) &&
           words.Take(&r.right) && words.Take(&r.samples) &&
           words.Take(&r.at_seconds);
    records.push_back(r);
  }
  if (!good) return Refuse(text, "losses and seven numbers for each unit");
  return records;
}

std::string EncodeDone(const SegmentDone& done) {
  return absl::StrCat("done ", done.step, " ", done.version, " ",
                      static_cast<int>(done.saved.code()), " ",
                      done.saved.message());
}

absl::StatusOr<SegmentDone> DecodeDone(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 4));
  SegmentDone done;
  int code = 0;
  if (parts.size() < 5 || !absl::SimpleAtoi(parts[1], &done.step) ||
      !absl::SimpleAtoi(parts[2], &done.version) ||
      !absl::SimpleAtoi(parts[3], &code) || code < 0 || code > 16) {
    return Refuse(text, "done STEP VERSION CODE MESSAGE");
  }
  done.saved = absl::Status(static_cast<absl::StatusCode>(code), parts[4]);
  return done;
}

}  // namespace pipework
