// SignOperatorToken: what an administrator hands to an operator that is to join a test's cluster:
// signed with the cluster's own token key, which is read from the sealed secret in its bucket.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "base/name.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "crypto/ed25519.h"
#include "crypto/envelope.h"
#include "crypto/registration_token.h"

namespace nstance::test {

struct OperatorTokenOrder {
  std::string bucket;          // The folder of the file store.
  std::string cluster;         // Its id.
  std::string encryption_key;  // Of the secrets.
  std::string tenant = "default";
  Timestamp now;
  std::string token_id = "AAECAwQFBgcICQoLDA0ODw";  // 16 bytes.
};

[[nodiscard]] inline Result<std::string> SignOperatorToken(const OperatorTokenOrder& order) {
  const std::string name = "secret/registration-nonce.key";
  std::ifstream file(order.bucket + "/" + name, std::ios::binary);
  if (!file) return Fail(NotFound(name + " is not in the bucket yet"));
  const std::string sealed{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSIGN_OR_RETURN(const ClusterId cluster, ClusterId::Parse(order.cluster));
  ASSIGN_OR_RETURN(const TenantId tenant, TenantId::Parse(order.tenant));
  ASSIGN_OR_RETURN(crypto::EncryptionKey key,
                   crypto::EncryptionKey::Parse(AsBytes(order.encryption_key)));
  const crypto::KeyRing keys = {.current = std::move(key), .old = {}};
  ASSIGN_OR_RETURN(const crypto::OpenedSecret opened,
                   crypto::Open(keys, AsBytes(sealed),
                                {.place = {.cluster = cluster, .object = name}, .source = {}}));
  ASSIGN_OR_RETURN(const crypto::PrivateKey signer,
                   crypto::PrivateKey::FromPem(AsText(opened.plain.Reveal())));
  const Timestamp issued = order.now - crypto::kTokenBackdate;
  return crypto::SignRegistrationToken({.subject = order.cluster,
                                        .expires_at = order.now + Duration::Hours(3),
                                        .not_before = issued,
                                        .issued_at = issued,
                                        .token_id = order.token_id,
                                        .kind = crypto::TokenKind::kOperator,
                                        .config_hash = {},
                                        .cluster = order.cluster,
                                        .shard = {},
                                        .group = {},
                                        .tenant = tenant},
                                       signer);
}

}  // namespace nstance::test
