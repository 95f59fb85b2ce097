#include "kernels/window.h"

#include <catch2/catch.hpp>

namespace pipework {

TEST_CASE("window: the output has as many places as the window fits") {
  CHECK(Window2d{3, 3, 1, 1, 1, 1, 1, 1}.OutHeight(8) == 8);
  CHECK(Window2d{2, 2, 2, 2, 0, 0, 1, 1}.OutHeight(9) == 4);
  CHECK(Window2d{3, 5, 2, 1, 1, 2, 1, 1}.OutHeight(8) == 4);
  CHECK(Window2d{3, 5, 2, 1, 1, 2, 1, 1}.OutWidth(8) == 8);
  CHECK(Window2d{3, 3, 1, 1, 0, 0, 2, 2}.OutHeight(5) == 1);
}

TEST_CASE("window: none where it does not fit") {
  CHECK(Window2d{3, 3, 1, 1, 0, 0, 1, 1}.OutHeight(2) == 0);
  CHECK(Window2d{3, 3, 2, 2, 0, 0, 1, 1}.OutWidth(1) == 0);
  CHECK(Window2d{3, 3, 1, 1, 0, 0, 2, 2}.OutHeight(4) == 0);
}

}  // namespace pipework
