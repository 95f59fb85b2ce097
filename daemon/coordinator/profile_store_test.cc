#include "daemon/coordinator/profile_store.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "daemon/coordinator/scripted_node.h"
#include "daemon/spec/data_facts.h"
#include "daemon/spec/spec.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() { REQUIRE(mkdtemp(&path[0]) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string path = "/tmp/pwprofilesXXXXXX";
};

v1::Profile Measured(int64_t at) {
  v1::Profile profile;
  profile.set_measured_at(at);
  profile.set_device_kind("cpu x1 test");
  for (int i = 1; i <= 2; ++i) {
    v1::LayerProfile* layer = profile.add_layers();
    layer->set_name("fc");
    layer->set_forward_seconds(i);
    layer->set_backward_seconds(10 * i);
  }
  return profile;
}

}  // namespace

TEST_CASE("profile store: a key holds all that a profile depends on") {
  const v1::JobSpec spec = ScriptedSpec("a", 2);
  const auto graph = GraphOf(spec, EndsOf(ScriptedFacts()));
  REQUIRE(graph.ok());
  const std::string key = ProfileStore::KeyOf(spec, *graph, "cpu x1 test");
  CHECK(key ==
        ProfileStore::KeyOf(ScriptedSpec("b", 4), *graph, "cpu x1 test"));
  CHECK(key != ProfileStore::KeyOf(spec, *graph, "cpu x2 test"));
  v1::JobSpec other = spec;
  other.mutable_batch()->set_minibatch(64);
  CHECK(key != ProfileStore::KeyOf(other, *graph, "cpu x1 test"));
  other = spec;
  other.mutable_optimizer()->set_name("adam");
  CHECK(key != ProfileStore::KeyOf(other, *graph, "cpu x1 test"));
  other = spec;
  other.set_threads_per_executor(3);
  CHECK(key != ProfileStore::KeyOf(other, *graph, "cpu x1 test"));
  v1::Graph smaller = *graph;
  smaller.mutable_layers()->DeleteSubrange(0, 2);
  CHECK(key != ProfileStore::KeyOf(spec, smaller, "cpu x1 test"));
  CHECK(ProfileStore::IdOf(key).size() == 8);
  CHECK(ProfileStore::IdOf(key) != ProfileStore::IdOf(key + "x"));
}

TEST_CASE("profile store: what was written is found, listed and removed") {
  Folder folder;
  const ProfileStore store(folder.path);
  CHECK(store.List().empty());
  CHECK(absl::IsNotFound(store.Read("a").status()));
  REQUIRE(store.Write("a", Measured(100)).ok());
  REQUIRE(store.Write("b", Measured(200)).ok());
  CHECK(store.Read("a")->layers_size() == 2);

  const std::vector<v1::StoredProfile> all = store.List();
  REQUIRE(all.size() == 2);
  CHECK(all[0].id() == ProfileStore::IdOf("b"));
  CHECK(all[0].layers() == 2);
  CHECK(all[0].profile().layers_size() == 0);
  CHECK(all[0].forward_seconds() == 3);
  CHECK(all[0].backward_seconds() == 30);

  const std::string id = ProfileStore::IdOf("a");
  CHECK(store.Find(id)->profile().measured_at() == 100);
  CHECK(store.Find(id.substr(0, 7))->id() == id);
  CHECK(absl::IsNotFound(store.Find("p-").status()));
  CHECK(absl::IsNotFound(store.Remove(id.substr(0, 7))));
  CHECK(store.Remove(id).ok());
  CHECK(absl::IsNotFound(store.Remove(id)));
  CHECK(store.List().size() == 1);
}

TEST_CASE(
    "profile store: a file that is no profile is measured anew, and does not "
    "stop a list") {
  Folder folder;
  const ProfileStore store(folder.path);
  REQUIRE(store.Write("a", Measured(100)).ok());
  std::ofstream(folder.path + "/profiles/b.txt") << "layers { name: ";
  CHECK(absl::IsNotFound(store.Read("b").status()));
  CHECK(store.List().size() == 1);
}

TEST_CASE("profile store: an age is told in words") {
  const absl::Time now = absl::FromUnixSeconds(1000000);
  v1::Profile profile = Measured(1000000 - 3 * 3600 - 20);
  profile.set_measured_on("n1/cpu:0");
  const std::string id = ProfileStore::IdOf("a");
  CHECK(DescribeAge("a", profile, now) ==
        "profile " + id + ": 3 h old, measured on n1/cpu:0 (cpu x1 test)");
  profile.set_measured_at(1000000 - 120);
  profile.set_noisy(true);
  CHECK(DescribeAge("a", profile, now) ==
        "profile " + id +
            ": 2 min old, measured on n1/cpu:0 (cpu x1 test), noisy");
}

}  // namespace pipework
