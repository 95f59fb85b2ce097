// What a spec means where it says nothing.
#ifndef PIPEWORK_DAEMON_SPEC_DEFAULTS_H_
#define PIPEWORK_DAEMON_SPEC_DEFAULTS_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace pipework {

// Whether the user gave a field, by its path (pipeline.stages[1].replicas).
using IsGiven = std::function<bool(const std::string& field)>;

// Fills in every field that was not given and has a default. Fields that only
// one optimizer or one learning-rate schedule reads get theirs only with it.
void FillDefaults(const IsGiven& is_given, v1::JobSpec* spec);

// "1", "noam", ... for a path without indexes; "" where there is no default.
std::string DefaultText(absl::string_view field);

// For a message without text: a field was given if it is not zero.
IsGiven GivenIfNotZero(const v1::JobSpec& spec);

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_SPEC_DEFAULTS_H_
