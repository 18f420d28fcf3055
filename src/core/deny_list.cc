#include "core/deny_list.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "base/text.h"
#include "core/stored_object.h"
#include "crypto/checksum.h"
#include "crypto/serial_number.h"

namespace nstance {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMaxIdentityBytes = 64;
constexpr std::array<std::string_view, 4> kKeys = {"version", "entries", "write_id", "checksum"};
constexpr std::array<std::string_view, 6> kEntryKeys = {"serial", "tenant",    "identity",
                                                        "reason", "denied_at", "expires_at"};

Status CheckIdentityText(std::string_view identity) {
  if (identity.size() > kMaxIdentityBytes || identity.find('\0') != std::string_view::npos) {
    return Fail(InvalidArgument(
        fmt::format("identity: not a CN; at most {} bytes without NUL", kMaxIdentityBytes)));
  }
  return {};
}

Status CheckEntry(const DenyEntry& entry) {
  const bool by_identity = entry.tenant.has_value() || !entry.identity.empty();
  if (entry.serial.empty() == !by_identity) {
    return Fail(InvalidArgument("has to name a serial, or a tenant and an identity, not both"));
  }
  if (by_identity && (!entry.tenant || entry.identity.empty())) {
    return Fail(InvalidArgument("tenant and identity go together"));
  }
  if (!entry.serial.empty()) {
    RETURN_IF_ERROR(Under(crypto::SerialNumber::FromDecimal(entry.serial), "serial"));
  }
  if (entry.reason.size() > kMaxDenyReasonBytes || !IsValidUtf8(entry.reason)) {
    return Fail(
        InvalidArgument(fmt::format("reason: at most {} bytes of UTF-8", kMaxDenyReasonBytes)));
  }
  return CheckIdentityText(entry.identity);
}

Result<DenyEntry> ReadEntry(const json::Value& value) {
  if (value.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  const ObjectReader reader(value);
  DenyEntry entry;
  // A member that is there says something: an empty text is not "absent".
  if (value.Find("serial") != nullptr) {
    ASSIGN_OR_RETURN(entry.serial, reader.Text("serial"));
  }
  if (value.Find("tenant") != nullptr) {
    ASSIGN_OR_RETURN(const std::string tenant, reader.Text("tenant"));
    ASSIGN_OR_RETURN(entry.tenant, TenantId::Parse(tenant));
  }
  if (value.Find("identity") != nullptr) {
    ASSIGN_OR_RETURN(entry.identity, reader.Text("identity"));
  }
  ASSIGN_OR_RETURN(entry.reason, reader.TextOrEmpty("reason"));
  ASSIGN_OR_RETURN(entry.denied_at, reader.Time("denied_at"));
  ASSIGN_OR_RETURN(entry.expires_at, reader.Time("expires_at"));
  RETURN_IF_ERROR(CheckEntry(entry));
  entry.unknown = UnknownMembers(value, kEntryKeys);
  return entry;
}

void WriteEntry(std::string& out, const DenyEntry& entry) {
  std::string members;
  if (!entry.serial.empty()) AppendText(members, "serial", entry.serial);
  if (entry.tenant) AppendText(members, "tenant", entry.tenant->text());
  if (!entry.identity.empty()) AppendText(members, "identity", entry.identity);
  AppendText(members, "reason", entry.reason);
  AppendTime(members, "denied_at", entry.denied_at);
  AppendTime(members, "expires_at", entry.expires_at);
  AppendUnknown(members, entry.unknown);
  members.front() = '{';
  out += members;
  out += '}';
}

Error Full() {
  return ResourceExhausted(fmt::format("the deny list has at most {} entries", kMaxDenyEntries));
}

}  // namespace

bool DenyEntry::SameTarget(const DenyEntry& other) const {
  return serial == other.serial && tenant == other.tenant && identity == other.identity;
}

Result<DenyList> DecodeDenyList(std::string_view bytes, InputSource source) {
  ASSIGN_OR_RETURN(
      const json::Value value,
      json::Parse(bytes, {.max_bytes = kMaxDenyListBytes, .max_depth = 16, .source = source}));
  const auto bad = [&](Error error) {
    source.Bad("deny-list");
    return Fail(std::move(error));
  };
  if (value.if_object() == nullptr) return bad(InvalidArgument("not an object"));
  if (crypto::CheckChecksum(bytes) == crypto::ChecksumState::kWrong) {
    return bad(InvalidArgument("wrong checksum"));
  }
  const ObjectReader reader(value);
  if (auto version = reader.Integer("version", {.low = kVersion, .high = kVersion}); !version) {
    return bad(std::move(version).error());
  }
  const json::Value* entries = value.Find("entries");
  if (entries == nullptr || entries->if_array() == nullptr) {
    return bad(InvalidArgument("entries: not a list"));
  }
  if (entries->if_array()->size() > kMaxDenyEntries) {
    source.Limit("deny-entries");
    return Fail(Full());
  }
  DenyList list;
  for (const json::Value& item : *entries->if_array()) {
    Result<DenyEntry> entry = ReadEntry(item);
    if (!entry) {
      return bad(std::move(entry).error().Under(fmt::format("entries[{}]", list.entries.size())));
    }
    list.entries.push_back(*std::move(entry));
  }
  auto write_id = reader.OptionalText("write_id");
  if (!write_id) return bad(std::move(write_id).error());
  list.write_id = std::move(*write_id).value_or("");
  list.unknown = UnknownMembers(value, kKeys);
  return list;
}

std::string EncodeDenyList(const DenyList& list) {
  std::string out = fmt::format("{{\"version\":{},\"entries\":[", kVersion);
  for (std::size_t i = 0; i < list.entries.size(); ++i) {
    if (i > 0) out += ',';
    WriteEntry(out, list.entries[i]);
  }
  out += ']';
  if (!list.write_id.empty()) AppendText(out, "write_id", list.write_id);
  AppendUnknown(out, list.unknown);
  out += '}';
  return crypto::AppendChecksum(out);
}

Result<DenyList> WithDenied(DenyList list, DenyEntry entry, Timestamp now) {
  RETURN_IF_ERROR(CheckEntry(entry));
  std::erase_if(list.entries, [&](const DenyEntry& present) {
    return present.expires_at <= now || present.SameTarget(entry);
  });
  if (list.entries.size() >= kMaxDenyEntries) return Fail(Full());
  list.entries.push_back(std::move(entry));
  return list;
}

DenySet::DenySet(const DenyList& list) {
  for (const DenyEntry& entry : list.entries) {
    if (entry.tenant) {
      identities_.emplace(*entry.tenant, entry.identity);
    } else {
      serials_.insert(entry.serial);
    }
  }
}

bool DenySet::Denies(const crypto::PeerIdentity& peer) const {
  return DeniesSerial(peer.serial) || DeniesIdentity(peer.tenant, peer.id);
}

bool DenySet::DeniesSerial(std::string_view serial) const { return serials_.contains(serial); }

bool DenySet::DeniesIdentity(const TenantId& tenant, std::string_view identity) const {
  return !identities_.empty() && identities_.contains({tenant, std::string(identity)});
}

std::vector<DenyEntry> NewlyDenied(const DenySet& before, const DenyList& after) {
  std::vector<DenyEntry> added;
  for (const DenyEntry& entry : after.entries) {
    const bool known = entry.tenant ? before.DeniesIdentity(*entry.tenant, entry.identity)
                                    : before.DeniesSerial(entry.serial);
    if (!known) added.push_back(entry);
  }
  return added;
}

}  // namespace nstance
