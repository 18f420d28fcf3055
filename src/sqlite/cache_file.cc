#include "sqlite/cache_file.h"

#include <utility>
#include <variant>

#include <fmt/core.h>

namespace nstance::sqlite {

void Gather(Batch& batch, cache::Change change) {
  RowKey key = KeyOf(change);
  const bool erases_instance = std::holds_alternative<cache::EraseInstance>(change);
  if (erases_instance) {
    std::erase_if(batch, [&](const auto& row) { return OwnerOf(row.first) == key.first; });
  }
  const auto before = batch.find(key);
  const bool erase_first = before != batch.end() &&
                           (before->second.erase_first ||
                            std::holds_alternative<cache::EraseInstance>(before->second.change));
  batch.insert_or_assign(std::move(key),
                         RowChange{.change = std::move(change), .erase_first = erase_first});
}

void CacheFile::Write(const Batch& batch) {
  // Twice: a file that turns out damaged is made anew, and takes the batch.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!EnsureOpen()) {
      distrusted_ = true;  // What there is, if anything, has missed the batch.
      return;
    }
    const Outcome outcome = Transact(batch);
    if (outcome.ok()) {
      complained_ = false;
      return;
    }
    GiveUp(outcome);
    if (*outcome.trouble != Trouble::kDamaged) return;
  }
}

cache::Contents CacheFile::Read() {
  cache::Contents contents;
  if (!EnsureOpen()) return contents;
  if (const Outcome outcome = tables_.ReadAll(contents); !outcome.ok()) {
    GiveUp(outcome);
    return {};
  }
  return contents;
}

void CacheFile::Close() {
  tables_ = Tables();
  database_.Close();
}

// A file that missed a batch tells of rows that are gone: it is not used again.
void CacheFile::GiveUp(const Outcome& outcome) {
  Complain(outcome);
  Close();
  distrusted_ = true;
}

void CacheFile::Complain(const Outcome& outcome) {
  if (std::exchange(complained_, true)) return;
  log_.Warning("cache database not usable",
               {{"path", place_.Name().path}, {"error", outcome.message}});
}

bool CacheFile::EnsureOpen() {
  if (database_.is_open()) return true;
  bool anew = distrusted_;
  if (distrusted_ && !Remove()) return false;
  Outcome outcome = Open();
  if (!outcome.ok() && *outcome.trouble == Trouble::kDamaged) {
    log_.Warning("cache database made anew",
                 {{"path", place_.Name().path}, {"error", outcome.message}});
    Close();
    if (!Remove()) return false;
    anew = true;
    outcome = Open();
  }
  if (outcome.ok()) {
    begun_anew_ = begun_anew_ || anew;
    distrusted_ = false;
    return true;
  }
  Complain(outcome);
  Close();
  return false;
}

bool CacheFile::Remove() {
  const Outcome removed = place_.Remove();
  if (!removed.ok()) Complain(removed);
  return removed.ok();
}

Outcome CacheFile::Open() {
  if (Outcome ready = place_.MakeReady(); !ready.ok()) return ready;
  if (Outcome opened = database_.Open(place_.Name()); !opened.ok()) return opened;
  if (Outcome sound = CheckSoundness(); !sound.ok()) return sound;
  return tables_.Prepare(database_);
}

Outcome CacheFile::CheckSoundness() {
  std::string answer;
  if (Outcome asked = database_.Ask("PRAGMA quick_check(1)", answer); !asked.ok()) return asked;
  if (answer != "ok") return {.trouble = Trouble::kDamaged, .message = answer};
  std::string version;
  std::string tables;
  if (Outcome asked = database_.Ask("PRAGMA user_version", version); !asked.ok()) return asked;
  if (Outcome asked = database_.Ask("SELECT count(*) FROM sqlite_master", tables); !asked.ok()) {
    return asked;
  }
  if (version == "0" && tables == "0") return CreateSchema(database_, kSchemaVersion);
  if (version == fmt::format("{}", kSchemaVersion)) return {};
  return {.trouble = Trouble::kDamaged, .message = "schema version " + version};
}

Outcome CacheFile::Transact(const Batch& batch) {
  if (Outcome begun = database_.Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  for (const auto& [key, row] : batch) {
    Outcome outcome;
    if (row.erase_first) outcome = tables_.Erase(key);
    if (outcome.ok()) outcome = tables_.Apply(row.change);
    if (!outcome.ok() && *outcome.trouble != Trouble::kRow) return outcome;
  }
  return database_.Execute("COMMIT");
}

}  // namespace nstance::sqlite
