#include "cli/commands/spec.h"

#include "absl/strings/str_cat.h"
#include "cli/context.h"
#include "cli/exit_code.h"
#include "cli/json_printer.h"
#include "daemon/spec/spec.h"

namespace pipework {

int Validate(Invocation& invocation) {
  const Output& out = *invocation.out;
  v1::JobSpec spec;
  std::string path;
  if (const int code = LoadSpec(invocation, invocation.positionals[0], &spec,
                                &path, DataHere::kWhereItIs)) {
    return code;
  }
  out.Json(spec, "JobSpec");
  out.Text(absl::StrCat(path, ": valid"));
  return kExitOk;
}

int Explain(Invocation& invocation) {
  const Output& out = *invocation.out;
  const std::string field =
      invocation.positionals.empty() ? "" : invocation.positionals[0];
  const auto text = ExplainField(field, invocation.Has("recursive"));
  if (!text.ok()) return out.Error(text.status());
  out.RawJson(absl::StrCat(
      "{\n  \"kind\": \"Explanation\",\n  \"api_version\": ",
      JsonString(kApiVersion), ",\n  \"field\": ", JsonString(field),
      ",\n  \"text\": ", JsonString(*text), "\n}"));
  out.Text(*text);
  return kExitOk;
}

}  // namespace pipework
