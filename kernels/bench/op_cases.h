// The ops and shapes that op_bench measures.
#ifndef PIPEWORK_KERNELS_BENCH_OP_CASES_H_
#define PIPEWORK_KERNELS_BENCH_OP_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace pipework {

struct OpCase {
  std::string name;       // op and shape, at most 40 characters
  double bytes = 0;       // of the arguments, each read or written once
  double operations = 0;  // multiply and add count 2
  // Runs it once on memory of its own.
  std::function<absl::Status(Backend& backend)> run;
};

// Small networks on small images, which is what the tests train, and one
// large shape of each kind.
std::vector<OpCase> OpCases();

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_BENCH_OP_CASES_H_
