#include "daemon/data/csv.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr int64_t kBlock = 64 << 10;
constexpr size_t kNamesShown = 12;
constexpr size_t kTextShown = 40;

std::string Shown(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kTextShown)),
                      text.size() > kTextShown ? "..." : "", "\"");
}

// Cuts the bytes into rows of fields, block by block.
class RowReader {
 public:
  explicit RowReader(const ByteSource& source) : source_(source) {}

  // Where the row that Next returned starts.
  int64_t line() const { return row_line_; }

  // False at the end of the file.
  absl::StatusOr<bool> Next(std::vector<std::string>* fields) {
    fields->clear();
    row_line_ = line_;
    ASSIGN_OR_RETURN(int c, Get());
    if (c < 0) return false;
    while (true) {
      std::string field;
      if (c == '"') {
        RETURN_IF_ERROR(Quoted(&field));
        ASSIGN_OR_RETURN(c, Get());
        if (c == '\r') {
          ASSIGN_OR_RETURN(c, Get());
        }
        if (c >= 0 && c != ',' && c != '\n') {
          return Error("what follows a quoted field",
                       Shown(std::string(1, static_cast<char>(c))),
                       "a comma or the end of the line");
        }
      } else {
        while (c >= 0 && c != ',' && c != '\n') {
          if (c == '"') {
            return Error("a quote", "inside a field",
                         "quotes around the whole field");
          }
          field.push_back(static_cast<char>(c));
          ASSIGN_OR_RETURN(c, Get());
        }
        if (!field.empty() && field.back() == '\r' && c != ',') {
          field.pop_back();
        }
      }
      fields->push_back(std::move(field));
      if (c != ',') return true;
      ASSIGN_OR_RETURN(c, Get());
    }
  }

  absl::Status Error(absl::string_view what, absl::string_view got,
                     absl::string_view wanted, absl::string_view remedy = "") {
    return Mismatch(absl::StrCat(source_.name(), ":", row_line_), what, got,
                    wanted, remedy);
  }

 private:
  // The next byte, -1 at the end.
  absl::StatusOr<int> Get() {
    if (at_ == static_cast<int64_t>(block_.size())) {
      const int64_t n = std::min(kBlock, source_.size() - fetched_);
      if (n == 0) return -1;
      block_.resize(static_cast<size_t>(n));
      RETURN_IF_ERROR(source_.Read(fetched_, absl::MakeSpan(block_)));
      at_ = 0;
      if (fetched_ == 0 && block_.compare(0, 3, "\xef\xbb\xbf") == 0) at_ = 3;
      fetched_ += n;
      if (at_ == n) return -1;
    }
    const char c = block_[static_cast<size_t>(at_++)];
    if (c == '\n') ++line_;
    return static_cast<unsigned char>(c);
  }

  // The rest of a quoted field, its last quote included.
  absl::Status Quoted(std::string* field) {
    while (true) {
      ASSIGN_OR_RETURN(const int c, Get());
      if (c < 0) {
        return Error("a quoted field", "open at the end of the file",
                     "a closing quote");
      }
      if (c == '"') {
        if (at_ < static_cast<int64_t>(block_.size())
                ? block_[static_cast<size_t>(at_)] == '"'
                : PeekNextBlock() == '"') {
          ASSIGN_OR_RETURN(const int quote, Get());
          field->push_back(static_cast<char>(quote));
          continue;
        }
        return absl::OkStatus();
      }
      field->push_back(static_cast<char>(c));
    }
  }

  int PeekNextBlock() {
    char c = 0;
    if (fetched_ == source_.size() ||
        !source_.Read(fetched_, absl::MakeSpan(&c, 1)).ok()) {
      return -1;
    }
    return c;
  }

  const ByteSource& source_;
  std::string block_;
  int64_t at_ = 0;       // in block_
  int64_t fetched_ = 0;  // bytes of the source that block_ ends with
  int64_t line_ = 1;
  int64_t row_line_ = 1;
};

bool Number(const std::string& text, double* value) {
  return absl::SimpleAtod(text, value) && std::isfinite(*value);
}

}  // namespace

absl::StatusOr<Table> ReadCsv(const ByteSource& source,
                              absl::string_view label) {
  RowReader reader(source);
  std::vector<std::string> fields;
  ASSIGN_OR_RETURN(bool more, reader.Next(&fields));
  if (!more) {
    return reader.Error("the file", "empty", "a line with column names");
  }
  Table table;
  std::set<std::string> seen;
  size_t label_at = fields.size();
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string name(absl::StripAsciiWhitespace(fields[i]));
    if (!seen.insert(name).second) {
      return reader.Error("column name", Shown(name), "once",
                          "give each column a name of its own");
    }
    if (name == label) {
      label_at = i;
    } else {
      table.columns.push_back(name);
    }
  }
  if (label_at == fields.size()) {
    std::vector<std::string> shown(
        table.columns.begin(),
        table.columns.begin() + std::min(table.columns.size(), kNamesShown));
    for (std::string& name : shown) name = Shown(name);
    if (table.columns.size() > kNamesShown) shown.push_back("...");
    return reader.Error("label column", Shown(label),
                        absl::StrCat("one of ", absl::StrJoin(shown, ", ")));
  }
  if (table.columns.empty()) {
    return reader.Error("number of columns", "1", "a label and features");
  }

  const size_t width = fields.size();
  int64_t empty_line = 0;
  while (true) {
    ASSIGN_OR_RETURN(more, reader.Next(&fields));
    if (!more) break;
    if (fields.size() == 1 && absl::StripAsciiWhitespace(fields[0]).empty()) {
      if (empty_line == 0) empty_line = reader.line();
      continue;
    }
    if (empty_line != 0) {
      return Mismatch(absl::StrCat(source.name(), ":", empty_line), "the line",
                      "empty", absl::StrCat(width, " fields"));
    }
    if (fields.size() != width) {
      return reader.Error("number of fields", absl::StrCat(fields.size()),
                          absl::StrCat(width, ", as in the first line"));
    }
    for (size_t i = 0; i < width; ++i) {
      double value = 0;
      if (!Number(fields[i], &value)) {
        return reader.Error(absl::StrCat("field ", i + 1), Shown(fields[i]),
                            "a finite number");
      }
      if (i == label_at) {
        table.labels.push_back(value);
      } else {
        table.values.push_back(static_cast<float>(value));
        if (!std::isfinite(table.values.back())) {
          return reader.Error(absl::StrCat("field ", i + 1), Shown(fields[i]),
                              "a number within the range of f32");
        }
      }
    }
    table.lines.push_back(reader.line());
  }
  return table;
}

}  // namespace pipework
