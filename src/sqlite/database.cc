#include "sqlite/database.h"

#include <sqlite3.h>

namespace nstance::sqlite {
namespace {

constexpr const char* kSetUp =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA foreign_keys=ON;"
    "PRAGMA busy_timeout=5000;"
    "PRAGMA synchronous=NORMAL;";

Outcome OutcomeOf(int code, const char* message) {
  // The low byte is the primary code.
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return {};
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH: return {.trouble = Trouble::kRow, .message = message};
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_INTERRUPT: return {.trouble = Trouble::kDisk, .message = message};
    default:
      // SQLITE_CORRUPT and SQLITE_NOTADB; also SQLITE_ERROR and SQLITE_SCHEMA, which our own
      // statements give only when the tables are not ours.
      return {.trouble = Trouble::kDamaged, .message = message};
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::CloseIt::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

void Statement::Bind(int parameter, std::string_view text) {
  // A null pointer would bind NULL.
  const char* data = text.data() != nullptr ? text.data() : "";
  sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_TRANSIENT,
                      SQLITE_UTF8);
}
void Statement::Bind(int parameter, std::int64_t number) {
  sqlite3_bind_int64(statement_.get(), parameter, number);
}
void Statement::BindNull(int parameter) { sqlite3_bind_null(statement_.get(), parameter); }

bool Statement::Step(Outcome& outcome) {
  const int code = sqlite3_step(statement_.get());
  outcome = OutcomeOf(code, sqlite3_errmsg(sqlite3_db_handle(statement_.get())));
  return code == SQLITE_ROW;
}

Outcome Statement::Run() {
  Outcome outcome;
  while (Step(outcome)) continue;
  Reset();
  return outcome;
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}
std::int64_t Statement::Number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Outcome Database::Judge(int code) const { return OutcomeOf(code, sqlite3_errmsg(database_.get())); }

Outcome Database::Open(const FileName& file) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(file.path.c_str(), &raw,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                                   file.file_system.empty() ? nullptr : file.file_system.c_str());
  database_.reset(raw);
  if (code != SQLITE_OK) {
    Outcome outcome = OutcomeOf(code, raw != nullptr ? sqlite3_errmsg(raw) : "out of memory");
    database_.reset();
    return outcome;
  }
  Outcome outcome = Execute(kSetUp);
  if (!outcome.ok()) database_.reset();
  return outcome;
}

Outcome Database::Execute(const char* sql) {
  return Judge(sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr));
}

Outcome Database::Prepare(std::string_view sql, Statement& statement) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  statement = Statement(raw);
  return Judge(code);
}

Outcome Database::Ask(std::string_view sql, std::string& answer) {
  Statement statement;
  if (Outcome prepared = Prepare(sql, statement); !prepared.ok()) return prepared;
  Outcome outcome;
  if (statement.Step(outcome)) answer = statement.Text(0);
  return outcome;
}

}  // namespace nstance::sqlite
