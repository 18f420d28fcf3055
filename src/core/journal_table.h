// JournalTable: the journal that the store is known to hold, and what a set of changes makes of it.
//
// Plan() is pure: it returns the journal that would be written next and what became of each change.
// The caller writes those bytes; once the store has confirmed them, the draft's table is the new
// truth. Nothing here changes on the way, so a write that is lost costs nothing.
//
// Room. The journal is bounded in intents and bytes; creations, one tenant, one tenant's creations
// and its deletions held by the brake have bounds of their own, so drains and due deletions always
// find room. Guarantees, each held by a test:
//   - no limit is passed by an intent that was opened here
//   - what does not fit waits; what comes after it and fits does not wait for it
//   - a replacement needs no place, and opening leaves it the bytes that it may need
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault_point.h"
#include "core/journal.h"

namespace nstance {

// Whether a deletion waits for the deletion brake. Only the planner knows; it is never stored.
enum class Brake : std::uint8_t { kFree, kHeld };

// One of
//   open      intent, no id: it gets the id of its write
//   close     id, no intent
//   replace   both: the intent of that id goes, the new one gets the id of its write (a drain
//   becomes
//             a deletion)
//   update    both, and kSame: new content under the same id (an ack, retry state)
struct JournalChange {
  enum class Identity : std::uint8_t { kNew, kSame };

  std::string id = {};
  std::optional<Intent> intent = std::nullopt;
  Identity identity = Identity::kNew;
  Brake brake = Brake::kFree;
  Step step = Step::kNone;  // What the simulator knows it as.
};

struct JournalLimits {
  std::size_t intents = 1'024;
  std::size_t bytes = std::size_t{512} * 1024;  // Of the whole object.
  // A single intent above this is refused: it could wait for ever. Also what opening leaves free.
  std::size_t intent_bytes = std::size_t{32} * 1024;
  std::size_t creations = 768;
  // Of one tenant: half of all, of which creations five eighths and held deletions a quarter.
  std::size_t tenant = 512;
  std::size_t tenant_creations = 320;
  std::size_t tenant_held = 128;
};

struct ChangeResult {
  enum class Fate : std::uint8_t {
    kMade,
    kWaits,     // No room now.
    kUnknown,   // No intent of that id is open.
    kTooLarge,  // Above intent_bytes.
  };
  Fate fate = Fate::kMade;
  std::string id = {};  // kMade: of the intent that was opened, replaced, updated or closed.
};

struct JournalDraft;

class JournalTable {
 public:
  // What is open already stays, whether it fits or not.
  JournalTable(Journal journal, const JournalLimits& limits);

  [[nodiscard]] const Journal& journal() const { return journal_; }
  [[nodiscard]] std::size_t free_places() const;

  // The changes are made in their order, all in one write. REQUIRES: `changes` are well-formed.
  [[nodiscard]] JournalDraft Plan(std::span<const JournalChange> changes,
                                  const JournalStamp& stamp) const;

  // The writes of the table carry this from now on.
  void Remember(const JournalMemory& news) { journal_.memory = Merge(journal_.memory, news); }
  // The brake was released, or took hold. Harmless for an id that is not open.
  void SetBrake(std::string_view id, Brake brake);
  // Whether an intent of this kind and tenant would find a place now.
  [[nodiscard]] bool HasPlace(IntentKind kind, const TenantId& tenant, Brake brake) const;

 private:
  struct Share {
    std::size_t all = 0;
    std::size_t creations = 0;
    std::size_t held = 0;
  };
  // Beside each intent of the journal.
  struct Note {
    Brake brake = Brake::kFree;
    std::size_t bytes = 0;
  };
  using Index = std::map<std::string, std::size_t, std::less<>>;

  void Count(const Intent& intent, const Note& note);
  void Discount(const Intent& intent, const Note& note);
  [[nodiscard]] ChangeResult Make(const JournalChange& change, Index& index, const std::string& id);
  [[nodiscard]] ChangeResult Open(Intent intent, const Note& note);
  [[nodiscard]] ChangeResult Replace(std::size_t at, Intent intent, const Note& note);
  void DropClosed();

  Journal journal_;
  JournalLimits limits_;
  std::vector<Note> notes_;
  std::size_t bytes_ = 0;
  Share total_;
  std::map<TenantId, Share> tenants_;
};

struct JournalDraft {
  JournalTable table;  // As it is once the write is confirmed.
  std::vector<ChangeResult> results;
};

}  // namespace nstance
