// Random instance records, for properties over seeds.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/prng.h"
#include "core/instance_record.h"
#include "test/core/random_journal.h"

namespace nstance {

inline std::string RandomText(Prng& prng) {
  constexpr std::string_view kTexts[] = {"",           "a",           "10.0.0.7", "<&> \"quoted\"",
                                         "line\nline", "\u2028\u00e9"};
  return std::string(kTexts[prng.Below(std::size(kTexts))]);
}

inline json::Object RandomUnknown(Prng& prng) {
  if (!prng.Chance(1, 4)) return {};
  return {{.key = "later", .key_position = {}, .value = json::Value::Integer(prng.Between(0, 9))}};
}

inline RecordKey KeyOf(const InstanceRecord& record) {
  return {.tenant = record.tenant, .instance_id = record.instance_id};
}

inline void RandomizeParts(Prng& prng, InstanceRecord& record) {
  const auto some = [&] { return prng.Chance(1, 2); };
  if (some()) record.nonce = {"jti", prng.Between(0, 9), prng.Between(0, 9), "hash", {}};
  if (some()) record.blocked = {"identity_clone", RandomTime(prng), RandomUnknown(prng)};
  if (some()) record.quarantine = {RandomText(prng), RandomTime(prng), {}};
  if (some()) {
    record.drain = RecordDrain{.id = "3-7-1",
                               .reason = "unhealthy",
                               .started_at = RandomTime(prng),
                               .delete_at = RandomTime(prng),
                               .length = Duration::Milliseconds(prng.Between(0, 1'000'000)),
                               .ordered = some(),
                               .counted = some()};
    if (some()) record.drain->acked_at = RandomTime(prng);
    record.drain->unknown = RandomUnknown(prng);
  }
  if (some()) {
    record.deletion = {"requested", RandomTime(prng), some(), some(), RandomUnknown(prng)};
  }
  if (some()) record.failure = {"capacity", RandomText(prng), RandomTime(prng), {}};
  if (some()) record.claims = {prng.Between(0, 9), RandomText(prng), RandomUnknown(prng)};
  if (some()) {
    record.claim = RecordClaim{.request_id = "r1",
                               .claimed_at = RandomTime(prng),
                               .claim_class = "claimed",
                               .group = GroupKey::Parse("batch").value()};
    if (some()) record.claim->vars = json::Object{};
    if (some()) record.claim->confirmed_at = RandomTime(prng);
    if (some()) record.claim->superseded = json::Value::Bool(true);
  }
}

// Every optional member present or absent by chance.
inline InstanceRecord RandomRecord(Prng& prng) {
  const auto some = [&] { return prng.Chance(1, 2); };
  InstanceRecord record{.instance_id = RandomInstanceId(prng),
                        .tenant = TenantId::Parse("prod").value(),
                        .group = GroupKey::Parse("workers").value()};
  record.on_demand = some();
  record.subnet_id = RandomText(prng);
  record.provider_instance_id = RandomText(prng);
  record.hostname = RandomText(prng);
  record.created_at = RandomTime(prng);
  record.last_updated = RandomTime(prng);
  record.config = {{.key = "args",
                    .key_position = {},
                    .value = json::Value::List({json::Value::Double(1.5), json::Value()})}};
  if (some()) record.tags = {{"owner", RandomText(prng)}};
  if (some()) record.registered_at = RandomTime(prng);
  if (some()) record.public_key_pem = "-----BEGIN PUBLIC KEY-----\n";
  if (some()) record.cert_expires_at = RandomTime(prng);
  record.phase = static_cast<InstancePhase>(prng.Between(1, 7));
  record.phase_at = RandomTime(prng);
  record.provider = "aws";
  if (some()) record.nonce_sha256 = std::string(64, 'a');
  if (some()) record.request_sha256 = std::string(64, '0');
  record.generation = prng.Between(0, 3);
  if (some()) record.cert_scope = "pool";
  if (some()) record.power = "stopped";
  if (some()) record.replaces = RandomInstanceId(prng);
  if (some()) record.request_id = "request";
  record.epoch = prng.Between(1, 1'000'000);
  record.seq = prng.Between(0, 1'000'000);
  record.write_id = "AAECAwQFBgcICQoLDA0ODw";
  RandomizeParts(prng, record);
  record.unknown = RandomUnknown(prng);
  return record;
}

}  // namespace nstance
