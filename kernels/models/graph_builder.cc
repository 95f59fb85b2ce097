#include "kernels/models/graph_builder.h"

namespace pipework {

LayerArg::LayerArg(absl::string_view name, int64_t value) {
  arg.set_name(std::string(name));
  arg.set_int_value(value);
}

LayerArg::LayerArg(absl::string_view name, double value) {
  arg.set_name(std::string(name));
  arg.set_real_value(value);
}

LayerArg::LayerArg(absl::string_view name, bool value) {
  arg.set_name(std::string(name));
  arg.set_bool_value(value);
}

GraphBuilder::GraphBuilder(absl::string_view name, const ModelEnds& ends) {
  graph_.set_name(std::string(name));
  for (int64_t dim : ends.sample.dims()) graph_.add_input_shape(dim);
  for (int64_t dim : ends.label.dims()) graph_.add_label_shape(dim);
}

std::string GraphBuilder::Add(absl::string_view name, absl::string_view type,
                              std::initializer_list<LayerArg> args,
                              const std::vector<std::string>& inputs) {
  v1::Layer* layer = graph_.add_layers();
  layer->set_name(std::string(name));
  layer->set_type(std::string(type));
  for (const LayerArg& arg : args) *layer->add_args() = arg.arg;
  for (const std::string& input : inputs) layer->add_inputs(input);
  last_ = layer->name();
  return last_;
}

}  // namespace pipework
