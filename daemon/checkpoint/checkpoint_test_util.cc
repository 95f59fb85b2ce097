#include "daemon/checkpoint/checkpoint_test_util.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/paths.h"
#include "proto/check.h"
#include "proto/status_macros.h"

namespace pipework {
namespace testing {
namespace {

std::shared_ptr<Allocator> Host() {
  static const auto allocator = MakeHostAllocator();
  return allocator;
}

}  // namespace

TempFolder::TempFolder() {
  const char* base = std::getenv("TEST_TMPDIR");
  std::string pattern =
      JoinPath(base == nullptr ? "/tmp" : base, "checkpointXXXXXX");
  PIPE_CHECK(::mkdtemp(&pattern[0]) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() { (void)RemoveTree(path_); }

NamedTensor Empty(const std::string& name, Shape shape, DType dtype) {
  auto tensor =
      Tensor::Zeros(*Host(), std::move(shape), dtype, MemoryUse::kWeights);
  PIPE_CHECK(tensor.ok());
  return {name, *std::move(tensor)};
}

NamedTensor Ramp(const std::string& name, Shape shape, float first) {
  NamedTensor out = Empty(name, std::move(shape));
  for (int64_t i = 0; i < out.tensor.elements(); ++i) {
    out.tensor.f32()[i] = first + static_cast<float>(i);
  }
  return out;
}

std::vector<NamedTensor> StageTensors(int stage, int64_t step) {
  const float base = static_cast<float>(1000 * step);
  if (stage == 0) {
    return {Ramp("conv1.weight", {4, 1, 3, 3}, base),
            Ramp("conv1.bias", {4}, base + 100),
            Ramp("bn1.weight", {4}, base + 110),
            Ramp("bn1.bias", {4}, base + 120),
            Ramp("bn1.running_mean", {4}, base + 130),
            Ramp("bn1.running_var", {4}, base + 140),
            Ramp("optimizer.momentum.conv1.weight", {4, 1, 3, 3}, base + 150)};
  }
  return {Ramp("fc.weight", {2, 5}, base + 300),
          Ramp("fc.bias", {2}, base + 320),
          Ramp("optimizer.momentum.fc.weight", {2, 5}, base + 330)};
}

absl::StatusOr<std::string> Save(const std::string& checkpoints, int64_t step,
                                 int attempt) {
  ASSIGN_OR_RETURN(const std::string partial,
                   BeginCheckpoint(checkpoints, step, attempt));
  v1::Manifest manifest;
  manifest.set_job("j-test");
  manifest.set_attempt(attempt);
  manifest.set_step(step);
  manifest.set_epoch(step / 45);
  manifest.set_spec_json("{\"name\": \"test\"}");
  for (int stage : {0, 1}) {
    ASSIGN_OR_RETURN(
        *manifest.add_shards(),
        WriteShard(partial, absl::StrCat("stage-", stage, ".safetensors"),
                   stage, StageTensors(stage, step)));
  }
  return PublishCheckpoint(partial, manifest);
}

bool Holds(const std::string& folder, int64_t step) {
  const auto manifest = VerifyCheckpoint(folder);
  if (!manifest.ok() || manifest->step() != step) return false;
  for (int stage : {0, 1}) {
    const std::vector<NamedTensor> wanted = StageTensors(stage, step);
    std::vector<NamedTensor> got;
    for (const NamedTensor& tensor : wanted) {
      got.push_back(Empty(tensor.name, tensor.tensor.shape()));
    }
    if (!LoadTensors(folder, *manifest, absl::MakeSpan(got)).ok()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::memcmp(wanted[i].tensor.raw(), got[i].tensor.raw(),
                      static_cast<size_t>(wanted[i].tensor.bytes())) != 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace testing
}  // namespace pipework
