#include "kernels/random.h"

#include <catch2/catch.hpp>
#include <set>

namespace pipework {

// The known answers of Random123 (kat_vectors, philox4x32 10).
TEST_CASE("philox gives the known answers of its authors") {
  CHECK(
      Philox4x32({0, 0, 0, 0}, 0) ==
      std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(
      Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                 0xffffffffffffffff) ==
      std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 0x299f31d0a4093822) ==
      std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("names hash as FNV-1a does") {
  CHECK(HashName("") == 0xcbf29ce484222325u);
  CHECK(HashName("a") == 0xaf63dc4c8601ec8cu);
  CHECK(HashName("foobar") == 0x85944171f73967e8u);
}

TEST_CASE("keys differ by seed and by name, negative seeds too") {
  std::set<uint64_t> keys;
  for (int64_t seed = -50; seed < 50; ++seed) {
    for (const char* name : {"conv1", "conv2", "drop"}) {
      keys.insert(RandomKey(seed, HashName(name)));
    }
  }
  CHECK(keys.size() == 300);
}

TEST_CASE("uniform numbers lie in [0, 1)") {
  CHECK(UnitFloat(0) == 0);
  CHECK(UnitFloat(0xffffffff) < 1);
  CHECK(UnitFloat(0x80000000) == 0.5f);
  CHECK(UnitDouble(0, 0) == 0);
  CHECK(UnitDouble(0xffffffff, 0xffffffff) < 1);
  CHECK(UnitDouble(0x40000000, 0) == 0.25);
}

}  // namespace pipework
