// The deny list, `deny/cluster.json`: certificates and identities that no server lets in any more.
//
//   {"version":1,"entries":[{"serial":"4711","reason":"laptop lost","denied_at":"...",
//    "expires_at":"..."},{"tenant":"prod","identity":"knc06...","reason":"...",...}],
//    "write_id":"...","checksum":"sha256:..."}                                (on one line)
//
// An entry names a certificate by its serial, or everybody who calls himself so by tenant and CN.
// Entries leave the list when the certificate has expired: the next write drops them. Members that
// this program does not know are kept.
//
// Reading is strict: what an entry does not say clearly is an error and never "not denied". The
// caller keeps the list that it had.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input_probe.h"
#include "base/json.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/verify_peer.h"

namespace nstance {

inline constexpr std::size_t kMaxDenyListBytes = std::size_t{4} * 1024 * 1024;
inline constexpr std::size_t kMaxDenyEntries = 10'000;
inline constexpr std::size_t kMaxDenyReasonBytes = 256;
// How long an entry stays whose certificate's end is not known.
inline constexpr Duration kUnknownCertificateLife = Duration::Hours(8'760);

struct DenyEntry {
  // Either `serial` (decimal), or `tenant` and `identity` (CN).
  std::string serial = {};
  std::optional<TenantId> tenant = std::nullopt;
  std::string identity = {};
  std::string reason = {};
  Timestamp denied_at = {};
  Timestamp expires_at = {};
  json::Object unknown = {};
  friend bool operator==(const DenyEntry&, const DenyEntry&) = default;

  // Whether both name the same certificate or identity.
  [[nodiscard]] bool SameTarget(const DenyEntry& other) const;
};

struct DenyList {
  std::vector<DenyEntry> entries = {};
  std::string write_id = {};
  json::Object unknown = {};
  friend bool operator==(const DenyList&, const DenyList&) = default;
};

// kInvalidArgument: malformed, an unknown version, or a wrong checksum (none is accepted: another
// program wrote it). kResourceExhausted: above the limits.
[[nodiscard]] Result<DenyList> DecodeDenyList(std::string_view bytes, InputSource source = {});
// REQUIRES: what DecodeDenyList() accepts.
[[nodiscard]] std::string EncodeDenyList(const DenyList& list);

// Adds an entry, or replaces the one with the same target, and drops what has expired.
// kInvalidArgument says what is wrong with the entry; kResourceExhausted when the list is full.
[[nodiscard]] Result<DenyList> WithDenied(DenyList list, DenyEntry entry, Timestamp now);

// For look-ups; a set is a few hundred nanoseconds away whatever the list holds.
class DenySet final {
 public:
  DenySet() = default;
  explicit DenySet(const DenyList& list);

  [[nodiscard]] bool Denies(const crypto::PeerIdentity& peer) const;
  [[nodiscard]] bool DeniesSerial(std::string_view serial) const;
  [[nodiscard]] bool DeniesIdentity(const TenantId& tenant, std::string_view identity) const;
  [[nodiscard]] std::size_t size() const { return serials_.size() + identities_.size(); }

 private:
  std::set<std::string, std::less<>> serials_;
  std::set<std::pair<TenantId, std::string>> identities_;
};

// Entries of `after` whose target `before` does not deny.
[[nodiscard]] std::vector<DenyEntry> NewlyDenied(const DenySet& before, const DenyList& after);

}  // namespace nstance
