#include "proto/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace pipework {
namespace {

constexpr size_t kMostMessageBytes = 200;

// Keeps the first problem.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    // The message may quote a word as long as the file.
    text_ = absl::StrCat(line + 1, ":", column + 1, ": ",
                         message.substr(0, kMostMessageBytes),
                         message.size() > kMostMessageBytes ? "..." : "");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::Status ReadTextFile(const std::string& path,
                          google::protobuf::Message* message) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (in == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::string text;
  std::vector<char> block(64 << 10);
  size_t got = 0;
  while ((got = std::fread(block.data(), 1, block.size(), in.get())) > 0) {
    text.append(block.data(), got);
    if (static_cast<int64_t>(text.size()) > kMostTextFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": size is over ", kMostTextFileBytes,
                       " bytes, expected a message as text"));
    }
  }
  if (std::ferror(in.get()) != 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  return ParseText(text, path, message);
}

absl::Status ParseText(const std::string& text, const std::string& source,
                       google::protobuf::Message* message) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, message)) {
    return absl::InvalidArgumentError(absl::StrCat(source, ":", error.text()));
  }
  return absl::OkStatus();
}

absl::Status WriteTextFile(const std::string& path,
                           const google::protobuf::Message& message) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(message, &text)) {
    return absl::InternalError(absl::StrCat(path, ": message has no text"));
  }
  const std::string temporary = absl::StrCat(path, ".tmp");
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) {
      const std::string cause = std::strerror(errno);
      std::remove(temporary.c_str());
      return absl::UnavailableError(
          absl::StrCat(path, ": cannot be written: ", cause));
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string cause = std::strerror(errno);
    std::remove(temporary.c_str());
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be renamed into place: ", cause));
  }
  return absl::OkStatus();
}

}  // namespace pipework
