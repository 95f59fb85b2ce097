// Shards: written by a node, checked by whoever passes them on, read again.
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/paths.h"
#include "daemon/checkpoint/checkpoint.h"
#include "daemon/checkpoint/durable_file.h"
#include "daemon/checkpoint/manifest.h"
#include "daemon/checkpoint/safetensors.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

const char* TypeName(DType dtype) {
  return dtype == DType::kF32 ? "F32" : "I32";
}

SafetensorsEntry EntryOf(const std::string& name, const Tensor& tensor) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = TypeName(tensor.dtype());
  entry.shape = tensor.shape().dims();
  return entry;
}

}  // namespace

absl::StatusOr<v1::Shard> WriteShard(const std::string& folder,
                                     const std::string& file, int stage,
                                     absl::Span<const NamedTensor> tensors) {
  const std::string path = JoinPath(folder, file);
  if (!IsShardName(file)) {
    return Mismatch(folder, "the name of a shard",
                    absl::StrCat("\"", file, "\""), "a plain file name");
  }
  v1::Shard shard;
  shard.set_file(file);
  shard.set_stage(stage);
  std::vector<SafetensorsEntry> entries;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.tensor.empty()) {
      return Mismatch(path, absl::StrCat("tensor \"", tensor.name, "\""),
                      "empty", "one with a buffer");
    }
    entries.push_back(EntryOf(tensor.name, tensor.tensor));
    shard.add_tensors(tensor.name);
  }
  const auto front = FormatSafetensors(
      &entries, {{"format", "pt"}, {"stage", absl::StrCat(stage)}});
  if (!front.ok()) return WithContext(path, front.status());
  RETURN_IF_ERROR(FAILPOINT("checkpoint.shard.begin"));
  ASSIGN_OR_RETURN(DurableFile out, DurableFile::Create(path));
  RETURN_IF_ERROR(out.Append(*front));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == tensors.size() / 2) {
      RETURN_IF_ERROR(FAILPOINT("checkpoint.shard.half"));
    }
    const Tensor& tensor = tensors[i].tensor;
    RETURN_IF_ERROR(
        out.Append(absl::string_view(static_cast<const char*>(tensor.raw()),
                                     static_cast<size_t>(tensor.bytes()))));
  }
  shard.set_bytes(out.bytes());
  ASSIGN_OR_RETURN(*shard.mutable_sha256(), out.Commit());
  RETURN_IF_ERROR(FAILPOINT("checkpoint.shard.end"));
  return shard;
}

absl::Status VerifyShard(const std::string& folder, const v1::Shard& shard) {
  if (!IsShardName(shard.file())) {
    return Mismatch(folder, "the name of a shard",
                    absl::StrCat("\"", shard.file(), "\""),
                    "a plain file name");
  }
  const std::string path = JoinPath(folder, shard.file());
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return absl::DataLossError(
        std::string(ErrnoStatus("open", path, errno).message()));
  }
  // Its structure first: that names a pointer file or the tensor that is cut.
  const auto file = SafetensorsFile::Open(path);
  if (!file.ok()) return file.status();
  if (info.st_size != shard.bytes()) {
    return absl::DataLossError(MismatchText(
        path, "its size", absl::StrCat(info.st_size, " bytes"),
        absl::StrCat(shard.bytes(), " bytes, as the manifest says")));
  }
  ASSIGN_OR_RETURN(const std::string found, Sha256OfFile(path));
  if (found != shard.sha256()) {
    return absl::DataLossError(
        MismatchText(path, "its sha256", found,
                     absl::StrCat(shard.sha256(), ", as the manifest says")));
  }
  std::set<std::string> listed(shard.tensors().begin(), shard.tensors().end());
  for (const SafetensorsEntry& entry : file->header().entries) {
    if (listed.erase(entry.name) == 0) {
      return absl::DataLossError(
          absl::StrCat(path, ": tensor \"", entry.name,
                       "\" is in the file, but not in the manifest"));
    }
  }
  if (!listed.empty()) {
    return absl::DataLossError(
        absl::StrCat(path, ": tensor \"", *listed.begin(),
                     "\" is in the manifest, but not in the file"));
  }
  return absl::OkStatus();
}

absl::Status LoadTensors(const std::string& folder,
                         const v1::Manifest& manifest,
                         absl::Span<NamedTensor> into) {
  std::map<std::string, int> shard_of;
  for (int i = 0; i < manifest.shards_size(); ++i) {
    for (const std::string& name : manifest.shards(i).tensors()) {
      shard_of.emplace(name, i);
    }
  }
  std::map<int, std::vector<const NamedTensor*>> wanted;
  std::vector<std::string> missing;
  for (const NamedTensor& tensor : into) {
    const auto it = shard_of.find(tensor.name);
    if (it == shard_of.end()) {
      missing.push_back(tensor.name);
    } else {
      wanted[it->second].push_back(&tensor);
    }
  }
  if (!missing.empty()) {
    const size_t all = missing.size();
    if (all > 10) missing.resize(10);
    return absl::NotFoundError(absl::StrCat(
        folder, ": it does not have ", all, " of ", into.size(),
        " tensors: ", absl::StrJoin(missing, ", "), all > 10 ? ", ..." : ""));
  }
  for (const auto& [index, tensors] : wanted) {
    const std::string path = JoinPath(folder, manifest.shards(index).file());
    ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
    for (const NamedTensor* tensor : tensors) {
      const SafetensorsEntry* entry = file.Find(tensor->name);
      if (entry == nullptr) {
        return absl::DataLossError(
            absl::StrCat(path, ": tensor \"", tensor->name,
                         "\" is in the manifest, but not in the file"));
      }
      const SafetensorsEntry own = EntryOf(tensor->name, tensor->tensor);
      if (entry->dtype != own.dtype || entry->shape != own.shape) {
        return Mismatch(path, absl::StrCat("tensor \"", tensor->name, "\""),
                        entry->TypeText(), own.TypeText());
      }
      RETURN_IF_ERROR(
          file.Read(*entry, 0, entry->bytes(), tensor->tensor.raw()));
    }
  }
  return absl::OkStatus();
}

}  // namespace pipework
