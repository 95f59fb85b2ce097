#include "cli/commands/checkpoint.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/json_printer.h"
#include "daemon/checkpoint/checkpoint.h"

namespace pipework {
namespace {

int64_t BytesOf(const v1::Manifest& manifest) {
  int64_t bytes = 0;
  for (const v1::Shard& shard : manifest.shards()) bytes += shard.bytes();
  return bytes;
}

std::string Head(absl::string_view kind) {
  return absl::StrCat("{\n  \"kind\": ", JsonString(kind),
                      ",\n  \"api_version\": ", JsonString(kApiVersion));
}

}  // namespace

int CheckpointLs(Invocation& invocation) {
  const Output& out = *invocation.out;
  const std::string ref = invocation.positionals[0];
  std::string folder;
  std::error_code error;
  if (std::filesystem::is_directory(ref, error)) {
    folder = ref;
  } else {
    auto source = FindJobs(invocation);
    if (!source.ok()) return out.Error(source.status());
    const auto job = source->FindJob(ref);
    if (!job.ok()) return out.Error(job.status());
    folder = (job->folder().empty() ? JobFolder(source->state_dir, job->id())
                                    : job->folder()) +
             "/checkpoints";
  }
  Table table(
      {">STEP", "STATE", ">ACCURACY", ">SIZE", ">STAGES", "WRITTEN", "FOLDER"});
  std::vector<std::string> items;
  for (const CheckpointEntry& entry : ListCheckpoints(folder)) {
    const v1::Manifest& m = entry.manifest;
    items.push_back(absl::StrCat(
        "{\"folder\": ", JsonString(entry.folder),
        ", \"complete\": ", entry.complete ? "true" : "false",
        ", \"problem\": ", JsonString(entry.problem), ", \"step\": ", m.step(),
        ", \"epoch\": ", m.epoch(), ", \"test_accuracy\": ",
        JsonNumber(m.test_accuracy()), ", \"bytes\": ", BytesOf(m), "}"));
    if (out.format == OutputFormat::kName) {
      std::printf("%s\n", entry.folder.c_str());
    }
    table.Row(
        {entry.complete ? absl::StrCat(m.step()) : "-",
         entry.complete ? "complete" : "incomplete: " + entry.problem,
         entry.complete && m.test_accuracy() >= 0
             ? FormatPercent(m.test_accuracy())
             : "-",
         entry.complete ? FormatBytes(static_cast<double>(BytesOf(m))) : "-",
         entry.complete ? absl::StrCat(m.first_layers_size()) : "-",
         entry.complete
             ? absl::FormatTime("%Y-%m-%d %H:%M:%S",
                                absl::FromUnixSeconds(m.written_at()),
                                absl::LocalTimeZone())
             : "-",
         entry.folder});
  }
  out.RawJson(absl::StrCat(Head("CheckpointList"), ",\n  \"checkpoints\": [",
                           items.empty() ? "" : "\n    ",
                           absl::StrJoin(items, ",\n    "),
                           items.empty() ? "]\n}" : "\n  ]\n}"));
  if (out.format == OutputFormat::kTable) {
    out.Text(items.empty() ? absl::StrCat("no checkpoints in ", folder)
                           : table.ToString());
  }
  return kExitOk;
}

int CheckpointVerify(Invocation& invocation) {
  const Output& out = *invocation.out;
  const auto folder = FindCheckpoint(invocation, invocation.positionals[0]);
  if (!folder.ok()) return out.Error(folder.status());
  const auto manifest = VerifyCheckpoint(*folder);
  if (!manifest.ok()) {
    // What is wrong here is a file's content.
    return out.Error(kExitRejected, "CHECKPOINT_CORRUPT",
                     manifest.status().message());
  }
  out.Json(*manifest, "Manifest");
  out.Text(absl::StrCat(*folder, ": step ", manifest->step(), ", ",
                        manifest->shards_size(), " shards, ",
                        FormatBytes(static_cast<double>(BytesOf(*manifest))),
                        ", every hash agrees"));
  return kExitOk;
}

int CheckpointExport(Invocation& invocation) {
  const Output& out = *invocation.out;
  const auto folder = FindCheckpoint(invocation, invocation.positionals[0]);
  if (!folder.ok()) return out.Error(folder.status());
  const auto manifest = VerifyCheckpoint(*folder);
  if (!manifest.ok()) {
    return out.Error(kExitRejected, "CHECKPOINT_CORRUPT",
                     manifest.status().message());
  }
  const std::string file = invocation.Get(
      "out",
      absl::StrCat(manifest->job(), "-", manifest->step(), ".safetensors"));
  const absl::Status status =
      ExportCheckpoint(*folder, file, invocation.Has("force"));
  if (!status.ok()) {
    // The file that cannot be written is the command line's.
    return absl::IsAlreadyExists(status) ? out.Error(status)
                                         : out.Error(UsageError(status));
  }
  out.RawJson(absl::StrCat(Head("Export"), ",\n  \"file\": ", JsonString(file),
                           ",\n  \"step\": ", manifest->step(), "\n}"));
  out.Text(absl::StrCat("wrote ", file, " (step ", manifest->step(),
                        "; weights in PyTorch's names and layouts)"));
  return kExitOk;
}

}  // namespace pipework
