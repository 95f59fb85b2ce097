#include "daemon/metrics/quantiles.h"

#include <catch2/catch.hpp>

namespace pipework {
namespace {

TEST_CASE("quantiles: no value gives zero") {
  CHECK(Quantiles().Median() == 0);
  CHECK(Quantiles().count() == 0);
}

TEST_CASE("quantiles: the median of an odd and of an even number of values") {
  Quantiles q;
  for (double v : {5.0, 1.0, 3.0}) q.Add(v);
  CHECK(q.Median() == 3);
  q.Add(4.0);
  CHECK(q.Median() == 3.5);
  CHECK(q.At(0) == 1);
  CHECK(q.At(1) == 5);
}

TEST_CASE("quantiles: old values are pushed out in order") {
  Quantiles q(3);
  for (double v : {100.0, 200.0, 1.0, 2.0, 3.0}) q.Add(v);
  CHECK(q.At(1) == 3);
  CHECK(q.Median() == 2);
  CHECK(q.count() == 5);
}

}  // namespace
}  // namespace pipework
