#include "core/lease.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "core/stored_object.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxLeaseBytes = std::size_t{64} * 1024;
constexpr std::array<std::string_view, 9> kKeys = {"leaderID",    "leaderAddr", "lastUpdated",
                                                   "incarnation", "term",       "lease_ms",
                                                   "released",    "write_id",   "checksum"};
constexpr std::size_t kIncarnationDigits = 16;

DecodedLease Flawed(LeaseForm form, std::string flaw) {
  return {.form = form, .record = {}, .flaw = std::move(flaw)};
}

// The members that only our own programs write.
Status ReadOurs(ObjectReader& reader, LeaseRecord& record) {
  ASSIGN_OR_RETURN(record.incarnation, reader.Text("incarnation"));
  const bool hex = std::ranges::all_of(
      record.incarnation, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hex || record.incarnation.size() != kIncarnationDigits) {
    return Fail(InvalidArgument("incarnation is not 16 hex digits"));
  }
  ASSIGN_OR_RETURN(record.term, reader.Integer("term", {1, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(const std::int64_t lease_ms,
                   reader.Integer("lease_ms", {1, LeaseTimings::kMaxLease.milliseconds()}));
  record.lease = Duration::Milliseconds(lease_ms);
  ASSIGN_OR_RETURN(record.released, reader.Flag("released"));
  ASSIGN_OR_RETURN(record.write_id, reader.Text("write_id"));
  return {};
}

Status ReadTheirs(ObjectReader& reader, LeaseRecord& record) {
  ASSIGN_OR_RETURN(record.leader_id, reader.Text("leaderID"));
  ASSIGN_OR_RETURN(record.leader_addr, reader.TextOrEmpty("leaderAddr"));
  ASSIGN_OR_RETURN(record.last_updated, reader.Time("lastUpdated"));
  return {};
}

}  // namespace

Result<LeaseTimings> MakeLeaseTimings(const LeaseSettings& settings) {
  const auto& [renew, lease, store_timeout] = settings;
  if (renew < LeaseTimings::kMinRenew || renew > LeaseTimings::kMaxRenew) {
    return Fail(InvalidArgument(
        fmt::format("renew_interval is {}; allowed are 500ms to 1m", FormatDuration(renew))));
  }
  if (lease < renew * 3 || lease > LeaseTimings::kMaxLease) {
    return Fail(InvalidArgument(
        fmt::format("lease_timeout is {}; allowed are {} (three times renew_interval) to 10m",
                    FormatDuration(lease), FormatDuration(renew * 3))));
  }
  const Duration most = (lease / 4 * 3) - renew;
  if (store_timeout <= Duration() || store_timeout >= most) {
    return Fail(InvalidArgument(
        fmt::format("store_timeout is {}; it must be above zero and below {} (3/4 lease_timeout - "
                    "renew_interval)",
                    FormatDuration(store_timeout), FormatDuration(most))));
  }
  return LeaseTimings{
      .renew = renew, .lease = lease, .margin = lease / 4, .store_timeout = store_timeout};
}

std::string EncodeLease(const LeaseRecord& record) {
  std::string out = "{\"leaderID\":";
  json::AppendString(out, record.leader_id);
  out += ",\"leaderAddr\":";
  json::AppendString(out, record.leader_addr);
  fmt::format_to(std::back_inserter(out), ",\"lastUpdated\":\"{}\"",
                 FormatTimestamp(record.last_updated));
  out += ",\"incarnation\":";
  json::AppendString(out, record.incarnation);
  fmt::format_to(std::back_inserter(out), ",\"term\":{},\"lease_ms\":{},\"released\":{}",
                 record.term, record.lease.milliseconds(), record.released);
  out += ",\"write_id\":";
  json::AppendString(out, record.write_id);
  AppendUnknown(out, record.unknown);
  out += '}';
  return crypto::AppendChecksum(out);
}

DecodedLease DecodeLease(std::string_view bytes) {
  Result<json::Value> value = json::Parse(bytes, {.max_bytes = kMaxLeaseBytes, .max_depth = 16});
  if (!value) return Flawed(LeaseForm::kCorrupt, value.error().message);
  if (value->if_object() == nullptr) return Flawed(LeaseForm::kCorrupt, "not an object");
  if (crypto::CheckChecksum(bytes) == crypto::ChecksumState::kWrong) {
    return Flawed(LeaseForm::kCorrupt, "wrong checksum");
  }
  ObjectReader reader(*value);
  DecodedLease decoded;
  if (const Status theirs = ReadTheirs(reader, decoded.record); !theirs) {
    return Flawed(LeaseForm::kCorrupt, theirs.error().message);
  }
  if (value->Find("incarnation") == nullptr && value->Find("write_id") == nullptr) {
    return Flawed(LeaseForm::kForeign, "written by another program");
  }
  if (const Status ours = ReadOurs(reader, decoded.record); !ours) {
    return Flawed(LeaseForm::kCorrupt, ours.error().message);
  }
  decoded.record.unknown = UnknownMembers(*value, kKeys);
  decoded.form = LeaseForm::kValid;
  return decoded;
}

}  // namespace nstance
