// The bytes of instance records: a vector of every member, tables of bad and of foreign records,
// round trips over seeds; then the phases.
#include "core/instance_record.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "crypto/checksum.h"
#include "crypto/registration_token.h"
#include "test/core/random_record.h"

namespace nstance {
namespace {

const std::string kIdText = "knc06bgm7733st2576nx5jht4ecjw";

RecordKey Key() {
  return {.tenant = TenantId::Parse("prod").value(), .instance_id = ParsePuidv7(kIdText).value()};
}

InstanceRecord Small() {
  InstanceRecord record{.instance_id = Key().instance_id,
                        .tenant = Key().tenant,
                        .group = GroupKey::Parse("workers").value()};
  record.created_at = Timestamp::FromUnix(1'767'225'600);
  record.last_updated = Timestamp::FromUnix(1'767'225'601);
  record.phase_at = Timestamp::FromUnix(1'767'225'602);
  record.epoch = 3;
  record.seq = 17;
  record.write_id = "AAECAwQFBgcICQoLDA0ODw";
  return record;
}

// The object without its checksum.
std::string Body(const InstanceRecord& record) {
  const std::string bytes = EncodeInstanceRecord(record);
  return bytes.substr(0, bytes.find(",\"checksum\""));
}

TEST(InstanceRecordTest, MembersStandInTheOrderOfTheFormat) {
  EXPECT_EQ(
      Body(Small()),
      R"({"instance_id":"knc06bgm7733st2576nx5jht4ecjw","tenant":"prod","group":"workers",)"
      R"("on_demand":false,"subnet_id":"","provider_instance_id":"","instance_type":"",)"
      R"("status":"pending","private_ipv4":"","private_ipv6":"","hostname":"",)"
      R"("created_at":"2026-01-01T00:00:00Z","last_updated":"2026-01-01T00:00:01Z",)"
      R"("config":{},"tags":null,"infra_config_hash":"","version":1,"phase":"creating",)"
      R"("phase_at":"2026-01-01T00:00:02Z","provider":"","nonce_sha256":"","request_sha256":"",)"
      R"("epoch":3,"seq":17,"write_id":"AAECAwQFBgcICQoLDA0ODw")");
  InstanceRecord full = Small();
  full.phase = InstancePhase::kGone;
  full.tags = {{"b", "2"}, {"a", "1"}};
  full.registered_at = full.created_at;
  full.public_key_pem = "PEM";
  full.cert_serial = "12";
  full.cert_expires_at = full.created_at;
  full.nonce = NonceClaims{"j", 1, 2, "h", {}};
  full.generation = 2;
  full.cert_issued_at = full.created_at;
  full.cert_scope = "instance";
  full.blocked = RecordMark{"identity_clone", full.created_at, {}};
  full.replaces = full.instance_id;
  full.request_id = "r";
  full.drain = RecordDrain{"3-7-1",
                           "scale-down",
                           full.created_at,
                           full.last_updated,
                           Duration::Minutes(5),
                           true,
                           true,
                           full.phase_at,
                           {}};
  full.deletion = RecordDeletion{"scale-down", full.phase_at, true, false, {}};
  full.pool = "spare";
  full.power = "running";
  full.claim = RecordClaim{.request_id = "c",
                           .claimed_at = full.created_at,
                           .claim_class = "claimed",
                           .group = full.group};
  full.failure = RecordFailure{"quota", "no", full.created_at, {}};
  const std::string body = Body(full);
  EXPECT_NE(body.find(R"("status":"deleting")"), std::string::npos);
  EXPECT_NE(body.find(R"("tags":{"a":"1","b":"2"},"infra_config_hash":"",)"
                      R"("registered_at":"2026-01-01T00:00:00Z","public_key_pem":"PEM",)"
                      R"("cert_serial":"12","cert_expires_at":"2026-01-01T00:00:00Z",)"
                      R"("version":1,"phase":"gone",)"),
            std::string::npos)
      << body;
  EXPECT_NE(
      body.find(
          R"("nonce_sha256":"","nonce":{"jti":"j","iat":1,"exp":2,"config_hash":"h"},)"
          R"("request_sha256":"","generation":2,"cert_issued_at":"2026-01-01T00:00:00Z",)"
          R"("cert_scope":"instance","blocked":{"reason":"identity_clone",)"
          R"("at":"2026-01-01T00:00:00Z"},"replaces":"knc06bgm7733st2576nx5jht4ecjw",)"
          R"("request_id":"r","drain":{"id":"3-7-1","reason":"scale-down",)"
          R"("started_at":"2026-01-01T00:00:00Z","delete_at":"2026-01-01T00:00:01Z",)"
          R"("length_ms":300000,"ordered":true,"counted":true,"acked_at":"2026-01-01T00:00:02Z"},)"
          R"("deletion":{"reason":"scale-down","started_at":"2026-01-01T00:00:02Z",)"
          R"("ordered":true,"counted":false},"pool":"spare","power":"running",)"
          R"("claim":{"request_id":"c","claimed_at":"2026-01-01T00:00:00Z","class":"claimed",)"
          R"("group":"workers"},"failure":{"code":"quota","message":"no",)"
          R"("at":"2026-01-01T00:00:00Z"},"epoch":3,)"),
      std::string::npos)
      << body;
}

TEST(InstanceRecordTest, WhatIsWrittenIsReadBackTheSame) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Prng prng(seed);
    const InstanceRecord record = RandomRecord(prng);
    const std::string bytes = EncodeInstanceRecord(record);
    const auto decoded = DecodeInstanceRecord(bytes, KeyOf(record));
    ASSERT_TRUE(decoded.has_value()) << seed << decoded.error().message;
    ASSERT_EQ(*decoded, record) << seed;
    ASSERT_EQ(EncodeInstanceRecord(*decoded), bytes) << seed;
  }
}

TEST(InstanceRecordTest, AChangedByteIsRefusedOrChangesNoKnownMember) {
  Prng prng(5);
  const InstanceRecord record = RandomRecord(prng);
  const std::string good = EncodeInstanceRecord(record);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = bytes[i] == 'x' ? 'y' : 'x';
    auto decoded = DecodeInstanceRecord(bytes, KeyOf(record));
    if (!decoded) {
      EXPECT_EQ(decoded.error().code, Code::kDataLoss);
      continue;
    }
    decoded->unknown = record.unknown;
    EXPECT_EQ(*decoded, record) << i;
    EXPECT_FALSE(DecodeInstanceRecord(good.substr(0, i), KeyOf(record)).has_value());
  }
}

// `bytes` with one text replaced, without a checksum.
std::string Changed(const std::string& from, const std::string& to) {
  std::string body = Body(Small()) + "}";
  const std::size_t at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return body.replace(at, from.size(), to);
}

TEST(InstanceRecordTest, WhatNoWriterMakesIsCorruptAndTheMemberIsNamed) {
  ASSERT_TRUE(DecodeInstanceRecord(Body(Small()) + "}", Key()).has_value());
  struct Row {
    std::string from;
    std::string to;
    std::string message;
  };
  const std::vector<Row> rows = {
      {R"("version":1)", R"("version":2)", "version: 2; this program reads 1"},
      {R"("version":1)", R"("version":"1")", "version: not a whole number"},
      {R"("phase":"creating")", R"("phase":"intended")", "phase: intended has no record"},
      {R"("phase":"creating")", R"("phase":"lost")", "phase: \"lost\" is no phase"},
      {R"("phase":"creating",)", "", "phase: missing"},
      {R"("phase_at":"2026-01-01T00:00:02Z",)", "", "phase_at: missing"},
      {R"("tenant":"prod")", R"("tenant":"dev")", "tenant: \"dev\", but the object's name says"},
      {kIdText, "knc06bgm7733st2576nx5jht4ecjj", "instance_id: "},
      {R"("group":"workers")", R"("group":"No")", "group: "},
      {R"("on_demand":false)", R"("on_demand":0)", "on_demand: not true or false"},
      {R"("on_demand":false,)", "", "on_demand: missing"},
      {R"("subnet_id":"")", R"("subnet_id":null)", "subnet_id: is null, not a string"},
      {R"("config":{})", R"("config":[])", "config: not an object"},
      {R"("tags":null)", R"("tags":{"a":1})", "tags.\"a\": not a string"},
      {R"("tags":null,)", "", "tags: missing"},
      {R"("nonce_sha256":"")", R"("nonce_sha256":"AB")", "nonce_sha256: not 64"},
      {R"("epoch":3)", R"("epoch":0)", "epoch: not a whole number from 1"},
      {R"("seq":17)", R"("seq":-1)", "seq: not a whole number"},
      {R"("epoch":3)", R"("epoch":3,"generation":0)", "generation: not a whole number from 1"},
      {R"("epoch":3)", R"("epoch":3,"power":"off")", "power: \"off\" is none of: running, stopped"},
      {R"("epoch":3)", R"("epoch":3,"cert_scope":"x")", "cert_scope: \"x\" is none of"},
      {R"("epoch":3)", R"("epoch":3,"replaces":"x")", "replaces: "},
      {R"("epoch":3)", R"("epoch":3,"drain":true)", "drain: is a boolean, not an object"},
      {R"("epoch":3)", R"("epoch":3,"drain":{"id":"1"})", "drain: reason: missing"},
      {R"("epoch":3)", R"("epoch":3,"blocked":{"reason":"x","at":"now"})", "blocked: at: "},
      {R"("epoch":3)", R"("epoch":3,"claim":{"group":"G"})", "claim: group: "},
      {R"("epoch":3)", R"("epoch":3,"nonce":{"jti":"j","iat":1.5})", "nonce: iat: "}};
  for (const Row& row : rows) {
    const auto decoded = DecodeInstanceRecord(Changed(row.from, row.to), Key());
    ASSERT_FALSE(decoded.has_value()) << row.to;
    EXPECT_EQ(decoded.error().code, Code::kDataLoss);
    EXPECT_EQ(decoded.error().message.find("corrupt instance record: " + row.message), 0U)
        << decoded.error().message;
  }
  for (const std::string bytes : {"", "{", "[]", "null", "{}"}) {
    EXPECT_FALSE(DecodeInstanceRecord(bytes, Key()).has_value()) << bytes;
  }
  std::string bytes = EncodeInstanceRecord(Small());
  bytes.replace(bytes.find("\"seq\":17"), 8, "\"seq\":18");
  EXPECT_EQ(DecodeInstanceRecord(bytes, Key()).error().message,
            "corrupt instance record: checksum: wrong");
}

TEST(InstanceRecordTest, TheOtherTenantsOrInstancesKeyIsRefused) {
  RecordKey other = Key();
  other.tenant = TenantId::Parse("dev").value();
  EXPECT_FALSE(DecodeInstanceRecord(EncodeInstanceRecord(Small()), other).has_value());
}

TEST(InstanceRecordTest, ThePhaseOfAForeignRecordFollowsFromWhatItHas) {
  const std::string head =
      R"({"instance_id":")" + kIdText + R"(","tenant":"prod","group":"workers")";
  const std::vector<std::pair<std::string, InstancePhase>> rows = {
      {"", InstancePhase::kCreating},
      {R"(,"status":"pending","provider_instance_id":"")", InstancePhase::kCreating},
      {R"(,"registered_at":"0001-01-01T00:00:00Z")", InstancePhase::kCreating},
      {R"(,"provider_instance_id":"i-1","status":"running")", InstancePhase::kProvisioned},
      {R"(,"provider_instance_id":"i-1","registered_at":"2026-01-01T00:00:00Z")",
       InstancePhase::kRegistered},
      {R"(,"registered_at":"2026-01-01T00:00:00Z","status":"deleting")", InstancePhase::kDeleting},
      {R"(,"phase":"draining")", InstancePhase::kDraining}};
  for (const auto& [rest, phase] : rows) {
    const auto decoded = DecodeInstanceRecord(head + rest + "}", Key());
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(decoded->phase, phase) << rest;
    EXPECT_EQ(decoded->epoch, 0);
    EXPECT_TRUE(decoded->request_sha256.empty());
    EXPECT_EQ(decoded->created_at, Key().instance_id.created_at());
  }
}

TEST(InstanceRecordTest, AForeignTokenIsHashedAndDroppedAndTheRestIsKept) {
  const std::string bytes = R"({"instance_id":")" + kIdText +
                            R"(","tenant":"prod","group":"workers","registration_jwt":"a.b.c",)"
                            R"("hostname":"h","somewhere":{"x":[1,2.5]},"config":null})";
  auto decoded = DecodeInstanceRecord(bytes, Key());
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_EQ(decoded->nonce_sha256, crypto::TokenSha256Hex("a.b.c"));
  decoded->epoch = 1;
  const std::string written = EncodeInstanceRecord(*decoded);
  EXPECT_EQ(written.find("a.b.c"), std::string::npos);
  EXPECT_EQ(written.find("registration_jwt"), std::string::npos);
  EXPECT_NE(written.find(R"("somewhere":{"x":[1,2.5]})"), std::string::npos);
  EXPECT_EQ(crypto::CheckChecksum(written), crypto::ChecksumState::kRight);
  EXPECT_EQ(DecodeInstanceRecord(written, Key()).value(), *decoded);
}

TEST(InstanceRecordTest, AWholeNumberWithAPointIsReadBackTheSame) {
  const std::string bytes = R"({"instance_id":")" + kIdText +
                            R"(","tenant":"prod","group":"workers",)"
                            R"("config":{"args":{"a":1.0,"b":1.152921504606847e18}},"x":2.0})";
  auto decoded = DecodeInstanceRecord(bytes, Key());
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  decoded->epoch = 1;
  const std::string written = EncodeInstanceRecord(*decoded);
  const auto again = DecodeInstanceRecord(written, Key());
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, *decoded);
  EXPECT_EQ(EncodeInstanceRecord(*again), written);
}

TEST(InstanceRecordTest, MembersOfANewerProgramAreKeptAlsoInsideObjects) {
  std::string body = Changed(R"("epoch":3)", R"("deletion":{"reason":"r","started_at":)"
                                             R"("2026-01-01T00:00:00Z","ordered":true,)"
                                             R"("counted":true,"by":"x"},"epoch":3,"new":7)");
  const auto decoded = DecodeInstanceRecord(body, Key());
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  const std::string written = EncodeInstanceRecord(*decoded);
  EXPECT_NE(written.find(R"("counted":true,"by":"x"})"), std::string::npos);
  EXPECT_NE(written.find(R"("write_id":"AAECAwQFBgcICQoLDA0ODw","new":7,"checksum")"),
            std::string::npos);
}

TEST(InstancePhaseTest, PhasesMoveOnlyAlongTheTable) {
  using enum InstancePhase;
  const std::vector<std::pair<InstancePhase, std::vector<InstancePhase>>> table = {
      {kIntended, {kCreating, kGone}},
      {kCreating, {kProvisioned, kRegistered, kFailed, kGone}},
      {kProvisioned, {kRegistered, kDeleting}},
      {kRegistered, {kDraining, kDeleting}},
      {kDraining, {kRegistered, kDeleting}},
      {kDeleting, {kGone}},
      {kGone, {}},
      {kFailed, {kGone}}};
  for (const auto& [from, allowed] : table) {
    for (int to = 0; to < 8; ++to) {
      const auto phase = static_cast<InstancePhase>(to);
      const bool may = from == phase || std::ranges::find(allowed, phase) != allowed.end();
      EXPECT_EQ(MayFollow(from, phase), may) << PhaseName(from) << " to " << PhaseName(phase);
    }
    EXPECT_EQ(ParsePhase(PhaseName(from)).value(), from);
    EXPECT_EQ(CountsTowardSize(from), from <= kRegistered);
  }
  EXPECT_FALSE(ParsePhase("").has_value());
}

}  // namespace
}  // namespace nstance
