#include "daemon/coordinator/sqlite.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/status_macros.h"

namespace pipework {
namespace {

absl::Status Error(sqlite3* db, int code) {
  const std::string text =
      absl::StrCat("state database: ",
                   db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code),
                   " (SQLite ", sqlite3_extended_errcode(db), ")");
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(text);
    case SQLITE_CONSTRAINT:
      return absl::AlreadyExistsError(text);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(text);
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace

SqlStatement::SqlStatement(SqlStatement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)) {}
SqlStatement& SqlStatement::operator=(SqlStatement&& other) noexcept {
  std::swap(statement_, other.statement_);
  return *this;
}
SqlStatement::~SqlStatement() { sqlite3_finalize(statement_); }

SqlStatement& SqlStatement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
  return *this;
}
SqlStatement& SqlStatement::Bind(int index, double value) {
  sqlite3_bind_double(statement_, index, value);
  return *this;
}
SqlStatement& SqlStatement::Text(int index, absl::string_view text) {
  sqlite3_bind_text64(statement_, index, text.data(), text.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
SqlStatement& SqlStatement::Blob(int index, absl::string_view bytes) {
  sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(),
                      SQLITE_TRANSIENT);
  return *this;
}

absl::StatusOr<bool> SqlStatement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const absl::Status error = Error(sqlite3_db_handle(statement_), code);
  sqlite3_reset(statement_);
  return error;
}

absl::Status SqlStatement::Run() {
  ASSIGN_OR_RETURN(const bool row, Step());
  (void)row;
  Reset();
  return absl::OkStatus();
}

void SqlStatement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

int64_t SqlStatement::Int(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double SqlStatement::Real(int column) const {
  return sqlite3_column_double(statement_, column);
}
std::string SqlStatement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) return std::string();
  return std::string(static_cast<const char*>(data), size);
}

absl::StatusOr<SqlDatabase> SqlDatabase::Open(const std::string& path,
                                              Mode mode) {
  const bool writer = mode == Mode::kWriter;
  struct stat info;
  if (!writer && stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  sqlite3* raw = nullptr;
  const int flags = writer ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                           : SQLITE_OPEN_READONLY;
  const int code = sqlite3_open_v2(path.c_str(), &raw,
                                   flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  SqlDatabase db(raw);
  if (code != SQLITE_OK) return Error(raw, code);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, 5000);
  if (writer) {
    RETURN_IF_ERROR(
        db.Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                   "PRAGMA foreign_keys=ON;"));
    // A file or folder without write permission shows only when written to.
    RETURN_IF_ERROR(db.Execute("BEGIN IMMEDIATE; ROLLBACK;"));
    if (sqlite3_db_readonly(raw, "main") == 1) {
      return absl::PermissionDeniedError(
          absl::StrCat(path, ": is read-only; make it writable"));
    }
  } else {
    // Only the writer moves the log into the file: two that do so at once hit
    // a bug of this SQLite.
    sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    RETURN_IF_ERROR(db.Execute("PRAGMA wal_autocheckpoint=0;"));
  }
  return db;
}

SqlDatabase::SqlDatabase(SqlDatabase&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)) {}
SqlDatabase& SqlDatabase::operator=(SqlDatabase&& other) noexcept {
  std::swap(db_, other.db_);
  return *this;
}
SqlDatabase::~SqlDatabase() { sqlite3_close_v2(db_); }

absl::StatusOr<SqlStatement> SqlDatabase::Prepare(absl::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(
      db_, sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return Error(db_, code);
  return SqlStatement(raw);
}

absl::Status SqlDatabase::Execute(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return Error(db_, code);
  return absl::OkStatus();
}

absl::Status SqlDatabase::Check() {
  ASSIGN_OR_RETURN(SqlStatement check, Prepare("PRAGMA quick_check(1)"));
  ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string answer = row ? check.Bytes(0) : "no answer";
  if (answer == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("state database: ", answer));
}

}  // namespace pipework
