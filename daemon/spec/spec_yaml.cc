// JobSpec -> YAML. Reflection in the order of the fields, with the forms of
// reader.h.
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/spec/defaults.h"
#include "daemon/spec/problems.h"
#include "daemon/spec/scalar.h"
#include "daemon/spec/spec.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace pipework {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A word that YAML and the reader take as it stands, in any place.
bool IsPlainWord(const std::string& text) {
  if (text.empty() || LooksWhole(text) || LooksReal(text) ||
      LooksAmbiguous(text) || text == "true" || text == "false" ||
      text == "null" || text == "Null" || text == "NULL") {
    return false;
  }
  if (text[0] == '-' || text[0] == '.') return false;
  for (char c : text) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                      c == '.' || c == '/' || c == '+';
    if (!fine) return false;
  }
  return true;
}

// In double quotes where it needs them. The rest of Unicode stays as it is.
std::string Word(const std::string& text) {
  if (IsPlainWord(text)) return text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppend(
          &out, "\\x",
          absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// A word of an argument: one that reads like a number stays a word.
std::string ArgValue(const v1::Arg& arg) {
  switch (arg.value_case()) {
    case v1::Arg::kIntValue:
      return absl::StrCat(arg.int_value());
    case v1::Arg::kRealValue:
      return RealText(arg.real_value());
    case v1::Arg::kBoolValue:
      return arg.bool_value() ? "true" : "false";
    case v1::Arg::kTextValue:
      return Word(arg.text_value());
    case v1::Arg::kIntsValue:
      return absl::StrCat("[", absl::StrJoin(arg.ints_value().values(), ", "),
                          "]");
    case v1::Arg::VALUE_NOT_SET:
      break;
  }
  return "\"\"";
}

class Writer {
 public:
  std::string Take() { return std::move(out_); }

  // The fields of a section, each on a line of its own.
  void Section(const Message& message, const std::string& path, int indent) {
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const std::string here = JoinField(path, field->name());
      if (here == "pipeline.stage_count") continue;
      if (here == "pipeline.stages" && Stages(message, indent)) continue;
      if (!IsShown(message, field, here)) continue;
      Line(indent, absl::StrCat(field->name(), ":"));
      if (field->message_type() != nullptr && !field->is_repeated()) {
        const size_t before = out_.size();
        out_ += '\n';
        Section(message.GetReflection()->GetMessage(message, field), here,
                indent + 2);
        if (out_.size() == before + 1) out_.insert(before, " {}");
      } else if (field->message_type() == v1::Layer::descriptor() ||
                 field->message_type() == v1::StageSpec::descriptor()) {
        out_ += '\n';
        for (int j = 0; j < message.GetReflection()->FieldSize(message, field);
             ++j) {
          Line(indent + 2, "- ");
          absl::StrAppend(&out_,
                          Flow(message.GetReflection()->GetRepeatedMessage(
                                   message, field, j),
                               here),
                          "\n");
        }
      } else {
        absl::StrAppend(&out_, " ", Value(message, field, here), "\n");
      }
    }
  }

 private:
  void Line(int indent, const std::string& text) {
    absl::StrAppend(&out_, std::string(static_cast<size_t>(indent), ' '), text);
  }

  // Writes a number of stages; false: there is a list of them.
  bool Stages(const Message& message, int indent) {
    const auto& pipeline = static_cast<const v1::PipelineSpec&>(message);
    if (!pipeline.stages().empty()) return false;
    const std::string count = pipeline.stage_count() == 0
                                  ? "auto"
                                  : absl::StrCat(pipeline.stage_count());
    Line(indent, absl::StrCat("stages: ", count, "\n"));
    return true;
  }

  // Fields that are zero are left out where that means zero.
  static bool IsShown(const Message& message, const FieldDescriptor* field,
                      const std::string& path) {
    const auto* reflection = message.GetReflection();
    if (field->is_repeated()) return reflection->FieldSize(message, field) > 0;
    if (reflection->HasField(message, field)) return true;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return false;
    // Zero, but left out it would be something else: it was given so.
    return IsGivenZero(message, path);
  }

  static bool IsGivenZero(const Message& message, const std::string& path) {
    if (path == "seed") return true;
    if (path == "optimizer.beta1" || path == "optimizer.beta2") {
      return static_cast<const v1::OptimizerSpec&>(message).name() == "adam";
    }
    return false;
  }

  // A layer or a stage on one line.
  std::string Flow(const Message& message, const std::string& path) {
    std::vector<std::string> parts;
    const auto* type = message.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (!IsShown(message, field, JoinField(path, field->name()))) continue;
      parts.push_back(
          absl::StrCat(field->name(), ": ",
                       Value(message, field, JoinField(path, field->name()))));
    }
    return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
  }

  std::string Value(const Message& message, const FieldDescriptor* field,
                    const std::string& path) {
    const auto* reflection = message.GetReflection();
    if (field->is_repeated()) {
      std::vector<std::string> parts;
      const bool args = field->message_type() == v1::Arg::descriptor();
      for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
        if (args) {
          const auto& arg = static_cast<const v1::Arg&>(
              reflection->GetRepeatedMessage(message, field, j));
          parts.push_back(absl::StrCat(Word(arg.name()), ": ", ArgValue(arg)));
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
          parts.push_back(
              absl::StrCat(reflection->GetRepeatedInt32(message, field, j)));
        } else {
          parts.push_back(
              Word(reflection->GetRepeatedString(message, field, j)));
        }
      }
      const std::string inner = absl::StrJoin(parts, ", ");
      return args ? absl::StrCat("{", inner, "}")
                  : absl::StrCat("[", inner, "]");
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return Word(reflection->GetString(message, field));
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection->GetBool(message, field) ? "true" : "false";
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return RealText(reflection->GetDouble(message, field));
      case FieldDescriptor::CPPTYPE_INT32:
        return absl::StrCat(reflection->GetInt32(message, field));
      case FieldDescriptor::CPPTYPE_INT64:
        return absl::StrCat(reflection->GetInt64(message, field));
      default:
        return Flow(reflection->GetMessage(message, field), path);
    }
  }

  std::string out_;
};

}  // namespace

std::string SpecToYaml(const v1::JobSpec& spec) {
  Writer writer;
  writer.Section(spec, "", 0);
  return writer.Take();
}

}  // namespace pipework
