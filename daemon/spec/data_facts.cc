#include "daemon/spec/data_facts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "daemon/data/dataset.h"
#include "daemon/spec/problems.h"
#include "daemon/spec/spec.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// The field with the file that a message of daemon/data begins with.
std::string FieldOfFile(const v1::DataSpec& data, absl::string_view message) {
  std::string field = "data";
  size_t longest = 0;
  const auto look = [&](const std::string& where, const std::string& path) {
    // The array in an archive may be what is wrong, or the archive itself.
    const size_t member = path.find(".npz#");
    const std::string archive =
        member == std::string::npos ? path : path.substr(0, member + 4);
    for (const std::string& start : {path, archive}) {
      if (start.size() > longest && absl::StartsWith(message, start)) {
        longest = start.size();
        field = where;
      }
    }
  };
  const auto look_all = [&](const std::string& where,
                            const v1::Source& source) {
    look(JoinField(where, "x"), source.x());
    look(JoinField(where, "y"), source.y());
    look(JoinField(where, "csv"), source.csv());
    look(JoinField(where, "text"), source.text());
  };
  look_all("data.train", data.train());
  look_all("data.test", data.test());
  return field;
}

}  // namespace

absl::StatusOr<v1::DataFacts> DataFactsOf(const v1::JobSpec& spec) {
  ASSIGN_OR_RETURN(const DataSets data, OpenData(spec.data()));
  v1::DataFacts facts;
  facts.set_train_samples(data.train->size());
  facts.set_test_samples(data.test == nullptr ? 0 : data.test->size());
  for (const int64_t dim : data.train->sample_shape().dims()) {
    facts.add_sample_shape(dim);
  }
  for (const int64_t dim : data.train->label_shape().dims()) {
    facts.add_label_shape(dim);
  }
  int64_t classes = data.train->classes();
  if (data.test != nullptr) classes = std::max(classes, data.test->classes());
  facts.set_classes(classes);
  return facts;
}

ModelEnds EndsOf(const v1::DataFacts& facts) {
  ModelEnds ends;
  ends.sample = Shape(std::vector<int64_t>(facts.sample_shape().begin(),
                                           facts.sample_shape().end()));
  ends.label = Shape(std::vector<int64_t>(facts.label_shape().begin(),
                                          facts.label_shape().end()));
  ends.classes = facts.classes();
  return ends;
}

DataCheck CheckWithData(const v1::JobSpec& spec) {
  DataCheck check;
  const auto facts = DataFactsOf(spec);
  if (!facts.ok()) {
    const std::string message(facts.status().message());
    Problems problems;
    problems.AddStatus(FieldOfFile(spec.data(), message), facts.status());
    check.problems = problems.list();
    if (absl::IsNotFound(facts.status())) check.missing = message;
    return check;
  }
  check.problems = CheckModel(spec, EndsOf(*facts));
  if (!check.problems.empty()) return check;
  const auto graph = GraphOf(spec, EndsOf(*facts));
  if (graph.ok()) {
    check.problems = CheckAgainstData(spec, *graph, facts->train_samples(),
                                      facts->test_samples());
  }
  return check;
}

}  // namespace pipework
