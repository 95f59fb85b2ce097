#include "daemon/spec/reader.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/spec/scalar.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "kernels/layers/args.h"
#include "proto/check.h"

namespace pipework {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return absl::StrCat("a list of ", node.children.size());
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  return node.is_quoted || !(LooksWhole(node.text) || LooksReal(node.text))
             ? Quoted(node.text)
             : Printable(node.text);
}

class TreeReader {
 public:
  TreeReader(FieldLines* lines, Problems* problems)
      : lines_(lines), problems_(problems) {}

  void ReadMessage(const YamlNode& node, Message* message,
                   const std::string& path) {
    const std::vector<std::string> names = FieldNames(message);
    if (!node.is_map()) {
      Wrong(path, node,
            path.empty() ? absl::StrCat("a job spec with the fields ",
                                        absl::StrJoin(names, ", "))
                         : absl::StrCat("a section with some of ",
                                        absl::StrJoin(names, ", ")),
            node.is_null() && !path.empty() ? "fill it in, or remove its name"
                                            : "");
      return;
    }
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const std::string field = JoinField(path, node.keys[i]);
      const YamlNode& value = node.children[i];
      if (!IsField(names, node.keys[i])) {
        Unknown(path, node, i, names);
        continue;
      }
      Place(field, node.key_lines[i], value);
      ReadField(value, node.keys[i], message, field);
    }
  }

 private:
  // As a spec writes them.
  static std::vector<std::string> FieldNames(const Message* message) {
    std::vector<std::string> names;
    const Descriptor* type = message->GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string& name = type->field(i)->name();
      if (name == "stage_count" &&
          type->full_name() == v1::PipelineSpec::descriptor()->full_name()) {
        continue;
      }
      names.push_back(name);
    }
    return names;
  }

  static bool IsField(const std::vector<std::string>& names,
                      const std::string& name) {
    for (const std::string& known : names) {
      if (known == name) return true;
    }
    return false;
  }

  void Unknown(const std::string& path, const YamlNode& node, size_t index,
               const std::vector<std::string>& names) {
    const std::string& name = node.keys[index];
    const std::vector<absl::string_view> known(names.begin(), names.end());
    const std::string nearest = NearestName(name, known);
    const std::string field = JoinField(path, Printable(name));
    (*lines_)[field] = node.key_lines[index];
    problems_->Add(
        field, "an unknown field",
        absl::StrCat("one of ", absl::StrJoin(names, ", ")),
        nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?"));
    // It was probably meant: then it is not missing as well.
    if (!nearest.empty() && !IsField(node.keys, nearest)) {
      problems_->Spoil(JoinField(path, nearest));
    }
  }

  // A scalar stands where its value is, a list or section where its name is.
  void Place(const std::string& field, int key_line, const YamlNode& value) {
    (*lines_)[field] = value.is_scalar() ? value.line : key_line;
  }

  void Wrong(const std::string& field, const YamlNode& node,
             const std::string& expected, const std::string& hint = "") {
    // The text itself was wrong there (an alias, say), and that was told.
    if (problems_->IsSpoilt(field)) return;
    const auto place = lines_->find(field);
    problems_->Add(field, Shown(node), expected, hint,
                   place == lines_->end() ? node.line : place->second);
    problems_->Spoil(field);
  }

  void ReadField(const YamlNode& node, const std::string& name,
                 Message* message, const std::string& field) {
    if (message->GetDescriptor() == v1::PipelineSpec::descriptor() &&
        name == "stages") {
      ReadStages(node, static_cast<v1::PipelineSpec*>(message), field);
      return;
    }
    const FieldDescriptor* type =
        message->GetDescriptor()->FindFieldByName(name);
    if (type->message_type() == v1::Arg::descriptor()) {
      ReadArgs(node, message, type, field);
    } else if (type->is_repeated()) {
      ReadList(node, message, type, field);
    } else if (type->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ReadMessage(node, message->GetReflection()->MutableMessage(message, type),
                  field);
    } else {
      ReadScalar(node, message, type, field);
    }
  }

  void ReadStages(const YamlNode& node, v1::PipelineSpec* pipeline,
                  const std::string& field) {
    const std::string expected = "auto, a number, or a list of stages";
    if (node.is_list()) {
      ReadList(node, pipeline,
               pipeline->GetDescriptor()->FindFieldByName("stages"), field);
      if (node.children.empty()) Wrong(field, node, "at least one stage");
      return;
    }
    if (!node.is_scalar()) {
      Wrong(field, node, expected);
      return;
    }
    if (node.text == "auto") return;
    int64_t count = 0;
    ScalarError error;
    if (node.is_quoted || !ParseWhole(node.text, &count, &error)) {
      Wrong(field, node, expected, error.hint);
    } else if (count < 1 || count > std::numeric_limits<int32_t>::max()) {
      Wrong(field, node, "at least 1, and no more than there are layers");
    } else {
      pipeline->set_stage_count(static_cast<int32_t>(count));
    }
  }

  void ReadList(const YamlNode& node, Message* message,
                const FieldDescriptor* type, const std::string& field) {
    const bool of_words = type->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool of_numbers = type->cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    if (of_words && node.is_scalar()) {
      AddWord(node, message, type, field);
      return;
    }
    if (!node.is_list()) {
      Wrong(field, node,
            of_words     ? "a word or a list of words"
            : of_numbers ? "a list of whole numbers"
                         : "a list");
      return;
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      const YamlNode& element = node.children[i];
      const std::string at = IndexField(field, static_cast<int64_t>(i));
      (*lines_)[at] = element.line;
      if (of_words) {
        AddWord(element, message, type, at);
      } else if (of_numbers) {
        AddNumber(element, message, type, at);
      } else {
        ReadMessage(element,
                    message->GetReflection()->AddMessage(message, type), at);
      }
    }
  }

  void AddWord(const YamlNode& node, Message* message,
               const FieldDescriptor* type, const std::string& field) {
    // Kept in any case, so that the indexes of those that follow stay.
    if (!node.is_scalar() || node.text.empty()) Wrong(field, node, "a word");
    message->GetReflection()->AddString(message, type, node.text);
  }

  void AddNumber(const YamlNode& node, Message* message,
                 const FieldDescriptor* type, const std::string& field) {
    int64_t value = 0;
    ScalarError error;
    if (!IsPlain(node) || !ParseWhole(node.text, &value, &error)) {
      Wrong(field, node,
            error.expected.empty() ? "a whole number" : error.expected,
            error.hint.empty() ? Unquote(node) : error.hint);
    } else if (value < std::numeric_limits<int32_t>::min() ||
               value > std::numeric_limits<int32_t>::max()) {
      Wrong(field, node, "a whole number below 2^31");
      value = 0;
    }
    // Kept in any case, as a word is.
    message->GetReflection()->AddInt32(message, type,
                                       static_cast<int32_t>(value));
  }

  void ReadScalar(const YamlNode& node, Message* message,
                  const FieldDescriptor* type, const std::string& field) {
    const Reflection* reflection = message->GetReflection();
    ScalarError error;
    switch (type->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        if (!node.is_scalar() || node.text.empty()) {
          Wrong(field, node, "a word");
        } else {
          reflection->SetString(message, type, node.text);
        }
        return;
      case FieldDescriptor::CPPTYPE_BOOL: {
        bool value = false;
        if (!IsPlain(node) || !ParseTruth(node.text, &value, &error)) {
          Wrong(field, node, "true or false");
        } else {
          reflection->SetBool(message, type, value);
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value = 0;
        if (!IsPlain(node)) {
          Wrong(field, node, "a number", Unquote(node));
        } else if (!ParseReal(node.text, &value, &error)) {
          Wrong(field, node, error.expected, error.hint);
        } else {
          reflection->SetDouble(message, type, value);
        }
        return;
      }
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64: {
        const bool narrow = type->cpp_type() == FieldDescriptor::CPPTYPE_INT32;
        int64_t value = 0;
        if (!IsPlain(node)) {
          Wrong(field, node, "a whole number", Unquote(node));
        } else if (!ParseWhole(node.text, &value, &error)) {
          Wrong(field, node, error.expected, error.hint);
        } else if (narrow && (value < std::numeric_limits<int32_t>::min() ||
                              value > std::numeric_limits<int32_t>::max())) {
          Wrong(field, node, "a whole number below 2^31");
        } else if (narrow) {
          reflection->SetInt32(message, type, static_cast<int32_t>(value));
        } else {
          reflection->SetInt64(message, type, value);
        }
        return;
      }
      default:
        PIPE_CHECK(false);
    }
  }

  static bool IsPlain(const YamlNode& node) {
    return node.is_scalar() && !node.is_quoted;
  }
  static std::string Unquote(const YamlNode& node) {
    return node.is_scalar() ? "remove the quotes" : "";
  }

  void ReadArgs(const YamlNode& node, Message* message,
                const FieldDescriptor* type, const std::string& field) {
    if (!node.is_map()) {
      Wrong(field, node, "arguments, such as {width: 16}");
      return;
    }
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const std::string at = JoinField(field, Printable(node.keys[i]));
      Place(at, node.key_lines[i], node.children[i]);
      v1::Arg arg;
      arg.set_name(node.keys[i]);
      if (ReadArg(node.children[i], at, &arg)) {
        static_cast<v1::Arg*>(
            message->GetReflection()->AddMessage(message, type))
            ->Swap(&arg);
      }
    }
  }

  bool ReadArg(const YamlNode& node, const std::string& field, v1::Arg* arg) {
    const std::string expected =
        "a number, true, false, a word or a list of whole numbers";
    if (node.is_list()) {
      v1::IntList* list = arg->mutable_ints_value();
      for (size_t i = 0; i < node.children.size(); ++i) {
        const YamlNode& element = node.children[i];
        int64_t value = 0;
        ScalarError error;
        if (!IsPlain(element) || !ParseWhole(element.text, &value, &error)) {
          const std::string at = IndexField(field, static_cast<int64_t>(i));
          (*lines_)[at] = element.line;
          Wrong(at, element,
                error.expected.empty() ? "a whole number" : error.expected,
                error.hint);
          return false;
        }
        list->add_values(value);
      }
      return true;
    }
    if (!node.is_scalar()) {
      Wrong(field, node, expected);
      return false;
    }
    ScalarError error;
    if (node.is_quoted) {
      arg->set_text_value(node.text);
    } else if (LooksAmbiguous(node.text)) {
      Wrong(field, node, expected, AmbiguityHint(node.text));
      return false;
    } else if (node.text == "true" || node.text == "false") {
      arg->set_bool_value(node.text == "true");
    } else if (LooksWhole(node.text)) {
      int64_t value = 0;
      if (!ParseWhole(node.text, &value, &error)) {
        Wrong(field, node, error.expected, error.hint);
        return false;
      }
      arg->set_int_value(value);
    } else if (LooksReal(node.text)) {
      double value = 0;
      if (!ParseReal(node.text, &value, &error)) {
        Wrong(field, node, error.expected, error.hint);
        return false;
      }
      arg->set_real_value(value);
    } else {
      arg->set_text_value(node.text);
    }
    return true;
  }

  FieldLines* const lines_;
  Problems* const problems_;
};

}  // namespace

void ReadSpecTree(const YamlNode& root, v1::JobSpec* spec, FieldLines* lines,
                  Problems* problems) {
  if (problems->IsSpoilt("") && root.is_null()) return;
  TreeReader(lines, problems).ReadMessage(root, spec, "");
}

}  // namespace pipework
