#include "daemon/spec/overrides.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"

namespace pipework {
namespace {

// One step down: into a section by name, or into a list by number.
struct Step {
  std::string name;
  int64_t index = -1;
};

// a.b[2].c; false: not such a path.
bool ParsePath(absl::string_view path, std::vector<Step>* steps) {
  while (true) {
    const size_t end = path.find_first_of(".[");
    Step step;
    step.name = std::string(path.substr(0, end));
    if (step.name.empty()) return false;
    steps->push_back(step);
    path.remove_prefix(step.name.size());
    while (!path.empty() && path[0] == '[') {
      const size_t close = path.find(']');
      Step into;
      if (close == absl::string_view::npos ||
          !absl::SimpleAtoi(path.substr(1, close - 1), &into.index) ||
          into.index < 0) {
        return false;
      }
      steps->push_back(into);
      path.remove_prefix(close + 1);
    }
    if (steps->size() > static_cast<size_t>(kDeepestTree)) return false;
    if (path.empty()) return true;
    if (path[0] != '.') return false;
    path.remove_prefix(1);
  }
}

// As it stands: none of its lines is a line of the spec.
void ForgetLines(YamlNode* node) {
  node->line = 0;
  for (int& line : node->key_lines) line = 0;
  for (YamlNode& child : node->children) ForgetLines(&child);
}

// null: the field is to go.
bool ReadValue(const std::string& field, absl::string_view text,
               YamlNode* value, Problems* problems) {
  text = absl::StripAsciiWhitespace(text);
  if (!text.empty() &&
      (text[0] == '[' || text[0] == '{' || text[0] == '"' || text[0] == '\'')) {
    Problems found;
    *value = ReadYaml(text, &found);
    ForgetLines(value);
    if (found.empty()) return true;
    const v1::Problem& problem = found.list()[0];
    problems->Add(field, problem.got(), problem.expected(), problem.hint(), 0,
                  kSetFile);
    problems->Spoil(field);
    return false;
  }
  for (size_t at = 0; at < text.size();) {
    const int length = Utf8Length(text, at);
    if (length == 0 || static_cast<unsigned char>(text[at]) < 0x20) {
      problems->Add(field, Quoted(text), "text in UTF-8 without control codes",
                    "", 0, kSetFile);
      problems->Spoil(field);
      return false;
    }
    at += static_cast<size_t>(length);
  }
  if (text.empty()) {
    problems->Add(field, "nothing", "a value",
                  absl::StrCat("write ", field, "=null to remove it"), 0,
                  kSetFile);
    problems->Spoil(field);
    return false;
  }
  if (text == "null" || text == "~") return true;
  value->kind = YamlNode::Kind::kScalar;
  value->text = std::string(text);
  return true;
}

class Setter {
 public:
  Setter(const std::string& field, Problems* problems)
      : field_(field), problems_(problems) {}

  void Set(const std::vector<Step>& steps, YamlNode value, YamlNode* root) {
    const bool removes = value.is_null();
    YamlNode* at = root;
    std::string path;
    for (size_t i = 0; i < steps.size(); ++i) {
      const bool last = i + 1 == steps.size();
      at = steps[i].index >= 0
               ? IntoList(steps[i], path, at, last && removes)
               : IntoMap(steps[i], path, at, last, last && removes);
      if (at == nullptr) return;
      path = steps[i].index >= 0 ? IndexField(path, steps[i].index)
                                 : JoinField(path, steps[i].name);
    }
    *at = std::move(value);
  }

 private:
  void Refuse(const std::string& got, const std::string& expected) {
    problems_->Add(field_, got, expected, "", 0, kSetFile);
    problems_->Spoil(field_);
  }

  // Both return nullptr when there is nothing to go on with.
  YamlNode* IntoMap(const Step& step, const std::string& path, YamlNode* node,
                    bool last, bool remove) {
    if (node->is_null()) {
      if (remove) return nullptr;
      node->kind = YamlNode::Kind::kMap;
    }
    if (!node->is_map()) {
      Refuse(node->is_list() ? absl::StrCat(path, " as a section")
                             : absl::StrCat("a field within ", path),
             node->is_list() ? absl::StrCat(path, "[0] and so on for its list")
                             : absl::StrCat(path, " to be a section"));
      return nullptr;
    }
    YamlNode* child = node->Find(step.name);
    if (remove) {
      if (child != nullptr) {
        const auto index = child - node->children.data();
        node->children.erase(node->children.begin() + index);
        node->keys.erase(node->keys.begin() + index);
        node->key_lines.erase(node->key_lines.begin() + index);
      }
      return nullptr;
    }
    if (child != nullptr) {
      if (last) {
        node->key_lines[static_cast<size_t>(child - node->children.data())] = 0;
      }
      return child;
    }
    node->keys.push_back(step.name);
    node->key_lines.push_back(0);
    node->children.emplace_back();
    return &node->children.back();
  }

  YamlNode* IntoList(const Step& step, const std::string& path, YamlNode* node,
                     bool remove) {
    if (node->is_null() && !remove) node->kind = YamlNode::Kind::kList;
    const auto size = static_cast<int64_t>(node->children.size());
    if (!node->is_list() || step.index > size ||
        (remove && step.index == size)) {
      Refuse(absl::StrCat("element ", step.index, " of ", path),
             node->is_list() ? absl::StrCat("it to be below ", size,
                                            ", the number of elements")
                             : absl::StrCat(path, " to be a list"));
      return nullptr;
    }
    if (remove) {
      node->children.erase(node->children.begin() + step.index);
      return nullptr;
    }
    if (step.index == size) node->children.emplace_back();
    return &node->children[static_cast<size_t>(step.index)];
  }

  const std::string& field_;
  Problems* const problems_;
};

}  // namespace

void ApplySets(absl::Span<const std::string> sets, YamlNode* root,
               Problems* problems) {
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    const std::string field =
        equals == std::string::npos
            ? set
            : std::string(absl::StripAsciiWhitespace(
                  absl::string_view(set).substr(0, equals)));
    std::vector<Step> steps;
    if (equals == std::string::npos || !ParsePath(field, &steps)) {
      problems->Add(Printable(field), Quoted(set), "FIELD=VALUE",
                    "for example run.epochs=3", 0, kSetFile);
      continue;
    }
    YamlNode value;
    if (!ReadValue(field, absl::string_view(set).substr(equals + 1), &value,
                   problems)) {
      continue;
    }
    Setter(field, problems).Set(steps, std::move(value), root);
  }
}

}  // namespace pipework
