// SQLite with statuses and RAII: a connection and prepared statements.
// No threads of its own; a connection is used by one thread at a time.
#ifndef PIPEWORK_DAEMON_COORDINATOR_SQLITE_H_
#define PIPEWORK_DAEMON_COORDINATOR_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace pipework {

// One prepared statement. Bind (from 1), Step until false, Reset, again.
class SqlStatement {
 public:
  SqlStatement(SqlStatement&& other) noexcept;
  SqlStatement& operator=(SqlStatement&& other) noexcept;
  ~SqlStatement();

  SqlStatement& Bind(int index, int64_t value);
  SqlStatement& Bind(int index, double value);
  // Copies `text`.
  SqlStatement& Text(int index, absl::string_view text);
  SqlStatement& Blob(int index, absl::string_view bytes);

  // true: a row is there. Unavailable: the disk or the lock is the problem;
  // DataLoss: the file is not a healthy database.
  absl::StatusOr<bool> Step();
  // Step for statements without rows.
  absl::Status Run();
  void Reset();

  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Bytes(int column) const;

 private:
  friend class SqlDatabase;
  explicit SqlStatement(sqlite3_stmt* statement) : statement_(statement) {}
  sqlite3_stmt* statement_ = nullptr;
};

class SqlDatabase {
 public:
  enum class Mode { kWriter, kReader };

  // A writer creates the file, and sets WAL, synchronous=FULL and foreign
  // keys. A reader never writes, not even a checkpoint. Both wait up to 5 s
  // for a lock. NotFound: a reader finds no file.
  static absl::StatusOr<SqlDatabase> Open(const std::string& path, Mode mode);

  SqlDatabase(SqlDatabase&& other) noexcept;
  SqlDatabase& operator=(SqlDatabase&& other) noexcept;
  ~SqlDatabase();

  absl::StatusOr<SqlStatement> Prepare(absl::string_view sql);
  // One or more statements without parameters and rows.
  absl::Status Execute(const std::string& sql);
  // DataLoss: quick_check finds something.
  absl::Status Check();

 private:
  explicit SqlDatabase(sqlite3* db) : db_(db) {}
  sqlite3* db_ = nullptr;
};

}  // namespace pipework

#endif  // PIPEWORK_DAEMON_COORDINATOR_SQLITE_H_
