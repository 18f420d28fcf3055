// PEM, keys, certificates and VerifyPeer over any bytes. What our reader accepts is compared with
// OpenSSL's. A certificate is also signed anew by the trusted root, so that changed contents reach
// the checks behind the signature.
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/text.h"
#include "crypto/certificate_authority.h"
#include "crypto/der.h"
#include "crypto/pem.h"
#include "crypto/verify_peer.h"

namespace nstance::crypto {
namespace {

using View = std::span<const std::uint8_t>;

const Timestamp kNow = Timestamp::FromUnix(1'767'268'800);  // 2026-01-01T12:00:00Z

PrivateKey RootKey() {
  std::array<std::uint8_t, PrivateKey::kSeedSize> seed{};
  seed.fill(1);
  return PrivateKey::FromSeed(seed);
}

const Certificate& Root() {
  static const Certificate root = [] {
    const IssueTerms terms = {.serial = SerialNumber::One(),
                              .issued_at = kNow - Duration::Hours(1),
                              .life = kDefaultCaLife};
    const CaSubject subject = {.common_name = "Nstance CA",
                               .organization = {"Nstance Cluster example-cluster"}};
    return IssueCa(subject, RootKey(), terms).value();
  }();
  return root;
}

std::int64_t UnixSeconds(const ASN1_TIME* time) {
  std::tm parts{};
  CHECK(ASN1_TIME_to_tm(time, &parts) == 1);
  return timegm(&parts);
}

std::string Decimal(const ASN1_INTEGER* serial) {
  BIGNUM* number = ASN1_INTEGER_to_BN(serial, nullptr);
  char* text = BN_bn2dec(number);
  const std::string decimal = text;
  OPENSSL_free(text);
  BN_free(number);
  return decimal;
}

// OpenSSL refuses some contents that we do not look at (a malformed issuer); where both read, they
// agree.
void CompareWithOpenssl(const Certificate& certificate) {
  const unsigned char* at = certificate.der().data();
  const std::unique_ptr<X509, decltype(&X509_free)> x509(
      d2i_X509(nullptr, &at, static_cast<long>(certificate.der().size())), X509_free);
  ERR_clear_error();
  if (x509 == nullptr) return;
  const CertificateFacts& facts = certificate.facts();
  CHECK(Decimal(X509_get0_serialNumber(x509.get())) == facts.serial.decimal());
  CHECK(UnixSeconds(X509_get0_notBefore(x509.get())) == facts.not_before.unix_seconds());
  CHECK(UnixSeconds(X509_get0_notAfter(x509.get())) == facts.not_after.unix_seconds());
  CHECK(X509_NAME_entry_count(X509_get_subject_name(x509.get())) ==
        static_cast<int>(facts.subject.size()));
  if ((X509_get_extension_flags(x509.get()) & EXFLAG_INVALID) == 0) {
    CHECK(((X509_get_extension_flags(x509.get()) & EXFLAG_CA) != 0) == facts.is_ca);
    const std::uint32_t usage = X509_get_extended_key_usage(x509.get());
    const bool present = usage != UINT32_MAX;
    CHECK((present && (usage & XKU_SSL_CLIENT) != 0) == facts.client_auth);
    CHECK((present && (usage & XKU_SSL_SERVER) != 0) == facts.server_auth);
  }
  if (facts.public_key.has_value()) {
    PublicKey::Raw raw{};
    std::size_t size = raw.size();
    CHECK(EVP_PKEY_get_raw_public_key(X509_get0_pubkey(x509.get()), raw.data(), &size) == 1);
    CHECK(raw == facts.public_key->raw());
  }
  ERR_clear_error();
}

PeerVerdict Verify(const Bytes& leaf, PeerUsage usage) {
  const std::array<Bytes, 1> chain = {leaf};
  PeerVerdict verdict = VerifyPeer(
      {.chain = chain, .roots = {&Root(), 1}, .now = kNow, .usage = usage, .source = {}});
  CHECK(ERR_peek_error() == 0, "the error queue belongs to the connection");
  CHECK(verdict.chain.has_value() || !verdict.identity.has_value());
  return verdict;
}

// An identity is never more than the bytes of a certificate that our root signed.
void CheckIdentity(const Bytes& leaf) {
  (void)Verify(leaf, PeerUsage::kServer);
  const PeerVerdict verdict = Verify(leaf, PeerUsage::kClient);
  if (!verdict.identity.has_value()) return;
  const Result<Certificate> certificate = Certificate::FromDer(leaf);
  CHECK(certificate.has_value());
  CHECK(certificate->facts().client_auth && !certificate->facts().is_ca);
  CHECK(certificate->OnlyPart(SubjectAttribute::kCommonName) == verdict.identity->id);
  CHECK(certificate->OnlyPart(SubjectAttribute::kOrganization) == verdict.identity->tenant.text());
  CHECK(certificate->facts().roles.size() == 1);
}

// The same contents under the signature of the root; nothing when the outer form is broken.
void CheckSignedAnew(View input) {
  static const PrivateKey key = RootKey();
  const auto outer = der::ReadOnly(input, der::kSequence, "certificate");
  if (!outer.has_value()) return;
  der::Reader reader(outer->content);
  const auto contents = reader.Expect(der::kSequence, "contents");
  if (!contents.has_value()) return;
  const auto algorithm = reader.Expect(der::kSequence, "algorithm");
  if (!algorithm.has_value()) return;
  CheckIdentity(der::Encode(der::kSequence, {contents->whole, algorithm->whole,
                                             der::EncodeWholeBits(key.Sign(contents->whole))}));
}

void Check(View input) {
  const Result<PublicKey> key = PublicKey::FromSpki(input);
  if (key.has_value()) {
    const Spki again = key->ToSpki();
    CHECK(AsText(again) == AsText(input));
  }
  (void)PublicKey::FromRaw(input);
  (void)PublicKey::FromPem(AsText(input));
  (void)PrivateKey::FromPem(AsText(input));
  const Result<Certificate> from_pem = Certificate::FromPem(AsText(input));
  if (from_pem.has_value()) {
    const std::string again = from_pem->ToPem();
    CHECK(again == AsText(input) || again == std::string(AsText(input)) + "\n");
  }
  const auto bundle = TrustBundleFromPem(AsText(input));
  if (bundle.has_value()) CHECK(!bundle->empty() && bundle->size() <= kMaxTrustBundleRoots);
  const Result<Certificate> certificate = Certificate::FromDer(input);
  if (certificate.has_value()) {
    CompareWithOpenssl(*certificate);
    CHECK(Certificate::FromPem(certificate->ToPem()).has_value() ||
          certificate->ToPem().size() > kCertificatePem.max_bytes);
  }
  CheckIdentity(Bytes(input.begin(), input.end()));
  CheckSignedAnew(input);
}

}  // namespace
}  // namespace nstance::crypto

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::crypto::Check({data, size});
  return 0;
}
