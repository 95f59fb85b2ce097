#include "daemon/spec/spec.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/spec/checks.h"
#include "daemon/spec/defaults.h"
#include "daemon/spec/layer_checks.h"
#include "daemon/spec/overrides.h"
#include "daemon/spec/problems.h"
#include "daemon/spec/reader.h"
#include "daemon/spec/yaml_tree.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "kernels/layers/graph_shape.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

// The name of a job whose spec gives none.
std::string NameOfFile(const std::string& file) {
  std::string name = fs::path(file).stem().string();
  for (char& c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.') c = '-';
  }
  while (!name.empty() && (name[0] == '.' || name[0] == '-')) name.erase(0, 1);
  name.resize(std::min<size_t>(name.size(), 100));
  return name.empty() ? "job" : name;
}

// The line of `field`, or of the nearest section around it that was given.
int LineOf(std::string field, const FieldLines& lines) {
  while (true) {
    const auto found = lines.find(field);
    if (found != lines.end()) return found->second;
    const size_t cut = field.find_last_of(".[");
    if (cut == std::string::npos) break;
    field.resize(cut);
  }
  const auto root = lines.find("");
  return root == lines.end() ? 0 : root->second;
}

bool ComesFirst(const v1::Problem& a, const v1::Problem& b) {
  if ((a.file() == kSetFile) != (b.file() == kSetFile)) {
    return b.file() == kSetFile;
  }
  return a.line() < b.line();
}

// Not a number and the infinities, which no text but a message can have.
void CheckFinite(const google::protobuf::Message& message,
                 const std::string& path, Problems* problems) {
  using google::protobuf::FieldDescriptor;
  const auto* type = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const std::string here = JoinField(path, field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      if (!reflection->HasField(message, field)) continue;
      const double value = reflection->GetDouble(message, field);
      if (std::isfinite(value)) continue;
      problems->Add(here, std::isnan(value) ? "NaN" : "an infinite number",
                    "a finite number");
      problems->Spoil(here);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) {
        for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
          CheckFinite(reflection->GetRepeatedMessage(message, field, j),
                      IndexField(here, j), problems);
        }
      } else if (reflection->HasField(message, field)) {
        CheckFinite(reflection->GetMessage(message, field), here, problems);
      }
    }
  }
}

void MakeAbsolute(const fs::path& folder, std::string* path) {
  if (path->empty() || fs::path(*path).is_absolute()) return;
  *path = (folder / *path).lexically_normal().string();
}

std::string OneLine(const v1::Problem& problem) {
  std::string text;
  if (!problem.field().empty()) text = absl::StrCat(problem.field(), ": ");
  if (problem.expected().empty()) {
    absl::StrAppend(&text, problem.got());
  } else {
    absl::StrAppend(&text, "got ", problem.got(), ", expected ",
                    problem.expected());
  }
  if (!problem.hint().empty()) absl::StrAppend(&text, "; ", problem.hint());
  return text;
}

}  // namespace

ParsedSpec ParseSpec(absl::string_view text, const std::string& file,
                     absl::Span<const std::string> sets) {
  ParsedSpec parsed;
  parsed.file = file;
  Problems problems;
  YamlNode root = ReadYaml(text, &problems);
  const bool readable = !problems.IsSpoilt("") || !root.is_null();
  if (readable) {
    ApplySets(sets, &root, &problems);
    parsed.lines[""] = root.line > 0 ? root.line : 1;
    ReadSpecTree(root, &parsed.spec, &parsed.lines, &problems);
    if (root.is_map()) {
      const FieldLines& lines = parsed.lines;
      const IsGiven is_given = [&lines](const std::string& field) {
        return lines.count(field) > 0;
      };
      if (parsed.spec.name().empty()) parsed.spec.set_name(NameOfFile(file));
      FillDefaults(is_given, &parsed.spec);
      CheckFields(parsed.spec, is_given, &problems);
    }
  }
  AddProblems(problems.list(), &parsed);
  return parsed;
}

absl::StatusOr<ParsedSpec> ReadSpec(const std::string& file,
                                    absl::Span<const std::string> sets) {
  const auto unreadable = [&file](int error) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": cannot be read: ", std::strerror(error)));
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(
      std::fopen(file.c_str(), "rb"), &std::fclose);
  if (in == nullptr) return unreadable(errno);
  std::string text;
  char block[64 << 10];
  // One byte more than may be there tells that there is more.
  while (static_cast<int64_t>(text.size()) <= kLargestSpec) {
    const size_t n = std::fread(block, 1, sizeof(block), in.get());
    text.append(block, n);
    if (n < sizeof(block)) {
      if (std::ferror(in.get()) != 0) return unreadable(errno);
      break;
    }
  }
  return ParseSpec(text, file, sets);
}

void MakePathsAbsolute(const std::string& spec_file, v1::JobSpec* spec) {
  std::error_code error;
  v1::DataSpec* data = spec->mutable_data();
  const fs::path folder =
      fs::absolute(fs::path(spec_file), error).lexically_normal().parent_path();
  if (data->dir().empty()) {
    data->set_dir(folder.string());
  } else {
    MakeAbsolute(folder, data->mutable_dir());
  }
  const auto fix = [data](v1::Source* source) {
    MakeAbsolute(data->dir(), source->mutable_x());
    MakeAbsolute(data->dir(), source->mutable_y());
    MakeAbsolute(data->dir(), source->mutable_csv());
    MakeAbsolute(data->dir(), source->mutable_text());
  };
  if (data->has_train()) fix(data->mutable_train());
  if (data->has_test()) fix(data->mutable_test());
}

absl::StatusOr<v1::Graph> GraphOf(const v1::JobSpec& spec,
                                  const ModelEnds& ends) {
  Problems problems;
  v1::Graph graph = CheckGraph(spec, ends, &problems);
  if (problems.empty()) return graph;
  return absl::InvalidArgumentError(OneLine(problems.list()[0]));
}

std::vector<v1::Problem> CheckModel(const v1::JobSpec& spec,
                                    const ModelEnds& ends) {
  Problems problems;
  const v1::Graph graph = CheckGraph(spec, ends, &problems);
  if (problems.empty()) {
    std::vector<std::string> names;
    for (const v1::Layer& layer : graph.layers()) names.push_back(layer.name());
    CheckStageLayers(spec.pipeline(), names, &problems);
  }
  return problems.list();
}

std::vector<v1::Problem> CheckAgainstData(const v1::JobSpec& spec,
                                          const v1::Graph& graph,
                                          int64_t train_samples,
                                          int64_t test_samples) {
  Problems problems;
  const int64_t minibatch = spec.batch().minibatch();
  if (train_samples < 1 || test_samples < 1) {
    problems.Add("data",
                 absl::StrCat(train_samples, " training and ", test_samples,
                              " test samples"),
                 "at least one of each");
    return problems.list();
  }
  if (minibatch > train_samples) {
    problems.Add("batch.minibatch", absl::StrCat(minibatch),
                 absl::StrCat("at most ", train_samples,
                              ", the number of training samples"));
  } else if (minibatch > 0) {
    const int64_t per_epoch = (train_samples + minibatch - 1) / minibatch;
    const int64_t most = (int64_t{1} << 50) / per_epoch;
    if (spec.run().epochs() > most) {
      problems.Add("run.epochs", absl::StrCat(spec.run().epochs()),
                   absl::StrCat("at most ", most, " with ", per_epoch,
                                " minibatches in an epoch"));
    }
  }
  std::vector<std::string> names;
  for (const v1::Layer& layer : graph.layers()) names.push_back(layer.name());
  CheckStageLayers(spec.pipeline(), names, &problems);
  return problems.list();
}

std::vector<v1::Problem> CheckSpec(const v1::JobSpec& spec) {
  Problems problems;
  CheckFinite(spec, "", &problems);
  v1::JobSpec filled = spec;
  const IsGiven is_given = GivenIfNotZero(spec);
  FillDefaults(is_given, &filled);
  CheckFields(filled, is_given, &problems);
  return problems.list();
}

void AddProblems(const std::vector<v1::Problem>& more, ParsedSpec* parsed) {
  for (v1::Problem problem : more) {
    if (problem.file().empty()) {
      int line = problem.line();
      if (line == 0) line = LineOf(problem.field(), parsed->lines);
      // Without a line, it is a value of --set; or there is no text at all.
      const bool is_set = line == 0 && parsed->lines.count("") > 0;
      problem.set_file(is_set ? kSetFile : parsed->file);
      problem.set_line(line);
    }
    parsed->problems.push_back(std::move(problem));
  }
  std::stable_sort(parsed->problems.begin(), parsed->problems.end(),
                   &ComesFirst);
}

std::string FormatProblem(const v1::Problem& problem) {
  std::string where = problem.file();
  if (problem.line() > 0) {
    absl::StrAppend(&where, where.empty() ? "line " : ":", problem.line());
  }
  v1::Problem rest = problem;
  rest.clear_field();
  std::string text;
  for (const std::string& part : {where, problem.field(), OneLine(rest)}) {
    if (part.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "  ", part);
  }
  return text;
}

}  // namespace pipework
