// TLS material of one small cluster, valid now, made by our own authority.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "ports/rpc.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::grpc::test {

enum class Who : std::uint8_t {
  kNobody,    // No certificate.
  kAgent,     // crypto::test::kInstance of tenant prod.
  kOperator,  // Of tenant prod.
  kStranger,  // An agent of another authority with the same names.
  kServer,    // A server's certificate.
};

struct Moment {
  Timestamp now;
};

// One moment for all: the wall clock when it is first asked for.
inline const Moment& Materials() {
  static const Moment moment = {.now = RealLoop().WallNow()};
  return moment;
}

inline crypto::IssueTerms TermsNow(std::uint8_t serial, Duration life = Duration::Hours(24)) {
  return {.serial = crypto::test::SerialOf(serial), .issued_at = Materials().now, .life = life};
}

inline crypto::CertificateAuthority AuthorityNow(std::uint8_t key_number) {
  const crypto::CaSubject subject = {.common_name = "Nstance CA",
                                     .organization = {"Nstance Cluster example-cluster"}};
  crypto::PrivateKey key = crypto::test::KeyOf(key_number);
  crypto::IssueTerms terms = TermsNow(1, crypto::kDefaultCaLife);
  terms.issued_at = terms.issued_at - Duration::Hours(1);
  crypto::Certificate certificate = crypto::test::Must(crypto::IssueCa(subject, key, terms));
  return crypto::test::Must(
      crypto::CertificateAuthority::Make(std::move(certificate), std::move(key)));
}

inline crypto::Certificate Root() { return AuthorityNow(1).certificate(); }
inline crypto::Certificate OtherRoot() { return AuthorityNow(9).certificate(); }

inline RpcTls WithRoots(RpcTlsMaterial material, std::vector<crypto::Certificate> roots) {
  material.roots = std::move(roots);
  return std::make_shared<const RpcTlsMaterial>(std::move(material));
}

inline RpcTls ServerMaterial(std::uint8_t authority = 1) {
  auto key = std::make_shared<const crypto::PrivateKey>(crypto::test::KeyOf(50));
  const crypto::CertificateAuthority issuer = AuthorityNow(authority);
  return WithRoots({.chain = {crypto::test::Must(
                        issuer.IssueServer({.hosts = {}}, key->public_key(), TermsNow(0x50)))},
                    .key = key},
                   {issuer.certificate()});
}

inline RpcTls ClientMaterial(Who who) {
  if (who == Who::kNobody) return WithRoots({}, {Root()});
  if (who == Who::kServer) return ServerMaterial();
  auto key = std::make_shared<const crypto::PrivateKey>(crypto::test::KeyOf(60));
  const crypto::CertificateAuthority issuer = AuthorityNow(who == Who::kStranger ? 9 : 1);
  crypto::ClientSubject subject = crypto::test::Agent();
  if (who == Who::kOperator) subject = crypto::test::Operator();
  return WithRoots({.chain = {crypto::test::Must(
                        issuer.IssueClient(subject, key->public_key(), TermsNow(0x60)))},
                    .key = key},
                   {Root()});
}

// An agent of tenant prod whose id has that last but one character: 0-9 a-z but i, l, o, u.
inline RpcTls AgentMaterial(char mark) {
  std::string id(crypto::test::kInstance);
  id[id.size() - 2] = mark;
  auto key = std::make_shared<const crypto::PrivateKey>(crypto::test::KeyOf(61));
  const crypto::AgentSubject subject = {.tenant = crypto::test::Tenant("prod"),
                                        .instance = crypto::test::Must(ParsePuidv7(id))};
  return WithRoots({.chain = {crypto::test::Must(AuthorityNow(1).IssueClient(
                        subject, key->public_key(), TermsNow(static_cast<std::uint8_t>(mark))))},
                    .key = key},
                   {Root()});
}

}  // namespace nstance::grpc::test
