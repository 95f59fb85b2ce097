// Checkpoint folders: begun, published, listed, verified, retained.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/paths.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/checkpoint/durable_file.h"
#include "daemon/checkpoint/manifest.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kStepPrefix[] = "step-";
constexpr char kPartialPrefix[] = ".partial-step-";
constexpr char kRemovedPrefix[] = ".removed-";
constexpr int64_t kMostManifestBytes = 64 << 20;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()),
                                           &::closedir);
  if (open == nullptr) return names;
  while (const dirent* entry = ::readdir(open.get())) {
    names.push_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The step in "step-00000120" or ".partial-step-00000120-a1"; -1: neither.
int64_t StepOf(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kPartialPrefix) &&
      !absl::ConsumePrefix(&name, kStepPrefix)) {
    return -1;
  }
  int64_t step;
  if (!absl::SimpleAtoi(name.substr(0, name.find('-')), &step)) return -1;
  return step;
}

// Gone from the listing at once, then removed: a removal that is cut off
// leaves nothing that looks like a checkpoint.
absl::Status RemoveFolder(const std::string& checkpoints,
                          const std::string& name) {
  const std::string aside =
      JoinPath(checkpoints, absl::StrCat(kRemovedPrefix, name));
  RETURN_IF_ERROR(RemoveTree(aside));
  RETURN_IF_ERROR(FAILPOINT("checkpoint.io"));
  const std::string path = JoinPath(checkpoints, name);
  if (::rename(path.c_str(), aside.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus("rename", path, errno);
  }
  return RemoveTree(aside);
}

absl::Status FsyncFile(const std::string& path) {
  RETURN_IF_ERROR(WithContext(path, FAILPOINT("checkpoint.io")));
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("open", path, errno);
  if (::fsync(fd.get()) != 0) return ErrnoStatus("fsync", path, errno);
  return absl::OkStatus();
}

// Everything but the hashes; empty: complete.
std::string ProblemOf(const std::string& folder, v1::Manifest* manifest) {
  auto read = ReadManifest(folder);
  if (!read.ok()) {
    return absl::IsNotFound(read.status())
               ? absl::StrCat(kManifestFile,
                              " is missing: it was not written to its end")
               : std::string(read.status().message());
  }
  *manifest = *std::move(read);
  for (const v1::Shard& shard : manifest->shards()) {
    struct stat info;
    const std::string path = JoinPath(folder, shard.file());
    if (::stat(path.c_str(), &info) != 0) {
      return absl::StrCat(shard.file(), " is missing");
    }
    if (info.st_size != shard.bytes()) {
      return absl::StrCat(shard.file(), " has ", info.st_size,
                          " bytes, expected ", shard.bytes());
    }
  }
  return "";
}

}  // namespace

std::string CheckpointFolderName(int64_t step) {
  return absl::StrFormat("%s%08d", kStepPrefix, step);
}

absl::StatusOr<std::string> BeginCheckpoint(const std::string& checkpoints,
                                            int64_t step, int attempt) {
  RETURN_IF_ERROR(MakeFolders(checkpoints));
  const std::string partial =
      JoinPath(checkpoints,
               absl::StrFormat("%s%08d-a%d", kPartialPrefix, step, attempt));
  RETURN_IF_ERROR(RemoveTree(partial));
  RETURN_IF_ERROR(WithContext(partial, FAILPOINT("checkpoint.io")));
  RETURN_IF_ERROR(MakeFolders(partial));
  RETURN_IF_ERROR(FsyncFolder(checkpoints));
  return partial;
}

absl::StatusOr<std::string> PublishCheckpoint(const std::string& partial,
                                              const v1::Manifest& given) {
  v1::Manifest manifest = given;
  if (manifest.format_version() == 0) {
    manifest.set_format_version(kFormatVersion);
  }
  const std::string checkpoints = FolderOf(partial);
  const std::string name = CheckpointFolderName(manifest.step());
  const std::string folder = JoinPath(checkpoints, name);
  if (FileExists(folder)) {
    v1::Manifest there;
    if (ProblemOf(folder, &there).empty()) {
      RETURN_IF_ERROR(RemoveTree(partial));
      return folder;
    }
    RETURN_IF_ERROR(RemoveFolder(checkpoints, name));
  }
  RETURN_IF_ERROR(CheckManifest(partial, manifest));
  for (const v1::Shard& shard : manifest.shards()) {
    RETURN_IF_ERROR(VerifyShard(partial, shard));
    RETURN_IF_ERROR(FsyncFile(JoinPath(partial, shard.file())));
  }
  RETURN_IF_ERROR(FAILPOINT("checkpoint.manifest.begin"));
  ASSIGN_OR_RETURN(DurableFile out,
                   DurableFile::Create(JoinPath(partial, kManifestFile)));
  RETURN_IF_ERROR(out.Append(FormatManifest(manifest)));
  RETURN_IF_ERROR(out.Commit().status());
  RETURN_IF_ERROR(FAILPOINT("checkpoint.publish.begin"));
  RETURN_IF_ERROR(WithContext(folder, FAILPOINT("checkpoint.io")));
  if (::rename(partial.c_str(), folder.c_str()) != 0) {
    return ErrnoStatus("rename to", folder, errno);
  }
  RETURN_IF_ERROR(FAILPOINT("checkpoint.publish.end"));
  RETURN_IF_ERROR(WithContext(folder, FAILPOINT("checkpoint.io")));
  RETURN_IF_ERROR(FsyncFolder(checkpoints));
  return folder;
}

absl::Status Retain(const std::string& checkpoints, int keep) {
  int complete = 0;
  int64_t newest = -1;
  for (const CheckpointEntry& entry : ListCheckpoints(checkpoints)) {
    if (!entry.complete) continue;
    newest = std::max(newest, entry.manifest.step());
    if (keep > 0 && ++complete > keep) {
      RETURN_IF_ERROR(RemoveFolder(
          checkpoints, entry.folder.substr(entry.folder.rfind('/') + 1)));
    }
  }
  for (const std::string& name : NamesIn(checkpoints)) {
    const bool stale =
        absl::StartsWith(name, kRemovedPrefix) ||
        (absl::StartsWith(name, kPartialPrefix) && StepOf(name) <= newest);
    if (stale) RETURN_IF_ERROR(RemoveTree(JoinPath(checkpoints, name)));
  }
  return absl::OkStatus();
}

absl::Status RemovePartial(const std::string& checkpoints) {
  for (const std::string& name : NamesIn(checkpoints)) {
    if (!absl::StartsWith(name, kPartialPrefix)) continue;
    RETURN_IF_ERROR(RemoveTree(JoinPath(checkpoints, name)));
  }
  return absl::OkStatus();
}

std::vector<CheckpointEntry> ListCheckpoints(const std::string& checkpoints) {
  std::vector<std::pair<int64_t, CheckpointEntry>> found;
  for (const std::string& name : NamesIn(checkpoints)) {
    const int64_t step = StepOf(name);
    if (step < 0) continue;
    CheckpointEntry entry;
    entry.folder = JoinPath(checkpoints, name);
    entry.problem = ProblemOf(entry.folder, &entry.manifest);
    if (entry.problem.empty() && absl::StartsWith(name, kPartialPrefix)) {
      entry.problem = "it was not published";
    }
    if (entry.problem.empty() && entry.manifest.step() != step) {
      entry.problem =
          absl::StrCat("its manifest is of step ", entry.manifest.step());
    }
    entry.complete = entry.problem.empty();
    if (!entry.complete) {
      // Removed while it was looked at, as the oldest is.
      if (!FileExists(entry.folder)) continue;
      entry.manifest.Clear();
    }
    found.emplace_back(step, std::move(entry));
  }
  // Of one step the complete one first.
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) {
                     if (a.first != b.first) return a.first > b.first;
                     return a.second.complete && !b.second.complete;
                   });
  std::vector<CheckpointEntry> entries;
  for (auto& [step, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

absl::StatusOr<v1::Manifest> ReadManifest(const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestFile);
  // A pipe in its place would be waited for.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Mismatch(path, "it", "no regular file", "a manifest");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostManifestBytes));
  return ParseManifest(path, text);
}

absl::StatusOr<v1::Manifest> VerifyCheckpoint(const std::string& folder) {
  auto manifest = ReadManifest(folder);
  if (!manifest.ok()) {
    if (!absl::IsNotFound(manifest.status())) return manifest.status();
    return absl::DataLossError(
        absl::StrCat(manifest.status().message(),
                     "; without it the checkpoint was not written to its end"));
  }
  for (const v1::Shard& shard : manifest->shards()) {
    RETURN_IF_ERROR(VerifyShard(folder, shard));
  }
  return manifest;
}

}  // namespace pipework
