// DeletionMachine: one deletion, from its durable intent to the tombstone. Sans I/O; the runner is
// deletion_run.h. Every step can be repeated, and the machine can begin at any of them again.
//
//   state      | event                                    | next       | command
//   -----------+------------------------------------------+------------+---------------------------
//   new        | Start, the record is not yet deleting    | marking    | WriteDeleting
//   new        | Start, it is deleting; or there is none, | deleting   | Delete
//              |   or a tombstone (a late VM)             |            |
//   marking    | written                                  | deleting   | Delete
//   deleting   | done, or already gone                    | confirming | Look
//   deleting   | error                                    | waiting    | Wait 5 s x 2^n, cap 2 min
//   waiting    | woke                                     | deleting   | Delete
//   confirming | the provider says deleted, or absence is | burying    | Bury
//   confirming | found, or first "not found"              | look wait  | Wait
//   confirming | no answer                                | look wait  | Wait
//   look wait  | woke                                     | confirming | Look; after 60 s Delete
//   burying    | written                                  | done       | Finish
//
// "Absence is believed": two "not found" T_vis apart of a VM older than T_settle (RU7); one is
// enough when the provider has no consistency window and has answered the Delete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/prng.h"
#include "base/time.h"
#include "core/fleet/look.h"
#include "core/fleet/times.h"
#include "ports/provider.h"

namespace nstance {

class DeletionMachine final {
 public:
  struct Options {
    Duration consistency_window = {};
    fleet::FleetTimes times = {};
    // Since when the VM may exist.
    Instant vm_since = {};
  };
  struct Input {
    Instant now;
    Prng& jitter;
  };

  struct WriteDeleting {};
  struct Delete {};
  struct Look {};
  struct Wait {
    Instant until;
  };
  struct Bury {};
  struct Finish {};
  using Command = std::variant<WriteDeleting, Delete, Look, Wait, Bury, Finish>;

  enum class Record : std::uint8_t { kLive, kDeleting, kTombstone, kNone };

  DeletionMachine(Options options, Record record) : options_(options), record_(record) {}

  [[nodiscard]] Command Start(const Input& input);
  [[nodiscard]] Command Written(const Input& input);
  [[nodiscard]] Command Deleted(const Input& input, const ProviderResult<ProviderDeleted>& answer);
  [[nodiscard]] Command Looked(const Input& input, const ProviderResult<ProviderInstance>& answer);
  [[nodiscard]] Command Woke(const Input& input);

  // The provider's last error, while it is waited for (hold provider-unavailable).
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  enum class State : std::uint8_t {
    kNew,
    kMarking,
    kDeleting,
    kWaiting,
    kConfirming,
    kLookWait,
    kBurying,
    kDone,
  };

  [[nodiscard]] Command CallDelete();
  [[nodiscard]] Command LookLater(const Input& input, Duration gap);
  [[nodiscard]] Command ToBury();

  Options options_;
  Record record_;
  State state_ = State::kNew;
  int failures_ = 0;
  int looks_ = 0;
  Instant deleted_at_ = {};
  fleet::LookLog log_ = {};
  std::string trouble_;
};

}  // namespace nstance
