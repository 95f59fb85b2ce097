// What `pipectl explain` prints: the comments of proto/job.proto, under the
// names that a spec uses.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/spec/defaults.h"
#include "daemon/spec/job_docs.h"
#include "daemon/spec/problems.h"
#include "daemon/spec/spec.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "kernels/layers/args.h"
#include "kernels/layers/layer_shape.h"
#include "kernels/models/registry.h"
#include "kernels/optimizers/learning_rate.h"
#include "kernels/optimizers/optimizer.h"
#include "proto/check.h"
#include "scheduler/compile.h"

namespace pipework {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kColumns = 78;

// The messages with their comments, which the generated code does not have.
const google::protobuf::DescriptorPool& Documented() {
  static const google::protobuf::DescriptorPool* const pool = [] {
    const auto* file = job_docs::Find("proto/job_descriptor.bin");
    PIPE_CHECK(file != nullptr);
    google::protobuf::FileDescriptorSet set;
    PIPE_CHECK(set.ParseFromArray(file->bytes.data(),
                                  static_cast<int>(file->bytes.size())));
    auto built = std::make_unique<google::protobuf::DescriptorPool>();
    for (const auto& proto : set.file()) {
      PIPE_CHECK(built->BuildFile(proto) != nullptr);
    }
    return built.release();  // lives as long as the program
  }();
  return *pool;
}

template <typename T>
std::string CommentOf(const T* described) {
  google::protobuf::SourceLocation location;
  if (!described->GetSourceLocation(&location)) return "";
  std::vector<std::string> words = absl::StrSplit(
      location.leading_comments, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return absl::StrJoin(words, " ");
}

// Lines of at most kColumns, each with `indent` blanks before it.
std::string Wrapped(const std::string& text, size_t indent) {
  const std::string blanks(indent, ' ');
  std::string out;
  std::string line;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, blanks, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) absl::StrAppend(&out, blanks, line, "\n");
  return out;
}

bool IsArgs(const FieldDescriptor* field) {
  return field->message_type() != nullptr &&
         field->message_type()->full_name() ==
             v1::Arg::descriptor()->full_name();
}

std::string TypeOf(const FieldDescriptor* field, const std::string& path) {
  if (path == "pipeline.stages") return "auto, a number, or a list of stages";
  if (IsArgs(field)) return "a map from name to value";
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field->is_repeated() ? "a list of sections" : "a section";
    case FieldDescriptor::CPPTYPE_STRING:
      return field->is_repeated() ? "a word or a list of words" : "a word";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    default:
      return field->is_repeated() ? "a list of whole numbers"
                                  : "a whole number";
  }
}

// Fields of a section as a spec writes them.
std::vector<const FieldDescriptor*> FieldsOf(const Descriptor* section) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < section->field_count(); ++i) {
    if (section->field(i)->name() != "stage_count") {
      fields.push_back(section->field(i));
    }
  }
  return fields;
}

// Whether the field holds fields of its own.
bool HasFields(const FieldDescriptor* field) {
  return field->message_type() != nullptr && !IsArgs(field);
}

// What may stand in a field that names one of a table.
std::vector<std::pair<std::string, std::string>> KnownValues(
    const std::string& path) {
  std::vector<std::pair<std::string, std::string>> known;
  const auto add = [&known](const std::vector<std::string>& names) {
    for (const std::string& name : names) known.emplace_back(name, "");
  };
  if (path == "model.name" || path == "model.args") {
    for (const ModelType& type : ModelTypes()) {
      known.emplace_back(std::string(type.name), std::string(type.summary));
    }
  } else if (path == "model.layers" || path == "model.layers.type" ||
             path == "model.layers.args") {
    for (const LayerType& type : LayerTypes()) {
      known.emplace_back(std::string(type.name), std::string(type.summary));
    }
  } else if (path == "pipeline.schedule") {
    add(ScheduleNames());
  } else if (path == "pipeline.weights") {
    add(WeightPolicyNames());
  } else if (path == "optimizer.name") {
    add(OptimizerNames());
  } else if (path == "learning_rate.schedule") {
    add(LearningRateNames());
  }
  return known;
}

void AppendField(const FieldDescriptor* field, const std::string& path,
                 size_t indent, bool recursive, std::string* out) {
  const std::string fallback = DefaultText(path);
  absl::StrAppend(out, std::string(indent, ' '), field->name(), "  <",
                  TypeOf(field, path), ">",
                  fallback.empty() ? "" : absl::StrCat("  default ", fallback),
                  "\n", Wrapped(CommentOf(field), indent + 4));
  if (!recursive || !HasFields(field)) return;
  for (const FieldDescriptor* inner : FieldsOf(field->message_type())) {
    AppendField(inner, JoinField(path, inner->name()), indent + 4, recursive,
                out);
  }
}

// Names of the path without the indexes of lists: a.b[2].c is a.b.c.
std::vector<std::string> NamesOf(absl::string_view path) {
  std::string plain;
  bool inside = false;
  for (char c : path) {
    if (c == '[') inside = true;
    if (!inside) plain += c;
    if (c == ']') inside = false;
  }
  return absl::StrSplit(plain, '.', absl::SkipEmpty());
}

}  // namespace

absl::StatusOr<std::string> ExplainField(absl::string_view path,
                                         bool recursive) {
  const Descriptor* section = Documented().FindMessageTypeByName(
      v1::JobSpec::descriptor()->full_name());
  PIPE_CHECK(section != nullptr);
  const FieldDescriptor* field = nullptr;
  std::string here;
  for (const std::string& name : NamesOf(path)) {
    const FieldDescriptor* next = nullptr;
    std::vector<absl::string_view> known;
    if (section != nullptr) {
      for (const FieldDescriptor* candidate : FieldsOf(section)) {
        if (candidate->name() == name) next = candidate;
        known.push_back(candidate->name());
      }
    }
    if (next == nullptr) {
      const std::string nearest = NearestName(name, known);
      const std::string wanted =
          section == nullptr
              ? absl::StrCat(here, ", which has no fields of its own")
              : absl::StrCat("one of ", absl::StrJoin(known, ", "),
                             here.empty() ? "" : absl::StrCat(" in ", here));
      return absl::NotFoundError(absl::StrCat(
          "explain: field is ", Quoted(JoinField(here, name)), ", expected ",
          wanted,
          nearest.empty() ? ""
                          : absl::StrCat("; did you mean ",
                                         JoinField(here, nearest), "?")));
    }
    field = next;
    here = JoinField(here, name);
    section = HasFields(field) ? field->message_type() : nullptr;
  }

  std::string out;
  if (field == nullptr) {
    absl::StrAppend(&out, "A job spec, in YAML or JSON.\n\n",
                    Wrapped(CommentOf(section), 2));
  } else {
    const std::string fallback = DefaultText(here);
    absl::StrAppend(
        &out, here, "  <", TypeOf(field, here), ">",
        fallback.empty() ? "" : absl::StrCat("  default ", fallback), "\n\n",
        Wrapped(CommentOf(field), 2));
  }
  const auto known = KnownValues(here);
  if (!known.empty()) absl::StrAppend(&out, "\nKNOWN\n");
  for (const auto& [name, summary] : known) {
    absl::StrAppend(&out, "  ", name, "\n", Wrapped(summary, 6));
  }
  if (section != nullptr) {
    absl::StrAppend(&out, "\nFIELDS\n");
    for (const FieldDescriptor* inner : FieldsOf(section)) {
      AppendField(inner, JoinField(here, inner->name()), 2, recursive, &out);
    }
  }
  return out;
}

}  // namespace pipework
