// Small checkpoints for the tests of this folder.
#ifndef PIPEWORK_DAEMON_CHECKPOINT_CHECKPOINT_TEST_UTIL_H_
#define PIPEWORK_DAEMON_CHECKPOINT_CHECKPOINT_TEST_UTIL_H_

#include <string>
#include <vector>

#include "daemon/checkpoint/checkpoint.h"

namespace pipework {
namespace testing {

// A folder of its own, removed with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Element i is first + i.
NamedTensor Ramp(const std::string& name, Shape shape, float first);
NamedTensor Empty(const std::string& name, Shape shape,
                  DType dtype = DType::kF32);

// Two stages: conv1 and bn1 with its buffers, fc with its momentum; the values
// depend on `step`.
std::vector<NamedTensor> StageTensors(int stage, int64_t step);

// Writes both shards and publishes; the folder, or the first error.
absl::StatusOr<std::string> Save(const std::string& checkpoints, int64_t step,
                                 int attempt = 1);

// Whether `folder` holds what Save wrote at `step`.
bool Holds(const std::string& folder, int64_t step);

}  // namespace testing
}  // namespace pipework

#endif  // PIPEWORK_DAEMON_CHECKPOINT_CHECKPOINT_TEST_UTIL_H_
