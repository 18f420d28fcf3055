// DenyWatch: follows the deny list (core/deny_list.h) for as long as the process lives.
//
// Every 10 s it asks for the object's version and reads it when that has changed.
//
//   DenyWatch deny(deps, {.key = key}, {.denied = [&](auto& entries) { Close(entries); }});
//   deny.Start();
//   if (!deny.known() || deny.Denies(peer)) return Refuse();
//
// Guarantees, each held by a test:
//   - what was denied stays so while the object cannot be read, does not parse or has vanished;
//     when that lasts 5 min, `alarm` is told, once per spell
//   - an entry that leaves the list before its time is let go only when two looks show the same
//     version without it: one stale answer lets nobody in
//   - each entry that is new is told once, after Denies() has come to know it
//   - until the first answer known() is false: nobody can say who is denied
//   - destroying the watch leaves no timer and no callback
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/input_probe.h"
#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "core/deny_list.h"
#include "core/object_key.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance {

class DenyWatch final {
 public:
  struct Deps {
    Loop& loop;
    ObjectStore& store;  // Of the cluster's objects.
    log::Logger log;
    InputProbe* probe = nullptr;
  };
  struct Options {
    ObjectKey key;
    Duration interval = Duration::Seconds(10);
    Duration alarm_after = Duration::Minutes(5);
  };
  struct Owner {
    // Entries that were not denied before; their connections are to be closed. The first list is
    // told too: connections may be older than the first read.
    std::move_only_function<void(const std::vector<DenyEntry>&)> denied =
        [](const std::vector<DenyEntry>&) {};
    std::move_only_function<void(const Error&)> alarm = [](const Error&) {};
    // known() has become true.
    std::move_only_function<void()> first_known = [] {};
  };

  // The callbacks may not destroy it.
  DenyWatch(Deps deps, Options options, Owner owner);
  DenyWatch(const DenyWatch&) = delete;
  DenyWatch& operator=(const DenyWatch&) = delete;

  void Start();

  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] bool Denies(const crypto::PeerIdentity& peer) const { return set_.Denies(peer); }
  [[nodiscard]] const DenySet& set() const { return set_; }

 private:
  void Look();
  void OnHead(const Result<ObjectHead>& head);
  void OnObject(const Result<Object>& object);
  void Take(const DenyList& list, ObjectVersion version);
  void TakeNone();
  void Good();
  void MarkGood();
  void Bad(const Error& error);

  Deps deps_;
  Options options_;
  Owner owner_;
  DenyList list_;          // In force.
  DenySet set_;            // The same, for look-ups.
  DenyList next_;          // What the object says.
  bool confirmed_ = true;  // list_ is next_.
  bool known_ = false;
  std::optional<ObjectVersion> version_ = std::nullopt;  // Of the list in force.
  Instant good_at_;                                      // When the list was last known to hold.
  bool alarmed_ = false;
  Pending timer_;
  Pending call_;
};

}  // namespace nstance
