#include "partitioner/states.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"

namespace pipework {
namespace {

struct Network {
  v1::Graph graph;
  v1::Profile profile;

  std::string Add(const std::string& name, std::vector<std::string> inputs,
                  int64_t output_bytes, double seconds = 1,
                  int64_t parameter_bytes = 12) {
    v1::LayerProfile* layer = profile.add_layers();
    layer->set_name(name);
    layer->set_output_bytes(output_bytes);
    layer->set_parameter_bytes(parameter_bytes);
    layer->set_forward_seconds(seconds);
    layer->set_backward_seconds(2 * seconds);
    for (const std::string& input : inputs) layer->add_inputs(input);
    return name;
  }

  LayerGraph Finish() {
    profile.set_batch(1);
    profile.set_input_bytes(1000);
    profile.set_label_bytes(100);
    graph = *GraphOfProfile(profile);
    const auto made = MakeLayerGraph(graph, profile, 1);
    REQUIRE(made.ok());
    return *made;
  }
};

Network RandomNetwork(uint32_t seed, int layers) {
  std::mt19937 random(seed);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint32_t>(n));
  };
  Network network;
  for (int l = 0; l < layers; ++l) {
    std::vector<std::string> inputs;
    const int count = l == 0 ? 0 : below(4);
    for (int i = 0; i < count; ++i) {
      inputs.push_back(absl::StrCat("l", below(l)));
    }
    if (inputs.empty() || below(5) == 0) inputs.push_back("x");
    if (below(6) == 0) inputs.push_back("y");
    network.Add(absl::StrCat("l", l), inputs, 1 + below(50), 0.25 * below(9),
                below(30));
  }
  return network;
}

// Every non-empty set of layers that holds all that its layers read, the plain
// way, each with its costs.
std::map<std::vector<int>, State> AllStates(const LayerGraph& graph) {
  std::map<std::vector<int>, State> all;
  for (int mask = 1; mask < 1 << graph.size(); ++mask) {
    const auto in = [mask](int n) { return (mask >> n & 1) != 0; };
    State state;
    bool closed = true;
    std::set<int> alive;
    double x = 0, y = 0;
    for (int n = 0; n < graph.size(); ++n) {
      const LayerGraph::Node& node = graph.nodes[n];
      if (in(n)) {
        state.layers.push_back(n);
        state.parameter_bytes += static_cast<double>(node.cost.parameter_bytes);
        state.compute_seconds +=
            node.cost.forward_seconds + node.cost.backward_seconds;
      }
      for (const int input : node.inputs) {
        if (in(n) && !in(input)) closed = false;
        if (!in(n) && in(input)) alive.insert(input);
      }
      if (!in(n) && node.reads_x) x = static_cast<double>(graph.x_bytes);
      if (!in(n) && node.reads_y) y = static_cast<double>(graph.y_bytes);
    }
    if (!closed) continue;
    for (const int n : alive) {
      state.rim.push_back(n);
      state.gradient_bytes +=
          static_cast<double>(graph.nodes[n].cost.output_bytes);
    }
    state.cut_bytes = state.gradient_bytes + x + y;
    all[state.layers] = state;
  }
  return all;
}

bool Inside(const State& a, const State& b) {
  return a.layers.size() < b.layers.size() &&
         std::includes(b.layers.begin(), b.layers.end(), a.layers.begin(),
                       a.layers.end());
}

void CheckPredecessors(const StateGraph& states) {
  for (int j = 0; j < states.size(); ++j) {
    std::vector<int> inside;
    for (int i = 0; i < states.size(); ++i) {
      if (Inside(states.states[i], states.states[j])) {
        CHECK(i < j);
        inside.push_back(i);
      }
    }
    CHECK(states.states[j].predecessors == inside);
  }
}

TEST_CASE("states: every way to cut is found, with every tensor alive once") {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Network network = RandomNetwork(seed, 1 + static_cast<int>(seed % 10));
    const LayerGraph graph = network.Finish();
    const std::map<std::vector<int>, State> all = AllStates(graph);
    const StateGraph states = MakeStates(graph, {});
    CHECK(states.complete);
    REQUIRE(states.states.size() == all.size());
    for (const State& state : states.states) {
      const auto found = all.find(state.layers);
      REQUIRE(found != all.end());
      CHECK(state.rim == found->second.rim);
      CHECK(state.cut_bytes == found->second.cut_bytes);
      CHECK(state.gradient_bytes == found->second.gradient_bytes);
      CHECK(state.parameter_bytes == found->second.parameter_bytes);
      CHECK(state.compute_seconds == found->second.compute_seconds);
    }
    CheckPredecessors(states);
    CHECK(states.states.back().layers.size() == graph.nodes.size());
  }
}

TEST_CASE("states: compressed ones are some of all, the whole graph included") {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Network network = RandomNetwork(seed, 4 + static_cast<int>(seed % 8));
    const LayerGraph graph = network.Finish();
    const std::map<std::vector<int>, State> all = AllStates(graph);
    for (const int most : {1, 2, 5, 20}) {
      StateOptions options;
      options.most_states = most;
      const StateGraph states = MakeStates(graph, options);
      CHECK(states.size() <= most);
      CHECK(states.complete == (states.states.size() == all.size()));
      for (const State& state : states.states) {
        REQUIRE(all.count(state.layers) == 1);
        CHECK(state.cut_bytes == all.at(state.layers).cut_bytes);
      }
      CheckPredecessors(states);
      CHECK(states.states.back().layers.size() == graph.nodes.size());
    }
  }
}

TEST_CASE("states: those of a chain are its cuts") {
  Network network;
  for (int l = 0; l < 7; ++l) {
    network.Add(absl::StrCat("l", l), {}, 10 + l, 0.5 * l, l);
  }
  const LayerGraph graph = network.Finish();
  const auto chain = MakeChain(network.graph, network.profile, 1);
  REQUIRE(chain.ok());
  const StateGraph states = MakeStates(graph, {});
  REQUIRE(states.size() == 7);
  double seconds = 0, weights = 0;
  for (int i = 0; i < 7; ++i) {
    const State& state = states.states[i];
    const LayerCost& cost = chain->layers[i];
    seconds += cost.forward_seconds + cost.backward_seconds;
    weights += static_cast<double>(cost.parameter_bytes);
    CHECK(static_cast<int>(state.layers.size()) == i + 1);
    CHECK(static_cast<int>(state.predecessors.size()) == i);
    CHECK(state.compute_seconds == seconds);
    CHECK(state.parameter_bytes == weights);
    CHECK(state.cut_bytes == chain->cut_bytes[i]);
    CHECK(state.gradient_bytes == chain->gradient_bytes[i]);
  }
}

TEST_CASE("states: the graph's own order has the cuts of its chain") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Network network = RandomNetwork(seed, 9);
    const LayerGraph graph = network.Finish();
    const auto chain = MakeChain(network.graph, network.profile, 1);
    REQUIRE(chain.ok());
    const StateGraph states = MakeStates(graph, {});
    int prefixes = 0;
    for (const State& state : states.states) {
      const int last = static_cast<int>(state.layers.size()) - 1;
      if (state.layers.back() != last) continue;
      ++prefixes;
      CHECK(state.cut_bytes == chain->cut_bytes[last]);
      CHECK(state.gradient_bytes == chain->gradient_bytes[last]);
    }
    CHECK(prefixes == 9);
  }
}

TEST_CASE("states: layers are ordered by the stage that has them") {
  Network network;
  network.Add("a", {"x"}, 1);
  network.Add("b", {"a"}, 1);
  network.Add("c", {"a"}, 1);
  network.Add("d", {"b", "c"}, 1);
  const StateGraph states = MakeStates(network.Finish(), {});
  // a, ab, ac, abc, abcd.
  REQUIRE(states.size() == 5);
  CHECK(states.states[2].layers == std::vector<int>{0, 2});
  CHECK(OrderOf(states, {2, 4}) == std::vector<int>{0, 2, 1, 3});
  CHECK(OrderOf(states, {0, 1, 3, 4}) == std::vector<int>{0, 1, 2, 3});
}

// Convolution, normalization and activation.
std::string Conv(Network* network, const std::string& name,
                 const std::string& input, double seconds) {
  network->Add(name + ".conv", {input}, 400, seconds);
  network->Add(name + ".bn", {name + ".conv"}, 400, seconds / 4);
  return network->Add(name + ".relu", {name + ".bn"}, 400, seconds / 8);
}

// Modules of four branches, as in Inception-v3.
Network Inception() {
  Network network;
  std::string at = "x";
  for (int i = 0; i < 5; ++i) {
    at = Conv(&network, absl::StrCat("stem", i), at, 0.01);
  }
  for (int module = 0; module < 11; ++module) {
    std::vector<std::string> ends;
    for (int branch = 0; branch < 4; ++branch) {
      std::string end = at;
      for (int i = 0; i <= branch; ++i) {
        end = Conv(&network, absl::StrCat("m", module, ".", branch, ".", i),
                   end, 0.002 * (1 + i));
      }
      ends.push_back(end);
    }
    at = network.Add(absl::StrCat("m", module, ".concat"), ends, 1600, 0.0001);
  }
  network.Add("loss", {at, "y"}, 4, 0.001);
  return network;
}

// Cells that read the two cells before them and have five pairs of branches,
// as in NASNet.
Network Nasnet(int cells) {
  Network network;
  std::string before = Conv(&network, "stem", "x", 0.01);
  std::string at = before;
  for (int cell = 0; cell < cells; ++cell) {
    const std::string c = absl::StrCat("c", cell);
    const std::string left = Conv(&network, c + ".left", before, 0.001);
    const std::string right = Conv(&network, c + ".right", at, 0.001);
    std::vector<std::string> ends;
    for (int pair = 0; pair < 5; ++pair) {
      const std::string p = absl::StrCat(c, ".", pair);
      const std::string a =
          Conv(&network, p + ".a2",
               Conv(&network, p + ".a1", pair % 2 == 0 ? left : right, 0.002),
               0.002);
      const std::string b =
          pair == 3 ? ends[0]
                    : Conv(&network, p + ".b", pair < 2 ? right : left, 0.003);
      ends.push_back(network.Add(p + ".add", {a, b}, 400, 0.0001));
    }
    before = at;
    at = network.Add(c + ".concat", ends, 2000, 0.0001);
  }
  network.Add("loss", {at, "y"}, 4, 0.001);
  return network;
}

// The slowest of `stages` stages at best, without communication.
double BestSeconds(const StateGraph& states, int stages) {
  std::vector<std::vector<double>> best(stages + 1);
  for (int p = 1; p <= stages; ++p) {
    for (int j = 0; j < states.size(); ++j) {
      const State& state = states.states[j];
      best[p].push_back(state.compute_seconds);
      if (p == 1) continue;
      for (const int i : state.predecessors) {
        const double right =
            state.compute_seconds - states.states[i].compute_seconds;
        best[p][j] = std::min(best[p][j], std::max(best[p - 1][i], right));
      }
    }
  }
  return best[stages].back();
}

TEST_CASE("states: an Inception-like network plans with few states") {
  Network network = Inception();
  const LayerGraph graph = network.Finish();
  CHECK(graph.size() > 300);
  for (const int most : {500, 1500, 3000}) {
    CAPTURE(most);
    StateOptions options;
    options.most_states = most;
    const StateGraph states = MakeStates(graph, options);
    CHECK_FALSE(states.complete);
    CHECK(states.size() <= most);
    CHECK(states.size() > most / 2);
    // Every module can be cut off, and stages can be even.
    int rims = 0;
    for (const State& state : states.states) {
      if (state.rim.size() == 1 &&
          graph.nodes[state.rim[0]].name.find("concat") != std::string::npos) {
        ++rims;
      }
    }
    CHECK(rims >= 11);
    const double total = states.states.back().compute_seconds;
    CHECK(BestSeconds(states, 8) < (most < 1000 ? 1.05 : 1.02) * total / 8);
  }
}

TEST_CASE("states: a NASNet-like network plans with few states") {
  Network network = Nasnet(18);
  const LayerGraph graph = network.Finish();
  CHECK(graph.size() > 800);
  StateOptions options;
  for (const int most : {1000, 3000}) {
    CAPTURE(most);
    options.most_states = most;
    const StateGraph states = MakeStates(graph, options);
    CHECK_FALSE(states.complete);
    CHECK(states.size() <= most);
    CHECK(states.size() > most / 3);
    const double total = states.states.back().compute_seconds;
    CHECK(BestSeconds(states, 8) < 1.05 * total / 8);
    CHECK(BestSeconds(states, 16) < 1.1 * total / 16);
  }
}

}  // namespace
}  // namespace pipework
