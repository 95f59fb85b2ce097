#include "daemon/coordinator/job_store.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/base/paths.h"
#include "daemon/coordinator/sqlite.h"
#include "proto/errors.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

// false: not such a line; a reader goes on with the next one.
bool ParseLine(const std::string& line, google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  return google::protobuf::util::JsonStringToMessage(line, message, options)
      .ok();
}

// 0: none yet.
absl::StatusOr<int64_t> SchemaOf(SqlDatabase& db) {
  ASSIGN_OR_RETURN(SqlStatement ask, db.Prepare("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const bool row, ask.Step());
  return row ? ask.Int(0) : 0;
}

class Reader final : public JobStoreReader {
 public:
  Reader(std::string state_dir, SqlDatabase db)
      : state_dir_(std::move(state_dir)), db_(std::move(db)) {}

  absl::StatusOr<std::vector<v1::Job>> ListJobs() const override {
    ASSIGN_OR_RETURN(SqlStatement select,
                     db_.Prepare("SELECT job FROM jobs ORDER BY number DESC"));
    std::vector<v1::Job> jobs;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, select.Step());
      if (!row) return jobs;
      if (!jobs.emplace_back().ParseFromString(select.Bytes(0))) {
        return absl::DataLossError(
            "state database: a job's row is not a Job message");
      }
    }
  }

  absl::StatusOr<v1::Job> FindJob(const std::string& ref) const override {
    ASSIGN_OR_RETURN(std::vector<v1::Job> jobs, ListJobs());
    std::vector<const v1::Job*> pointers;
    for (const v1::Job& job : jobs) pointers.push_back(&job);
    ASSIGN_OR_RETURN(const size_t found,
                     FindReference(pointers, ref, /*exact=*/false));
    return jobs[found];
  }

  absl::StatusOr<std::vector<v1::JobEvent>> Events(
      const std::string& id) const override {
    ASSIGN_OR_RETURN(SqlStatement select,
                     db_.Prepare("SELECT revision, at, type, text FROM events "
                                 "WHERE job = ? ORDER BY revision"));
    select.Text(1, id);
    std::vector<v1::JobEvent> events;
    for (;;) {
      ASSIGN_OR_RETURN(const bool row, select.Step());
      if (!row) return events;
      v1::JobEvent& event = events.emplace_back();
      event.set_revision(select.Int(0));
      event.set_at(select.Real(1));
      event.set_type(select.Bytes(2));
      event.set_text(select.Bytes(3));
    }
  }

  absl::StatusOr<std::vector<v1::LogLine>> Log(const std::string& id,
                                               int64_t after,
                                               int64_t limit) const override {
    return LogCursor(LogFile(state_dir_, id)).Next(after, limit);
  }

  absl::StatusOr<std::vector<v1::StepMetrics>> Steps(
      const std::string& id) const override {
    std::ifstream file(StepsFile(state_dir_, id));
    std::vector<v1::StepMetrics> steps;
    std::string line;
    while (std::getline(file, line)) {
      if (file.eof()) break;  // its end is still being written
      v1::StepMetrics step;
      if (!ParseLine(line, &step)) continue;
      while (!steps.empty() && steps.back().step() >= step.step()) {
        steps.pop_back();
      }
      steps.push_back(std::move(step));
    }
    return steps;
  }

 private:
  const std::string state_dir_;
  mutable SqlDatabase db_;
};

std::string QuoteList(const std::vector<const v1::Job*>& jobs,
                      absl::string_view prefix) {
  std::string list;
  int named = 0;
  for (const v1::Job* job : jobs) {
    if (!absl::StartsWith(job->id(), prefix)) continue;
    if (++named > 3) return absl::StrCat(list, ", ...");
    absl::StrAppend(&list, named > 1 ? ", " : "", job->id());
  }
  return list;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobStoreReader>> JobStoreReader::Open(
    const std::string& state_dir) {
  const std::string path = JoinPath(state_dir, "state.db");
  if (!FileExists(path)) {
    return absl::NotFoundError(absl::StrCat(
        "state folder ", state_dir,
        ": holds no state.db; name another with --state-dir, or run a job"));
  }
  absl::StatusOr<SqlDatabase> db =
      SqlDatabase::Open(path, SqlDatabase::Mode::kReader);
  const absl::StatusOr<int64_t> version =
      db.ok() ? SchemaOf(*db) : absl::StatusOr<int64_t>(db.status());
  RETURN_IF_ERROR(WithContext(path, version.status()));
  if (*version != 0 && *version != kSchemaVersion) {
    return Mismatch(path, "its schema", absl::StrCat(*version),
                    absl::StrCat(kSchemaVersion),
                    "use the version of Pipework that wrote it");
  }
  return std::make_unique<Reader>(state_dir, *std::move(db));
}

std::string JobFolder(const std::string& state_dir, const std::string& id) {
  return absl::StrCat(state_dir, "/jobs/", id);
}
std::string LogFile(const std::string& state_dir, const std::string& id) {
  return JobFolder(state_dir, id) + "/log.jsonl";
}
std::string StepsFile(const std::string& state_dir, const std::string& id) {
  return JobFolder(state_dir, id) + "/steps.jsonl";
}

absl::StatusOr<size_t> FindReference(const std::vector<const v1::Job*>& jobs,
                                     const std::string& ref, bool exact) {
  absl::string_view name = ref;
  const bool by_name = absl::ConsumePrefix(&name, "name/");
  std::vector<size_t> found;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (by_name ? jobs[i]->name() == name : jobs[i]->id() == ref) {
      found.push_back(i);
    }
  }
  if (found.empty() && !by_name && !exact && ref.size() >= 4) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (absl::StartsWith(jobs[i]->id(), ref)) found.push_back(i);
    }
    if (found.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job \"", ref, "\": the prefix fits ", found.size(), " jobs (",
          QuoteList(jobs, ref), "), expected one; write more of the id"));
    }
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "job \"", ref, "\": there is no such job; `pipectl jobs` lists them"));
  }
  if (by_name && exact && found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job \"", ref, "\": ", found.size(),
        " jobs have this name, expected one; give the id, such as ",
        jobs[found[0]]->id()));
  }
  return found[0];
}

absl::StatusOr<std::vector<v1::LogLine>> LogCursor::Next(int64_t after,
                                                         int64_t limit) {
  std::vector<v1::LogLine> lines;
  if (!fd_.valid()) {
    fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd_.valid() && errno == ENOENT) return lines;
    if (!fd_.valid()) return ErrnoStatus("open", path_, errno);
  }
  std::string piece(1 << 16, '\0');
  size_t used = 0;  // of rest_
  for (;;) {
    for (;;) {
      const size_t end = rest_.find('\n', used);
      if (end == std::string::npos) break;
      if (limit > 0 && static_cast<int64_t>(lines.size()) == limit) {
        rest_.erase(0, used);
        return lines;
      }
      v1::LogLine line;
      if (ParseLine(rest_.substr(used, end - used), &line) &&
          line.sequence() > after) {
        lines.push_back(std::move(line));
      }
      used = end + 1;
    }
    rest_.erase(0, used);
    used = 0;
    const ssize_t n = ::read(fd_.get(), &piece[0], piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", path_, errno);
    if (n == 0) return lines;
    rest_.append(piece, 0, static_cast<size_t>(n));
  }
}

}  // namespace pipework
