// --set a.b[2].c=value: changes of a spec's tree before it is read.
#ifndef PIPEWORK_DAEMON_SPEC_OVERRIDES_H_
#define PIPEWORK_DAEMON_SPEC_OVERRIDES_H_

#include <string>

#include "absl/types/span.h"
#include "daemon/spec/problems.h"
#include "daemon/spec/yaml_tree.h"

namespace pipework {

// The file of their problems.
constexpr char kSetFile[] = "--set";

// Applies each in turn. Sections on the way are made where they are missing; a
// list's element must exist or be the next one. The value is taken as it
// stands, but for lists, maps and quotes, which are read as YAML; null removes
// the field.
void ApplySets(absl::Span<const std::string> sets, YamlNode* root,
               Problems* problems);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_OVERRIDES_H_
