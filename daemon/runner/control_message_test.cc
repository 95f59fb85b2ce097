#include "daemon/runner/control_message.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace pipework {

TEST_CASE("control message: a segment comes back as it was sent") {
  Segment segment;
  segment.first_minibatch = 45;
  segment.minibatches = 12;
  segment.save = true;
  segment.first_versions = {45, 22, 45};
  const std::string text = EncodeSegment(segment);
  CHECK(text == "segment 45 12 0 1 45 22 45");
  CHECK(*KindOf(text) == ControlKind::kSegment);
  const auto back = DecodeSegment(text);
  REQUIRE(back.ok());
  CHECK(back->first_minibatch == 45);
  CHECK(back->minibatches == 12);
  CHECK_FALSE(back->evaluation);
  CHECK(back->save);
  CHECK(back->first_versions == segment.first_versions);
}

TEST_CASE("control message: losses keep every bit") {
  std::vector<LossRecord> records(2);
  records[0] = {false, 41, 20, 0.1 + 0.2, 31, 32, 1234567890.123456};
  records[1] = {true, 3, 3, std::nextafter(5.0, 6.0), 0, 7, 0};
  const std::string text = EncodeLosses(records);
  CHECK(*KindOf(text) == ControlKind::kLosses);
  const auto back = DecodeLosses(text);
  REQUIRE(back.ok());
  REQUIRE(back->size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK((*back)[i].evaluation == records[i].evaluation);
    CHECK((*back)[i].unit == records[i].unit);
    CHECK((*back)[i].minibatch == records[i].minibatch);
    CHECK((*back)[i].loss_sum == records[i].loss_sum);
    CHECK((*back)[i].right == records[i].right);
    CHECK((*back)[i].samples == records[i].samples);
    CHECK((*back)[i].at_seconds == records[i].at_seconds);
  }
}

TEST_CASE("control message: done carries what became of the save") {
  SegmentDone done;
  done.step = 90;
  done.version = 45;
  auto back = DecodeDone(EncodeDone(done));
  REQUIRE(back.ok());
  CHECK(back->step == 90);
  CHECK(back->version == 45);
  CHECK(back->saved.ok());
  done.saved = absl::UnavailableError("shard x: no space left on device");
  back = DecodeDone(EncodeDone(done));
  REQUIRE(back.ok());
  CHECK(back->saved == done.saved);
}

TEST_CASE("control message: a peer may send anything, and it is refused") {
  for (const char* text : {"", "nonsense", "segmen 1 2 0 0"}) {
    CAPTURE(text);
    CHECK_FALSE(KindOf(text).ok());
  }
  for (const char* text :
       {"segment", "segment 1 2 3 0", "segment a 2 0 0", "segment 1 2 0 0 x",
        "segment 99999999999999999999 1 0 0"}) {
    CAPTURE(text);
    CHECK_FALSE(DecodeSegment(text).ok());
  }
  for (const char* text :
       {"losses 1", "losses 0 1 2 x 4 5 6", "losses 2 1 2 3 4 5 6"}) {
    CAPTURE(text);
    CHECK_FALSE(DecodeLosses(text).ok());
  }
  for (const char* text :
       {"done", "done 1 2", "done 1 2 99 x", "done x 2 0 "}) {
    CAPTURE(text);
    CHECK_FALSE(DecodeDone(text).ok());
  }
}

}  // namespace pipework
