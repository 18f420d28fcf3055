// Building the table (server.md 3): what a new leader makes of one instance id, from the record,
// the open intents of the journal and the provider's listing.
//
//   record               | intents open      | provider | step
//   ---------------------+-------------------+----------+----------------------------------------
//   none                 | create            | absent   | kCancelCreation: tombstone first
//   none                 | create            | found    | kReadAgain; still none: kCancelCreation,
//                        |                   |          | then as gone + found
//   creating             | create or none    | absent   | kResumeCreation (intent opened if none)
//   creating             | create or none    | found    | kAdopt
//   creating             | delete            | any      | kResolveThenDelete
//   provisioned,         | none              | found    | kKeep: addresses, status updated
//   registered           |                   | absent   | kLook: the first look of two
//   registered, no       | create or none    | found    | kAdopt: the provider id is completed
//   provider id          |                   |          |
//   registered           | drain             | any      | kRepeatDrain: same id, same deadline
//   draining             | drain or none     | any      | kContinueDrain (intent opened if none)
//   provisioned,         | delete            | any      | kRepeatDelete: record, then delete; not
//   registered, draining |                   |          | yet started: under the brake
//   deleting             | delete or none    | any      | kContinueDelete (intent opened if none)
//   gone, failed         | any               | found    | kLateCreation: two looks, delete again
//   gone, failed         | any               | absent   | kRetain: removed after retention
//   gone, failed         | delete            | unlisted | kContinueDelete: its end was not noted
//   none                 | drain, delete     | absent   | kNothing
//   none                 | none, drain,      | found    | kOrphan (sweep.h)
//                        | delete            |          |
//   corrupt              | any               | any      | kHoldCorrupt: counts in its group when
//                        |                   |          | found; nothing is written or deleted
//
// Intents that the record has overtaken are closed: a create intent once the record is past
// creating; drain and delete intents of what is gone, failed or unknown, unless the VM is still
// found; the drain intent that a deletion has replaced.
//
// Readings, each the safer one: while the provider has not been listed (kUnlisted) nothing is
// cancelled for absence and nothing is looked at: `creating` resumes by a look-up first
// (kResumeCreation does so anyway), others are kept as they are. A delete intent without a record
// whose VM is found makes an orphan, judged by two listings, not a deletion.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/instance_phase.h"

namespace nstance::fleet {

enum class ProviderFinding : std::uint8_t { kUnlisted, kAbsent, kFound };

struct TableFacts {
  std::optional<InstancePhase> phase = std::nullopt;  // Of the record; empty: there is none.
  bool corrupt = false;                               // The record does not read; no phase.
  bool has_provider_id = false;
  bool create_open = false;
  bool drain_open = false;
  bool delete_open = false;
  ProviderFinding provider = ProviderFinding::kUnlisted;
  friend bool operator==(const TableFacts&, const TableFacts&) = default;
};

enum class TableStep : std::uint8_t {
  kNothing,
  kCancelCreation,
  kReadAgain,
  kResumeCreation,
  kAdopt,
  kResolveThenDelete,
  kKeep,
  kLook,
  kRepeatDrain,
  kContinueDrain,
  kRepeatDelete,
  kContinueDelete,
  kLateCreation,
  kRetain,
  kOrphan,
  kHoldCorrupt,
};
[[nodiscard]] std::string_view Word(TableStep step);

struct TableRow {
  TableStep step = TableStep::kNothing;
  // Intents to close with the next commit, and to open because the step needs them.
  bool close_create = false;
  bool close_drain = false;
  bool close_delete = false;
  bool open_create = false;
  bool open_drain = false;
  bool open_delete = false;
  friend bool operator==(const TableRow&, const TableRow&) = default;
};

// REQUIRES: phase is not kIntended, and empty when corrupt.
[[nodiscard]] TableRow BuildRow(const TableFacts& facts);

}  // namespace nstance::fleet
