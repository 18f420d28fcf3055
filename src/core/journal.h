// The shard journal, `journal/{shard}.json`: the fence, and the open intents.
//
//   {"version":1,"cluster_id","shard","epoch","seq","write_id","holder","updated_at",
//    "created_at"?,"records"?,"restarted"?,"groups"?,"intents":[...],"audit_head"?,
//    <unknown keys>,"checksum"}
//
// A new leader rewrites the journal with epoch + 1 before its first effect, by compare-and-swap. So
// an older leader's late write either landed before, and is seen, or loses. Every write has seq + 1
// and a fresh write_id. An intent is what the leader is about to do to the outside world; it is
// durable here before it is begun, and closes when the record of its instance says the rest.
//
// Reading is strict: another cluster or shard is kFailedPrecondition, anything that no writer of
// ours makes is kDataLoss "corrupt journal: ...". Both mean that this server must not lead. Keys
// that this program does not know, also inside intents, are kept on rewrite. A missing checksum is
// accepted.
//
// An intent's members, in this order; `?` is left out when empty:
//   id, kind, instance_id, tenant, group, opened_at, epoch
//   create       reason, replaces?, attempts?, not_before?, request_id?
//   drain        reason, deadline, length_ms, ordered, counted, acked_at?
//   delete       reason, ordered, counted, record_etag, attempts?, not_before?
//   claim        record_etag, class, vars, request_id
//   park, wake   attempts?, not_before?
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"

namespace nstance {

enum class IntentKind : std::uint8_t { kCreate, kDrain, kDelete, kClaim, kPark, kWake };

// "create", "drain", "delete", "claim", "park", "wake".
[[nodiscard]] std::string_view IntentKindName(IntentKind kind);

struct Intent {
  std::string id;  // "<epoch>-<seq>-<n>" of the write that brought it; empty before.
  IntentKind kind = IntentKind::kCreate;
  InstanceId instance_id;
  TenantId tenant;
  GroupKey group;
  Timestamp opened_at;
  std::int64_t epoch = 0;  // That of the leader that opened it.

  // Members that only some kinds have; see the list above. The others stay as they are here.
  std::string reason = {};
  Timestamp deadline = {};
  Duration length = {};
  bool ordered = false;
  bool counted = false;
  std::optional<Timestamp> acked_at = std::nullopt;
  std::optional<InstanceId> replaces = std::nullopt;
  std::string record_etag = {};
  std::string claim_class = {};
  json::Object vars = {};
  std::int64_t attempts = 0;
  std::optional<Timestamp> not_before = std::nullopt;
  std::string request_id = {};
  json::Object unknown = {};

  friend bool operator==(const Intent&, const Intent&) = default;
};

// The stamp of a groups object: which write of it was the last.
struct GroupsMark {
  std::int64_t epoch = 0;
  std::int64_t seq = 0;
  std::string sha256;

  friend bool operator==(const GroupsMark&, const GroupsMark&) = default;
};
// By epoch, then seq.
[[nodiscard]] bool IsBelow(const GroupsMark& left, const GroupsMark& right);

// A person's word that this journal holds although another one was seen.
struct JournalRestart {
  Timestamp at;
  std::string by;    // "reset-journal" or "recover".
  std::string mode;  // "adopt" or "start-empty"; of reset-journal: empty.

  friend bool operator==(const JournalRestart&, const JournalRestart&) = default;
};

// What the journal remembers of other objects, so that a lost one is told from one that never was
// (docs/spec/server.md 2.1). Journals of older versions have none of it; every rewrite keeps it.
struct JournalMemory {
  std::optional<Timestamp> created_at = std::nullopt;  // When the shard's first journal was made.
  std::optional<std::int64_t> records = std::nullopt;  // Live records that the write leaves.
  std::optional<JournalRestart> restarted = std::nullopt;
  std::optional<GroupsMark> groups = std::nullopt;  // The last groups write known to be durable.

  friend bool operator==(const JournalMemory&, const JournalMemory&) = default;
};
// `memory` with the members that `news` has.
[[nodiscard]] JournalMemory Merge(JournalMemory memory, const JournalMemory& news);

struct Journal {
  ClusterId cluster;
  ShardId shard;
  std::int64_t epoch = 0;
  std::int64_t seq = 0;
  std::string write_id;
  std::string holder;  // "id/incarnation".
  Timestamp updated_at;
  JournalMemory memory = {};
  std::vector<Intent> intents;  // Oldest first.
  std::optional<std::string> audit_head = std::nullopt;
  json::Object unknown = {};

  friend bool operator==(const Journal&, const Journal&) = default;
};

[[nodiscard]] std::string EncodeIntent(const Intent& intent);
[[nodiscard]] std::string EncodeJournal(const Journal& journal);

struct JournalIdentity {
  ClusterId cluster;
  ShardId shard;
};
[[nodiscard]] Result<Journal> DecodeJournal(std::string_view bytes,
                                            const JournalIdentity& expected);

// What one write is stamped with.
struct JournalStamp {
  std::string holder;
  std::string write_id;
  Timestamp at;
};

// What a new leader writes on top of what it has read: epoch + 1, seq + 1, the same intents.
[[nodiscard]] Journal TakeOver(Journal found, const JournalStamp& stamp);

// Whether any instance record of the shard carries an epoch, as far as the caller has looked.
enum class EpochEvidence : std::uint8_t {
  kNone,
  kSome,
};

// What the first leader of a shard writes, create-only; or the reason to refuse: records that carry
// an epoch prove that there was a journal.
[[nodiscard]] Result<Journal> FirstJournal(const JournalIdentity& identity, EpochEvidence evidence,
                                           const JournalStamp& stamp);

// What `store reset-journal` writes: an epoch and a seq above everything found, and no intents.
struct JournalTraces {
  std::int64_t highest_epoch = 0;  // In records, the groups stamp and the certificate log.
  std::int64_t highest_seq = 0;
  JournalMemory memory = {};
};
[[nodiscard]] Journal ResetJournal(const JournalIdentity& identity, const JournalTraces& traces,
                                   const JournalStamp& stamp);

}  // namespace nstance
