#include "daemon/checkpoint/manifest.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/checkpoint/durable_file.h"
#include "proto/errors.h"

namespace pipework {
namespace {

constexpr char kHashLine[] = "# sha256 of the lines above: ";

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  std::string text;
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text.empty()) {
      text = absl::StrCat("line ", line + 1, " column ", column + 1, ": ",
                          message);
    }
  }
};

bool IsHash(absl::string_view text) {
  if (text.size() != 64) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c) && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

std::string HashOf(absl::string_view text) {
  Sha256 hash;
  hash.Add(text);
  return hash.Finish();
}

}  // namespace

bool IsShardName(absl::string_view name) {
  if (name.empty() || name.size() > 200 || name[0] == '.') return false;
  if (name == kManifestFile) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.') {
      return false;
    }
  }
  return true;
}

absl::Status CheckManifest(absl::string_view who,
                           const v1::Manifest& manifest) {
  if (manifest.format_version() != kFormatVersion) {
    return absl::FailedPreconditionError(MismatchText(
        who, "format_version", absl::StrCat(manifest.format_version()),
        absl::StrCat(kFormatVersion), "use the version that wrote it"));
  }
  if (manifest.step() < 0 || manifest.epoch() < 0 ||
      manifest.minibatch_in_epoch() < 0) {
    return Mismatch(who, "step, epoch or minibatch_in_epoch", "negative",
                    "0 or more");
  }
  if (manifest.shards().empty()) {
    return Mismatch(who, "the number of shards", "0", "at least 1");
  }
  std::set<std::string> files, tensors;
  for (const v1::Shard& shard : manifest.shards()) {
    const std::string shard_is = absl::StrCat("shard \"", shard.file(), "\"");
    if (!IsShardName(shard.file())) {
      return Mismatch(who, "the name of a shard",
                      absl::StrCat("\"", shard.file(), "\""),
                      "a plain file name");
    }
    if (!files.insert(shard.file()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, ": ", shard_is, " comes twice"));
    }
    if (shard.bytes() < 0 || !IsHash(shard.sha256())) {
      return Mismatch(who, absl::StrCat("size or sha256 of ", shard_is), "none",
                      "that of the file");
    }
    for (const std::string& tensor : shard.tensors()) {
      if (!tensors.insert(tensor).second) {
        return absl::InvalidArgumentError(absl::StrCat(
            who, ": tensor \"", tensor, "\" is in two places of the shards"));
      }
    }
  }
  return absl::OkStatus();
}

std::string FormatManifest(const v1::Manifest& manifest) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(manifest, &text);
  return absl::StrCat(text, kHashLine, HashOf(text), "\n");
}

absl::StatusOr<v1::Manifest> ParseManifest(absl::string_view who,
                                           const std::string& text) {
  const size_t hash_line = text.rfind(kHashLine);
  if (hash_line == std::string::npos) {
    return absl::DataLossError(
        absl::StrCat(who,
                     ": its last line, with the hash, is missing; the "
                     "file is cut off"));
  }
  const absl::string_view body = absl::string_view(text).substr(0, hash_line);
  const absl::string_view written = absl::StripAsciiWhitespace(
      absl::string_view(text).substr(hash_line + sizeof kHashLine - 1));
  const std::string found = HashOf(body);
  if (written != found) {
    return absl::DataLossError(
        MismatchText(who, "the hash of its lines", found, written,
                     "it was changed after it was written"));
  }
  v1::Manifest manifest;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(body), &manifest)) {
    return absl::DataLossError(absl::StrCat(who, ": ", error.text));
  }
  const absl::Status good = CheckManifest(who, manifest);
  if (good.code() == absl::StatusCode::kInvalidArgument) {
    return absl::DataLossError(good.message());
  }
  if (!good.ok()) return good;
  return manifest;
}

}  // namespace pipework
