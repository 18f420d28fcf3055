// `cluster nonce` and `cluster register-operator` on a simulated store.
#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/object_layout.h"
#include "core/operator_record.h"
#include "crypto/envelope.h"
#include "crypto/registration_token.h"
#include "crypto/verify_peer.h"
#include "test/admin/storage_fixture.h"

namespace nstance::admin::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kFolder = "./temp/cli-operator-identity/";

class ClusterOperatorTest : public StorageTest {
 public:
  ClusterOperatorTest() { MakeCluster(); }

  // What a server would make of the token.
  Result<crypto::RegistrationClaims> Verify(std::string_view token) {
    const ClusterId cluster = *ClusterId::Parse("local");
    const crypto::KeyRing ring = {
        .current = *crypto::EncryptionKey::Parse(AsBytes(files.at("/data/bucket.key"))), .old = {}};
    const std::string sealed = *Object("secret/registration-nonce.key");
    auto opened = crypto::Open(
        ring, AsBytes(sealed),
        {.place = {.cluster = cluster, .object = "secret/registration-nonce.key"}, .source = {}});
    if (!opened) return Fail(opened.error());
    auto key = crypto::PrivateKey::FromPem(AsText(opened->plain.Reveal()));
    if (!key) return Fail(key.error());
    const std::array keys = {key->public_key()};
    return crypto::VerifyRegistrationToken(
        token, {.keys = keys,
                .now = WorldStart() + world.scheduler.now().since_zero(),
                .kind = crypto::TokenKind::kOperator,
                .source = {}});
  }
  std::string File(const std::string& name) const {
    const auto at = files.find(kFolder + name);
    return at == files.end() ? "(none)" : at->second;
  }
  // The names of objects that begin so.
  std::vector<std::string> Names(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : Everything()) {
      if (name.starts_with(prefix)) names.push_back(name);
    }
    return names;
  }
};

// --- nonce ---------------------------------------------------------------------------------------

TEST_F(ClusterOperatorTest, ANonceIsATokenThatServersAccept) {
  const Ending ending = Admin("cluster nonce --expiry 1h");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  const std::string token = File("nonce.jwt");
  const auto claims = Verify(token);
  ASSERT_TRUE(claims) << claims.error().ToString();
  EXPECT_EQ(claims->cluster, "local");
  EXPECT_EQ(claims->subject, "local");
  EXPECT_EQ(claims->tenant, DefaultTenant());
  EXPECT_EQ(claims->expires_at - claims->issued_at, Duration::Hours(1) + crypto::kTokenBackdate);
  EXPECT_THAT(ending.out, AllOf(HasSubstr("path        ./temp/cli-operator-identity/nonce.jwt\n"),
                                HasSubstr("tenant      default\n"), HasSubstr("expires_at  ")));
  EXPECT_THAT(Shown(ending), Not(HasSubstr(token)));
  EXPECT_EQ(Everything().size(), 4U) << "nothing is stored";
}

TEST_F(ClusterOperatorTest, WithADashOnlyTheTokenIsPrinted) {
  const Ending ending = Admin("cluster nonce --output -");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_THAT(ending.err, IsEmpty());
  ASSERT_TRUE(ending.out.ends_with('\n'));
  EXPECT_TRUE(Verify(ending.out.substr(0, ending.out.size() - 1)));
  const Ending as_json = Admin("cluster nonce --output - --json");
  EXPECT_TRUE(Verify(Text(Json(as_json), "token")));
}

TEST_F(ClusterOperatorTest, TheFileMayBeElsewhere) {
  ASSERT_EQ(Admin("cluster nonce -o /run/t.jwt").exit_code, 0);
  EXPECT_TRUE(Verify(files.at("/run/t.jwt")));
}

TEST_F(ClusterOperatorTest, BI87_AnExpiryOutOfRangeGivesNoToken) {
  for (const char* expiry : {"100y", "-5m", "0", "59s", "24h1s", "soon"}) {
    const Ending ending = Admin(std::string("cluster nonce --expiry=") + expiry);
    EXPECT_EQ(ending.exit_code, 2) << expiry;
    EXPECT_THAT(ending.err, HasSubstr("is not within 1m0s and 24h0m0s")) << expiry;
  }
  EXPECT_EQ(File("nonce.jwt"), "(none)");
}

TEST_F(ClusterOperatorTest, BI87_ATenantThatNobodyDefinesIsRefusedOrForced) {
  for (const char* command : {"cluster nonce", "cluster register-operator"}) {
    const Ending refused = Admin(std::string(command) + " --tenant prod");
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("no configuration defines the tenant prod"),
                                   HasSubstr("defined: default"), HasSubstr("--force")));
    EXPECT_EQ(changes, 0);
    const Ending forced = Admin(std::string(command) + " --tenant prod --force");
    EXPECT_EQ(forced.exit_code, 0) << Shown(forced);
    EXPECT_THAT(forced.err, StartsWith("Warning: no configuration defines the tenant prod"));
  }
}

TEST_F(ClusterOperatorTest, ATenantOfTheConfigurationIsFine) {
  std::string text = *Object("config/local-a.jsonc");
  text.replace(text.find("\"defaults\""), 0, "\"tenants\": { \"prod\": {} },\n  ");
  SetObject("config/local-a.jsonc", text);
  const Ending ending = Admin("cluster nonce --tenant prod -o -");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_EQ(Verify(ending.out.substr(0, ending.out.size() - 1))->tenant.text(), "prod");
}

TEST_F(ClusterOperatorTest, BI87_AnotherClusterGetsNoToken) {
  const Ending ending = Admin("cluster nonce --cluster-id other");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err,
              HasSubstr("no configuration in this store is of cluster other; found: local"));
  EXPECT_EQ(File("nonce.jwt"), "(none)");
}

TEST_F(ClusterOperatorTest, ConfigurationsThatDisagreeNeedAChoice) {
  std::string other = *Object("config/local-a.jsonc");
  other.replace(other.find("\"cluster_id\": \"local\""), 21, "\"cluster_id\": \"two\"");
  SetObject("config/b.jsonc", other);
  const Ending ending = Admin("cluster nonce");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err, HasSubstr("of several clusters (local, two); choose with --cluster-id"));
  EXPECT_EQ(Admin("cluster nonce --cluster-id local").exit_code, 0);
}

TEST_F(ClusterOperatorTest, WithoutConfigurationTheClusterHasToBeNamed) {
  Erase("config/local-a.jsonc");
  const Ending ending = Admin("cluster nonce --json");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err,
              AllOf(StartsWith("{\"error\":\"the store has no configuration"),
                    HasSubstr("--cluster-id"), HasSubstr("\"code\":\"FAILED_PRECONDITION\"")));
  EXPECT_THAT(ending.out, IsEmpty());
  const Ending named =
      Admin("cluster nonce --cluster-id local --key-provider file --key-source /data/bucket.key");
  EXPECT_EQ(named.exit_code, 0) << Shown(named);
}

TEST_F(ClusterOperatorTest, AMissingKeyIsToldWithWhatToDo) {
  Erase("config/local-a.jsonc");
  const Ending none = Admin("cluster nonce --cluster-id local");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err,
              HasSubstr("encryption key is missing: set NSTANCE_ENCRYPTION_KEY, or name"));
  const Ending unset = Admin("cluster nonce --cluster-id local --key-provider env");
  EXPECT_EQ(unset.exit_code, 1);
  EXPECT_THAT(unset.err, AllOf(HasSubstr("NSTANCE_ENCRYPTION_KEY: it is not set"),
                               HasSubstr("set NSTANCE_ENCRYPTION_KEY to the cluster's key")));
}

TEST_F(ClusterOperatorTest, AWrongKeyIsToldWithBothIds) {
  variables["WRONG"] = std::string(32, 'w');
  Erase("config/local-a.jsonc");
  const Ending ending =
      Admin("cluster nonce --key-provider env --key-source WRONG --cluster-id local");
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_THAT(ending.err,
              AllOf(HasSubstr("secret/registration-nonce.key"), HasSubstr("needs the key with id"),
                    HasSubstr("the key given (environment variable WRONG) has the id"),
                    HasSubstr("--key-source")));
}

TEST_F(ClusterOperatorTest, AClusterWithoutKeysIsToldAsSuch) {
  Erase("secret/registration-nonce.key");
  for (const char* command : {"cluster nonce", "cluster register-operator"}) {
    const Ending ending = Admin(command);
    EXPECT_EQ(ending.exit_code, 1);
    EXPECT_THAT(ending.err, AllOf(HasSubstr("registration-nonce.key"), HasSubstr("cluster init")));
  }
  EXPECT_FALSE(Object("secret/registration-nonce.key")) << "only init creates keys";
}

// --- register-operator ---------------------------------------------------------------------------

TEST_F(ClusterOperatorTest, TheIdentityIsOneThatServersAccept) {
  const Ending ending = Admin("cluster register-operator --json");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  const json::Value told = Json(ending);
  EXPECT_EQ(Text(told, "tenant"), "default");
  EXPECT_EQ(Text(told, "directory"), "./temp/cli-operator-identity");
  EXPECT_EQ(File("ca.crt"), *Object("ca.crt"));
  const auto leaf = crypto::Certificate::FromPem(File("identity.crt"));
  ASSERT_TRUE(leaf);
  const auto key = crypto::PrivateKey::FromPem(File("identity.key"));
  ASSERT_TRUE(key);
  EXPECT_EQ(leaf->facts().public_key, key->public_key());
  EXPECT_EQ(leaf->OnlyPart(crypto::SubjectAttribute::kCommonName), Text(told, "operator_id"));
  EXPECT_THAT(Text(told, "operator_id"), StartsWith("opr"));
  EXPECT_EQ(leaf->OnlyPart(crypto::SubjectAttribute::kOrganization), "default");
  EXPECT_EQ(FormatTimestamp(leaf->facts().not_after), Text(told, "expires_at"));
  // The record, from which the same certificate can be made again.
  const std::string name =
      OperatorKey(DefaultTenant(), OperatorStorageKey(key->public_key())).text();
  const auto record = DecodeOperatorRecord(*Object(name));
  ASSERT_TRUE(record) << record.error().ToString();
  EXPECT_EQ(record->registered_by, "nstance-admin");
  EXPECT_EQ(record->cert_serial, leaf->facts().serial.decimal());
  EXPECT_EQ(record->expires_at - record->registered_at, Duration::Hours(720));
  // And the log.
  const auto logs = Names("certlog/");
  ASSERT_EQ(logs.size(), 1U);
  EXPECT_THAT(*Object(logs[0]), AllOf(HasSubstr("\"certificate_name\":\"operator\""),
                                      HasSubstr(leaf->facts().serial.decimal())));
  EXPECT_THAT(Shown(ending), Not(HasSubstr("PRIVATE")));
  for (const auto& [object, bytes] : Everything()) {
    EXPECT_THAT(bytes, Not(HasSubstr("PRIVATE KEY"))) << object;
  }
}

TEST_F(ClusterOperatorTest, AgainGivesTheSameIdentity) {
  ASSERT_EQ(Admin("cluster register-operator").exit_code, 0);
  const Files disk = files;
  const auto before = Everything();
  const Ending again = Admin("cluster register-operator");
  EXPECT_EQ(again.exit_code, 0) << Shown(again);
  EXPECT_EQ(files, disk);
  EXPECT_EQ(Everything(), before);
}

TEST_F(ClusterOperatorTest, DiesAtEveryChangeAndIsRunAgain) {
  ASSERT_EQ(Admin("cluster register-operator").exit_code, 0);
  const int all = changes;
  EXPECT_EQ(all, 5) << "key, CA, record, log, certificate";
  for (int at = 1; at <= all; ++at) {
    for (const auto death : {Life::Death::kBefore, Life::Death::kAfter}) {
      SCOPED_TRACE(testing::Message() << "change " << at << ", " << static_cast<int>(death));
      AdminSite site(static_cast<std::uint64_t>(at));
      site.MakeCluster();
      const Ending cut = site.Admin("cluster register-operator", {.die_at = at, .death = death});
      EXPECT_EQ(cut.exit_code, 1) << Shown(cut);
      const Files disk = site.files;
      const Ending again = site.Admin("cluster register-operator");
      ASSERT_EQ(again.exit_code, 0) << Shown(again);
      for (const auto& [name, bytes] : disk) EXPECT_EQ(site.files.at(name), bytes) << name;
      // One registration, one certificate.
      int records = 0;
      int logs = 0;
      for (const auto& [name, bytes] : site.Everything()) {
        records += name.starts_with("operator/") ? 1 : 0;
        logs += name.starts_with("certlog/") ? 1 : 0;
      }
      EXPECT_EQ(records, 1);
      EXPECT_EQ(logs, 1);
      const auto key =
          crypto::PrivateKey::FromPem(site.files.at(std::string(kFolder) + "identity.key"));
      const auto leaf =
          crypto::Certificate::FromPem(site.files.at(std::string(kFolder) + "identity.crt"));
      EXPECT_EQ(leaf->facts().public_key, key->public_key());
    }
  }
}

TEST_F(ClusterOperatorTest, AfterItsEndTheIdentityGetsANewKey) {
  ASSERT_EQ(Admin("cluster register-operator --cert-ttl-hours 1").exit_code, 0);
  const std::string old_key = File("identity.key");
  world.scheduler.RunFor(Duration::Hours(2));
  const Ending again = Admin("cluster register-operator --cert-ttl-hours 1");
  EXPECT_EQ(again.exit_code, 0) << Shown(again);
  EXPECT_NE(File("identity.key"), old_key);
  EXPECT_EQ(Names("operator/").size(), 2U);
}

TEST_F(ClusterOperatorTest, AKeyOfItsOwnStaysWithItsOwner) {
  std::array<std::uint8_t, 32> seed{};
  seed.fill(7);
  const auto key = crypto::PrivateKey::FromSeed(seed);
  files["/k.pub"] = key.public_key().ToPem();
  const Ending ending = Admin(
      "cluster register-operator --public-key-file /k.pub --operator-id "
      "opr06bgm7733st2576nx5jht4ecjw --output-dir /out");
  ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  EXPECT_FALSE(files.contains("/out/identity.key"));
  EXPECT_EQ(crypto::Certificate::FromPem(files.at("/out/identity.crt"))->facts().public_key,
            key.public_key());
  EXPECT_THAT(ending.out, HasSubstr("opr06bgm7733st2576nx5jht4ecjw"));
  // Under another name it is somebody else.
  const Ending renamed = Admin(
      "cluster register-operator --public-key-file /k.pub --operator-id "
      "opr06awcb4f5hzmfey7qwt7s8a6q4 --output-dir /out");
  EXPECT_EQ(renamed.exit_code, 1);
  EXPECT_THAT(renamed.err, HasSubstr("registered as opr06bgm7733st2576nx5jht4ecjw"));
  // For another tenant as well.
  const Ending other =
      Admin("cluster register-operator --public-key-file /k.pub --tenant t --force");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("the key is registered for another tenant"));
}

TEST_F(ClusterOperatorTest, KeysThatAreNoneAreRefused) {
  const Ending missing = Admin("cluster register-operator --public-key-file /none");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("--public-key-file: /none: No such file"));
  files["/k.pub"] = "not a key";
  EXPECT_EQ(Admin("cluster register-operator --public-key-file /k.pub").exit_code, 1);
  files[std::string(kFolder) + "identity.key"] = "something else";
  const Ending odd = Admin("cluster register-operator");
  EXPECT_EQ(odd.exit_code, 1);
  EXPECT_THAT(odd.err, HasSubstr("choose another --output-dir"));
  EXPECT_EQ(File("identity.key"), "something else");
  EXPECT_THAT(Names("operator/"), IsEmpty());
}

TEST_F(ClusterOperatorTest, ALifeOutOfRangeIsABadLine) {
  for (const char* hours : {"0", "8761", "-1", "x"}) {
    const Ending ending = Admin(std::string("cluster register-operator --cert-ttl-hours=") + hours);
    EXPECT_EQ(ending.exit_code, 2) << hours;
    EXPECT_THAT(ending.err, HasSubstr("is no whole number from 1 to 8760")) << hours;
  }
}

}  // namespace
}  // namespace nstance::admin::test
