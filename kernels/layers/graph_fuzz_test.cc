// A graph from anywhere, as text or in binary form, never does harm.
#include <cstddef>
#include <cstdint>
#include <string>

#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kernels/layers/graph_shape.h"
#include "proto/check.h"

namespace {

// The parser would print every error.
class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, int /*column*/,
                const std::string& /*message*/) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  pipework::v1::Graph graph;
  google::protobuf::TextFormat::Parser parser;
  Silent silent;
  parser.RecordErrorsTo(&silent);
  parser.SetRecursionLimit(20);
  if (!parser.ParseFromString(bytes, &graph) &&
      !graph.ParsePartialFromString(bytes)) {
    return 0;
  }

  const auto info = pipework::InferGraph(graph);
  pipework::GraphHash(graph);
  if (!info.ok()) {
    PIPE_CHECK(!info.status().message().empty());
    PIPE_CHECK(info.status().message().find('\n') == absl::string_view::npos);
    return 0;
  }
  PIPE_CHECK(static_cast<int>(info->layers.size()) == graph.layers_size());
  PIPE_CHECK(info->parameters >= 0);
  for (const pipework::LayerInfo& layer : info->layers) {
    PIPE_CHECK(layer.output.shape.elements() >= 1);
    PIPE_CHECK(layer.saved_bytes >= 0);
  }
  return 0;
}
