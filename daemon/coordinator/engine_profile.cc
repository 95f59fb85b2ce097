// The engine's profiles: layers, measured on each kind of device.
#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "daemon/coordinator/engine.h"
#include "daemon/coordinator/spec_facts.h"
#include "proto/errors.h"
#include "spdlog/spdlog.h"

namespace pipework {
namespace {

double Total(const v1::Profile& profile) {
  double seconds = 0;
  for (const v1::LayerProfile& layer : profile.layers()) {
    seconds += layer.forward_seconds() + layer.backward_seconds();
  }
  return seconds;
}

}  // namespace

// Layers of one graph, measured on one device of each kind.
struct Engine::Measuring {
  std::string owner;  // of the devices: the job, or a name of its own
  v1::JobSpec spec;
  v1::Graph graph;
  v1::Topology topology;  // where it may be measured
  v1::Topology linked;    // the nodes whose links are measured
  bool again = false;     // although it was measured before
  // Kinds whose devices work for others: what is known of them must do.
  std::set<std::string> taken;
  // Whether the result is still wanted.
  std::function<bool()> wanted;
  // A command was sent (true) or answered.
  std::function<void(int64_t command, bool sent)> on_command;
  // What a user should know, one line each.
  std::function<void(const std::string& type, const std::string& text)> note;
  std::function<void()> done;

  std::vector<ProfileAsk> asks;    // not sent yet
  std::set<std::string> busy;      // nodes that measure just now
  int running = 0;                 // answers to come, links included
  bool measured = false;           // something was, not only found
  std::vector<std::string> kinds;  // in the order of the devices
  std::map<std::string, v1::Profile> profiles;
  std::set<std::string> reused;
  std::string problem;
  bool retryable = true;
};

std::string Engine::KeyOf(const Measuring& measuring, const std::string& kind) {
  return ProfileStore::KeyOf(measuring.spec, measuring.graph, kind);
}

std::vector<v1::Profile> Engine::ProfilesOf(const Measuring& measuring) {
  std::vector<v1::Profile> profiles;
  for (const std::string& kind : measuring.kinds) {
    profiles.push_back(measuring.profiles.at(kind));
  }
  return profiles;
}

void Engine::Measure(std::shared_ptr<Measuring> measuring) {
  Measuring& m = *measuring;
  for (const auto& node : m.topology.nodes()) {
    for (const v1::Device& device : node.devices()) {
      if (std::find(m.kinds.begin(), m.kinds.end(), device.kind()) !=
          m.kinds.end()) {
        continue;
      }
      m.kinds.push_back(device.kind());
      const std::string key = KeyOf(m, device.kind());
      absl::StatusOr<v1::Profile> known = profiles_.Read(key);
      if (!known.ok() || m.again) {
        m.asks.push_back({node.name(), device, false});
        continue;
      }
      m.note("PROFILE_REUSED", DescribeAge(key, *known, absl::Now()));
      if (known->noisy() && m.taken.count(device.kind()) == 0) {
        m.asks.push_back({node.name(), device, true});
      }
      m.profiles[device.kind()] = *std::move(known);
      m.reused.insert(device.kind());
    }
  }
  // Links first: they and the layers would disturb each other.
  ++m.running;
  const bool links = MeasureLinks(m.linked, [this, measuring] {
    --measuring->running;
    if (measuring->wanted()) GoOnMeasuring(measuring);
  });
  if (links) return;
  --m.running;
  GoOnMeasuring(measuring);
}

void Engine::GoOnMeasuring(std::shared_ptr<Measuring> measuring) {
  Measuring& m = *measuring;
  // Devices of a node may share cores: one at a time on each.
  for (auto it = m.asks.begin(); it != m.asks.end();) {
    if (!m.busy.insert(it->node).second) {
      ++it;
      continue;
    }
    const ProfileAsk ask = *it;
    it = m.asks.erase(it);
    ++m.running;
    m.measured = true;
    AskProfile(measuring, ask);
  }
  if (m.running == 0) m.done();
}

void Engine::AskProfile(std::shared_ptr<Measuring> measuring,
                        const ProfileAsk& ask) {
  v1::CoordinatorMessage message;
  v1::RunnerProfile* request = message.mutable_run_profile();
  *request->mutable_spec() = measuring->spec;
  *request->mutable_graph() = measuring->graph;
  *request->mutable_device() = ask.device;
  request->set_batch(UnitSamples(measuring->spec));
  request->set_job(measuring->owner);
  measuring->note(
      "PROFILING",
      absl::StrCat("measures its ", measuring->graph.layers_size(),
                   " layers on ", ask.node, "/", ask.device.name()));
  auto command = std::make_shared<int64_t>(0);
  *command = SendCommand(
      ask.node, std::move(message), options_.profile_limit,
      [this, measuring, ask, command](const v1::NodeMessage::Answer& answer) {
        measuring->on_command(*command, false);
        --measuring->running;
        measuring->busy.erase(ask.node);
        if (!measuring->wanted()) return;
        OnProfile(*measuring, ask, answer);
        GoOnMeasuring(measuring);
      });
  measuring->on_command(*command, true);
}

void Engine::OnProfile(Measuring& m, const ProfileAsk& ask,
                       const v1::NodeMessage::Answer& answer) {
  const std::string where = absl::StrCat(ask.node, "/", ask.device.name());
  const std::string& kind = ask.device.kind();
  if (answer.code() != 0) {
    if (ask.second) {
      m.note("PROFILE_NOISY",
             absl::StrCat("the second profile on ", where, " failed (",
                          answer.message(), "); the noisy one is used"));
      return;
    }
    m.problem = absl::StrCat("profile on ", where, ": ", answer.message());
    m.retryable =
        answer.code() == static_cast<int>(absl::StatusCode::kUnavailable);
    return;
  }
  v1::Profile fresh = answer.profile();
  fresh.set_measured_on(where);
  fresh.set_device_kind(kind);
  const auto before = m.profiles.find(kind);
  // Of two noisy ones the faster: what disturbs only adds.
  const bool better = !ask.second || before == m.profiles.end() ||
                      !fresh.noisy() || Total(fresh) < Total(before->second);
  if (better) {
    m.profiles[kind] = std::move(fresh);
    m.reused.erase(kind);
    const absl::Status written =
        profiles_.Write(KeyOf(m, kind), m.profiles[kind]);
    if (!written.ok()) {
      spdlog::warn("a profile is not kept: {}", std::string(written.message()));
    }
  }
  if (!m.profiles[kind].noisy()) return;
  if (ask.second) {
    m.note("PROFILE_NOISY",
           absl::StrCat("the profile of ", kind,
                        " is noisy, twice: its devices are busy with "
                        "something else, and predictions may be off"));
    return;
  }
  // Once more: on another node, else on another device, else there again.
  ProfileAsk second = ask;
  second.second = true;
  for (const auto& node : m.topology.nodes()) {
    for (const v1::Device& device : node.devices()) {
      if (device.kind() != kind) continue;
      const bool other_node = node.name() != ask.node;
      const bool other_device = second.node == ask.node &&
                                device.name() != ask.device.name() &&
                                second.device.name() == ask.device.name();
      if ((other_node && second.node == ask.node) ||
          (!other_node && other_device)) {
        second.node = node.name();
        second.device = device;
      }
    }
  }
  m.note("PROFILE_NOISY",
         absl::StrCat("the profile on ", where,
                      " is noisy: the device was busy with something else; "
                      "measured once more on ",
                      second.node, "/", second.device.name()));
  m.asks.push_back(std::move(second));
}

std::vector<v1::Profile> Engine::KnownProfiles(const v1::JobSpec& spec,
                                               const v1::Graph& graph) const {
  std::vector<v1::Profile> measured;
  std::set<std::string> seen;
  bool all = true;
  const v1::Topology whole = cluster_.Whole();
  for (const auto& node : whole.nodes()) {
    for (const v1::Device& device : node.devices()) {
      if (!seen.insert(device.kind()).second) continue;
      absl::StatusOr<v1::Profile> profile =
          profiles_.Read(ProfileStore::KeyOf(spec, graph, device.kind()));
      all = all && profile.ok();
      if (profile.ok()) measured.push_back(*std::move(profile));
    }
  }
  return all ? measured : std::vector<v1::Profile>();
}

// ---- on request ----

void Engine::RunProfile(
    const v1::JobSpec& spec, const v1::Graph& graph,
    const std::string& device_kind, bool again,
    std::function<void(absl::StatusOr<v1::RunProfileResponse>)> done) {
  auto measuring = std::make_shared<Measuring>();
  Measuring& m = *measuring;
  std::random_device random;
  m.owner = absl::StrFormat("profile-%08x", random());
  m.spec = spec;
  m.graph = graph;
  m.again = again;
  // One device of each kind; a kind that is busy is no matter where its
  // profile is there.
  const v1::Topology free = cluster_.FreeFor(m.owner);
  m.linked = free;
  const v1::Topology whole = cluster_.Whole();
  std::vector<std::string> devices;
  std::set<std::string> found;
  std::set<std::string> all;
  for (const v1::Topology* topology : {&free, &whole}) {
    for (const auto& node : topology->nodes()) {
      v1::Topology::Node* here = nullptr;
      for (const v1::Device& device : node.devices()) {
        all.insert(device.kind());
        if ((!device_kind.empty() && device.kind() != device_kind) ||
            found.count(device.kind()) > 0) {
          continue;
        }
        const bool is_free = topology == &free;
        if (!is_free &&
            (again || !profiles_.Read(KeyOf(m, device.kind())).ok())) {
          done(absl::FailedPreconditionError(absl::StrCat(
              "profile: every device of kind ", device.kind(), " is taken by ",
              absl::StrJoin(cluster_.Owners(m.owner), ", "),
              "; ask again when that is over")));
          return;
        }
        found.insert(device.kind());
        if (here == nullptr) {
          here = m.topology.add_nodes();
          here->set_name(node.name());
        }
        *here->add_devices() = device;
        if (!is_free) {
          m.taken.insert(device.kind());
        } else {
          devices.push_back(absl::StrCat(node.name(), "/", device.name()));
        }
      }
    }
  }
  if (found.empty()) {
    done(device_kind.empty() || all.empty()
             ? absl::FailedPreconditionError(
                   "profile: the cluster has no READY node; start piped on a "
                   "machine")
             : absl::NotFoundError(MismatchText(
                   "profile", "device kind",
                   absl::StrCat("\"", device_kind, "\""),
                   absl::StrCat("one of ", absl::StrJoin(all, ", ")))));
    return;
  }
  cluster_.Own(m.owner, devices);
  ++cluster_version_;
  m.wanted = [] { return true; };
  m.on_command = [](int64_t, bool) {};
  m.note = [owner = m.owner](const std::string&, const std::string& text) {
    spdlog::info("{}: {}", owner, text);
  };
  const std::weak_ptr<Measuring> weak = measuring;
  m.done = [this, weak, done = std::move(done)] {
    const std::shared_ptr<Measuring> ended = weak.lock();
    cluster_.ReleaseAll(ended->owner);
    ++cluster_version_;
    if (!ended->problem.empty()) {
      done(absl::UnavailableError(ended->problem));
      return;
    }
    v1::RunProfileResponse response;
    for (const std::string& kind : ended->kinds) {
      *response.add_profiles() =
          AsStored(KeyOf(*ended, kind), ended->profiles.at(kind));
      response.mutable_profiles(response.profiles_size() - 1)
          ->set_reused(ended->reused.count(kind) > 0);
    }
    *response.mutable_topology() = cluster_.Whole();
    done(std::move(response));
  };
  Measure(measuring);
}

// ---- of a job ----

void Engine::AskProfiles(Entry& entry) {
  const std::string id = entry.job.id();
  const int64_t serial = entry.serial;
  Preparation& preparation = *entry.preparation;
  preparation.step = "profile";
  preparation.deadline = clock_.Now() + options_.profile_limit;
  preparation.profile_started = clock_.Now();
  auto measuring = std::make_shared<Measuring>();
  Measuring& m = *measuring;
  m.owner = id;
  m.spec = entry.job.spec();
  m.graph = entry.record.graph();
  m.topology = preparation.topology;
  m.linked = preparation.topology;
  m.wanted = [this, id, serial] {
    const Entry* waiting = Find(id);
    return waiting != nullptr && waiting->serial == serial;
  };
  m.on_command = [this, id, serial](int64_t command, bool sent) {
    Entry* waiting = Find(id);
    if (waiting == nullptr) return;
    if (sent) {
      waiting->profiling.insert(command);
      return;
    }
    waiting->profiling.erase(command);
    // Cancelled or given up meanwhile.
    if (waiting->serial != serial && waiting->profiling.empty() &&
        waiting->preparation == nullptr && !HasRunners(waiting->job.state())) {
      cluster_.ReleaseAll(id);
      ++cluster_version_;
    }
  };
  m.note = [this, id](const std::string& type, const std::string& text) {
    Entry* waiting = Find(id);
    if (waiting == nullptr) return;
    if (type == "PROFILING") {
      if (waiting->job.state() == v1::PROFILING) {
        SetReason(*waiting, type, text);
      }
      return;
    }
    AddEvent(*waiting, type, text);
  };
  const std::weak_ptr<Measuring> weak = measuring;
  m.done = [this, id, serial, weak] {
    Entry* waiting = Find(id);
    if (waiting == nullptr || waiting->serial != serial) return;
    const std::shared_ptr<Measuring> ended = weak.lock();
    Preparation& going = *waiting->preparation;
    going.problem = ended->problem;
    going.retryable = ended->retryable;
    if (going.problem.empty()) going.profiles = ProfilesOf(*ended);
    cluster_.FillLinks(&going.topology);
    if (ended->measured) {
      waiting->job.set_profile_seconds(
          absl::ToDoubleSeconds(clock_.Now() - going.profile_started));
    }
    OnProfiles(*waiting);
  };
  Measure(measuring);
}

}  // namespace pipework
