// How much processor time compiling and simulating takes, and how much memory.
// One thread does all.
//
//   simulator [MINIBATCHES STAGES]
//
// Without arguments: a table of growing programs, the last one the largest that
// must be simulated in under ten seconds. See README.md.
#include <sys/resource.h>

#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "scheduler/compile.h"
#include "scheduler/passes/simulate.h"
#include "scheduler/passes/steady_state.h"

namespace pipework {
namespace {

// Of this process, whatever else the machine does.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// False: does not compile or run.
bool Measure(int64_t minibatches, int stages, bool network) {
  PipelineShape shape;
  shape.replicas.assign(stages, 1);
  Segment segment;
  segment.minibatches = minibatches;

  const double start = CpuSeconds();
  const absl::StatusOr<Program> program = Compile({"1f1b", ""}, shape, segment);
  if (!program.ok()) {
    std::fprintf(stderr, "simulator: %s\n",
                 std::string(program.status().message()).c_str());
    return false;
  }
  const double compiled = CpuSeconds();

  ActionTimes times;
  for (int s = 0; s < stages; ++s) {
    times.forward_seconds.push_back(1 + 0.1 * (s % 7));
    times.backward_seconds.push_back(2 + 0.1 * (s % 5));
  }
  if (network) {
    // Nodes of eight devices, and a tenth of a stage's time per message.
    times.network.levels = {{1e9, 1e-3}, {1e8, 1e-3}};
    for (int s = 0; s < stages; ++s)
      times.network.row_path.push_back({s, s / 8});
    times.network.forward_bytes.assign(stages - 1, 1e7);
    times.network.backward_bytes.assign(stages - 1, 1e7);
  }
  const absl::StatusOr<Timeline> timeline = Simulate(*program, times);
  if (!timeline.ok()) {
    std::fprintf(stderr, "simulator: %s\n",
                 std::string(timeline.status().message()).c_str());
    return false;
  }
  const double simulated = CpuSeconds();
  size_t actions = 0;
  for (const Row& row : program->rows) actions += row.actions.size();
  const SteadyState steady = SteadyStateOf(*program, *timeline);
  std::printf("%11lld %7d %10zu %8s %9.2f %9.2f %9.2f %10.0f %9.3f\n",
              static_cast<long long>(minibatches), stages, actions,
              network ? "shared" : "free", compiled - start,
              simulated - compiled, simulated - start, PeakMebibytes(),
              steady.step_seconds);
  return true;
}

int Run(int argc, char** argv) {
  int64_t minibatches = 0;
  int stages = 0;
  if (argc != 1 &&
      (argc != 3 || !absl::SimpleAtoi(argv[1], &minibatches) ||
       !absl::SimpleAtoi(argv[2], &stages) || minibatches < 1 || stages < 1)) {
    std::fprintf(stderr, "usage: simulator [MINIBATCHES STAGES]\n");
    return 2;
  }
  std::printf("%11s %7s %10s %8s %9s %9s %9s %10s %9s\n", "minibatches",
              "stages", "actions", "links", "compile s", "simul. s", "both s",
              "peak MiB", "step s");
  if (argc == 3) return Measure(minibatches, stages, false) ? 0 : 1;
  for (const auto& [m, s] : std::vector<std::pair<int64_t, int>>{
           {1000, 16}, {1000, 64}, {1000, 256}, {3000, 256}, {10000, 256}}) {
    for (const bool network : {false, true}) {
      // The largest with free links only: the peak is then that of the claim.
      if (network && m == 10000) continue;
      if (!Measure(m, s, network)) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace pipework

int main(int argc, char** argv) { return pipework::Run(argc, argv); }
