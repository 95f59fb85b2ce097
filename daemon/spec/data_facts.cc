#include "daemon/spec/data_facts.h"

#include "daemon/data/dataset.h"
#include "proto/status_macros.h"

namespace pipework {

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

}  // namespace pipework
