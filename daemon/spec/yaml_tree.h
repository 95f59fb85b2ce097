// Text in YAML or JSON as a plain tree that remembers its lines.
//
// yaml-cpp reads the text; this keeps from it what a job spec must not have:
// anchors, aliases, tags, second documents, keys that are no words or occur
// twice, bytes that are no UTF-8, and trees too deep or too large.
#ifndef PIPEWORK_DAEMON_SPEC_YAML_TREE_H_
#define PIPEWORK_DAEMON_SPEC_YAML_TREE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/spec/problems.h"

namespace pipework {

// Of a spec, in bytes.
constexpr int64_t kLargestSpec = 16 << 20;
// More nesting than any spec has.
constexpr int kDeepestTree = 32;
constexpr int64_t kMostNodes = 2'000'000;
// In one section.
constexpr size_t kMostKeys = 1000;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  int line = 0;            // from 1; 0: it did not come from the spec's text
  bool is_quoted = false;  // of a scalar
  std::string text;        // of a scalar
  // kList: the elements. kMap: the values of `keys`, which differ.
  std::vector<YamlNode> children;
  std::vector<std::string> keys;
  std::vector<int> key_lines;

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_null() const { return kind == Kind::kNull; }
  // The value of `key`, nullptr if there is none. REQUIRES: is_map().
  YamlNode* Find(absl::string_view key);
};

// The tree of `text`; what is wrong is added to `problems` with its line. A
// part with a problem is spoilt; a text that cannot be read at all gives null,
// and "" is spoilt.
YamlNode ReadYaml(absl::string_view text, Problems* problems);

// Length of the UTF-8 sequence that starts at `at`, 0 if there is none.
int Utf8Length(absl::string_view text, size_t at);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_YAML_TREE_H_
