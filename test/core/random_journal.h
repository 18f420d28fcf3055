// Random journals and intents, for properties over seeds.
#pragma once

#include <cstdint>
#include <string>

#include "base/prng.h"
#include "core/journal.h"

namespace nstance {

inline JournalIdentity ExampleIdentity() {
  return {.cluster = ClusterId::Parse("example-cluster").value(),
          .shard = ShardId::Parse("dc1-zone-a").value()};
}

inline InstanceId RandomInstanceId(Prng& prng) {
  Puidv7Generator generator;
  Puidv7Generator::Entropy entropy;
  for (std::uint8_t& byte : entropy) byte = static_cast<std::uint8_t>(prng.Next());
  return generator.Next("knc", Timestamp::FromUnix(prng.Between(0, 4'000'000'000)), entropy);
}

inline Timestamp RandomTime(Prng& prng) {
  return Timestamp::FromUnix(prng.Between(0, 4'000'000'000),
                             static_cast<std::int32_t>(prng.Below(1'000'000'000)));
}

inline Intent ExampleIntent(IntentKind kind, Prng& prng) {
  Intent intent{.id = {},
                .kind = kind,
                .instance_id = RandomInstanceId(prng),
                .tenant = TenantId::Parse("prod").value(),
                .group = GroupKey::Parse("workers").value(),
                .opened_at = RandomTime(prng),
                .epoch = 1};
  switch (kind) {
    case IntentKind::kCreate: intent.reason = "scale-up"; break;
    case IntentKind::kDrain:
      intent.reason = "unhealthy";
      intent.deadline = RandomTime(prng);
      intent.length = Duration::Milliseconds(prng.Between(0, 1'000'000));
      break;
    case IntentKind::kDelete:
      intent.reason = "requested";
      intent.record_etag = "etag";
      break;
    case IntentKind::kClaim:
      intent.record_etag = "etag";
      intent.claim_class = "claimed";
      intent.request_id = "request";
      break;
    case IntentKind::kPark:
    case IntentKind::kWake: break;
  }
  return intent;
}

// Every optional member present or absent by chance.
inline Intent RandomIntent(Prng& prng) {
  const auto kind = static_cast<IntentKind>(prng.Below(6));
  Intent intent = ExampleIntent(kind, prng);
  if (kind == IntentKind::kCreate) {
    if (prng.Chance(1, 2)) intent.replaces = RandomInstanceId(prng);
    if (prng.Chance(1, 2)) intent.request_id = "req-\u00e9-\"quoted\"";
  }
  if (kind == IntentKind::kDrain || kind == IntentKind::kDelete) {
    intent.ordered = prng.Chance(1, 2);
    intent.counted = prng.Chance(1, 2);
  }
  if (kind == IntentKind::kDrain && prng.Chance(1, 2)) intent.acked_at = RandomTime(prng);
  if (kind != IntentKind::kDrain && kind != IntentKind::kClaim) {
    if (prng.Chance(1, 2)) intent.attempts = prng.Between(1, 100);
    if (prng.Chance(1, 2)) intent.not_before = RandomTime(prng);
  }
  if (kind == IntentKind::kClaim && prng.Chance(1, 2)) {
    intent.vars.push_back(
        {.key = "A", .key_position = {}, .value = json::Value::String("<\u2028&>")});
  }
  if (prng.Chance(1, 4)) {
    intent.unknown.push_back(
        {.key = "later", .key_position = {}, .value = json::Value::Integer(prng.Between(-9, 9))});
  }
  return intent;
}

inline Journal RandomJournal(Prng& prng, std::size_t most_intents) {
  const JournalIdentity identity = ExampleIdentity();
  Journal journal{.cluster = identity.cluster,
                  .shard = identity.shard,
                  .epoch = prng.Between(1, 1'000'000),
                  .seq = prng.Between(1, 1'000'000),
                  .write_id = "AAECAwQFBgcICQoLDA0ODw",
                  .holder = "s1/0001",
                  .updated_at = RandomTime(prng),
                  .intents = {}};
  const std::uint64_t count = prng.Below(most_intents + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    Intent intent = RandomIntent(prng);
    intent.id = std::to_string(journal.epoch) + "-1-" + std::to_string(i + 1);
    intent.epoch = journal.epoch;
    journal.intents.push_back(std::move(intent));
  }
  if (prng.Chance(1, 2)) journal.memory.created_at = RandomTime(prng);
  if (prng.Chance(1, 2)) journal.memory.records = prng.Between(0, 1'000);
  if (prng.Chance(1, 4)) {
    journal.memory.restarted = {.at = RandomTime(prng), .by = "reset-journal", .mode = {}};
    if (prng.Chance(1, 2)) journal.memory.restarted->mode = "adopt";
  }
  if (prng.Chance(1, 2)) {
    journal.memory.groups = {
        .epoch = prng.Between(1, 9), .seq = prng.Between(1, 9), .sha256 = std::string(64, 'a')};
  }
  if (prng.Chance(1, 4)) journal.audit_head = "head";
  if (prng.Chance(1, 4)) {
    journal.unknown.push_back(
        {.key = "newer", .key_position = {}, .value = json::Value::List({json::Value()})});
  }
  return journal;
}

}  // namespace nstance
