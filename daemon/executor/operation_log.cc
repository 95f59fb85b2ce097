#include "daemon/executor/operation_log.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/check.h"

namespace pipework {

std::string ToString(const OperationRecord& record) {
  return absl::StrCat(absl::string_view(&record.operation, 1), " ",
                      record.number, " ", record.minibatch, " ",
                      record.microbatch, " ", record.version_read, " ",
                      record.version_written);
}

OperationLog::OperationLog(int capacity)
    : capacity_(static_cast<size_t>(capacity)) {
  PIPE_CHECK(capacity > 0);
  ring_.reserve(capacity_);
}

OperationLog::~OperationLog() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status OperationLog::OpenFile(const std::string& path) {
  PIPE_CHECK(file_ == nullptr);
  path_ = path;
  write_failed_ = false;
  file_ = std::fopen(path.c_str(), "we");
  if (file_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("operation log: ", path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void OperationLog::Append(const OperationRecord& record) {
  if (file_ != nullptr) {
    const int written = std::fprintf(
        file_, "%c %" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64 "\n",
        record.operation, record.number, record.minibatch, record.microbatch,
        record.version_read, record.version_written);
    write_failed_ = write_failed_ || written < 0;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (ring_.size() < capacity_) {
    ring_.push_back(record);
  } else {
    ring_[static_cast<size_t>(appended_) % capacity_] = record;
  }
  ++appended_;
}

absl::Status OperationLog::CloseFile() {
  if (file_ == nullptr) return absl::OkStatus();
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  if (!closed || write_failed_) {
    return absl::UnavailableError(absl::StrCat("operation log: ", path_, ": ",
                                               std::strerror(errno),
                                               "; free space on that disk"));
  }
  return absl::OkStatus();
}

std::vector<OperationRecord> OperationLog::Snapshot() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (ring_.size() < capacity_) return ring_;
  std::vector<OperationRecord> records;
  records.reserve(capacity_);
  const size_t oldest = static_cast<size_t>(appended_) % capacity_;
  records.insert(records.end(), ring_.begin() + oldest, ring_.end());
  records.insert(records.end(), ring_.begin(), ring_.begin() + oldest);
  return records;
}

int64_t OperationLog::appended() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return appended_;
}

}  // namespace pipework
