#include "crypto/verify_peer.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/puidv7.h"
#include "crypto/clock_skew.h"
#include "crypto/der.h"
#include "crypto/openssl_error_scope.h"

namespace nstance::crypto {
namespace {

struct X509Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct StoreFree {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};
struct StoreContextFree {
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
};
struct StackFree {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_pop_free(stack, X509_free); }
};
using X509Handle = std::unique_ptr<X509, X509Free>;
using StackHandle = std::unique_ptr<STACK_OF(X509), StackFree>;

// 112 bits: refuses intermediates with short RSA keys or signatures over SHA-1.
constexpr int kSecurityLevel = 2;

std::unexpected<Error> Refuse(std::string message) {
  return Fail(Unauthenticated(std::move(message)));
}

bool IsValidAt(const CertificateFacts& facts, Timestamp now) {
  return now + kClockSkew >= facts.not_before && now - kClockSkew <= facts.not_after;
}

Status CheckListLimits(std::span<const Bytes> chain) {
  if (chain.empty()) return Refuse("no certificate was presented");
  if (chain.size() > kMaxChainCertificates) {
    return Fail(ResourceExhausted(fmt::format("{} certificates presented, {} are allowed",
                                              chain.size(), kMaxChainCertificates)));
  }
  std::size_t bytes = 0;
  for (const Bytes& der : chain) bytes += der.size();
  if (bytes > kMaxChainBytes) {
    return Fail(ResourceExhausted(
        fmt::format("{} bytes of certificates presented, {} are allowed", bytes, kMaxChainBytes)));
  }
  return {};
}

Result<std::vector<Certificate>> ParseChain(std::span<const Bytes> chain) {
  std::vector<Certificate> parsed;
  for (const Bytes& der : chain) {
    Result<Certificate> certificate = Certificate::FromDer(der);
    if (!certificate.has_value()) {
      return Refuse(fmt::format("certificate {} of the chain: {}", parsed.size() + 1,
                                certificate.error().message));
    }
    parsed.push_back(*std::move(certificate));
  }
  return parsed;
}

Status CheckLeaf(const Certificate& leaf, const PeerEvidence& evidence) {
  const CertificateFacts& facts = leaf.facts();
  if (!facts.public_key.has_value()) return Refuse("leaf: " + facts.key_problem);
  if (facts.is_ca) return Refuse("leaf is the certificate of a CA");
  const bool client = evidence.usage == PeerUsage::kClient;
  if (client ? !facts.client_auth : !facts.server_auth) {
    return Refuse(
        fmt::format("leaf has no extended key usage {}", client ? "clientAuth" : "serverAuth"));
  }
  if (!IsValidAt(facts, evidence.now)) {
    return Refuse(fmt::format("leaf is valid from {} to {}, now is {}",
                              FormatTimestamp(facts.not_before), FormatTimestamp(facts.not_after),
                              FormatTimestamp(evidence.now)));
  }
  if (facts.not_after < facts.not_before || facts.not_after - facts.not_before > kMaxVerifiedLife) {
    return Refuse(fmt::format("leaf has a life of {}, {} are allowed",
                              FormatDuration(facts.not_after - facts.not_before),
                              FormatDuration(kMaxVerifiedLife)));
  }
  return {};
}

Result<X509Handle> ToX509(const Certificate& certificate) {
  const unsigned char* at = certificate.der().data();
  const auto size = static_cast<long>(certificate.der().size());
  X509Handle handle(d2i_X509(nullptr, &at, size));
  if (handle == nullptr || at != certificate.der().data() + size) {
    return Refuse("certificate is not well formed");
  }
  return handle;
}

// Roots stay the same for months: each thread keeps the last ones that it has parsed.
Result<X509Handle> RootToX509(const Certificate& root) {
  struct Kept {
    Bytes der;
    X509Handle handle;
  };
  constexpr std::size_t kMostKept = 8;  // Two full trust bundles.
  thread_local std::vector<Kept> kept;
  auto at = std::ranges::find(kept, root.der(), &Kept::der);
  if (at == kept.end()) {
    ASSIGN_OR_RETURN(X509Handle parsed, ToX509(root));
    if (kept.size() == kMostKept) kept.erase(kept.begin());
    kept.push_back({.der = root.der(), .handle = std::move(parsed)});
    at = std::prev(kept.end());
  }
  X509_up_ref(at->handle.get());
  return X509Handle(at->handle.get());
}

// What is verified must be what was judged: a leaf of other bytes is parsed from the bytes.
Result<X509Handle> LeafToX509(const Certificate& leaf, X509* parsed) {
  if (parsed == nullptr || i2d_X509(parsed, nullptr) != static_cast<int>(leaf.der().size())) {
    return ToX509(leaf);
  }
  Bytes der(leaf.der().size());
  unsigned char* at = der.data();
  i2d_X509(parsed, &at);
  if (der != leaf.der()) return ToX509(leaf);
  X509_up_ref(parsed);
  return X509Handle(parsed);
}

// A certificate may stand above another one only if it is a CA's and valid now. Those that may not
// are not offered to the chain builder at all.
bool MayIssue(const Certificate& certificate, Timestamp now) {
  const CertificateFacts& facts = certificate.facts();
  return facts.is_ca && facts.may_sign && IsValidAt(facts, now);
}

// Those of the candidates that may issue.
Result<StackHandle> OfferIssuers(std::span<const Certificate> candidates, Timestamp now) {
  StackHandle stack(sk_X509_new_null());
  CHECK(stack != nullptr, "no memory");
  for (const Certificate& candidate : candidates) {
    if (!MayIssue(candidate, now)) continue;
    ASSIGN_OR_RETURN(X509Handle handle, ToX509(candidate));
    CHECK(sk_X509_push(stack.get(), handle.release()) > 0, "no memory");
  }
  return stack;
}

// Signatures, names, path lengths, name constraints, critical extensions and nested key usages are
// OpenSSL's part; time is not, since it knows no tolerance.
Status VerifyWithOpenssl(X509* leaf, STACK_OF(X509) * root, STACK_OF(X509) * untrusted,
                         PeerUsage usage) {
  const std::unique_ptr<X509_STORE, StoreFree> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, StoreContextFree> context(X509_STORE_CTX_new());
  CHECK(store != nullptr && context != nullptr, "no memory");
  CHECK(X509_STORE_CTX_init(context.get(), store.get(), leaf, untrusted) == 1, "no memory");
  // Only this is trusted; the empty store has no look-up that could find others.
  X509_STORE_CTX_set0_trusted_stack(context.get(), root);
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_NO_CHECK_TIME);
  X509_VERIFY_PARAM_set_auth_level(parameters, kSecurityLevel);
  X509_VERIFY_PARAM_set_depth(parameters, static_cast<int>(kMaxChainCertificates));
  X509_VERIFY_PARAM_set_purpose(
      parameters, usage == PeerUsage::kClient ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER);
  if (X509_verify_cert(context.get()) == 1) return {};
  return Refuse(fmt::format(
      "chain: {}", X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))));
}

// Each root is tried by itself: two roots of one name, as after a rotation, would otherwise hide
// each other when a leaf does not say which key signed it.
Status VerifyChain(std::span<const Certificate> chain, const PeerEvidence& evidence) {
  const OpensslErrorScope errors;
  RETURN_IF_ERROR(CheckLeaf(chain.front(), evidence));
  ASSIGN_OR_RETURN(const X509Handle leaf, LeafToX509(chain.front(), evidence.parsed_leaf));
  ASSIGN_OR_RETURN(const StackHandle untrusted, OfferIssuers(chain.subspan(1), evidence.now));
  Status verified = Refuse("chain: no root is valid now");
  for (const Certificate& root : evidence.roots) {
    if (!MayIssue(root, evidence.now)) continue;
    ASSIGN_OR_RETURN(X509Handle handle, RootToX509(root));
    const StackHandle trusted(sk_X509_new_null());
    CHECK(trusted != nullptr && sk_X509_push(trusted.get(), handle.get()) > 0, "no memory");
    static_cast<void>(handle.release());  // The stack's now.
    verified = VerifyWithOpenssl(leaf.get(), trusted.get(), untrusted.get(), evidence.usage);
    if (verified.has_value()) break;
  }
  return verified;
}

// The only value of an attribute; nothing when there is none.
Result<std::optional<std::string_view>> OnlyText(const CertificateFacts& facts,
                                                 SubjectAttribute attribute,
                                                 std::string_view what) {
  std::optional<std::string_view> found;
  for (const SubjectPart& part : facts.subject) {
    if (part.attribute != attribute) continue;
    if (found.has_value()) return Refuse(fmt::format("subject has more than one {}", what));
    if (part.string_tag != der::kUtf8String && part.string_tag != der::kPrintableString) {
      return Refuse(
          fmt::format("{} of the subject is of string type {:#04x}", what, part.string_tag));
    }
    if (part.value.contains('\0')) return Refuse(fmt::format("{} of the subject holds NUL", what));
    found = part.value;
  }
  return found;
}

Result<Role> ReadRole(const CertificateFacts& facts) {
  if (facts.roles.size() != 1) {
    return Refuse(fmt::format("{} role extensions, one belongs there", facts.roles.size()));
  }
  for (const Role role : {Role::kAgent, Role::kOperator}) {
    if (std::ranges::equal(facts.roles.front(), RoleExtension(role))) return role;
  }
  return Refuse("role extension is not one that is known");
}

Status CheckId(Role role, std::string_view id) {
  if (role == Role::kAgent) {
    if (ParsePuidv7(id).has_value()) return {};
    return Refuse(fmt::format("CN {} of an agent is not an instance id", Quote(id)));
  }
  if (ClusterId::Parse(id).has_value() || ParsePuidv7(id, "opr").has_value()) return {};
  return Refuse(fmt::format("CN {} of an operator is not a cluster id", Quote(id)));
}

Result<PeerIdentity> ReadIdentity(const Certificate& leaf) {
  const CertificateFacts& facts = leaf.facts();
  ASSIGN_OR_RETURN(const auto name, OnlyText(facts, SubjectAttribute::kCommonName, "CN"));
  ASSIGN_OR_RETURN(const auto organization, OnlyText(facts, SubjectAttribute::kOrganization, "O"));
  ASSIGN_OR_RETURN(const auto unit, OnlyText(facts, SubjectAttribute::kOrganizationalUnit, "OU"));
  if (!name.has_value()) return Refuse("subject has no CN");
  if (!organization.has_value()) return Refuse("subject has no O");
  ASSIGN_OR_RETURN(const Role role, ReadRole(facts));
  Result<TenantId> tenant = TenantId::Parse(*organization);
  if (!tenant.has_value()) return Refuse("O of the subject: " + tenant.error().message);
  RETURN_IF_ERROR(CheckId(role, *name));
  if (unit.has_value() && (role != Role::kAgent || *unit != "pool")) {
    return Refuse(fmt::format("OU {} of the subject is not known", Quote(*unit)));
  }
  CHECK(facts.public_key.has_value(), "identity of an unverified leaf");
  return PeerIdentity{.role = role,
                      .tenant = *std::move(tenant),
                      .id = std::string(*name),
                      .serial = facts.serial.decimal(),
                      .key_sha256 = facts.public_key->SpkiSha256(),
                      .not_after = facts.not_after,
                      .pool = unit.has_value() ? PoolState::kUnclaimed : PoolState::kNone};
}

PeerVerdict ChainRefused(const Error& error) {
  return {.chain = Fail(error), .identity = Fail(error)};
}

PeerVerdict Judge(const PeerEvidence& evidence) {
  if (Status limits = CheckListLimits(evidence.chain); !limits.has_value()) {
    return ChainRefused(limits.error());
  }
  Result<std::vector<Certificate>> chain = ParseChain(evidence.chain);
  if (!chain.has_value()) return ChainRefused(chain.error());
  if (Status verified = VerifyChain(*chain, evidence); !verified.has_value()) {
    return ChainRefused(verified.error());
  }
  if (evidence.usage == PeerUsage::kServer) {
    return {.chain = {}, .identity = Refuse("a server has no identity")};
  }
  return {.chain = {}, .identity = ReadIdentity(chain->front())};
}

}  // namespace

PeerVerdict VerifyPeer(const PeerEvidence& evidence) {
  PeerVerdict verdict = Judge(evidence);
  if (!verdict.chain.has_value()) {
    if (verdict.chain.error().code == Code::kResourceExhausted) {
      evidence.source.Limit("certificate-chain");
    } else {
      evidence.source.Bad("certificate-chain");
    }
  } else if (evidence.usage == PeerUsage::kClient && !verdict.identity.has_value()) {
    evidence.source.Bad("certificate-identity");
  }
  return verdict;
}

}  // namespace nstance::crypto
