// Our keys and certificates in the hands of the openssl program, and its own in ours.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crypto/certificate_authority.h"
#include "crypto/verify_peer.h"
#include "test/crypto/crypto_fixture.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::crypto {
namespace {

using nstance::test::ProcessOutput;
using nstance::test::RunProcess;
using nstance::test::TempDir;
using test::Agent;
using test::Authority;
using test::KeyOf;
using test::Must;
using test::Noon;
using test::Terms;

ProcessOutput Openssl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "openssl");
  return Must(RunProcess({.argv = std::move(arguments)}));
}

class OpensslTest : public ::testing::Test {
 protected:
  [[nodiscard]] ProcessOutput Verify(const std::string& leaf, const std::string& purpose) const {
    return Openssl({"verify", "-x509_strict", "-CAfile",
                    folder_.Write("ca.pem", ca_.certificate().ToPem()), "-no-CApath", "-no-CAstore",
                    "-purpose", purpose, "-attime", std::to_string(Noon().unix_seconds()),
                    folder_.Write("leaf.pem", leaf)});
  }

  TempDir folder_;
  CertificateAuthority ca_ = Authority();
};

TEST_F(OpensslTest, VerifiesOurCertificatesStrictly) {
  AgentSubject pool = Agent();
  pool.pool = PoolState::kUnclaimed;
  FileSubject file;
  file.common_name = "München & Co";
  file.organization = {"a", "b"};
  file.names = {.dns = {"*.example.com"}, .ip = {"fd00::1"}, .uri = {"spiffe://a/b"}};
  const PublicKey key = KeyOf(2).public_key();
  const std::string agent = Must(ca_.IssueClient(Agent(), key, Terms())).ToPem();
  const std::string server = Must(ca_.IssueServer({.hosts = {"10.0.2.2"}}, key, Terms())).ToPem();
  for (const std::string& leaf : {agent, Must(ca_.IssueClient(pool, key, Terms())).ToPem(),
                                  Must(ca_.IssueClient(test::Operator(), key, Terms())).ToPem(),
                                  Must(ca_.IssueFile(file, key, Terms())).ToPem()}) {
    const ProcessOutput output = Verify(leaf, "sslclient");
    EXPECT_EQ(output.exit_code, 0) << output.ToString();
  }
  EXPECT_EQ(Verify(server, "sslserver").exit_code, 0);
  EXPECT_NE(Verify(server, "sslclient").exit_code, 0) << "it can say no";
  EXPECT_NE(Verify(agent, "sslserver").exit_code, 0) << "it can say no";
}

TEST_F(OpensslTest, PrintsWhatWeMeant) {
  const auto leaf = Must(ca_.IssueClient(Agent(), KeyOf(2).public_key(), Terms()));
  const ProcessOutput output = Openssl({"x509", "-in", folder_.Write("leaf.pem", leaf.ToPem()),
                                        "-noout", "-text", "-nameopt", "RFC2253"});
  ASSERT_EQ(output.exit_code, 0) << output.ToString();
  for (const std::string_view line :
       {"Version: 3 (0x2)", "11:11:11:11:11:11:11:11:11:11:11:11:11:11:11:11",
        "Signature Algorithm: ED25519",
        "Issuer: CN=Nstance CA,O=Nstance Cluster example-cluster,C=US",
        "Not Before: Jan  1 11:55:00 2026 GMT", "Not After : Jan  2 12:00:00 2026 GMT",
        "Subject: CN=knc06bgm7733st2576nx5jht4ecjw,O=prod", "Public Key Algorithm: ED25519",
        "X509v3 Key Usage: critical\n                Digital Signature\n",
        "X509v3 Extended Key Usage: \n                TLS Web Client Authentication\n",
        "X509v3 Basic Constraints: critical\n                CA:FALSE\n",
        "X509v3 Subject Key Identifier:", "X509v3 Authority Key Identifier:",
        "1.3.6.1.4.1.999999.1: \n                ..agent\n"}) {
    EXPECT_NE(output.out.find(line), std::string::npos) << line << "\n" << output.out;
  }
}

TEST_F(OpensslTest, ReadsOurKeys) {
  const PrivateKey key = KeyOf(2);
  const Secret pem = key.ToPem();
  const ProcessOutput derived =
      Openssl({"pkey", "-in", folder_.Write("key.pem", AsText(pem.Reveal())), "-pubout"});
  EXPECT_EQ(derived.exit_code, 0) << derived.ToString();
  EXPECT_EQ(derived.out, key.public_key().ToPem());
  const ProcessOutput shown =
      Openssl({"pkey", "-pubin", "-in", folder_.Write("pub.pem", key.public_key().ToPem()),
               "-pubcheck", "-noout", "-text_pub"});
  EXPECT_EQ(shown.exit_code, 0) << shown.ToString();
  EXPECT_NE(shown.out.find("ED25519 Public-Key"), std::string::npos) << shown.out;
}

TEST_F(OpensslTest, ItsKeysAndRootsAreReadByUs) {
  const std::string key_file = (folder_.path() / "made.pem").string();
  const std::string root_file = (folder_.path() / "root.pem").string();
  ASSERT_EQ(Openssl({"genpkey", "-algorithm", "ed25519", "-out", key_file}).exit_code, 0);
  const ProcessOutput key_pem = Openssl({"pkey", "-in", key_file});
  PrivateKey key = Must(PrivateKey::FromPem(key_pem.out));
  EXPECT_EQ(Openssl({"pkey", "-in", key_file, "-pubout"}).out, key.public_key().ToPem());

  ASSERT_EQ(Openssl({"req", "-x509", "-new", "-key", key_file, "-subj", "/CN=Somebody's CA",
                     "-days", "3650", "-out", root_file})
                .exit_code,
            0);
  const ProcessOutput root_pem = Openssl({"x509", "-in", root_file});
  const auto roots = Must(TrustBundleFromPem(root_pem.out));
  const Timestamp start = roots.front().facts().not_before;
  const auto authority = Must(CertificateAuthority::Make(roots.front(), std::move(key)));
  const auto leaf = Must(
      authority.IssueClient(Agent(), KeyOf(2).public_key(), Terms(Duration::Hours(24), start)));
  const std::vector<Bytes> chain = {leaf.der()};
  const PeerVerdict verdict = VerifyPeer(
      {.chain = chain, .roots = roots, .now = start, .usage = PeerUsage::kClient, .source = {}});
  EXPECT_TRUE(verdict.identity.has_value()) << verdict.identity.error().ToString();
}

}  // namespace
}  // namespace nstance::crypto
