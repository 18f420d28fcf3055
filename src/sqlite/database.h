// A connection to SQLite and its statements, as values that close themselves. Errors come as the
// library's code: what to do about one is the caller's question.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace nstance::sqlite {

// What a failed call means for the file.
enum class Trouble : std::uint8_t {
  kRow,      // A constraint: this row is refused, everything else is well.
  kDamaged,  // The file is no database, or a broken one.
  kDisk,     // Full, read-only, locked, unreadable: the file may be well.
};

// Success, or what is wrong, with the library's words.
struct Outcome {
  std::optional<Trouble> trouble = std::nullopt;
  std::string message = {};
  [[nodiscard]] bool ok() const { return !trouble.has_value(); }
};

class Statement final {
 public:
  Statement() = default;

  // Parameters count from 1. All are cleared by Reset().
  void Bind(int parameter, std::string_view text);
  void Bind(int parameter, std::int64_t number);
  void BindNull(int parameter);
  // Runs a statement that gives no rows, and resets it.
  [[nodiscard]] Outcome Run();
  // True: a row is there. False: the end, or trouble, which `outcome` then tells.
  [[nodiscard]] bool Step(Outcome& outcome);
  void Reset();

  // Columns count from 0.
  [[nodiscard]] std::string Text(int column) const;
  [[nodiscard]] std::int64_t Number(int column) const;
  [[nodiscard]] bool IsNull(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// A file, and which of SQLite's file systems it is on.
struct FileName {
  std::string path;
  std::string file_system = {};  // Empty: the machine's own.
};

class Database final {
 public:
  Database() = default;

  // Opens or makes the file and sets the connection up: WAL, foreign keys, NORMAL, 5 s of patience.
  [[nodiscard]] Outcome Open(const FileName& file);
  [[nodiscard]] bool is_open() const { return database_ != nullptr; }
  void Close() { database_.reset(); }

  [[nodiscard]] Outcome Execute(const char* sql);
  [[nodiscard]] Outcome Prepare(std::string_view sql, Statement& statement);
  // The first column of the first row.
  [[nodiscard]] Outcome Ask(std::string_view sql, std::string& answer);

 private:
  struct CloseIt {
    void operator()(sqlite3* database) const;
  };
  [[nodiscard]] Outcome Judge(int code) const;

  std::unique_ptr<sqlite3, CloseIt> database_;
};

}  // namespace nstance::sqlite
