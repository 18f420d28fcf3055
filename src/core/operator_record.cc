#include "core/operator_record.h"

#include <array>
#include <utility>

#include "base/text.h"
#include "core/stored_object.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

constexpr std::array<std::string_view, 14> kKnown = {
    "cert_serial",  "client_id",      "cluster_id",    "expires_at",    "generation",
    "public_key",   "public_key_pem", "registered_at", "registered_by", "renewed_at",
    "nonce_sha256", "tenant",         "write_id",      "checksum"};

Error Corrupt(const Error& error) {
  return {.code = Code::kDataLoss, .message = "corrupt operator record: " + error.message};
}

Result<std::string> EitherText(const ObjectReader& reader, std::string_view key,
                               std::string_view older) {
  ASSIGN_OR_RETURN(std::optional<std::string> text, reader.OptionalText(key));
  if (text) return *text;
  return reader.Text(older);
}

Result<OperatorRecord> Read(const json::Value& value) {
  if (value.if_object() == nullptr) return Fail(InvalidArgument("not an object"));
  const ObjectReader reader(value);
  OperatorRecord out;
  ASSIGN_OR_RETURN(out.cert_serial, reader.Text("cert_serial"));
  ASSIGN_OR_RETURN(out.client_id, EitherText(reader, "client_id", "cluster_id"));
  ASSIGN_OR_RETURN(out.expires_at, reader.Time("expires_at"));
  if (value.Find("generation") != nullptr) {
    ASSIGN_OR_RETURN(out.generation, reader.Integer("generation", {.low = 1}));
  }
  ASSIGN_OR_RETURN(out.public_key_pem, EitherText(reader, "public_key_pem", "public_key"));
  ASSIGN_OR_RETURN(out.registered_at, reader.Time("registered_at"));
  ASSIGN_OR_RETURN(std::optional<std::string> by, reader.OptionalText("registered_by"));
  out.registered_by = by.value_or("");
  ASSIGN_OR_RETURN(out.renewed_at, reader.OptionalTime("renewed_at"));
  ASSIGN_OR_RETURN(std::optional<std::string> nonce, reader.OptionalText("nonce_sha256"));
  out.nonce_sha256 = nonce.value_or("");
  ASSIGN_OR_RETURN(const std::string tenant, reader.Text("tenant"));
  ASSIGN_OR_RETURN(out.tenant, TenantId::Parse(tenant));
  ASSIGN_OR_RETURN(std::optional<std::string> write_id, reader.OptionalText("write_id"));
  out.write_id = write_id.value_or("");
  out.unknown = UnknownMembers(value, kKnown);
  return out;
}

}  // namespace

std::string OperatorStorageKey(const crypto::PublicKey& registered_key) {
  return HexEncode(registered_key.SpkiSha256()).substr(0, 32);
}

std::string EncodeOperatorRecord(const OperatorRecord& record) {
  std::string out = "{\"cert_serial\":";
  json::AppendString(out, record.cert_serial);
  AppendText(out, "client_id", record.client_id);
  AppendTime(out, "expires_at", record.expires_at);
  AppendInteger(out, "generation", record.generation);
  AppendText(out, "public_key_pem", record.public_key_pem);
  AppendTime(out, "registered_at", record.registered_at);
  AppendText(out, "registered_by", record.registered_by);
  if (record.renewed_at) AppendTime(out, "renewed_at", *record.renewed_at);
  if (!record.nonce_sha256.empty()) AppendText(out, "nonce_sha256", record.nonce_sha256);
  AppendText(out, "tenant", record.tenant.text());
  AppendText(out, "write_id", record.write_id);
  AppendUnknown(out, record.unknown);
  out += '}';
  return crypto::AppendChecksum(out);
}

Result<OperatorRecord> DecodeOperatorRecord(std::string_view bytes) {
  if (crypto::CheckChecksum(bytes) == crypto::ChecksumState::kWrong) {
    return Fail(Corrupt(InvalidArgument("checksum: wrong")));
  }
  Result<json::Value> value = json::Parse(bytes, {.max_bytes = std::size_t{64} * 1024});
  if (!value.has_value()) return Fail(Corrupt(value.error()));
  Result<OperatorRecord> record = Read(*value);
  if (!record.has_value()) return Fail(Corrupt(record.error()));
  return record;
}

}  // namespace nstance
