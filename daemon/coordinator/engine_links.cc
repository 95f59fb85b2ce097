// The engine's measurements of the links between nodes.
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "daemon/coordinator/engine.h"
#include "proto/text_file.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

// A link that was measured so long ago is measured again, at the next profile.
constexpr absl::Duration kLinkAge = absl::Hours(24);
// After a measurement that failed the constants stand for so long.
constexpr absl::Duration kLinkRetry = absl::Minutes(1);

}  // namespace

struct Engine::LinkTest {
  v1::RunnerLinks request;
  v1::Placement placement;
  int waiting = 0;
  std::string problem;
  std::vector<v1::LinkMeasurement> links;
};

bool Engine::MeasureLinks(const v1::Topology& topology,
                          std::function<void()> done) {
  if (link_test_ != nullptr) {
    links_waiting_.push_back(std::move(done));
    return true;
  }
  if (clock_.Now() < links_retry_at_) return false;
  const auto pairs = cluster_.UnknownLinks(topology, absl::Now() - kLinkAge);
  if (pairs.empty()) return false;
  link_test_ = std::make_shared<LinkTest>();
  v1::RunnerLinks& request = link_test_->request;
  std::random_device random;
  request.set_job(absl::StrFormat("links-%08x", random()));
  request.set_nonce((uint64_t{random()} << 32) | random());
  std::map<std::string, int> places;
  for (const auto& [a, b] : pairs) {
    for (const std::string& node : {a, b}) {
      if (!places.emplace(node, request.nodes_size()).second) continue;
      request.add_nodes(node);
    }
    v1::RunnerLinks::Pair* pair = request.add_pairs();
    pair->set_a(places.at(a));
    pair->set_b(places.at(b));
  }
  links_waiting_.push_back(std::move(done));
  link_test_->waiting = request.nodes_size();
  const std::shared_ptr<LinkTest> test = link_test_;
  for (int i = 0; i < request.nodes_size(); ++i) {
    v1::Seat* seat = test->placement.add_seats();
    seat->set_stage(i);
    seat->set_node(request.nodes(i));
  }
  for (int i = 0; i < request.nodes_size(); ++i) {
    v1::CoordinatorMessage message;
    *message.mutable_listen_links() = request;
    message.mutable_listen_links()->set_index(i);
    SendCommand(request.nodes(i), std::move(message), options_.links_limit,
                [this, test, i](const v1::NodeMessage::Answer& answer) {
                  if (answer.code() != 0) {
                    test->problem =
                        absl::StrCat("node ", test->request.nodes(i), ": ",
                                     answer.message());
                  }
                  test->placement.mutable_seats(i)->set_data_address(
                      answer.data_address());
                  if (--test->waiting == 0) OnLinksListen(test);
                });
  }
  return true;
}

void Engine::OnLinksListen(std::shared_ptr<LinkTest> test) {
  if (!test->problem.empty()) {
    EndLinkTest(*test);
    return;
  }
  test->waiting = test->request.nodes_size();
  for (int i = 0; i < test->request.nodes_size(); ++i) {
    v1::CoordinatorMessage message;
    message.mutable_measure_links()->mutable_runner()->set_job(
        test->request.job());
    *message.mutable_measure_links()->mutable_placement() = test->placement;
    SendCommand(
        test->request.nodes(i), std::move(message), options_.links_limit,
        [this, test, i](const v1::NodeMessage::Answer& answer) {
          if (answer.code() != 0) {
            test->problem = absl::StrCat("node ", test->request.nodes(i), ": ",
                                         answer.message());
          }
          for (const v1::LinkMeasurement& link : answer.links()) {
            test->links.push_back(link);
          }
          if (--test->waiting == 0) EndLinkTest(*test);
        });
  }
}

void Engine::EndLinkTest(const LinkTest& test) {
  for (const v1::LinkMeasurement& link : test.links) {
    cluster_.SetLink(link);
    spdlog::info("link {} - {}: {:.3g} bytes/s, {:.3g} s a message", link.a(),
                 link.b(), link.bytes_per_second(), link.latency_seconds());
  }
  if (!test.links.empty()) {
    const absl::Status written =
        WriteTextFile(options_.state_dir + "/links.txt", cluster_.Links());
    if (!written.ok()) {
      spdlog::warn("links are not kept: {}", std::string(written.message()));
    }
  }
  if (!test.problem.empty()) {
    spdlog::warn(
        "links are not measured: {}; plans assume the speed of an ordinary "
        "network",
        test.problem);
    links_retry_at_ = clock_.Now() + kLinkRetry;
    for (const std::string& node : test.request.nodes()) {
      SendKill(test.request.job(), 0, node, "the measurement failed");
    }
  }
  link_test_.reset();
  for (const auto& done : std::exchange(links_waiting_, {})) done();
}

}  // namespace pipework
