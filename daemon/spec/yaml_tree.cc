#include "daemon/spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/layers/args.h"

namespace pipework {
namespace {

// Builds the tree from the parser's events. To stop, it throws what the
// parser itself throws.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(Problems* problems) : problems_(problems) {}

  YamlNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = Start(mark, anchor, "?");
    if (AtKey()) {
      TakeKey(mark, "", false);
    } else {
      Attach(std::move(node));
    }
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    YamlNode node = Start(mark, 0, "?");
    if (AtKey()) {
      TakeKey(mark, "", false);
      return;
    }
    Refuse(mark, "an alias (*)", "the value itself",
           "anchors and aliases are not read");
    Attach(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    YamlNode node = Start(mark, anchor, tag);
    if (AtKey()) {
      TakeKey(mark, value, true);
      return;
    }
    node.kind = YamlNode::Kind::kScalar;
    node.is_quoted = tag == "!";
    node.text = value;
    Attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A list or map whose end has not come yet.
  struct Frame {
    YamlNode node;
    std::string field;
    std::string value_field;  // of a map: where the next value belongs
    bool wants_key = false;   // of a map
    bool drop_value = false;  // its key was refused
    // This list or map stands where a key should: thrown away at its end.
    bool is_key = false;
  };

  bool AtKey() const { return !open_.empty() && open_.back().wants_key; }

  // Path of the value that comes next.
  std::string Here() const {
    if (open_.empty()) return "";
    const Frame& frame = open_.back();
    if (frame.node.is_list()) {
      return IndexField(frame.field,
                        static_cast<int64_t>(frame.node.children.size()));
    }
    return frame.value_field;
  }

  void Refuse(const YAML::Mark& mark, const std::string& got,
              const std::string& expected, const std::string& hint) {
    problems_->Add(Here(), got, expected, hint, mark.line + 1);
    problems_->Spoil(Here());
  }

  YamlNode Start(const YAML::Mark& mark, YAML::anchor_t anchor,
                 const std::string& tag) {
    if (++nodes_ > kMostNodes) {
      throw YAML::ParserException(
          mark, absl::StrCat("more than ", kMostNodes, " values"));
    }
    if (anchor != 0) {
      Refuse(mark, "an anchor (&)", "a value without a name",
             "anchors and aliases are not read");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      Refuse(mark, absl::StrCat("the tag ", Quoted(tag)), "a plain value",
             "tags are not read; quote a number that is meant as text");
    }
    YamlNode node;
    node.line = mark.line + 1;
    return node;
  }

  void Open(const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, YamlNode::Kind kind) {
    Frame frame;
    frame.node = Start(mark, anchor, tag);
    frame.node.kind = kind;
    frame.wants_key = kind == YamlNode::Kind::kMap;
    if (AtKey()) {
      TakeKey(mark, "", false);
      frame.is_key = true;
    }
    frame.field = Here();
    open_.push_back(std::move(frame));
    if (open_.size() > static_cast<size_t>(kDeepestTree)) {
      throw YAML::ParserException(
          mark, absl::StrCat("nesting deeper than ", kDeepestTree));
    }
  }

  void Close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    if (!frame.is_key) Attach(std::move(frame.node));
  }

  void TakeKey(const YAML::Mark& mark, const std::string& key, bool is_word) {
    Frame& frame = open_.back();
    frame.wants_key = false;
    frame.drop_value = true;
    const int line = mark.line + 1;
    frame.value_field = is_word ? JoinField(frame.field, key) : frame.field;
    if (!is_word) {
      problems_->Add(frame.field, "a key that is no word", "a field's name", "",
                     line);
      problems_->Spoil(frame.field);
      return;
    }
    const auto& keys = frame.node.keys;
    const auto before = std::find(keys.begin(), keys.end(), key);
    if (before != keys.end()) {
      problems_->Add(
          frame.value_field, "given twice", "one value",
          absl::StrCat("it is on line ",
                       frame.node.key_lines[before - keys.begin()], " too"),
          line);
      problems_->Spoil(frame.value_field);
      return;
    }
    if (keys.size() == kMostKeys) {
      throw YAML::ParserException(
          mark, absl::StrCat("more than ", kMostKeys, " fields in a section"));
    }
    frame.drop_value = false;
    frame.node.keys.push_back(key);
    frame.node.key_lines.push_back(line);
  }

  void Attach(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.is_map()) {
      frame.wants_key = true;
      if (frame.drop_value) return;
    }
    frame.node.children.push_back(std::move(node));
  }

  Problems* const problems_;
  YamlNode root_;
  std::vector<Frame> open_;
  int64_t nodes_ = 0;
};

// A line of its own for the first byte that is no text.
bool IsText(absl::string_view text, Problems* problems) {
  int line = 1;
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    const int length = Utf8Length(text, at);
    if (length == 0) {
      problems->Add("",
                    absl::StrCat("byte 0x", absl::Hex(c, absl::kZeroPad2),
                                 ", which is not UTF-8"),
                    "text in UTF-8", "", line);
      return false;
    }
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
      problems->Add("",
                    absl::StrCat("the control character 0x",
                                 absl::Hex(c, absl::kZeroPad2)),
                    "text", "", line);
      return false;
    }
    if (c == '\n') ++line;
    at += static_cast<size_t>(length);
  }
  return true;
}

}  // namespace

YamlNode* YamlNode::Find(absl::string_view key) {
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found == keys.end()) return nullptr;
  return &children[static_cast<size_t>(found - keys.begin())];
}

int Utf8Length(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto more = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned c = byte(0);
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c <= 0xdf && more(1)) return 2;
  if (c >= 0xe0 && c <= 0xef && more(1) && more(2)) {
    if (c == 0xe0 && byte(1) < 0xa0) return 0;  // a longer form than needed
    if (c == 0xed && byte(1) > 0x9f) return 0;  // half of a pair
    return 3;
  }
  if (c >= 0xf0 && c <= 0xf4 && more(1) && more(2) && more(3)) {
    if (c == 0xf0 && byte(1) < 0x90) return 0;
    if (c == 0xf4 && byte(1) > 0x8f) return 0;  // beyond U+10FFFF
    return 4;
  }
  return 0;
}

YamlNode ReadYaml(absl::string_view text, Problems* problems) {
  if (static_cast<int64_t>(text.size()) > kLargestSpec) {
    problems->Add("", absl::StrCat(text.size(), " bytes"),
                  absl::StrCat("at most ", kLargestSpec));
    problems->Spoil("");
    return YamlNode();
  }
  if (!IsText(text, problems)) {
    problems->Spoil("");
    return YamlNode();
  }
  std::istringstream in{std::string(text)};
  TreeBuilder builder(problems);
  try {
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    Problems rest;
    TreeBuilder second(&rest);
    if (parser.HandleNextDocument(second)) {
      problems->Add("", "a second document", "one", "remove what follows ---",
                    second.Take().line);
    }
  } catch (const YAML::Exception& e) {
    // What was found before it may be its first sign.
    problems->mutable_list()->clear();
    problems->Add("", Printable(e.msg), "YAML or JSON", "",
                  e.mark.is_null() ? 0 : e.mark.line + 1);
    problems->Spoil("");
    return YamlNode();
  }
  return builder.Take();
}

}  // namespace pipework
