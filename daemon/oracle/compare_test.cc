#include "daemon/oracle/compare.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace pipework {
namespace {

Tensor Make(const std::vector<float>& values) {
  static const std::shared_ptr<Allocator> allocator = MakeHostAllocator();
  auto tensor =
      Tensor::Allocate(*allocator, Shape({static_cast<int64_t>(values.size())}),
                       DType::kF32, MemoryUse::kWeights);
  REQUIRE(tensor.ok());
  std::copy(values.begin(), values.end(), tensor->f32());
  return *std::move(tensor);
}

v1::Graph TwoLayers() {
  v1::Graph graph;
  graph.add_layers()->set_name("relu");
  graph.add_layers()->set_name("fc1");
  graph.add_layers()->set_name("fc2");
  return graph;
}

TEST_CASE("compare: equal tensors are equal in every layer that has some") {
  const std::vector<OracleTensor> oracle = {{"fc1.weight", 1, Make({1, 2})},
                                            {"fc1.bias", 1, Make({3})},
                                            {"fc2.weight", 2, Make({4})}};
  v1::Verification out;
  CompareTensors(TwoLayers(), oracle, {Make({1, 2}), Make({3}), Make({4})},
                 &out);
  CHECK(out.equal());
  CHECK(out.first_difference().empty());
  REQUIRE(out.layers_size() == 2);
  CHECK(out.layers(0).name() == "fc1");
  CHECK(out.layers(0).bit_equal());
  CHECK(out.layers(1).name() == "fc2");
}

TEST_CASE("compare: one bit makes a difference, and is named") {
  const std::vector<OracleTensor> oracle = {{"fc1.weight", 1, Make({1, 2})},
                                            {"fc2.weight", 2, Make({4, 5})}};
  v1::Verification out;
  const float next = std::nextafter(5.0f, 6.0f);
  CompareTensors(TwoLayers(), oracle, {Make({1, 2}), Make({4, next})}, &out);
  CHECK_FALSE(out.equal());
  CHECK(out.layers(0).bit_equal());
  CHECK_FALSE(out.layers(1).bit_equal());
  CHECK(out.layers(1).max_abs_difference() == static_cast<double>(next) - 5.0);
  CHECK(out.first_difference() ==
        "layer fc2: element 1 of fc2.weight is 5.00000048 in the pipeline, "
        "expected 5 by the oracle");
}

TEST_CASE("compare: zero of the other sign and NaN are differences") {
  v1::Verification out;
  CompareTensors(TwoLayers(), {{"fc1.bias", 1, Make({0.0f})}}, {Make({-0.0f})},
                 &out);
  CHECK_FALSE(out.equal());
  CHECK(out.layers(0).max_abs_difference() == 0);

  v1::Verification nan;
  CompareTensors(TwoLayers(), {{"fc1.bias", 1, Make({1.0f})}},
                 {Make({std::numeric_limits<float>::quiet_NaN()})}, &nan);
  CHECK_FALSE(nan.equal());
  CHECK(std::isinf(nan.layers(0).max_abs_difference()));
}

TEST_CASE("compare: losses of runs of different lengths are infinitely apart") {
  CHECK(LargestDifference({1, 2}, {1, 2.5}) == 0.5);
  CHECK(std::isinf(LargestDifference({1, 2}, {1})));
}

}  // namespace
}  // namespace pipework
