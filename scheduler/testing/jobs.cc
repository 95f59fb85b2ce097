#include "scheduler/testing/jobs.h"

#include "absl/strings/str_cat.h"

namespace pipework {
namespace testing {

v1::Graph ChainGraph(int layers) {
  v1::Graph graph;
  graph.set_name("chain");
  for (int l = 0; l < layers; ++l) {
    graph.add_layers()->set_name(absl::StrCat("l", l));
  }
  return graph;
}

v1::Profile ProfileOf(const v1::Graph& graph,
                      const std::vector<double>& seconds, int64_t bytes) {
  v1::Profile profile;
  profile.set_batch(8);
  for (int l = 0; l < graph.layers_size(); ++l) {
    v1::LayerProfile* layer = profile.add_layers();
    layer->set_name(graph.layers(l).name());
    layer->set_forward_seconds(seconds[l] / 3);
    layer->set_backward_seconds(seconds[l] * 2 / 3);
    layer->set_output_bytes(bytes);
    layer->set_parameter_bytes(bytes);
  }
  return profile;
}

v1::Topology Cluster(int nodes, int devices_per_node, int cores_per_node) {
  v1::Topology topology;
  for (int n = 0; n < nodes; ++n) {
    v1::Topology::Node* node = topology.add_nodes();
    node->set_name(absl::StrCat("n", n + 1));
    for (int d = 0; d < devices_per_node; ++d) {
      v1::Device* device = node->add_devices();
      device->set_name(absl::StrCat("cpu:", d));
      device->set_usable(true);
      if (cores_per_node == 0) {
        device->add_cores(d);
      } else {
        for (int c = 0; c < cores_per_node; ++c) device->add_cores(c);
      }
    }
  }
  return topology;
}

v1::JobSpec SpecOf(int stage_count) {
  v1::JobSpec spec;
  spec.mutable_batch()->set_minibatch(8);
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_pipeline()->set_schedule("1f1b");
  spec.mutable_pipeline()->set_stage_count(stage_count);
  return spec;
}

}  // namespace testing
}  // namespace pipework
