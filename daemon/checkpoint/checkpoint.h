// Checkpoints: one safetensors file per stage and a manifest written last.
// FORMAT.md has the grammar. No gRPC, no threads.
#ifndef PIPEWORK_DAEMON_CHECKPOINT_CHECKPOINT_H_
#define PIPEWORK_DAEMON_CHECKPOINT_CHECKPOINT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "proto/checkpoint.pb.h"

namespace pipework {

// A tensor in host memory under its canonical name: "conv1.weight",
// "bn1.running_mean"; optimizer state is "optimizer.STATE.conv1.weight".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// ---- a node writes its stage's shard ----

// Writes `tensors` to `folder`/`file` (fsynced, through a temporary name) and
// returns its description. Errors name file and cause; nothing is left then.
absl::StatusOr<v1::Shard> WriteShard(const std::string& folder,
                                     const std::string& file, int stage,
                                     absl::Span<const NamedTensor> tensors);

// ---- the coordinator publishes ----

// Name of a checkpoint's folder below a job's `checkpoints` folder.
std::string CheckpointFolderName(int64_t step);  // step-00000120

// Makes `checkpoints`/.partial-step-N-aM and returns its path; an old one of
// the same name is removed first.
absl::StatusOr<std::string> BeginCheckpoint(const std::string& checkpoints,
                                            int64_t step, int attempt);

// Every shard of `manifest`, sizes and hashes set, lies in `partial`: checks
// them, writes the manifest last, fsyncs, renames to step-N, fsyncs the parent.
// Returns the final folder. Idempotent: a complete checkpoint of that step
// stays as it is, and `partial` is removed. DataLoss: a shard is not what the
// manifest says; `partial` stays.
absl::StatusOr<std::string> PublishCheckpoint(const std::string& partial,
                                              const v1::Manifest& manifest);

// Removes the oldest complete ones beyond `keep` (0: none), and those that were
// never published and are not newer than the newest complete one.
absl::Status Retain(const std::string& checkpoints, int keep);

// Removes all that were never published, when nobody writes them any more.
absl::Status RemovePartial(const std::string& checkpoints);

// ---- anyone reads ----

struct CheckpointEntry {
  std::string folder;
  bool complete = false;
  std::string problem;    // why not complete
  v1::Manifest manifest;  // where complete
};
// Newest first, incomplete ones too.
std::vector<CheckpointEntry> ListCheckpoints(const std::string& checkpoints);

// DataLoss: names the first file and what is wrong with it. Hashes all shards.
absl::StatusOr<v1::Manifest> VerifyCheckpoint(const std::string& folder);
// DataLoss: the file of one shard has another size or hash, or is no
// safetensors file with those tensors.
absl::Status VerifyShard(const std::string& folder, const v1::Shard& shard);
// The manifest alone, shards unchecked. NotFound: there is none.
absl::StatusOr<v1::Manifest> ReadManifest(const std::string& folder);

// Fills the tensors of `into` by name out of the shards that have them; reads
// no other shard, and checks no hash (see VerifyShard). NotFound lists what is
// missing; InvalidArgument: another shape or type; `into` is unspecified then.
absl::Status LoadTensors(const std::string& folder,
                         const v1::Manifest& manifest,
                         absl::Span<NamedTensor> into);

// One safetensors file with weights and buffers in PyTorch's names and
// layouts, no optimizer state; batch norm gets the num_batches_tracked that
// load_state_dict wants. Verifies the checkpoint first. AlreadyExists unless
// `overwrite`.
absl::Status ExportCheckpoint(const std::string& folder,
                              const std::string& file, bool overwrite);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_CHECKPOINT_CHECKPOINT_H_
