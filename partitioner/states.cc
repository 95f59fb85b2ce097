#include "partitioner/states.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// A set of layers, or of groups of them.
class Bits {
 public:
  explicit Bits(int size = 0) : words_((size + 63) / 64, 0) {}

  bool Has(int i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void Add(int i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void Remove(int i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  void AddAll(const Bits& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  bool Inside(const Bits& other) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if ((words_[w] & ~other.words_[w]) != 0) return false;
    }
    return true;
  }
  int Count() const {
    int count = 0;
    for (const uint64_t word : words_) count += __builtin_popcountll(word);
    return count;
  }

  friend bool operator==(const Bits& a, const Bits& b) {
    return a.words_ == b.words_;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Bits& bits) {
    return H::combine(std::move(h), bits.words_);
  }

 private:
  std::vector<uint64_t> words_;
};

// Who reads whom; acyclic.
struct Dag {
  std::vector<std::vector<int>> reads;
  std::vector<std::vector<int>> readers;

  int size() const { return static_cast<int>(reads.size()); }
};

// All sets but the empty one that hold, with a node, all that it reads. Stops
// once there are more than `most`.
std::vector<Bits> ClosedSets(const Dag& dag, int most) {
  struct Open {
    Bits set;
    std::vector<int> ready;  // nodes outside whose inputs are all inside
  };
  std::vector<Bits> found;
  absl::flat_hash_set<Bits> seen;
  std::vector<Open> front(1, Open{Bits(dag.size()), {}});
  for (int n = 0; n < dag.size(); ++n) {
    if (dag.reads[n].empty()) front[0].ready.push_back(n);
  }
  // Sets of one size after those of the size below.
  while (!front.empty()) {
    std::vector<Open> next;
    for (const Open& open : front) {
      for (const int added : open.ready) {
        Open wider{open.set, {}};
        wider.set.Add(added);
        if (!seen.insert(wider.set).second) continue;
        found.push_back(wider.set);
        if (static_cast<int>(found.size()) > most) return found;
        for (const int n : open.ready) {
          if (n != added) wider.ready.push_back(n);
        }
        for (const int reader : dag.readers[added]) {
          const std::vector<int>& reads = dag.reads[reader];
          if (std::all_of(reads.begin(), reads.end(),
                          [&wider](int n) { return wider.set.Has(n); })) {
            wider.ready.push_back(reader);
          }
        }
        next.push_back(std::move(wider));
      }
    }
    front = std::move(next);
  }
  return found;
}

// Takes nodes together, two at a time, such that no cycle arises: the closed
// sets of the groups are some of the closed sets of the nodes.
class Groups {
 public:
  Groups(const Dag& dag, std::vector<double> seconds)
      : seconds_(std::move(seconds)),
        reads_(dag.reads),
        readers_(dag.readers),
        before_(dag.size(), Bits(dag.size())),
        after_(dag.size(), Bits(dag.size())),
        group_of_(dag.size()) {
    std::iota(group_of_.begin(), group_of_.end(), 0);
    alive_ = group_of_;
    for (int n = 0; n < dag.size(); ++n) {
      for (const int input : dag.reads[n]) {
        before_[n].AddAll(before_[input]);
        before_[n].Add(input);
      }
    }
    for (int n = dag.size() - 1; n >= 0; --n) {
      for (const int reader : dag.readers[n]) {
        after_[n].AddAll(after_[reader]);
        after_[n].Add(reader);
      }
    }
    for (int n = 0; n < dag.size(); ++n) {
      before_count_.push_back(before_[n].Count());
      after_count_.push_back(after_[n].Count());
    }
  }

  int size() const { return static_cast<int>(alive_.size()); }

  // By node: the group that it is in, from 0, in no order.
  std::vector<int> Numbers() const {
    std::vector<int> number(group_of_.size(), -1);
    for (int g = 0; g < size(); ++g) number[alive_[g]] = g;
    std::vector<int> numbers;
    for (int n : group_of_) {
      while (group_of_[n] != n) n = group_of_[n];
      numbers.push_back(number[n]);
    }
    return numbers;
  }

  // Takes the two groups together that lose least: those that are cheap, and
  // could run beside many others. REQUIRES: size() > 1.
  void MergeTwo() {
    beside_.assign(group_of_.size(), 0);
    for (const int g : alive_) {
      beside_[g] = size() - 1 - before_count_[g] - after_count_[g];
    }
    Choice best;
    for (const int g : alive_) {
      // A group and the last one that it reads: no other path joins them.
      if (!reads_[g].empty()) Consider(LastRead(g), g, &best);
      if (!readers_[g].empty()) Consider(g, FirstReader(g), &best);
      // Branches that leave and meet again at the same places.
      for (const int input : reads_[g]) {
        for (const int twin : readers_[input]) {
          if (twin <= g || readers_[twin] != readers_[g]) continue;
          if (reads_[twin] == reads_[g]) Consider(g, twin, &best);
        }
      }
    }
    // Several beginnings and nothing that joins them.
    if (best.a < 0) Consider(alive_[0], alive_[1], &best);
    Merge(best.a, best.b);
  }

 private:
  struct Choice {
    int a = -1, b = -1;
    double score = std::numeric_limits<double>::infinity();
  };

  void Consider(int a, int b, Choice* best) const {
    const double seconds = seconds_[a] + seconds_[b];
    const double beside = 1.0 * beside_[a] * beside_[b];
    // What everything passes comes after all that it does not.
    const double score = beside > 0 ? seconds / beside : 1e30 * (1 + seconds);
    if (score < best->score) *best = {a, b, score};
  }

  int LastRead(int g) const {
    for (const int input : reads_[g]) {
      const bool last = std::none_of(
          reads_[g].begin(), reads_[g].end(),
          [this, input](int other) { return after_[input].Has(other); });
      if (last) return input;
    }
    PIPE_CHECK(false);
  }

  int FirstReader(int g) const {
    for (const int reader : readers_[g]) {
      const bool first = std::none_of(
          readers_[g].begin(), readers_[g].end(),
          [this, reader](int other) { return before_[reader].Has(other); });
      if (first) return reader;
    }
    PIPE_CHECK(false);
  }

  // `b` becomes part of `a`.
  void Merge(int a, int b) {
    seconds_[a] += seconds_[b];
    group_of_[b] = a;
    alive_.erase(std::find(alive_.begin(), alive_.end(), b));
    before_[a].AddAll(before_[b]);
    after_[a].AddAll(after_[b]);
    for (Bits* bits : {&before_[a], &after_[a]}) {
      bits->Remove(a);
      bits->Remove(b);
    }
    const auto replace = [a, b](std::vector<int>* list) {
      for (int& n : *list) n = n == b ? a : n;
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    };
    const auto join = [&](std::vector<std::vector<int>>* lists) {
      std::vector<int>& list = (*lists)[a];
      list.insert(list.end(), (*lists)[b].begin(), (*lists)[b].end());
      replace(&list);
      list.erase(std::remove(list.begin(), list.end(), a), list.end());
    };
    join(&reads_);
    join(&readers_);
    for (const int input : reads_[a]) replace(&readers_[input]);
    for (const int reader : readers_[a]) replace(&reads_[reader]);
    before_count_[a] = before_[a].Count();
    after_count_[a] = after_[a].Count();
    for (const int g : alive_) {
      if (g == a) continue;
      Rename(a, b, before_[a].Has(g) ? &after_[a] : nullptr, &after_[g],
             &after_count_[g]);
      Rename(a, b, after_[a].Has(g) ? &before_[a] : nullptr, &before_[g],
             &before_count_[g]);
    }
  }

  // Group `b` is `a` now, and with it comes `more` where that is not null.
  static void Rename(int a, int b, const Bits* more, Bits* bits, int* count) {
    if (more != nullptr && !(bits->Has(a) && more->Inside(*bits))) {
      bits->AddAll(*more);
      bits->Add(a);
      bits->Remove(b);
      *count = bits->Count();
    } else if (bits->Has(b)) {
      bits->Remove(b);
      --*count;
    }
  }

  std::vector<double> seconds_;
  std::vector<std::vector<int>> reads_, readers_;  // of groups, ascending
  std::vector<Bits> before_, after_;               // all, however far
  std::vector<int> before_count_, after_count_;
  std::vector<int> beside_;    // neither before nor after
  std::vector<int> group_of_;  // itself, or the next one up
  std::vector<int> alive_;
};

Dag GroupDag(const Dag& dag, const std::vector<int>& numbers, int groups) {
  Dag out;
  out.reads.resize(groups);
  out.readers.resize(groups);
  absl::flat_hash_set<std::pair<int, int>> edges;
  for (int n = 0; n < dag.size(); ++n) {
    for (const int input : dag.reads[n]) {
      const int from = numbers[input];
      const int to = numbers[n];
      if (from == to || !edges.emplace(from, to).second) continue;
      out.reads[to].push_back(from);
      out.readers[from].push_back(to);
    }
  }
  return out;
}

// The closed sets of the finest groups that have no more than `most`.
std::vector<Bits> CompressedSets(const Dag& dag, std::vector<double> seconds,
                                 int most) {
  struct Step {
    std::vector<int> numbers;
    int groups;
  };
  const auto sets = [&dag, most](const Step& step) {
    return ClosedSets(GroupDag(dag, step.numbers, step.groups), most);
  };
  Groups groups(dag, std::move(seconds));
  // In strides, and then the first step of the last stride that will do.
  const int stride = std::max(1, dag.size() / 16);
  std::vector<Step> steps;
  do {
    steps.clear();
    for (int i = 0; i < stride && groups.size() > 1; ++i) {
      groups.MergeTwo();
      steps.push_back({groups.Numbers(), groups.size()});
    }
  } while (static_cast<int>(sets(steps.back()).size()) > most);
  int low = 0, high = static_cast<int>(steps.size()) - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (static_cast<int>(sets(steps[middle]).size()) > most) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const Step& step = steps[low];
  std::vector<Bits> found;
  for (const Bits& set : sets(step)) {
    Bits nodes(dag.size());
    for (int n = 0; n < dag.size(); ++n) {
      if (set.Has(step.numbers[n])) nodes.Add(n);
    }
    found.push_back(std::move(nodes));
  }
  return found;
}

State MakeState(const LayerGraph& graph, const Dag& dag, const Bits& set) {
  State state;
  bool x_outside = false, y_outside = false;
  for (int n = 0; n < graph.size(); ++n) {
    const LayerGraph::Node& node = graph.nodes[n];
    if (!set.Has(n)) {
      x_outside |= node.reads_x;
      y_outside |= node.reads_y;
      continue;
    }
    state.layers.push_back(n);
    state.compute_seconds +=
        node.cost.forward_seconds + node.cost.backward_seconds;
    state.parameter_bytes += static_cast<double>(node.cost.parameter_bytes);
    const std::vector<int>& readers = dag.readers[n];
    if (std::any_of(readers.begin(), readers.end(),
                    [&set](int reader) { return !set.Has(reader); })) {
      state.rim.push_back(n);
      state.gradient_bytes += static_cast<double>(node.cost.output_bytes);
    }
  }
  state.cut_bytes = state.gradient_bytes;
  if (x_outside) state.cut_bytes += static_cast<double>(graph.x_bytes);
  if (y_outside) state.cut_bytes += static_cast<double>(graph.y_bytes);
  return state;
}

Dag DagOf(const LayerGraph& graph) {
  Dag dag;
  dag.readers.resize(graph.size());
  for (int n = 0; n < graph.size(); ++n) {
    dag.reads.push_back(graph.nodes[n].inputs);
    for (const int input : dag.reads[n]) dag.readers[input].push_back(n);
  }
  return dag;
}

// Small states first, and among equals that with the smaller layers.
StateGraph BuildStates(const LayerGraph& graph, const Dag& dag,
                       const std::vector<Bits>& sets) {
  std::vector<State> states;
  for (const Bits& set : sets) states.push_back(MakeState(graph, dag, set));
  std::vector<int> order(sets.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&states](int a, int b) {
    const std::vector<int>& left = states[a].layers;
    const std::vector<int>& right = states[b].layers;
    if (left.size() != right.size()) return left.size() < right.size();
    return left < right;
  });
  StateGraph out;
  for (size_t j = 0; j < order.size(); ++j) {
    State& state = states[order[j]];
    for (size_t i = 0; i < j; ++i) {
      // Sets differ, so one inside the other is smaller.
      if (sets[order[i]].Inside(sets[order[j]])) {
        state.predecessors.push_back(static_cast<int>(i));
      }
    }
    out.states.push_back(std::move(state));
  }
  return out;
}

}  // namespace

absl::StatusOr<LayerGraph> MakeLayerGraph(const v1::Graph& graph,
                                          const v1::Profile& profile,
                                          double scale) {
  ASSIGN_OR_RETURN(const ChainProfile chain, MakeChain(graph, profile, scale));
  LayerGraph out;
  out.x_bytes = chain.x_bytes;
  out.y_bytes = chain.y_bytes;
  absl::flat_hash_map<absl::string_view, int> index_of;
  for (int l = 0; l < graph.layers_size(); ++l) {
    const v1::Layer& layer = graph.layers(l);
    LayerGraph::Node node;
    node.name = layer.name();
    node.cost = chain.layers[l];
    if (layer.inputs().empty()) {
      if (l == 0) {
        node.reads_x = true;
      } else {
        node.inputs.push_back(l - 1);
      }
      node.reads_y = l + 1 == graph.layers_size();
    }
    for (const std::string& input : layer.inputs()) {
      const auto found = index_of.find(input);
      if (found != index_of.end()) {
        node.inputs.push_back(found->second);
      } else {
        (input == "x" ? node.reads_x : node.reads_y) = true;
      }
    }
    std::sort(node.inputs.begin(), node.inputs.end());
    node.inputs.erase(std::unique(node.inputs.begin(), node.inputs.end()),
                      node.inputs.end());
    index_of[layer.name()] = l;
    out.nodes.push_back(std::move(node));
  }
  return out;
}

StateGraph MakeStates(const LayerGraph& graph, const StateOptions& options) {
  const int most = std::max(1, options.most_states);
  const Dag dag = DagOf(graph);
  std::vector<Bits> sets = ClosedSets(dag, most);
  if (static_cast<int>(sets.size()) <= most) {
    return BuildStates(graph, dag, sets);
  }
  std::vector<double> seconds;
  for (const LayerGraph::Node& node : graph.nodes) {
    seconds.push_back(node.cost.forward_seconds + node.cost.backward_seconds);
  }
  StateGraph out =
      BuildStates(graph, dag, CompressedSets(dag, std::move(seconds), most));
  out.complete = false;
  return out;
}

StateGraph StatesOf(const LayerGraph& graph,
                    const std::vector<std::vector<int>>& sets) {
  std::vector<Bits> bits;
  for (const std::vector<int>& set : sets) {
    bits.emplace_back(graph.size());
    for (const int n : set) bits.back().Add(n);
  }
  return BuildStates(graph, DagOf(graph), bits);
}

std::vector<int> OrderOf(const StateGraph& states,
                         const std::vector<int>& chain) {
  std::vector<int> order;
  std::vector<int> before;
  for (const int index : chain) {
    const std::vector<int>& layers = states.states[index].layers;
    std::set_difference(layers.begin(), layers.end(), before.begin(),
                        before.end(), std::back_inserter(order));
    before = layers;
  }
  return order;
}

}  // namespace pipework
