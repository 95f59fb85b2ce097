// A tree of values -> JobSpec, strictly by the types of its fields.
#ifndef PIPEWORK_DAEMON_SPEC_READER_H_
#define PIPEWORK_DAEMON_SPEC_READER_H_

#include <map>
#include <string>

#include "daemon/spec/problems.h"
#include "daemon/spec/yaml_tree.h"
#include "proto/job.pb.h"

namespace pipework {

// Line of each field that was given, by its path; 0 for those from --set.
using FieldLines = std::map<std::string, int>;

// Reads `root` into `spec`. Forms that differ from the message's own:
//   pipeline.stages   auto, a number, or the list of stages
//   args              a map from name to value
//   lists of words    one word alone will do
// Wrong types, numbers that do not fit, unknown names (with the nearest one)
// and empty values are added to `problems`, and the field is spoilt.
void ReadSpecTree(const YamlNode& root, v1::JobSpec* spec, FieldLines* lines,
                  Problems* problems);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_READER_H_
