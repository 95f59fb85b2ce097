#include "cli/json_printer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace pipework {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Length of the valid UTF-8 sequence at the start of `s`, 0 if there is none.
size_t Utf8Length(absl::string_view s) {
  const auto byte = [&s](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  uint32_t code = 0;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
    code = first & 0x1f;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    code = first & 0x0f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    code = first & 0x07;
  } else {
    return 0;
  }
  if (s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong =
      (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return overlong || surrogate || code > 0x10ffff ? 0 : length;
}

class Writer {
 public:
  explicit Writer(const JsonOptions& options) : options_(options) {}

  void Object(const Message& message, absl::string_view kind) {
    Open('{');
    if (!kind.empty()) {
      Key("kind");
      out_ += JsonString(kind);
      Key("api_version");
      out_ += JsonString(kApiVersion);
    }
    const Descriptor& type = *message.GetDescriptor();
    const Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const bool is_message =
          field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      if (!field.is_repeated() && (is_message || field.containing_oneof()) &&
          !reflection.HasField(message, &field) &&
          !(options_.empty_messages && is_message)) {
        continue;
      }
      Key(field.name());
      if (field.is_map()) {
        Map(message, field);
      } else if (field.is_repeated()) {
        Open('[');
        for (int j = 0; j < reflection.FieldSize(message, &field); ++j) {
          Item();
          Value(message, field, j);
        }
        Close(']');
      } else {
        Value(message, field, -1);
      }
    }
    Close('}');
  }

  std::string Take() { return std::move(out_); }

 private:
  void Open(char bracket) {
    out_ += bracket;
    empty_.push_back(true);
  }
  void Close(char bracket) {
    const bool empty = empty_.back();
    empty_.pop_back();
    if (!empty) NewLine();
    out_ += bracket;
  }
  void NewLine() {
    if (!options_.pretty) return;
    out_ += '\n';
    out_.append(2 * empty_.size(), ' ');
  }
  void Item() {
    if (!empty_.back()) out_ += ',';
    empty_.back() = false;
    NewLine();
  }
  void Key(absl::string_view name) {
    Item();
    absl::StrAppend(&out_, JsonString(name), options_.pretty ? ": " : ":");
  }

  void Map(const Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const FieldDescriptor& key = *field.message_type()->map_key();
    const FieldDescriptor& value = *field.message_type()->map_value();
    std::vector<const Message*> entries;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      entries.push_back(&reflection.GetRepeatedMessage(message, &field, i));
    }
    const auto name = [&key](const Message* entry) {
      return entry->GetReflection()->GetString(*entry, &key);
    };
    std::sort(entries.begin(), entries.end(),
              [&name](const Message* a, const Message* b) {
                return name(a) < name(b);
              });
    Open('{');
    for (const Message* entry : entries) {
      Key(name(entry));
      Value(*entry, value, -1);
    }
    Close('}');
  }

  // Element `index` of a repeated field, or the field itself for -1.
  void Value(const Message& message, const FieldDescriptor& field, int index) {
    const Reflection& r = *message.GetReflection();
    const bool many = index >= 0;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        absl::StrAppend(&out_, many ? r.GetRepeatedInt32(message, &field, index)
                                    : r.GetInt32(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        absl::StrAppend(&out_, many ? r.GetRepeatedInt64(message, &field, index)
                                    : r.GetInt64(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        absl::StrAppend(&out_, many
                                   ? r.GetRepeatedUInt32(message, &field, index)
                                   : r.GetUInt32(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        absl::StrAppend(&out_, many
                                   ? r.GetRepeatedUInt64(message, &field, index)
                                   : r.GetUInt64(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        out_ += JsonNumber(many ? r.GetRepeatedDouble(message, &field, index)
                                : r.GetDouble(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        out_ += JsonNumber(many ? r.GetRepeatedFloat(message, &field, index)
                                : r.GetFloat(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        out_ += (many ? r.GetRepeatedBool(message, &field, index)
                      : r.GetBool(message, &field))
                    ? "true"
                    : "false";
        break;
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int number = many ? r.GetRepeatedEnumValue(message, &field, index)
                                : r.GetEnumValue(message, &field);
        const auto* value = field.enum_type()->FindValueByNumber(number);
        out_ +=
            JsonString(value == nullptr ? absl::StrCat("UNKNOWN(", number, ")")
                                        : std::string(value->name()));
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        out_ += JsonString(many ? r.GetRepeatedString(message, &field, index)
                                : r.GetString(message, &field));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Object(many ? r.GetRepeatedMessage(message, &field, index)
                    : r.GetMessage(message, &field),
               "");
        break;
    }
  }

  const JsonOptions options_;
  std::string out_;
  std::vector<bool> empty_;  // of each open bracket: nothing in it yet
};

}  // namespace

std::string ToJson(const Message& message, absl::string_view kind,
                   const JsonOptions& options) {
  Writer writer(options);
  writer.Object(message, kind);
  return writer.Take();
}

std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    const char c = text[0];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out.append(text.data(), length);
    }
    text.remove_prefix(length);
  }
  out += '"';
  return out;
}

std::string JsonNumber(double value) {
  if (!std::isfinite(value)) return "null";
  // The shortest form that reads back as the same number.
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace pipework
