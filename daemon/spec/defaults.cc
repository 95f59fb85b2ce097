#include "daemon/spec/defaults.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/spec/problems.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/check.h"
#include "scheduler/compile.h"

namespace pipework {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Default {
  const char* field;
  const char* text;
  // Only where this field, in the same section, has this value.
  const char* beside = nullptr;
  const char* value = nullptr;
};

constexpr Default kDefaults[] = {
    {"data.scale", "1"},
    {"data.split.seed", "0"},
    {"batch.microbatches", "1"},
    {"batch.accumulate", "1"},
    {"optimizer.momentum", "0"},
    {"optimizer.weight_decay", "0"},
    {"optimizer.beta1", "0.9", "name", "adam"},
    {"optimizer.beta2", "0.999", "name", "adam"},
    {"optimizer.epsilon", "1e-8", "name", "adam"},
    {"optimizer.nesterov", "false"},
    {"learning_rate.schedule", "constant"},
    {"learning_rate.warmup_epochs", "0"},
    {"learning_rate.factor", "0.1", "schedule", "step"},
    {"learning_rate.power", "1", "schedule", "polynomial"},
    {"learning_rate.final", "0"},
    {"pipeline.schedule", "1f1b"},
    {"pipeline.in_flight", "noam"},
    {"pipeline.stages.replicas", "1"},
    {"checkpoint.keep", "2"},
    {"restart.max", "0"},
    {"threads_per_executor", "1"},
    {"seed", "1"},
};

void SetFromText(const char* text, const FieldDescriptor* field,
                 Message* message) {
  const auto* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection->SetString(message, field, text);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection->SetDouble(message, field, std::strtod(text, nullptr));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection->SetBool(message, field, text[0] == 't');
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      reflection->SetInt32(message, field, std::atoi(text));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      reflection->SetInt64(message, field, std::atoll(text));
      break;
    default:
      PIPE_CHECK(false);
  }
}

// Goes down `names` from `message` and sets the last one. Sections that are
// optional as a whole stay away when they are not there.
void Fill(const Default& rule, const std::vector<std::string>& names, size_t at,
          const std::string& path, const IsGiven& is_given, Message* message) {
  const FieldDescriptor* field =
      message->GetDescriptor()->FindFieldByName(names[at]);
  PIPE_CHECK(field != nullptr);
  const auto* reflection = message->GetReflection();
  const std::string here = JoinField(path, names[at]);
  if (at + 1 == names.size()) {
    if (is_given(here)) return;
    if (rule.beside != nullptr) {
      const FieldDescriptor* beside =
          message->GetDescriptor()->FindFieldByName(rule.beside);
      if (reflection->GetString(*message, beside) != rule.value) return;
    }
    SetFromText(rule.text, field, message);
  } else if (field->is_repeated()) {
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      Fill(rule, names, at + 1, IndexField(here, i), is_given,
           reflection->MutableRepeatedMessage(message, field, i));
    }
  } else if (here != "data.split" || reflection->HasField(*message, field)) {
    Fill(rule, names, at + 1, here, is_given,
         reflection->MutableMessage(message, field));
  }
}

// Path without indexes -> whether any such field is not zero.
bool IsNotZero(const Message& message, absl::string_view path) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  const Message* at = &message;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = names[i];
    int index = -1;
    const size_t bracket = name.find('[');
    if (bracket != std::string::npos) {
      if (!absl::SimpleAtoi(name.substr(bracket + 1, name.size() - bracket - 2),
                            &index)) {
        return false;
      }
      name.resize(bracket);
    }
    const FieldDescriptor* field = at->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return false;
    const auto* reflection = at->GetReflection();
    const bool last = i + 1 == names.size();
    if (field->is_repeated()) {
      const int size = reflection->FieldSize(*at, field);
      if (last) return index < 0 ? size > 0 : index < size;
      if (index < 0 || index >= size) return false;
      at = &reflection->GetRepeatedMessage(*at, field, index);
    } else {
      if (last) return reflection->HasField(*at, field);
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return false;
      at = &reflection->GetMessage(*at, field);
    }
  }
  return false;
}

}  // namespace

void FillDefaults(const IsGiven& is_given, v1::JobSpec* spec) {
  for (const Default& rule : kDefaults) {
    const std::vector<std::string> names = absl::StrSplit(rule.field, '.');
    Fill(rule, names, 0, "", is_given, spec);
  }
  v1::PipelineSpec* pipeline = spec->mutable_pipeline();
  if (pipeline->weights().empty() && !is_given("pipeline.weights")) {
    const auto recipe = CheckRecipe({pipeline->schedule(), ""}, 1);
    if (recipe.ok()) pipeline->set_weights(recipe->weights);
  }
}

std::string DefaultText(absl::string_view field) {
  for (const Default& rule : kDefaults) {
    if (field == rule.field) return rule.text;
  }
  if (field == "pipeline.weights") return "the one that fits the schedule";
  if (field == "pipeline.stages") return "auto";
  return "";
}

IsGiven GivenIfNotZero(const v1::JobSpec& spec) {
  return [&spec](const std::string& field) { return IsNotZero(spec, field); };
}

}  // namespace pipework
