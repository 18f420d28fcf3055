#include "admin/storage/cert_commands.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/storage/fields.h"
#include "admin/table.h"
#include "base/json.h"
#include "core/deny_list.h"

namespace nstance::admin {
namespace {

constexpr std::string_view kDenyList = "deny/cluster.json";
constexpr int kTries = 8;

struct Found {
  DenyList list = {};
  std::optional<ObjectVersion> version = std::nullopt;  // Empty: there is no list yet.
};

Result<Found> ReadList(StoreSession& store) {
  const Result<Object> object = store.Get(KnownKey(kDenyList));
  if (!object.has_value()) {
    if (object.error().code == Code::kNotFound) return Found{};
    return Fail(object.error());
  }
  Result<DenyList> list = DecodeDenyList(object->bytes);
  if (!list.has_value()) {
    Error error = std::move(list).error().Under(kDenyList);
    error.code = Code::kDataLoss;
    error.message += ": look at it with nstance-admin store show, and repair it by hand";
    return Fail(std::move(error));
  }
  return Found{.list = *std::move(list), .version = object->version};
}

Result<DenyEntry> Deny(const CertDeny& command, const StorageDeps& deps) {
  StoreSession store(deps);
  for (int tries = 0; tries < kTries; ++tries) {
    ASSIGN_OR_RETURN(Found found, ReadList(store));
    const Timestamp now = deps.loop.WallNow().TruncatedToSecond();
    DenyEntry entry{.serial = command.serial,
                    .tenant = command.tenant,
                    .identity = command.identity,
                    .reason = command.reason,
                    .denied_at = now,
                    .expires_at = now + kUnknownCertificateLife};
    ASSIGN_OR_RETURN(DenyList list, WithDenied(std::move(found.list), entry, now));
    list.write_id = store.NewWriteId();
    PutCondition condition = IfAbsent{};
    if (found.version) condition = IfVersion{*found.version};
    const Result<ObjectVersion> put = store.Put({.key = KnownKey(kDenyList),
                                                 .bytes = EncodeDenyList(list),
                                                 .condition = std::move(condition)});
    if (put.has_value()) return entry;
    if (put.error().code != Code::kAborted) return Fail(put.error());
  }
  return Fail(Aborted(fmt::format("{} keeps changing; try again", kDenyList)));
}

json::Value ToJson(const DenyEntry& entry) {
  json::Value out = json::Value::Map({});
  if (!entry.serial.empty()) out.Set("serial", json::Value::String(entry.serial));
  if (entry.tenant) out.Set("tenant", json::Value::String(entry.tenant->text()));
  if (!entry.identity.empty()) out.Set("identity", json::Value::String(entry.identity));
  out.Set("reason", json::Value::String(entry.reason));
  out.Set("denied_at", json::Value::String(FormatTimestamp(entry.denied_at)));
  out.Set("expires_at", json::Value::String(FormatTimestamp(entry.expires_at)));
  return out;
}

std::string TableOf(const DenyList& list) {
  Table table({{"SERIAL"}, {"TENANT"}, {"IDENTITY"}, {"DENIED_AT"}, {"EXPIRES_AT"}, {"REASON"}});
  for (const DenyEntry& entry : list.entries) {
    table.Add({entry.serial, entry.tenant ? entry.tenant->text() : "", entry.identity,
               FormatTimestamp(entry.denied_at), FormatTimestamp(entry.expires_at), entry.reason});
  }
  return table.Text(Paint::kPlain);
}

}  // namespace

Ending Run(const CertDeny& command, const CommonFlags& common, const StorageDeps& deps) {
  const Result<DenyEntry> entry = Deny(command, deps);
  if (!entry.has_value()) return Failed(entry.error(), common.output);
  if (common.output == Output::kJson) {
    return {.out = json::Write(ToJson(*entry), {.indent = 2}) + "\n"};
  }
  const std::string who =
      entry->tenant ? fmt::format("{} of tenant {}", entry->identity, entry->tenant->text())
                    : "the certificate " + entry->serial;
  Ending ending{.out =
                    fmt::format("denied {} until {}\n", who, FormatTimestamp(entry->expires_at))};
  if (!common.quiet) ending.err = "Servers refuse it within 10 s.\n";
  return ending;
}

Ending Run(const CertDenied& /*command*/, const CommonFlags& common, const StorageDeps& deps) {
  StoreSession store(deps);
  const Result<Found> found = ReadList(store);
  if (!found.has_value()) return Failed(found.error(), common.output);
  if (common.output == Output::kTable) {
    if (found->list.entries.empty()) return {.out = "nobody is denied\n"};
    return {.out = TableOf(found->list)};
  }
  json::Array entries;
  entries.reserve(found->list.entries.size());
  for (const DenyEntry& entry : found->list.entries) entries.push_back(ToJson(entry));
  json::Value out = json::Value::Map({});
  out.Set("entries", json::Value::List(std::move(entries)));
  return {.out = json::Write(out, {.indent = 2}) + "\n"};
}

}  // namespace nstance::admin
