#include "server/fleet/creation_request.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "core/instance_config/config_hash.h"
#include "core/instance_config/stored_config.h"
#include "crypto/digest.h"

namespace nstance {
namespace {

// Args and user data only: files are rendered when they are pushed.
Result<MergedInstanceConfig> ConfigOf(const InstanceRecord& record) {
  ASSIGN_OR_RETURN(MergedInstanceConfig config, DecodeStoredConfig(record.config));
  config.files.clear();
  return config;
}

std::string HashOf(const ProviderCreate& request) {
  json::Object out;
  const auto add = [&](std::string key, json::Value value) {
    out.push_back({.key = std::move(key), .key_position = {}, .value = std::move(value)});
  };
  add("args", json::Value::Map(request.args));
  add("instance_type", json::Value::String(request.instance_type));
  add("subnet", json::Value::String(request.subnet));
  json::Object tags;
  for (const auto& [key, value] : request.tags) {
    tags.push_back({.key = key, .key_position = {}, .value = json::Value::String(value)});
  }
  add("tags", json::Value::Map(std::move(tags)));
  // User data may be any bytes, and holds the token: only its digest goes in.
  add("userdata_sha256", json::Value::String(crypto::Sha256Hex(AsBytes(request.user_data))));
  return crypto::Sha256Hex(AsBytes(json::WriteCanonical(json::Value::Map(std::move(out)))));
}

InstanceFacts FactsOf(const InstanceRecord& record, const MergedInstanceConfig& config) {
  return {.id = record.instance_id.text(),
          .kind = config.kind,
          .arch = config.arch,
          .type = record.instance_type,
          .tenant = record.tenant.text(),
          .group = record.group.text(),
          .vars = config.vars};
}

}  // namespace

InstanceRecord NewInstanceRecord(const NewInstance& instance, const MergedInstanceConfig& config,
                                 const NewInstanceTerms& terms) {
  const Timestamp issued = terms.now.TruncatedToSecond();
  InstanceRecord record = {.instance_id = instance.id,
                           .tenant = instance.tenant,
                           .group = instance.group,
                           .on_demand = instance.on_demand,
                           .subnet_id = instance.subnet,
                           .instance_type = config.instance_type,
                           .created_at = terms.now,
                           .last_updated = terms.now,
                           .config = EncodeStoredConfig(config),
                           .infra_config_hash = InfraConfigHash(config)};
  record.phase = InstancePhase::kCreating;
  record.phase_at = terms.now;
  record.provider = terms.provider;
  record.nonce = NonceClaims{.jti = Base64UrlEncode(terms.token_id),
                             .iat = (issued - crypto::kTokenBackdate).unix_seconds(),
                             .exp = (issued + terms.token_life).unix_seconds(),
                             .config_hash = RuntimeConfigHash(config)};
  record.replaces = instance.replaces;
  record.request_id = instance.request_id;
  return record;
}

void NameVm(InstanceRecord& record, const ProviderInstance& vm) {
  record.provider_instance_id = vm.provider_instance_id;
  if (record.private_ipv4.empty()) record.private_ipv4 = vm.private_ipv4;
  if (record.private_ipv6.empty()) record.private_ipv6 = vm.private_ipv6;
  if (record.hostname.empty()) record.hostname = vm.hostname;
}

crypto::RegistrationClaims TokenClaims(const InstanceRecord& record, const TokenPlace& place) {
  CHECK(record.nonce.has_value(), "{}", record.instance_id.text());
  const Timestamp issued = Timestamp::FromUnix(record.nonce->iat);
  return {.subject = record.instance_id.text(),
          .expires_at = Timestamp::FromUnix(record.nonce->exp),
          .not_before = issued,
          .issued_at = issued,
          .token_id = record.nonce->jti,
          .kind = crypto::TokenKind::kAgent,
          .config_hash = record.nonce->config_hash,
          .cluster = place.cluster.text(),
          .shard = place.shard.text(),
          .group = record.group.text(),
          .on_demand = record.on_demand,
          .tenant = record.tenant};
}

Result<bool> NeedsFetch(const InstanceRecord& record) {
  ASSIGN_OR_RETURN(const MergedInstanceConfig config, ConfigOf(record));
  return config.userdata && config.userdata->effective_source() == config::UserDataSource::kUrl;
}

Result<RenderedCreate> RenderCreate(const InstanceRecord& record,
                                    const CreateRendering& rendering) {
  ASSIGN_OR_RETURN(const MergedInstanceConfig config, ConfigOf(record));
  if (!record.nonce) return Fail(FailedPrecondition("the record holds no token to sign again"));
  ASSIGN_OR_RETURN(const RenderPlan plan, RenderPlan::Compile(config, {}));
  const std::string token =
      crypto::SignRegistrationToken(TokenClaims(record, rendering.place), rendering.token_key);
  const tmpl::Value data = rendering.shared.ForCreation(FactsOf(record, config), token);
  ProviderCreate request = {.instance_id = record.instance_id,
                            .tenant = record.tenant,
                            .group = record.group.text(),
                            .template_name = config.template_name,
                            .kind = config.kind,
                            .arch = config.arch,
                            .instance_type = record.instance_type,
                            .subnet = record.subnet_id,
                            .args = {},
                            .user_data = {},
                            .tags = record.tags.value_or(std::map<std::string, std::string>()),
                            .created_at = record.created_at};
  ASSIGN_OR_RETURN(request.args, Under(plan.RenderArgs(data), "args"));
  std::optional<std::string_view> fetched = std::nullopt;
  if (plan.needs_fetch()) {
    if (!rendering.fetched) return Fail(FailedPrecondition("the user data was not fetched"));
    fetched = *rendering.fetched;
  }
  ASSIGN_OR_RETURN(request.user_data, Under(plan.RenderUserData(data, fetched), "userdata"));
  std::string hash = HashOf(request);
  return RenderedCreate{.request = std::move(request),
                        .request_sha256 = std::move(hash),
                        .token_sha256 = crypto::TokenSha256Hex(token)};
}

std::string MissingImage(const MergedInstanceConfig& config, const config::StringMap& images,
                         const std::map<std::string, config::Image>& defined) {
  const bool all =
      std::ranges::all_of(defined, [&](const auto& image) { return images.contains(image.first); });
  if (all) return {};
  std::string texts = json::WriteCanonical(json::Value::Map(config.args));
  if (config.userdata) texts += config.userdata->content;
  for (const auto& [name, image] : defined) {
    if (images.contains(name)) continue;
    if (texts.contains(fmt::format(".Image.{}", name))) return name;
  }
  return {};
}

}  // namespace nstance
