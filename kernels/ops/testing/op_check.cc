#include "kernels/ops/testing/op_check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/backend_registry.h"
#include "kernels/random.h"
#include "proto/check.h"

namespace pipework {
namespace {

constexpr float kGuard = -1234567.0f;
constexpr int64_t kGuards = 16;  // a whole cache line on each side

std::unique_ptr<Backend> Make(const std::string& name) {
  auto backend = MakeBackend(name, BackendOptions{});
  PIPE_CHECK(backend.ok());
  return std::move(*backend);
}

// Leaves other plans and other scratch behind.
void Disturb(Backend& backend) {
  const std::vector<float> x = RandomValues(4096, 77);
  std::vector<float> w = RandomValues(4096, 78);
  std::vector<float> y(65536);
  MustBeOk(backend.LinearForward(
      {{16, 64, 64}, x.data(), w.data(), nullptr, y.data()}));
  Conv2dForwardArgs conv;
  conv.shape = {4, 8, 9, 9, 12, 1, {3, 3, 1, 1, 1, 1, 1, 1}};
  conv.x = x.data();
  conv.w = w.data();
  conv.y = y.data();
  MustBeOk(backend.Conv2dForward(conv));
}

}  // namespace

std::vector<std::unique_ptr<Backend>> AllBackends() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& name : LinkedBackends()) {
    backends.push_back(Make(name));
  }
  return backends;
}

std::vector<std::unique_ptr<Backend>> OtherBackends() {
  auto backends = AllBackends();
  backends.erase(backends.begin());
  return backends;
}

std::unique_ptr<Backend> MakeReference() { return Make("reference"); }

void MustBeOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  PIPE_CHECK(status.ok());
}

std::vector<float> RandomValues(int64_t elements, uint64_t seed) {
  std::vector<float> values(elements);
  for (int64_t i = 0; i < elements; ++i) {
    const auto words = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, seed);
    values[i] = 2 * UnitFloat(words[0]) - 1;
  }
  return values;
}

std::vector<float> Absolute(std::vector<float> values) {
  for (float& value : values) value = std::fabs(value);
  return values;
}

Placed::Placed(const std::vector<float>& values, int64_t shift)
    : memory_(nullptr, &std::free),
      first_(kGuards + shift),
      elements_(static_cast<int64_t>(values.size())) {
  const int64_t floats = first_ + elements_ + kGuards;
  const int64_t bytes = (floats * 4 + 63) / 64 * 64;
  memory_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
  for (int64_t i = 0; i < floats; ++i) memory_.get()[i] = kGuard;
  if (!values.empty()) std::memcpy(data(), values.data(), elements_ * 4);
}

std::vector<float> Placed::values() const {
  const float* memory = memory_.get();
  for (int64_t i = 0; i < first_; ++i) PIPE_CHECK(memory[i] == kGuard);
  for (int64_t i = 0; i < kGuards; ++i) {
    PIPE_CHECK(memory[first_ + elements_ + i] == kGuard);
  }
  return std::vector<float>(memory + first_, memory + first_ + elements_);
}

std::string Misfit(const std::vector<float>& got,
                   const std::vector<float>& want,
                   const std::vector<double>& allowed) {
  if (got.size() != want.size() || got.size() != allowed.size()) {
    return absl::StrCat(got.size(), " elements, expected ", want.size(),
                        " and bounds for ", allowed.size());
  }
  double worst = -1;
  size_t worst_index = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (got[i] == want[i]) continue;
    double used = std::fabs(double{got[i]} - double{want[i]}) / allowed[i];
    if (std::isnan(used)) used = INFINITY;
    if (used > worst) {
      worst = used;
      worst_index = i;
    }
  }
  if (worst <= 1) return "";
  return absl::StrCat("element ", worst_index, " is ", got[worst_index],
                      ", expected ", want[worst_index], ": uses ", worst,
                      " of the tolerance ", allowed[worst_index]);
}

std::string Misfit(const std::vector<float>& got,
                   const std::vector<float>& want, double allowed) {
  return Misfit(got, want, std::vector<double>(got.size(), allowed));
}

std::vector<double> OfTerms(const std::vector<float>& absolute_sums,
                            int64_t terms) {
  std::vector<double> allowed;
  const double share = 4e-7 * std::sqrt(static_cast<double>(terms)) + 4e-7;
  for (const float sum : absolute_sums) {
    allowed.push_back(share * std::fabs(sum) + 1e-30);
  }
  return allowed;
}

std::string BitDifference(const std::vector<float>& a,
                          const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return absl::StrCat(a.size(), " elements against ", b.size());
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return absl::StrCat("element ", i, ": ", a[i], " against ", b[i]);
    }
  }
  return "";
}

std::string Unsteady(const std::string& backend, const OpRun& run) {
  const auto first = Make(backend);
  const std::vector<float> bits = run(*first, 0);
  std::string difference = BitDifference(run(*first, 0), bits);
  if (!difference.empty()) return absl::StrCat("second call: ", difference);

  Disturb(*first);
  for (const int64_t shift : {0, 1, 3, 8}) {
    difference = BitDifference(run(*first, shift), bits);
    if (!difference.empty()) {
      return absl::StrCat("after other work, ", shift,
                          " floats further: ", difference);
    }
  }

  std::string in_thread[2];
  const auto repeat = [&](std::string* out) {
    const auto own = Make(backend);
    for (int i = 0; i < 5 && out->empty(); ++i) {
      *out = BitDifference(run(*own, i), bits);
    }
  };
  std::thread a(repeat, &in_thread[0]);
  std::thread b(repeat, &in_thread[1]);
  a.join();
  b.join();
  for (const std::string& text : in_thread) {
    if (!text.empty()) return absl::StrCat("in two threads at once: ", text);
  }
  return "";
}

std::string NotTheDerivative(
    const std::function<double(const std::vector<float>&)>& f,
    const std::vector<float>& x, const std::vector<float>& gradient, float step,
    double allowed) {
  std::vector<float> slopes;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<float> moved = x;
    moved[i] = x[i] + step;
    const double above = f(moved);
    const double high = moved[i];
    moved[i] = x[i] - step;
    const double below = f(moved);
    slopes.push_back(static_cast<float>((above - below) / (high - moved[i])));
  }
  return Misfit(gradient, slopes, allowed);
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

std::vector<float> Joined(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const auto& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace pipework
