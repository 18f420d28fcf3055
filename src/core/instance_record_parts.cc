#include "core/instance_record_parts.h"

#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "core/stored_object.h"

namespace nstance {
namespace {

// ---- reading -----------------------------------------------------------------------------------

Result<NonceClaims> ReadNonce(const json::Value& object) {
  constexpr std::array<std::string_view, 4> kKnown = {"jti", "iat", "exp", "config_hash"};
  const ObjectReader reader(object);
  NonceClaims nonce;
  ASSIGN_OR_RETURN(nonce.jti, reader.Text("jti"));
  ASSIGN_OR_RETURN(nonce.iat, reader.Integer("iat", {0, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(nonce.exp, reader.Integer("exp", {0, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(nonce.config_hash, reader.TextOrEmpty("config_hash"));
  nonce.unknown = UnknownMembers(object, kKnown);
  return nonce;
}

Result<RecordMark> ReadMark(const json::Value& object) {
  constexpr std::array<std::string_view, 2> kKnown = {"reason", "at"};
  const ObjectReader reader(object);
  RecordMark mark;
  ASSIGN_OR_RETURN(mark.reason, reader.TextOrEmpty("reason"));
  ASSIGN_OR_RETURN(mark.at, reader.Time("at"));
  mark.unknown = UnknownMembers(object, kKnown);
  return mark;
}

Result<RecordDrain> ReadDrain(const json::Value& object) {
  constexpr std::array<std::string_view, 8> kKnown = {
      "id", "reason", "started_at", "delete_at", "length_ms", "ordered", "counted", "acked_at"};
  const ObjectReader reader(object);
  RecordDrain drain;
  ASSIGN_OR_RETURN(drain.id, reader.Text("id"));
  ASSIGN_OR_RETURN(drain.reason, reader.Text("reason"));
  ASSIGN_OR_RETURN(drain.started_at, reader.Time("started_at"));
  ASSIGN_OR_RETURN(drain.delete_at, reader.Time("delete_at"));
  ASSIGN_OR_RETURN(const std::int64_t length,
                   reader.Integer("length_ms", {0, Duration::Max().milliseconds()}));
  drain.length = Duration::Milliseconds(length);
  ASSIGN_OR_RETURN(drain.ordered, reader.Flag("ordered"));
  ASSIGN_OR_RETURN(drain.counted, reader.Flag("counted"));
  ASSIGN_OR_RETURN(drain.acked_at, reader.OptionalTime("acked_at"));
  drain.unknown = UnknownMembers(object, kKnown);
  return drain;
}

Result<RecordDeletion> ReadDeletion(const json::Value& object) {
  constexpr std::array<std::string_view, 4> kKnown = {"reason", "started_at", "ordered", "counted"};
  const ObjectReader reader(object);
  RecordDeletion deletion;
  ASSIGN_OR_RETURN(deletion.reason, reader.Text("reason"));
  ASSIGN_OR_RETURN(deletion.started_at, reader.Time("started_at"));
  ASSIGN_OR_RETURN(deletion.ordered, reader.Flag("ordered"));
  ASSIGN_OR_RETURN(deletion.counted, reader.Flag("counted"));
  deletion.unknown = UnknownMembers(object, kKnown);
  return deletion;
}

Result<RecordFailure> ReadFailure(const json::Value& object) {
  constexpr std::array<std::string_view, 3> kKnown = {"code", "message", "at"};
  const ObjectReader reader(object);
  RecordFailure failure;
  ASSIGN_OR_RETURN(failure.code, reader.TextOrEmpty("code"));
  ASSIGN_OR_RETURN(failure.message, reader.TextOrEmpty("message"));
  ASSIGN_OR_RETURN(failure.at, reader.Time("at"));
  failure.unknown = UnknownMembers(object, kKnown);
  return failure;
}

Result<RecordClaims> ReadClaims(const json::Value& object) {
  constexpr std::array<std::string_view, 2> kKnown = {"count", "last_request_id"};
  const ObjectReader reader(object);
  RecordClaims claims;
  ASSIGN_OR_RETURN(claims.count, reader.Integer("count", {0, kMaxStoredInteger}));
  ASSIGN_OR_RETURN(claims.last_request_id, reader.TextOrEmpty("last_request_id"));
  claims.unknown = UnknownMembers(object, kKnown);
  return claims;
}

Result<RecordClaim> ReadClaim(const json::Value& object) {
  constexpr std::array<std::string_view, 7> kKnown = {
      "request_id", "claimed_at", "class", "group", "vars", "confirmed_at", "superseded"};
  const ObjectReader reader(object);
  ASSIGN_OR_RETURN(const std::string group_text, reader.Text("group"));
  ASSIGN_OR_RETURN(const GroupKey group, Under(GroupKey::Parse(group_text), "group"));
  RecordClaim claim{.group = group};
  ASSIGN_OR_RETURN(claim.request_id, reader.Text("request_id"));
  ASSIGN_OR_RETURN(claim.claimed_at, reader.Time("claimed_at"));
  ASSIGN_OR_RETURN(claim.claim_class, reader.Text("class"));
  ASSIGN_OR_RETURN(claim.confirmed_at, reader.OptionalTime("confirmed_at"));
  if (const json::Value* vars = object.Find("vars")) {
    if (vars->if_object() == nullptr) return Fail(InvalidArgument("vars: not an object"));
    claim.vars = *vars->if_object();
  }
  if (const json::Value* superseded = object.Find("superseded")) claim.superseded = *superseded;
  claim.unknown = UnknownMembers(object, kKnown);
  return claim;
}

template <class Part>
Status ReadPart(const json::Value& object, std::string_view key,
                Result<Part> (*read)(const json::Value&), std::optional<Part>& part) {
  const json::Value* value = object.Find(key);
  if (value == nullptr) return {};
  if (value->if_object() == nullptr) {
    return Fail(InvalidArgument(
        fmt::format("{}: is {}, not an object", key, json::TypeName(value->type()))));
  }
  ASSIGN_OR_RETURN(part, Under(read(*value), key));
  return {};
}

// ---- writing -----------------------------------------------------------------------------------

void AppendFlags(std::string& out, bool ordered, bool counted) {
  fmt::format_to(std::back_inserter(out), ",\"ordered\":{},\"counted\":{}", ordered, counted);
}

// `,"key":{"first":"text"`.
void OpenPart(std::string& out, std::string_view key, std::string_view first,
              std::string_view text) {
  AppendKey(out, key);
  out += "{\"";
  out += first;
  out += "\":";
  json::AppendString(out, text);
}

void ClosePart(std::string& out, const json::Object& unknown) {
  AppendUnknown(out, unknown);
  out += '}';
}

}  // namespace

Status ReadRecordParts(const json::Value& object, InstanceRecord& record) {
  RETURN_IF_ERROR(ReadPart(object, "nonce", &ReadNonce, record.nonce));
  RETURN_IF_ERROR(ReadPart(object, "blocked", &ReadMark, record.blocked));
  RETURN_IF_ERROR(ReadPart(object, "drain", &ReadDrain, record.drain));
  RETURN_IF_ERROR(ReadPart(object, "deletion", &ReadDeletion, record.deletion));
  RETURN_IF_ERROR(ReadPart(object, "quarantine", &ReadMark, record.quarantine));
  RETURN_IF_ERROR(ReadPart(object, "claims", &ReadClaims, record.claims));
  RETURN_IF_ERROR(ReadPart(object, "claim", &ReadClaim, record.claim));
  return ReadPart(object, "failure", &ReadFailure, record.failure);
}

void AppendNonce(std::string& out, const InstanceRecord& record) {
  if (!record.nonce) return;
  OpenPart(out, "nonce", "jti", record.nonce->jti);
  AppendInteger(out, "iat", record.nonce->iat);
  AppendInteger(out, "exp", record.nonce->exp);
  AppendText(out, "config_hash", record.nonce->config_hash);
  ClosePart(out, record.nonce->unknown);
}

void AppendMark(std::string& out, std::string_view key, const std::optional<RecordMark>& mark) {
  if (!mark) return;
  OpenPart(out, key, "reason", mark->reason);
  AppendTime(out, "at", mark->at);
  ClosePart(out, mark->unknown);
}

void AppendDrainAndDeletion(std::string& out, const InstanceRecord& record) {
  if (record.drain) {
    OpenPart(out, "drain", "id", record.drain->id);
    AppendText(out, "reason", record.drain->reason);
    AppendTime(out, "started_at", record.drain->started_at);
    AppendTime(out, "delete_at", record.drain->delete_at);
    AppendInteger(out, "length_ms", record.drain->length.milliseconds());
    AppendFlags(out, record.drain->ordered, record.drain->counted);
    if (record.drain->acked_at) AppendTime(out, "acked_at", *record.drain->acked_at);
    ClosePart(out, record.drain->unknown);
  }
  if (record.deletion) {
    OpenPart(out, "deletion", "reason", record.deletion->reason);
    AppendTime(out, "started_at", record.deletion->started_at);
    AppendFlags(out, record.deletion->ordered, record.deletion->counted);
    ClosePart(out, record.deletion->unknown);
  }
}

void AppendClaims(std::string& out, const InstanceRecord& record) {
  if (record.claims) {
    AppendKey(out, "claims");
    fmt::format_to(std::back_inserter(out), "{{\"count\":{}", record.claims->count);
    AppendText(out, "last_request_id", record.claims->last_request_id);
    ClosePart(out, record.claims->unknown);
  }
  if (!record.claim) return;
  const RecordClaim& claim = *record.claim;
  OpenPart(out, "claim", "request_id", claim.request_id);
  AppendTime(out, "claimed_at", claim.claimed_at);
  AppendText(out, "class", claim.claim_class);
  AppendText(out, "group", claim.group.text());
  if (claim.vars) out += ",\"vars\":" + json::Write(json::Value::Map(*claim.vars));
  if (claim.confirmed_at) AppendTime(out, "confirmed_at", *claim.confirmed_at);
  if (claim.superseded) out += ",\"superseded\":" + json::Write(*claim.superseded);
  ClosePart(out, claim.unknown);
}

void AppendFailure(std::string& out, const InstanceRecord& record) {
  if (!record.failure) return;
  OpenPart(out, "failure", "code", record.failure->code);
  AppendText(out, "message", record.failure->message);
  AppendTime(out, "at", record.failure->at);
  ClosePart(out, record.failure->unknown);
}

}  // namespace nstance
