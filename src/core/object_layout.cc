#include "core/object_layout.h"

#include <fmt/format.h>

#include "base/check.h"

namespace nstance {
namespace {

constexpr std::string_view kSuffix = ".json";

ObjectKey Make(const std::string& text) {
  Result<ObjectKey> key = ObjectKey::Parse(text);
  CHECK(key.has_value(), "{}", text);
  return std::move(key).value();
}

std::string Compact(Timestamp at) {
  const CivilTime civil = ToCivil(at);
  return fmt::format("{:04}{:02}{:02}{:02}{:02}{:02}{:03}", civil.year, civil.month, civil.day,
                     civil.hour, civil.minute, civil.second, at.nanoseconds() / 1'000'000);
}

}  // namespace

std::string InstanceRecordPrefix(const ShardId& shard) {
  return fmt::format("instance/{}/", shard.text());
}

ObjectKey InstanceRecordKey(const ShardId& shard, const RecordKey& record) {
  return Make(fmt::format("{}{}.{}{}", InstanceRecordPrefix(shard), record.tenant.text(),
                          record.instance_id.text(), kSuffix));
}

Result<RecordKey> ParseInstanceRecordKey(const ShardId& shard, const ObjectKey& key) {
  const std::string prefix = InstanceRecordPrefix(shard);
  std::string_view rest = key.text();
  if (!rest.starts_with(prefix) || !rest.ends_with(kSuffix)) {
    return Fail(InvalidArgument(
        fmt::format("{}: not of the form {}<tenant>.<instance id>.json", key.text(), prefix)));
  }
  rest.remove_prefix(prefix.size());
  rest.remove_suffix(kSuffix.size());
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos) {
    return Fail(InvalidArgument(fmt::format("{}: no dot between tenant and id", key.text())));
  }
  ASSIGN_OR_RETURN(TenantId tenant, Under(TenantId::Parse(rest.substr(0, dot)), key.text()));
  ASSIGN_OR_RETURN(InstanceId id, Under(ReadPuidv7(rest.substr(dot + 1)), key.text()));
  if (id.text() != rest.substr(dot + 1)) {
    return Fail(InvalidArgument(fmt::format("{}: the id is not in our spelling", key.text())));
  }
  return RecordKey{.tenant = std::move(tenant), .instance_id = std::move(id)};
}

ObjectKey CertificateLogKey(const ShardId& shard, const CertificateLogName& name) {
  return Make(fmt::format("certlog/{}/{}.{}.{}{}", shard.text(), name.tenant.text(),
                          Compact(name.at), name.subject, kSuffix));
}

ObjectKey OperatorKey(const TenantId& tenant, std::string_view storage_key) {
  return Make(fmt::format("operator/{}.{}{}", tenant.text(), storage_key, kSuffix));
}

ObjectKey OperatorNonceKey(std::string_view token_sha256) {
  return Make(fmt::format("operator-nonce/{}.pem", token_sha256));
}

}  // namespace nstance
