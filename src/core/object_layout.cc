#include "core/object_layout.h"

#include <utility>

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

bool IsLoggedSince(const ObjectKey& key, Timestamp at) {
  // certlog/{shard}/{tenant}.{timestamp}.{subject}.json: digits of one length sort as times do.
  const std::string& text = key.text();
  const std::size_t dot = text.find('.');
  if (!text.starts_with("certlog/") || dot == std::string::npos) return false;
  const std::string_view rest = std::string_view(text).substr(dot + 1);
  const std::string_view digits = rest.substr(0, rest.find('.'));
  const std::string cutoff = Compact(at);
  return digits.size() == cutoff.size() &&
         digits.find_first_not_of("0123456789") == std::string_view::npos && digits >= cutoff;
}

ObjectKey OperatorKey(const TenantId& tenant, std::string_view storage_key) {
  return Make(fmt::format("operator/{}.{}{}", tenant.text(), storage_key, kSuffix));
}

Result<OperatorName> ParseOperatorKey(const ObjectKey& key) {
  constexpr std::string_view kFolder = "operator/";
  std::string_view rest = key.text();
  const bool framed = rest.starts_with(kFolder) && rest.ends_with(kSuffix);
  const std::size_t dot = framed ? rest.find('.') : std::string_view::npos;
  if (!framed || dot + kSuffix.size() >= rest.size()) {
    return Fail(InvalidArgument(
        fmt::format("{}: not of the form operator/<tenant>.<storage key>.json", key.text())));
  }
  rest.remove_suffix(kSuffix.size());
  ASSIGN_OR_RETURN(
      TenantId tenant,
      Under(TenantId::Parse(rest.substr(kFolder.size(), dot - kFolder.size())), key.text()));
  return OperatorName{.tenant = std::move(tenant),
                      .storage_key = std::string(rest.substr(dot + 1))};
}

ObjectKey OperatorNonceKey(std::string_view token_sha256) {
  return Make(fmt::format("operator-nonce/{}.pem", token_sha256));
}

}  // namespace nstance
