// What the op tests share: back ends, inputs, comparison, bits, derivatives.
#ifndef PIPEWORK_KERNELS_OPS_TESTING_OP_CHECK_H_
#define PIPEWORK_KERNELS_OPS_TESTING_OP_CHECK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace pipework {

// One of each linked back end, reference first, one thread each.
std::vector<std::unique_ptr<Backend>> AllBackends();
std::unique_ptr<Backend> MakeReference();
// The same without the reference: what is compared with it.
std::vector<std::unique_ptr<Backend>> OtherBackends();

// Stops the test program with the message unless OK. Catch's own assertions
// are not for several threads, and Unsteady() has two.
void MustBeOk(const absl::Status& status);

// Values in [-1, 1) that depend on `seed` alone.
std::vector<float> RandomValues(int64_t elements, uint64_t seed);
std::vector<float> Absolute(std::vector<float> values);

// Values `shift` floats behind a 64-byte boundary, between guard words that
// nobody may write.
class Placed {
 public:
  explicit Placed(const std::vector<float>& values, int64_t shift = 0);
  float* data() { return memory_.get() + first_; }
  // Stops the test program when a guard word has changed.
  std::vector<float> values() const;

 private:
  std::unique_ptr<float, void (*)(void*)> memory_;
  int64_t first_;
  int64_t elements_;
};

// "" where every |got - want| is at most allowed[i]; else the element that
// uses most of what it may, and how much that is. Two NaNs are equal.
std::string Misfit(const std::vector<float>& got,
                   const std::vector<float>& want,
                   const std::vector<double>& allowed);
// The same bound for all.
std::string Misfit(const std::vector<float>& got,
                   const std::vector<float>& want, double allowed);

// Bounds for sums of products: share of the sum of the absolute terms.
std::vector<double> OfTerms(const std::vector<float>& absolute_sums,
                            int64_t terms);

// "" where both have the same bits; else the first difference.
std::string BitDifference(const std::vector<float>& a,
                          const std::vector<float>& b);

// Runs an op on copies of its inputs that lie `shift` floats behind a
// boundary, and returns all its outputs in one. Asserts nothing with Catch.
using OpRun =
    std::function<std::vector<float>(Backend& backend, int64_t shift)>;

// "" where `run` gives the same bits on a new back end, on one that has run
// other things, at other addresses, and in two threads at once.
std::string Unsteady(const std::string& backend, const OpRun& run);

// "" where `gradient` is the derivative of `f` at x: central differences with
// `step`, each within `allowed` of it.
std::string NotTheDerivative(
    const std::function<double(const std::vector<float>&)>& f,
    const std::vector<float>& x, const std::vector<float>& gradient, float step,
    double allowed);

// sum of a[i] b[i], in double.
double Dot(const std::vector<float>& a, const std::vector<float>& b);

// One after the other.
std::vector<float> Joined(const std::vector<std::vector<float>>& parts);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_OPS_TESTING_OP_CHECK_H_
