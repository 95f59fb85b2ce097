#include "daemon/coordinator/job_writer.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/failpoint.h"
#include "daemon/base/paths.h"
#include "daemon/base/unique_fd.h"
#include "daemon/coordinator/job_store.h"
#include "daemon/coordinator/sqlite.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRequestSeconds = 24 * 60 * 60;

// `number` orders jobs by submission. Blobs are messages of job_record.proto
// and proto/coordinator.proto, so a field can come without a new schema.
constexpr char kSchema[] = R"sql(
  CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    job BLOB NOT NULL,
    record BLOB NOT NULL
  );
  CREATE TABLE events (
    job TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    at REAL NOT NULL,
    type TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, revision)
  ) WITHOUT ROWID;
  CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL,
    job TEXT NOT NULL,
    at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX requests_by_age ON requests(at);
  CREATE TABLE nodes (
    name TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
  ) WITHOUT ROWID;
)sql";

absl::StatusOr<std::string> ToJsonLine(
    const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &line, options);
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("job store: ", status.ToString()));
  }
  line += '\n';
  return line;
}

// A file that only grows, by whole lines.
class LineFile {
 public:
  // What a crash left of a last line is cut off.
  static absl::StatusOr<LineFile> Open(const std::string& path) {
    UniqueFd fd(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!fd.valid()) return ErrnoStatus("open", path, errno);
    off_t size = ::lseek(fd.get(), 0, SEEK_END);
    while (size > 0) {
      char last = 0;
      if (::pread(fd.get(), &last, 1, size - 1) != 1 || last == '\n') break;
      --size;
    }
    if (::ftruncate(fd.get(), size) != 0) {
      return ErrnoStatus("cut", path, errno);
    }
    return LineFile(path, std::move(fd), size);
  }

  // Whole or not at all.
  absl::Status Append(const std::string& text) {
    RETURN_IF_ERROR(FAILPOINT("job_store.append"));
    size_t written = 0;
    while (written < text.size()) {
      const ssize_t n =
          ::write(fd_.get(), text.data() + written, text.size() - written);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        if (::ftruncate(fd_.get(), size_) != 0) {
          return ErrnoStatus("write and cut", path_, errno);
        }
        return ErrnoStatus("write", path_, error);
      }
      written += static_cast<size_t>(n);
    }
    size_ += static_cast<off_t>(text.size());
    return absl::OkStatus();
  }

 private:
  LineFile(std::string path, UniqueFd fd, off_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  UniqueFd fd_;
  off_t size_;
};

class Writer final : public JobWriter {
 public:
  Writer(std::string state_dir, SqlDatabase db)
      : state_dir_(std::move(state_dir)), db_(std::move(db)) {}

  absl::StatusOr<std::vector<StoredJob>> LoadJobs() override {
    ASSIGN_OR_RETURN(
        SqlStatement select,
        db_.Prepare("SELECT id, job, record FROM jobs ORDER BY number"));
    std::vector<StoredJob> jobs;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, select.Step());
      if (!row) return jobs;
      StoredJob& job = jobs.emplace_back();
      if (!job.job.ParseFromString(select.Bytes(1)) ||
          !job.record.ParseFromString(select.Bytes(2))) {
        return absl::DataLossError(
            absl::StrCat("state database: the row of job ", select.Bytes(0),
                         " is not a Job message"));
      }
    }
  }

  absl::StatusOr<std::map<std::string, NodeAck>> LoadAcks() override {
    ASSIGN_OR_RETURN(
        SqlStatement select,
        db_.Prepare("SELECT name, incarnation, acknowledged FROM nodes"));
    std::map<std::string, NodeAck> acks;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, select.Step());
      if (!row) return acks;
      acks[select.Bytes(0)] = {static_cast<uint64_t>(select.Int(1)),
                               select.Int(2)};
    }
  }

  absl::Status Commit(absl::Span<const JobChange> jobs,
                      const std::map<std::string, NodeAck>& acks,
                      const std::optional<StoredRequest>& request,
                      absl::Time now) override {
    RETURN_IF_ERROR(FAILPOINT("job_store.before_commit"));
    RETURN_IF_ERROR(db_.Execute("BEGIN IMMEDIATE"));
    absl::Status status = Write(jobs, acks, request, now);
    if (status.ok()) status = FAILPOINT("job_store.commit");
    if (status.ok()) status = db_.Execute("COMMIT");
    if (!status.ok()) {
      const absl::Status undone = db_.Execute("ROLLBACK");
      (void)undone;  // it fails where the error has already rolled back
      return status;
    }
    // The change is stored; what fails from here on is not undone.
    const absl::Status after = FAILPOINT("job_store.after_commit");
    (void)after;
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<StoredRequest>> FindRequest(
      const std::string& id, absl::Time now) override {
    ASSIGN_OR_RETURN(SqlStatement select,
                     db_.Prepare("SELECT hash, job FROM requests "
                                 "WHERE id = ? AND at > ?"));
    select.Text(1, id).Bind(2, absl::ToUnixSeconds(now) - kRequestSeconds);
    ASSIGN_OR_RETURN(const bool row, select.Step());
    std::optional<StoredRequest> found;
    if (row) found = StoredRequest{id, select.Bytes(0), select.Bytes(1)};
    return found;
  }

  absl::StatusOr<int64_t> ReserveCommandIds(int64_t count) override {
    ASSIGN_OR_RETURN(
        SqlStatement add,
        db_.Prepare("INSERT INTO counters VALUES ('command', 1 + ?1) "
                    "ON CONFLICT(name) DO UPDATE SET value = value + ?1 "
                    "RETURNING value"));
    add.Bind(1, count);
    ASSIGN_OR_RETURN(bool row, add.Step());
    const int64_t end = add.Int(0);
    while (row) {
      ASSIGN_OR_RETURN(row, add.Step());
    }
    return end - count;
  }

  absl::Status AppendLog(const std::string& id,
                         std::vector<v1::LogLine>* lines) override {
    ASSIGN_OR_RETURN(Files * files, FilesOf(id));
    std::string text;
    int64_t sequence = files->last_sequence;
    std::map<std::pair<int, std::string>, int64_t> reports = files->reports;
    std::vector<v1::LogLine> kept;
    for (v1::LogLine& line : *lines) {
      const auto known = files->reports.find({line.attempt(), line.node()});
      if (line.report() > 0 && known != files->reports.end() &&
          line.report() <= known->second) {
        continue;
      }
      line.set_sequence(++sequence);
      ASSIGN_OR_RETURN(const std::string one, ToJsonLine(line));
      text += one;
      int64_t& newest = reports[{line.attempt(), line.node()}];
      newest = std::max(newest, line.report());
      kept.push_back(std::move(line));
    }
    RETURN_IF_ERROR(files->log.Append(text));
    files->last_sequence = sequence;
    files->reports = std::move(reports);
    *lines = std::move(kept);
    return absl::OkStatus();
  }

  absl::Status AppendSteps(
      const std::string& id,
      absl::Span<const v1::StepMetrics* const> steps) override {
    ASSIGN_OR_RETURN(Files * files, FilesOf(id));
    std::string text;
    for (const v1::StepMetrics* step : steps) {
      ASSIGN_OR_RETURN(const std::string one, ToJsonLine(*step));
      text += one;
    }
    return files->steps.Append(text);
  }

  void CloseFiles(const std::string& id) override { files_.erase(id); }

 private:
  struct Files {
    LineFile log;
    LineFile steps;
    int64_t last_sequence = 0;
    // Newest report in the log, by attempt and node.
    std::map<std::pair<int, std::string>, int64_t> reports;
  };

  absl::StatusOr<Files*> FilesOf(const std::string& id) {
    const auto found = files_.find(id);
    if (found != files_.end()) return &found->second;
    RETURN_IF_ERROR(MakeFolders(JobFolder(state_dir_, id)));
    ASSIGN_OR_RETURN(LineFile log, LineFile::Open(LogFile(state_dir_, id)));
    ASSIGN_OR_RETURN(LineFile steps, LineFile::Open(StepsFile(state_dir_, id)));
    Files files{std::move(log), std::move(steps), 0, {}};
    LogCursor cursor(LogFile(state_dir_, id));
    for (;;) {
      ASSIGN_OR_RETURN(const std::vector<v1::LogLine> lines,
                       cursor.Next(0, 1000));
      if (lines.empty()) break;
      for (const v1::LogLine& line : lines) {
        files.last_sequence = line.sequence();
        int64_t& newest = files.reports[{line.attempt(), line.node()}];
        newest = std::max(newest, line.report());
      }
    }
    return &files_.emplace(id, std::move(files)).first->second;
  }

  absl::Status Write(absl::Span<const JobChange> jobs,
                     const std::map<std::string, NodeAck>& acks,
                     const std::optional<StoredRequest>& request,
                     absl::Time now) {
    for (const JobChange& change : jobs) {
      ASSIGN_OR_RETURN(
          SqlStatement put,
          db_.Prepare("INSERT INTO jobs(id, name, state, job, record) "
                      "VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT(id) DO UPDATE "
                      "SET state = ?3, job = ?4, record = ?5"));
      put.Text(1, change.job->id())
          .Text(2, change.job->name())
          .Text(3, v1::JobState_Name(change.job->state()))
          .Blob(4, change.job->SerializeAsString())
          .Blob(5, change.record->SerializeAsString());
      RETURN_IF_ERROR(put.Run());
      for (const v1::JobEvent& event : change.events) {
        ASSIGN_OR_RETURN(
            SqlStatement add,
            db_.Prepare("INSERT OR REPLACE INTO events VALUES (?,?,?,?,?)"));
        add.Text(1, change.job->id())
            .Bind(2, event.revision())
            .Bind(3, event.at())
            .Text(4, event.type())
            .Text(5, event.text());
        RETURN_IF_ERROR(add.Run());
      }
    }
    for (const auto& [node, ack] : acks) {
      ASSIGN_OR_RETURN(
          SqlStatement put,
          db_.Prepare("INSERT OR REPLACE INTO nodes VALUES (?,?,?)"));
      put.Text(1, node)
          .Bind(2, static_cast<int64_t>(ack.incarnation))
          .Bind(3, ack.sequence);
      RETURN_IF_ERROR(put.Run());
    }
    if (request.has_value()) {
      ASSIGN_OR_RETURN(SqlStatement forget,
                       db_.Prepare("DELETE FROM requests WHERE at <= ?"));
      forget.Bind(1, absl::ToUnixSeconds(now) - kRequestSeconds);
      RETURN_IF_ERROR(forget.Run());
      ASSIGN_OR_RETURN(SqlStatement put,
                       db_.Prepare("INSERT INTO requests VALUES (?,?,?,?)"));
      put.Text(1, request->id)
          .Blob(2, request->hash)
          .Text(3, request->job)
          .Bind(4, absl::ToUnixSeconds(now));
      RETURN_IF_ERROR(put.Run());
    }
    return absl::OkStatus();
  }

  const std::string state_dir_;
  SqlDatabase db_;
  std::map<std::string, Files> files_;
};

absl::Status SetUp(SqlDatabase& db) {
  ASSIGN_OR_RETURN(SqlStatement ask, db.Prepare("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const bool row, ask.Step());
  const int64_t version = row ? ask.Int(0) : 0;
  if (version == kSchemaVersion) return db.Check();
  if (version != 0) {
    return Mismatch("state database", "its schema", absl::StrCat(version),
                    absl::StrCat(kSchemaVersion),
                    "start the version of pipecoord that wrote it");
  }
  return db.Execute(absl::StrCat("BEGIN IMMEDIATE;", kSchema,
                                 "PRAGMA user_version = ", kSchemaVersion,
                                 "; COMMIT;"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobWriter>> JobWriter::Open(
    const std::string& state_dir) {
  const std::string path = JoinPath(state_dir, "state.db");
  std::error_code none;
  // A crash before the first job leaves an empty file; later, it lost them.
  const bool lost_all = fs::exists(path, none) &&
                        fs::file_size(path, none) == 0 &&
                        fs::exists(state_dir + "/jobs", none) &&
                        !fs::is_empty(state_dir + "/jobs", none);
  if (lost_all) {
    return absl::DataLossError(absl::StrCat(
        path, ": is damaged (0 bytes, though there are jobs in ", state_dir,
        "/jobs); put a backup in its place, or move it away to start empty"));
  }
  auto db = SqlDatabase::Open(path, SqlDatabase::Mode::kWriter);
  absl::Status status = db.ok() ? SetUp(*db) : db.status();
  if (absl::IsDataLoss(status)) {
    return absl::DataLossError(absl::StrCat(
        path, ": is damaged (", status.message(),
        "); put a backup in its place, or move it away to start empty"));
  }
  RETURN_IF_ERROR(WithContext(path, status));
  return std::make_unique<Writer>(state_dir, std::move(*db));
}

}  // namespace pipework
