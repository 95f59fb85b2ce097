#include "partitioner/graph_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "partitioner/profile.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"

namespace pipework {
namespace {

constexpr double kMost = 1e12;  // milliseconds or bytes
constexpr absl::string_view kDash = " -- ";
constexpr absl::string_view kFirstField = "forward_compute_time=";
constexpr absl::string_view kNodeForm =
    "\"NODE -- DESCRIPTION -- forward_compute_time=MS, "
    "backward_compute_time=MS, activation_size=BYTES, parameter_size=BYTES\"";
constexpr absl::string_view kTruncated =
    "the file may be truncated: fetch it again";

struct Edge {
  std::string from, to;
  int line = 0;
};

struct Node {
  std::string id;
  std::string description;
  double forward_ms = 0;
  double backward_ms = 0;
  double activation_bytes = 0;
  double parameter_bytes = 0;
  int line = 0;
  std::vector<int> reads;    // nodes
  std::vector<int> readers;  // nodes
  bool gone = false;

  bool is_input() const { return absl::StartsWith(description, "Input"); }
};

// Short and on one line, whatever a file holds.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 60)),
                      text.size() > 60 ? "..." : "", "\"");
}

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isprint(c); });
}

absl::Status CheckSize(absl::string_view text, absl::string_view source) {
  if (text.size() <= kMostGraphTextBytes) return absl::OkStatus();
  return Mismatch(source, "its size", absl::StrCat(text.size(), " bytes"),
                  absl::StrCat("at most ", kMostGraphTextBytes),
                  "give the profile of one network");
}

// Sorts node9 before node10.
std::tuple<int64_t, std::string> Rank(const std::string& id) {
  const size_t digits = id.find_last_not_of("0123456789") + 1;
  int64_t number = 0;
  if (!absl::SimpleAtoi(absl::string_view(id).substr(digits), &number)) {
    number = -1;
  }
  return {number, id};
}

class GraphText {
 public:
  explicit GraphText(absl::string_view source) : source_(source) {}

  absl::Status Read(absl::string_view text) {
    int line = 0;
    for (absl::string_view row : absl::StrSplit(text, '\n')) {
      ++line;
      row = absl::StripTrailingAsciiWhitespace(row);
      if (absl::StripAsciiWhitespace(row).empty()) continue;
      RETURN_IF_ERROR(absl::StartsWith(row, "\t") ? ReadEdge(row, line)
                                                  : ReadNode(row, line));
    }
    if (nodes_.empty()) {
      return Mismatch(absl::StrCat(source_, ":1"), "the number of nodes", "0",
                      "1 or more", kTruncated);
    }
    return Connect();
  }

  absl::StatusOr<v1::Profile> ToProfile() {
    RETURN_IF_ERROR(CheckConnected());
    ASSIGN_OR_RETURN(const std::vector<int> order, Order());
    v1::Profile profile;
    profile.set_batch(1);
    profile.set_source(std::string(source_));
    profile.set_device_kind("unknown");
    double input_bytes = 0;
    for (const Node& node : nodes_) {
      if (node.is_input() && node.reads.empty()) {
        input_bytes += node.activation_bytes;
      }
    }
    profile.set_input_bytes(std::llround(input_bytes));
    RemoveInputsAndUnusedSinks();
    for (const int n : order) {
      const Node& node = nodes_[n];
      if (node.gone) continue;
      v1::LayerProfile* layer = profile.add_layers();
      layer->set_name(node.id);
      layer->set_description(node.description);
      layer->set_forward_seconds(node.forward_ms / 1000);
      layer->set_backward_seconds(node.backward_ms / 1000);
      layer->set_output_bytes(std::llround(node.activation_bytes));
      layer->set_parameter_bytes(std::llround(node.parameter_bytes));
      bool reads_x = node.reads.empty();
      for (const int input : node.reads) {
        if (nodes_[input].gone) {
          reads_x = true;
        } else {
          layer->add_inputs(nodes_[input].id);
        }
      }
      if (reads_x) layer->add_inputs("x");
    }
    RETURN_IF_ERROR(WithContext(source_, CheckProfile(profile)));
    return profile;
  }

 private:
  std::string Where(int line) const { return absl::StrCat(source_, ":", line); }

  absl::Status ReadEdge(absl::string_view row, int line) {
    const std::vector<absl::string_view> ends = absl::StrSplit(row, "--");
    Edge edge;
    edge.line = line;
    if (ends.size() == 2) {
      edge.from = std::string(absl::StripAsciiWhitespace(ends[0]));
      edge.to = std::string(absl::StripAsciiWhitespace(ends[1]));
    }
    if (edge.from.empty() || edge.to.empty()) {
      return Mismatch(Where(line), "an edge", Quoted(row),
                      "\"<tab>NODE -- NODE\"", kTruncated);
    }
    edges_.push_back(std::move(edge));
    return absl::OkStatus();
  }

  absl::Status ReadNode(absl::string_view row, int line) {
    const size_t after_id = row.find(kDash);
    const size_t before_fields = row.rfind(absl::StrCat(kDash, kFirstField));
    if (after_id == absl::string_view::npos || after_id == 0 ||
        before_fields == absl::string_view::npos) {
      return Mismatch(Where(line), "a node", Quoted(row), kNodeForm,
                      kTruncated);
    }
    Node node;
    node.line = line;
    node.id = std::string(row.substr(0, after_id));
    const size_t description = after_id + kDash.size();
    if (before_fields > description) {
      node.description =
          std::string(row.substr(description, before_fields - description));
    }
    const std::vector<absl::string_view> parts =
        absl::StrSplit(row.substr(before_fields + kDash.size()), kDash);
    const std::vector<absl::string_view> fields =
        absl::StrSplit(parts[0], ", ");
    if (fields.size() != 4 || parts.size() > 2 ||
        (parts.size() == 2 && !absl::StartsWith(parts[1], "stage_id="))) {
      return Mismatch(Where(line), "a node", Quoted(row), kNodeForm,
                      kTruncated);
    }
    RETURN_IF_ERROR(ReadNumber(line, fields[0], kFirstField, &node.forward_ms));
    RETURN_IF_ERROR(ReadNumber(line, fields[1],
                               "backward_compute_time=", &node.backward_ms));
    RETURN_IF_ERROR(ReadNumber(line, fields[2],
                               "activation_size=", &node.activation_bytes));
    RETURN_IF_ERROR(
        ReadNumber(line, fields[3], "parameter_size=", &node.parameter_bytes));
    if (!IsPlain(node.id)) {
      return Mismatch(Where(line), "a node's name", Quoted(node.id),
                      "printable ASCII", "rename it");
    }
    if (!IsPlain(node.description)) {
      node.description = absl::CHexEscape(node.description);
    }
    const auto [known, fresh] = index_.emplace(node.id, nodes_.size());
    if (!fresh) {
      return Mismatch(Where(line), "a node",
                      absl::StrCat(Quoted(node.id), " again"),
                      absl::StrCat("one of that name, as in line ",
                                   nodes_[known->second].line),
                      "remove or rename one of them");
    }
    nodes_.push_back(std::move(node));
    return absl::OkStatus();
  }

  // NAME=NUMBER or NAME=[NUMBER; NUMBER], which is their sum.
  absl::Status ReadNumber(int line, absl::string_view field,
                          absl::string_view name, double* value) const {
    absl::string_view text = field;
    const absl::string_view label = absl::StripSuffix(name, "=");
    if (!absl::ConsumePrefix(&text, name)) {
      return Mismatch(Where(line), "a field", Quoted(field),
                      absl::StrCat(label, "=NUMBER"), kTruncated);
    }
    const bool list = absl::ConsumePrefix(&text, "[");
    if (list && !absl::ConsumeSuffix(&text, "]")) {
      return Mismatch(Where(line), label, Quoted(text), "a list that ends in ]",
                      kTruncated);
    }
    *value = 0;
    const std::vector<absl::string_view> numbers =
        list ? std::vector<absl::string_view>(absl::StrSplit(text, ';'))
             : std::vector<absl::string_view>{text};
    for (const absl::string_view number : numbers) {
      double one = 0;
      if (!absl::SimpleAtod(number, &one) || !(one >= 0 && one <= kMost)) {
        return Mismatch(Where(line), label, Quoted(number),
                        absl::StrCat("a number from 0 to ", kMost),
                        "correct it, or profile the graph again");
      }
      *value = std::min(kMost, *value + one);
    }
    return absl::OkStatus();
  }

  absl::Status Connect() {
    for (const Edge& edge : edges_) {
      for (const std::string& end : {edge.from, edge.to}) {
        if (!index_.contains(end)) {
          return Mismatch(Where(edge.line), "an edge's node", Quoted(end),
                          "the name of a node of this file",
                          "add its line, or remove the edge");
        }
      }
      const int from = index_[edge.from];
      const int to = index_[edge.to];
      std::vector<int>& reads = nodes_[to].reads;
      if (std::find(reads.begin(), reads.end(), from) != reads.end()) continue;
      reads.push_back(from);
      nodes_[from].readers.push_back(to);
    }
    return absl::OkStatus();
  }

  absl::Status CheckConnected() const {
    if (nodes_.size() == 1) return absl::OkStatus();
    for (const Node& node : nodes_) {
      if (!node.reads.empty() || !node.readers.empty() || node.is_input()) {
        continue;
      }
      return Mismatch(Where(node.line),
                      absl::StrCat("the number of edges of ", Quoted(node.id)),
                      "0", "1 or more", kTruncated);
    }
    return CheckOnePiece();
  }

  // A file that was cut between two edges may still name every node in one.
  absl::Status CheckOnePiece() const {
    std::vector<bool> reached(nodes_.size(), false);
    std::vector<int> next = {0};
    reached[0] = true;
    while (!next.empty()) {
      const Node& node = nodes_[next.back()];
      next.pop_back();
      for (const std::vector<int>* others : {&node.reads, &node.readers}) {
        for (const int other : *others) {
          if (reached[other]) continue;
          reached[other] = true;
          next.push_back(other);
        }
      }
    }
    const auto lost = std::find(reached.begin(), reached.end(), false);
    if (lost == reached.end()) return absl::OkStatus();
    const Node& node = nodes_[lost - reached.begin()];
    return Mismatch(Where(node.line), "the graph",
                    absl::StrCat("in pieces: nothing joins ", Quoted(node.id),
                                 " and ", Quoted(nodes_[0].id)),
                    "one in one piece", kTruncated);
  }

  // All nodes, each after what it reads, smallest number first.
  absl::StatusOr<std::vector<int>> Order() const {
    using Entry = std::pair<std::tuple<int64_t, std::string>, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    std::vector<int> missing;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      missing.push_back(static_cast<int>(nodes_[n].reads.size()));
      if (missing[n] == 0) ready.emplace(Rank(nodes_[n].id), n);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int n = ready.top().second;
      ready.pop();
      order.push_back(n);
      for (const int reader : nodes_[n].readers) {
        if (--missing[reader] == 0) {
          ready.emplace(Rank(nodes_[reader].id), reader);
        }
      }
    }
    if (order.size() < nodes_.size()) return Cycle(missing);
    return order;
  }

  // Every node that is `missing` something reads one that is, too.
  absl::Status Cycle(const std::vector<int>& missing) const {
    int n = 0;
    while (missing[n] == 0) ++n;
    std::vector<bool> seen(nodes_.size(), false);
    while (!seen[n]) {
      seen[n] = true;
      for (const int input : nodes_[n].reads) {
        if (missing[input] > 0) {
          n = input;
          break;
        }
      }
    }
    return Mismatch(Where(nodes_[n].line), "the graph",
                    absl::StrCat("cyclic through ", Quoted(nodes_[n].id)),
                    "one without a cycle", "remove one of the cycle's edges");
  }

  void RemoveInputsAndUnusedSinks() {
    for (Node& node : nodes_) {
      node.gone = node.is_input() && node.reads.empty();
    }
    for (Node& node : nodes_) {
      if (node.readers.empty() &&
          absl::StartsWith(node.description, "__getitem__")) {
        node.gone = true;
      }
    }
  }

  const absl::string_view source_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  absl::flat_hash_map<std::string, int> index_;
};

}  // namespace

absl::StatusOr<v1::Profile> ParseGraphText(absl::string_view text,
                                           absl::string_view source) {
  RETURN_IF_ERROR(CheckSize(text, source));
  GraphText graph(source);
  RETURN_IF_ERROR(graph.Read(text));
  return graph.ToProfile();
}

absl::StatusOr<v1::Profile> ParseProfile(absl::string_view text,
                                         absl::string_view source) {
  RETURN_IF_ERROR(CheckSize(text, source));
  const absl::string_view body = absl::StripLeadingAsciiWhitespace(text);
  const absl::string_view first = body.substr(0, body.find('\n'));
  const size_t dash = first.find(kDash);
  if (dash != absl::string_view::npos &&
      first.substr(0, dash).find_first_of(":{<#") == absl::string_view::npos) {
    return ParseGraphText(text, source);
  }
  v1::Profile profile;
  RETURN_IF_ERROR(ParseText(std::string(text), std::string(source), &profile));
  RETURN_IF_ERROR(WithContext(source, CheckProfile(profile)));
  return profile;
}

}  // namespace pipework
