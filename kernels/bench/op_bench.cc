// op_bench [cpu|reference]: how long each op takes, and how much of what the
// machine can do that is. Takes google-benchmark's flags, such as
// --benchmark_filter=conv2d.
//
// The least time an op could take is the larger of two: its operations at the
// rate of a 512x512x512 matrix product, and its bytes at the rate of a copy of
// as many bytes; both are measured here, on the same back end. `of best` is
// that time over the measured one; it says which of the two it was. Times are
// of the processor, so that other work on the machine shows less.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "kernels/backend_registry.h"
#include "kernels/bench/op_cases.h"

namespace pipework {
namespace {

// Processor seconds of one call, the best of several rounds.
template <typename Body>
double Seconds(const Body& body) {
  double best = 1e9;
  int calls = 1;
  for (int round = 0; round < 8;) {
    const std::clock_t start = std::clock();
    for (int i = 0; i < calls; ++i) body();
    const double seconds =
        static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (seconds < 2e-3) {
      calls *= 2;
      continue;
    }
    best = std::min(best, seconds / calls);
    ++round;
  }
  return best;
}

double CopySeconds(double bytes) {
  // Half is read, half is written.
  std::vector<char> from(static_cast<size_t>(bytes / 2) + 1), to(from.size());
  return Seconds([&] {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  });
}

double ProductSeconds(Backend& backend) {
  constexpr int64_t kSide = 512;
  std::vector<float> x(kSide * kSide, 1), w(kSide * kSide, 1), y(kSide * kSide);
  const LinearForwardArgs args{
      {kSide, kSide, kSide}, x.data(), w.data(), nullptr, y.data()};
  return Seconds([&] { (void)backend.LinearForward(args); }) /
         (2.0 * kSide * kSide * kSide);
}

class Table final : public benchmark::BenchmarkReporter {
 public:
  Table(std::string what, double seconds_per_operation)
      : what_(std::move(what)), seconds_per_operation_(seconds_per_operation) {}

  bool ReportContext(const Context&) override {
    std::printf("%s: a matrix product makes %.1f GFLOP/s\n\n", what_.c_str(),
                1e-9 / seconds_per_operation_);
    std::printf("%-40s%10s%8s%9s%13s\n", "op", "us", "MB", "MFLOP", "of best");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) {
        std::printf("%-40s%s\n", run.benchmark_name().c_str(),
                    run.error_message.c_str());
        continue;
      }
      const double bytes = run.counters.at("bytes").value;
      const double operations = run.counters.at("operations").value;
      const double seconds =
          run.cpu_accumulated_time / static_cast<double>(run.iterations);
      const double copy = CopySeconds(bytes);
      const double product = operations * seconds_per_operation_;
      std::printf("%-40s%10.1f%8.2f%9.2f%6.0f%% %s\n",
                  run.benchmark_name().c_str(), seconds * 1e6, bytes / 1e6,
                  operations / 1e6, 100 * std::max(copy, product) / seconds,
                  copy > product ? "copy" : "product");
    }
    std::fflush(stdout);
  }

 private:
  const std::string what_;
  const double seconds_per_operation_;
};

int Main(const std::string& name) {
  auto made = MakeBackend(name, BackendOptions{});
  if (!made.ok()) {
    std::fprintf(stderr, "op_bench: %s\n",
                 std::string(made.status().message()).c_str());
    return 2;
  }
  Backend& backend = **made;
  for (const OpCase& op : OpCases()) {
    benchmark::RegisterBenchmark(
        op.name.c_str(), [&backend, op](benchmark::State& state) {
          absl::Status status;
          for (auto _ : state) {
            status = op.run(backend);
            if (!status.ok()) break;
          }
          if (!status.ok()) state.SkipWithError(status.ToString().c_str());
          state.counters["bytes"] = op.bytes;
          state.counters["operations"] = op.operations;
        });
  }
  Table table(name + " on " + CpuKind(backend.threads()),
              ProductSeconds(backend));
  benchmark::RunSpecifiedBenchmarks(&table);
  return 0;
}

}  // namespace
}  // namespace pipework

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: op_bench [cpu|reference] [--benchmark_...]\n");
    return 2;
  }
  return pipework::Main(argc == 2 ? argv[1] : "cpu");
}
