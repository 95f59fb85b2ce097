// Reads the arguments of a layer or a built-in network, and says exactly what
// is wrong with them.
#ifndef PIPEWORK_KERNELS_LAYERS_ARGS_H_
#define PIPEWORK_KERNELS_LAYERS_ARGS_H_

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/graph.pb.h"

namespace pipework {

// `text` cut to a length that suits a message, without control characters,
// which could harm a terminal; and the same in quotes.
std::string Printable(absl::string_view text);
std::string Quoted(absl::string_view text);

// The known name that looks most like `name`; empty when none is near.
std::string NearestName(absl::string_view name,
                        absl::Span<const absl::string_view> known);

// Reads arguments by name and remembers the first problem, so that a caller
// reads all of them and asks for status() once. After a problem the values
// returned are the fallbacks.
class ArgReader {
 public:
  static constexpr int64_t kMax = int64_t{1} << 31;

  // `who` begins every message. `known` are the names that may occur; both
  // spans must outlive the reader. Unknown and repeated names are a problem
  // at once.
  ArgReader(std::string who, absl::Span<const v1::Arg* const> args,
            absl::Span<const absl::string_view> known);

  bool Has(absl::string_view name) const { return Find(name) != nullptr; }

  // A whole number from `min` to `max` that must be given.
  int64_t RequiredInt(absl::string_view name, int64_t min = 1,
                      int64_t max = kMax);
  int64_t Int(absl::string_view name, int64_t fallback, int64_t min = 1,
              int64_t max = kMax);
  // One number for both sides, or two: height, width.
  std::array<int64_t, 2> RequiredPair(absl::string_view name, int64_t min = 1,
                                      int64_t max = kMax);
  std::array<int64_t, 2> Pair(absl::string_view name,
                              std::array<int64_t, 2> fallback, int64_t min = 1,
                              int64_t max = kMax);
  // A list of whole numbers; one number is a list of one.
  std::vector<int64_t> Ints(absl::string_view name,
                            std::vector<int64_t> fallback, int64_t min = 1,
                            int64_t max = kMax, int most = 64);
  // From `min` up to, without, `below`. A whole number will do.
  double Real(absl::string_view name, double fallback, double min,
              double below = std::numeric_limits<double>::infinity());
  bool Bool(absl::string_view name, bool fallback);

  // InvalidArgument: the first problem.
  const absl::Status& status() const { return status_; }

 private:
  const v1::Arg* Find(absl::string_view name) const;
  void Problem(absl::string_view name, absl::string_view got,
               absl::string_view wanted, absl::string_view remedy = "");
  void Missing(absl::string_view name, absl::string_view wanted);
  bool InRange(absl::string_view name, int64_t value, int64_t min, int64_t max);

  const std::string who_;
  const absl::Span<const v1::Arg* const> args_;
  absl::Status status_;
};

// An argument's value as a spec writes it: 3, 0.5, true, "word", [3,3].
std::string ArgText(const v1::Arg& arg);

// The arguments of `layer` as a span.
absl::Span<const v1::Arg* const> ArgsOf(const v1::Layer& layer);

// How a layer is called in messages: layer "conv1" (conv2d).
std::string LayerWho(const v1::Layer& layer);

}  // namespace pipework

#endif  // PIPEWORK_KERNELS_LAYERS_ARGS_H_
