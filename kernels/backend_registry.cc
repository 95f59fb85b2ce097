#include "kernels/backend_registry.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/reference_backend.h"
#include "proto/errors.h"

namespace pipework {
namespace {

using MakeFn =
    absl::StatusOr<std::unique_ptr<Backend>> (*)(const BackendOptions& options);

struct Entry {
  absl::string_view name;
  MakeFn make;
};

std::shared_ptr<Allocator> HostMemory(const BackendOptions& options) {
  return MakeHostAllocator(options.memory_limit_bytes, options.poison);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeReference(
    const BackendOptions& options) {
  return std::make_unique<ReferenceBackend>(HostMemory(options));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCpu(
    const BackendOptions& options) {
  return std::make_unique<CpuBackend>(HostMemory(options), options.threads);
}

// cuda:N stands behind them, since its name has a number.
constexpr Entry kBackends[] = {
    {"reference", &MakeReference},
    {"cpu", &MakeCpu},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const std::string& name, const BackendOptions& options) {
  if (options.threads < 1) {
    return Mismatch(absl::StrCat("back end ", name), "threads",
                    absl::StrCat(options.threads), "1 or more");
  }
  if (options.memory_limit_bytes < 0) {
    return Mismatch(absl::StrCat("back end ", name), "memory limit",
                    absl::StrCat(options.memory_limit_bytes, " bytes"),
                    "0 (none) or more");
  }
  for (const Entry& entry : kBackends) {
    if (entry.name == name) return entry.make(options);
  }
  absl::string_view number = name;
  int device = 0;
  if (absl::ConsumePrefix(&number, "cuda:") &&
      absl::SimpleAtoi(number, &device) && device >= 0) {
    return MakeCudaBackend(device);
  }
  return absl::NotFoundError(
      absl::StrCat("back end \"", name, "\" is not known; known back ends: ",
                   absl::StrJoin(LinkedBackends(), ", "), ", cuda:N"));
}

std::vector<std::string> LinkedBackends() {
  std::vector<std::string> names;
  for (const Entry& entry : kBackends) names.emplace_back(entry.name);
  return names;
}

std::string CpuKind(int threads) {
  // As oneDNN and Highway choose: AVX-512 counts with its byte, word,
  // doubleword and short-vector parts only.
  const char* isa = "sse42";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isa = "avx2";
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    isa = __builtin_cpu_supports("avx512bf16") ? "avx512_bf16" : "avx512";
  }
  return absl::StrCat("cpu x", threads, " ", isa);
}

}  // namespace pipework
