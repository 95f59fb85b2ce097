#include "daemon/coordinator/profile_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/paths.h"
#include "daemon/coordinator/spec_facts.h"
#include "kernels/layers/graph_shape.h"
#include "proto/errors.h"
#include "proto/status_macros.h"
#include "proto/text_file.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

constexpr char kSuffix[] = ".txt";
constexpr size_t kLeastPrefix = 4;

absl::Status NoSuchProfile(const std::string& ref) {
  return absl::NotFoundError(
      absl::StrCat("profile ", ref, ": is not here; see pipectl profile ls"));
}

std::string Age(absl::Duration age) {
  if (age < absl::Minutes(1)) return "less than a minute";
  if (age < absl::Hours(1)) {
    return absl::StrCat(absl::ToInt64Minutes(age), " min");
  }
  if (age < absl::Hours(48)) {
    return absl::StrCat(absl::ToInt64Hours(age), " h");
  }
  return absl::StrCat(absl::ToInt64Hours(age) / 24, " days");
}

}  // namespace

std::string ProfileStore::KeyOf(const v1::JobSpec& spec, const v1::Graph& graph,
                                const std::string& kind) {
  std::string safe;
  for (const char c : kind) {
    safe += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return absl::StrCat(GraphHash(graph), "-b", UnitSamples(spec), "-t",
                      spec.threads_per_executor(), "-", spec.optimizer().name(),
                      "-", safe);
}

std::string ProfileStore::IdOf(const std::string& key) {
  static constexpr char kLetters[] = "0123456789abcdefghjkmnpqrstvwxyz";
  // FNV-1a: the same in every process and on every machine.
  uint64_t hash = 14695981039346656037u;
  for (const char c : key) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  hash ^= hash >> 32;
  std::string id = "p-";
  for (int i = 0; i < 6; ++i) id += kLetters[hash >> (5 * i) & 31];
  return id;
}

std::string ProfileStore::PathOf(const std::string& key) const {
  return absl::StrCat(folder_, "/", key, kSuffix);
}

absl::StatusOr<v1::Profile> ProfileStore::Read(const std::string& key) const {
  v1::Profile profile;
  if (!ReadTextFile(PathOf(key), &profile).ok())
    return NoSuchProfile(IdOf(key));
  return profile;
}

absl::Status ProfileStore::Write(const std::string& key,
                                 const v1::Profile& profile) const {
  RETURN_IF_ERROR(MakeFolders(folder_));
  return WriteTextFile(PathOf(key), profile);
}

std::vector<std::string> ProfileStore::Keys() const {
  std::vector<std::string> keys;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view key = name;
    if (name[0] != '.' && absl::ConsumeSuffix(&key, kSuffix)) {
      keys.emplace_back(key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<v1::StoredProfile> ProfileStore::List() const {
  std::vector<v1::StoredProfile> all;
  for (const std::string& key : Keys()) {
    absl::StatusOr<v1::Profile> profile = Read(key);
    if (!profile.ok()) continue;
    all.push_back(AsStored(key, *std::move(profile)));
    all.back().mutable_profile()->clear_layers();
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const v1::StoredProfile& a, const v1::StoredProfile& b) {
                     return a.profile().measured_at() >
                            b.profile().measured_at();
                   });
  return all;
}

absl::StatusOr<v1::StoredProfile> ProfileStore::Find(
    const std::string& ref) const {
  std::vector<std::string> fits;
  for (const std::string& key : Keys()) {
    const std::string id = IdOf(key);
    if (id == ref) {
      fits = {key};
      break;
    }
    if (ref.size() >= kLeastPrefix && absl::StartsWith(id, ref)) {
      fits.push_back(key);
    }
  }
  if (fits.empty()) return NoSuchProfile(ref);
  if (fits.size() > 1) {
    return Mismatch("profile", "its id", ref,
                    absl::StrCat("one of ", IdOf(fits[0]), ", ", IdOf(fits[1])),
                    "give more letters");
  }
  ASSIGN_OR_RETURN(v1::Profile profile, Read(fits[0]));
  return AsStored(fits[0], std::move(profile));
}

absl::Status ProfileStore::Remove(const std::string& id) const {
  for (const std::string& key : Keys()) {
    if (IdOf(key) != id) continue;
    const std::string path = PathOf(key);
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) {
      return absl::OkStatus();
    }
    return ErrnoStatus("remove", path, errno);
  }
  return NoSuchProfile(id);
}

v1::StoredProfile AsStored(const std::string& key, v1::Profile profile) {
  v1::StoredProfile stored;
  stored.set_id(ProfileStore::IdOf(key));
  stored.set_layers(profile.layers_size());
  for (const v1::LayerProfile& layer : profile.layers()) {
    stored.set_forward_seconds(stored.forward_seconds() +
                               layer.forward_seconds());
    stored.set_backward_seconds(stored.backward_seconds() +
                                layer.backward_seconds());
  }
  *stored.mutable_profile() = std::move(profile);
  return stored;
}

std::string DescribeAge(const std::string& key, const v1::Profile& profile,
                        absl::Time now) {
  return absl::StrCat(
      "profile ", ProfileStore::IdOf(key), ": ",
      profile.measured_at() > 0
          ? Age(now - absl::FromUnixSeconds(profile.measured_at())) + " old"
          : "of unknown age",
      ", measured on ",
      profile.measured_on().empty() ? "a device of its kind"
                                    : profile.measured_on(),
      " (", profile.device_kind(), ")", profile.noisy() ? ", noisy" : "");
}

}  // namespace pipework
