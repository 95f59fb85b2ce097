// One file for PyTorch out of a checkpoint.
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/paths.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/checkpoint/durable_file.h"
#include "daemon/checkpoint/safetensors.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

constexpr char kOptimizerPrefix[] = "optimizer.";
constexpr char kRunningMean[] = ".running_mean";
constexpr size_t kPieceBytes = 1 << 20;

// A tensor of the export: of a shard, or zeros.
struct Source {
  const SafetensorsFile* file = nullptr;
  const SafetensorsEntry* entry = nullptr;
};

}  // namespace

absl::Status ExportCheckpoint(const std::string& folder,
                              const std::string& file, bool overwrite) {
  // A rename into place would put a file where a device or a folder is.
  struct stat there {};
  if (::stat(file.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::AlreadyExistsError(
        absl::StrCat(file, ": is not a regular file; choose another name"));
  }
  if (!overwrite && FileExists(file)) {
    return absl::AlreadyExistsError(
        absl::StrCat(file,
                     ": there is such a file; choose another name, or "
                     "ask for it to be overwritten"));
  }
  ASSIGN_OR_RETURN(const v1::Manifest manifest, VerifyCheckpoint(folder));
  std::vector<SafetensorsFile> files;
  files.reserve(manifest.shards_size());
  std::vector<Source> sources;
  for (const v1::Shard& shard : manifest.shards()) {
    ASSIGN_OR_RETURN(SafetensorsFile opened,
                     SafetensorsFile::Open(JoinPath(folder, shard.file())));
    files.push_back(std::move(opened));
    for (const SafetensorsEntry& entry : files.back().header().entries) {
      if (absl::StartsWith(entry.name, kOptimizerPrefix)) continue;
      sources.push_back({&files.back(), &entry});
    }
  }
  // By name: the file is the same however many stages wrote the checkpoint.
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) {
              return a.entry->name < b.entry->name;
            });
  std::vector<SafetensorsEntry> entries;
  for (const Source& source : sources) entries.push_back(*source.entry);
  // PyTorch counts the batches of a batch norm; load_state_dict(strict=True)
  // wants the count, and nothing reads it where momentum is set. Eight-byte
  // numbers go first, so that every tensor is aligned.
  std::vector<SafetensorsEntry> all;
  for (const SafetensorsEntry& entry : entries) {
    absl::string_view name = entry.name;
    if (!absl::ConsumeSuffix(&name, kRunningMean)) continue;
    SafetensorsEntry count;
    count.name = absl::StrCat(name, ".num_batches_tracked");
    count.dtype = "I64";
    all.push_back(std::move(count));
  }
  const size_t counts = all.size();
  all.insert(all.end(), entries.begin(), entries.end());

  const auto front = FormatSafetensors(&all, {{"format", "pt"}});
  if (!front.ok()) return WithContext(file, front.status());
  ASSIGN_OR_RETURN(DurableFile out, DurableFile::Create(file));
  RETURN_IF_ERROR(out.Append(*front));
  RETURN_IF_ERROR(out.Append(std::string(counts * sizeof(int64_t), '\0')));
  std::string piece;
  for (const Source& source : sources) {
    const int64_t bytes = source.entry->bytes();
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(kPieceBytes)) {
      piece.resize(
          std::min<size_t>(kPieceBytes, static_cast<size_t>(bytes - at)));
      RETURN_IF_ERROR(source.file->Read(
          *source.entry, at, static_cast<int64_t>(piece.size()), &piece[0]));
      RETURN_IF_ERROR(out.Append(piece));
    }
  }
  return out.Commit().status();
}

}  // namespace pipework
