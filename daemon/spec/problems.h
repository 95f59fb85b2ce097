// A growing list of problems of one spec.
#ifndef PIPEWORK_DAEMON_SPEC_PROBLEMS_H_
#define PIPEWORK_DAEMON_SPEC_PROBLEMS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"

namespace pipework {

// Enough for any person; a hostile file must not cost memory for each of its
// bytes.
constexpr size_t kMostProblems = 1000;

class Problems {
 public:
  void Add(std::string field, std::string got, std::string expected,
           std::string hint = "", int line = 0, std::string file = "") {
    if (IsFull()) return;
    v1::Problem problem;
    problem.set_file(std::move(file));
    problem.set_line(line);
    problem.set_field(std::move(field));
    problem.set_got(std::move(got));
    problem.set_expected(std::move(expected));
    problem.set_hint(std::move(hint));
    list_.push_back(std::move(problem));
  }

  // Splits a message of errors.h, "<who>: <what> is <got>, expected <wanted>;
  // <remedy>", where it has that form, else takes the whole text as what was
  // got.
  void AddStatus(std::string field, const absl::Status& status);

  // A field that cannot be believed: what else is said of it, or of what it
  // holds, would only repeat the first problem.
  void Spoil(std::string field) {
    if (!IsFull()) spoilt_.insert(std::move(field));
  }
  // Whether `field` is spoilt, or is within or around what is. When the list
  // is full every field is: nothing more can be told.
  bool IsSpoilt(absl::string_view field) const;
  // Whether there is a problem at `field` or within it.
  bool Has(absl::string_view field) const {
    for (const v1::Problem& problem : list_) {
      if (Within(problem.field(), field)) return true;
    }
    return false;
  }

  bool empty() const { return list_.empty(); }
  bool IsFull() const { return list_.size() >= kMostProblems; }
  const std::vector<v1::Problem>& list() const { return list_; }
  std::vector<v1::Problem>* mutable_list() { return &list_; }

  // a.b[2].c is within a.b and within a.b[2].
  static bool Within(absl::string_view inner, absl::string_view outer) {
    return absl::StartsWith(inner, outer) &&
           (outer.empty() || inner.size() == outer.size() ||
            inner[outer.size()] == '.' || inner[outer.size()] == '[');
  }

 private:
  std::vector<v1::Problem> list_;
  std::set<std::string> spoilt_;
};

// a and b: a.b; "" and b: b.
inline std::string JoinField(absl::string_view outer, absl::string_view inner) {
  return outer.empty() ? std::string(inner) : absl::StrCat(outer, ".", inner);
}

inline std::string IndexField(absl::string_view outer, int64_t index) {
  return absl::StrCat(outer, "[", index, "]");
}

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_PROBLEMS_H_
