#include "kernels/layers/args.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/errors.h"

namespace pipework {
namespace {

// Single-character edits between two names.
int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string RangeText(int64_t min, int64_t max) {
  if (max >= ArgReader::kMax) {
    return absl::StrCat("a whole number, at least ", min);
  }
  return absl::StrCat("a whole number from ", min, " to ", max);
}

}  // namespace

std::string Printable(absl::string_view text) {
  constexpr size_t kMost = 60;
  std::string out;
  for (char c : text.substr(0, kMost)) {
    out += (c >= 0x20 && c < 0x7f) ? c : '?';
  }
  return out + (text.size() > kMost ? "..." : "");
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Printable(text), "\"");
}

std::string NearestName(absl::string_view name,
                        absl::Span<const absl::string_view> known) {
  if (name.size() > 64) return "";
  std::string best;
  int least = static_cast<int>(name.size()) / 3 + 2;
  for (absl::string_view candidate : known) {
    const int distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

std::string ArgText(const v1::Arg& arg) {
  switch (arg.value_case()) {
    case v1::Arg::kIntValue:
      return absl::StrCat(arg.int_value());
    case v1::Arg::kRealValue:
      return absl::StrCat(arg.real_value());
    case v1::Arg::kBoolValue:
      return arg.bool_value() ? "true" : "false";
    case v1::Arg::kTextValue:
      return Quoted(arg.text_value());
    case v1::Arg::kIntsValue: {
      const auto& values = arg.ints_value().values();
      constexpr int kMost = 8;
      std::string out = absl::StrCat(
          "[", absl::StrJoin(
                   values.begin(),
                   values.begin() + std::min<int>(kMost, values.size()), ","));
      return out + (values.size() > kMost ? ",...]" : "]");
    }
    case v1::Arg::VALUE_NOT_SET:
      break;
  }
  return "empty";
}

absl::Span<const v1::Arg* const> ArgsOf(const v1::Layer& layer) {
  return {layer.args().data(), static_cast<size_t>(layer.args_size())};
}

std::string LayerWho(const v1::Layer& layer) {
  return absl::StrCat("layer ", Quoted(layer.name()), " (",
                      Printable(layer.type()), ")");
}

ArgReader::ArgReader(std::string who, absl::Span<const v1::Arg* const> args,
                     absl::Span<const absl::string_view> known)
    : who_(std::move(who)), args_(args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& name = args[i]->name();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string nearest = NearestName(name, known);
      status_ = absl::InvalidArgumentError(absl::StrCat(
          who_, ": argument ", Quoted(name), " is not known, expected ",
          known.empty() ? "no arguments"
                        : absl::StrCat("one of ", absl::StrJoin(known, ", ")),
          nearest.empty() ? ""
                          : absl::StrCat("; did you mean ", nearest, "?")));
      return;
    }
    for (size_t j = 0; j < i; ++j) {
      if (args[j]->name() == name) {
        Problem(name, "given twice", "one value", "remove one of them");
        return;
      }
    }
  }
}

const v1::Arg* ArgReader::Find(absl::string_view name) const {
  for (const v1::Arg* arg : args_) {
    if (arg->name() == name) return arg;
  }
  return nullptr;
}

void ArgReader::Problem(absl::string_view name, absl::string_view got,
                        absl::string_view wanted, absl::string_view remedy) {
  if (!status_.ok()) return;
  status_ = Mismatch(who_, name, got, wanted, remedy);
}

void ArgReader::Missing(absl::string_view name, absl::string_view wanted) {
  Problem(name, "missing", wanted,
          absl::StrCat("give args: {", name, ": ...}"));
}

bool ArgReader::InRange(absl::string_view name, int64_t value, int64_t min,
                        int64_t max) {
  if (value >= min && value <= max) return true;
  Problem(name, absl::StrCat(value),
          max >= kMax && value < min
              ? RangeText(min, max)
              : absl::StrCat("a whole number from ", min, " to ", max));
  return false;
}

int64_t ArgReader::RequiredInt(absl::string_view name, int64_t min,
                               int64_t max) {
  if (!Has(name)) Missing(name, RangeText(min, max));
  return Int(name, std::max<int64_t>(min, 1), min, max);
}

int64_t ArgReader::Int(absl::string_view name, int64_t fallback, int64_t min,
                       int64_t max) {
  const v1::Arg* arg = Find(name);
  if (arg == nullptr) return fallback;
  if (arg->value_case() != v1::Arg::kIntValue) {
    Problem(name, ArgText(*arg), RangeText(min, max));
    return fallback;
  }
  return InRange(name, arg->int_value(), min, max) ? arg->int_value()
                                                   : fallback;
}

std::array<int64_t, 2> ArgReader::RequiredPair(absl::string_view name,
                                               int64_t min, int64_t max) {
  if (!Has(name)) Missing(name, "one whole number or two [height,width]");
  const int64_t fallback = std::max<int64_t>(min, 1);
  return Pair(name, {fallback, fallback}, min, max);
}

std::array<int64_t, 2> ArgReader::Pair(absl::string_view name,
                                       std::array<int64_t, 2> fallback,
                                       int64_t min, int64_t max) {
  const v1::Arg* arg = Find(name);
  if (arg == nullptr) return fallback;
  if (arg->value_case() == v1::Arg::kIntValue) {
    const int64_t value = arg->int_value();
    if (!InRange(name, value, min, max)) return fallback;
    return {value, value};
  }
  if (arg->value_case() == v1::Arg::kIntsValue &&
      arg->ints_value().values_size() == 2) {
    const int64_t height = arg->ints_value().values(0);
    const int64_t width = arg->ints_value().values(1);
    if (!InRange(name, height, min, max) || !InRange(name, width, min, max)) {
      return fallback;
    }
    return {height, width};
  }
  Problem(name, ArgText(*arg), "one whole number or two [height,width]");
  return fallback;
}

std::vector<int64_t> ArgReader::Ints(absl::string_view name,
                                     std::vector<int64_t> fallback, int64_t min,
                                     int64_t max, int most) {
  const v1::Arg* arg = Find(name);
  if (arg == nullptr) return fallback;
  std::vector<int64_t> values;
  if (arg->value_case() == v1::Arg::kIntValue) {
    values = {arg->int_value()};
  } else if (arg->value_case() == v1::Arg::kIntsValue) {
    values.assign(arg->ints_value().values().begin(),
                  arg->ints_value().values().end());
  } else {
    Problem(name, ArgText(*arg), "a list of whole numbers");
    return fallback;
  }
  if (values.size() > static_cast<size_t>(most)) {
    Problem(name, absl::StrCat(values.size(), " numbers"),
            absl::StrCat("at most ", most));
    return fallback;
  }
  for (int64_t value : values) {
    if (!InRange(name, value, min, max)) return fallback;
  }
  return values;
}

double ArgReader::Real(absl::string_view name, double fallback, double min,
                       double below) {
  const v1::Arg* arg = Find(name);
  if (arg == nullptr) return fallback;
  double value = 0;
  if (arg->value_case() == v1::Arg::kRealValue) {
    value = arg->real_value();
  } else if (arg->value_case() == v1::Arg::kIntValue) {
    value = static_cast<double>(arg->int_value());
  } else {
    Problem(name, ArgText(*arg), "a number");
    return fallback;
  }
  // Written so that NaN fails.
  if (!(value >= min && value < below)) {
    Problem(name, ArgText(*arg),
            std::isinf(below)
                ? absl::StrCat("a number, at least ", min)
                : absl::StrCat("a number from ", min, " to below ", below));
    return fallback;
  }
  return value;
}

bool ArgReader::Bool(absl::string_view name, bool fallback) {
  const v1::Arg* arg = Find(name);
  if (arg == nullptr) return fallback;
  if (arg->value_case() != v1::Arg::kBoolValue) {
    Problem(name, ArgText(*arg), "true or false");
    return fallback;
  }
  return arg->bool_value();
}

}  // namespace pipework
