#include "crypto/ed25519.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <openssl/bn.h>
#include <openssl/decoder.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "crypto/der.h"
#include "crypto/openssl_error_scope.h"
#include "crypto/pem.h"

namespace nstance::crypto {
namespace {

// What stands before the 32 key bytes in the one form that is accepted.
constexpr std::array<std::uint8_t, 12> kSpkiPrefix = {0x30, 0x2A, 0x30, 0x05, 0x06, 0x03,
                                                      0x2B, 0x65, 0x70, 0x03, 0x21, 0x00};
constexpr std::array<std::uint8_t, 16> kPkcs8Prefix = {
    0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

struct Algorithm {
  std::string_view name;
  std::initializer_list<std::uint8_t> oid;
};

std::string_view AlgorithmName(der::View oid) {
  static const std::array<Algorithm, 7> kKnown = {
      {{"Ed25519", {0x2B, 0x65, 0x70}},
       {"Ed448", {0x2B, 0x65, 0x71}},
       {"X25519", {0x2B, 0x65, 0x6E}},
       {"X448", {0x2B, 0x65, 0x6F}},
       {"RSA", {0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01}},
       {"RSA-PSS", {0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0A}},
       {"elliptic curve (ECDSA)", {0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01}}}};
  for (const Algorithm& known : kKnown) {
    if (std::ranges::equal(oid, known.oid)) return known.name;
  }
  return "unknown";
}

// Why `der` is not the form that belongs here. Only for the message: the decision has been made.
Error WrongForm(der::View der, std::string_view what) {
  const auto algorithm = [&]() -> Result<der::View> {
    ASSIGN_OR_RETURN(const auto outer, der::ReadOnly(der, der::kSequence, what));
    der::Reader reader(outer.content);
    if (reader.NextIs(der::kInteger)) RETURN_IF_ERROR(der::ReadInteger(reader, "version"));
    ASSIGN_OR_RETURN(const auto identifier, reader.Expect(der::kSequence, "algorithm"));
    der::Reader inner(identifier.content);
    ASSIGN_OR_RETURN(const auto oid, inner.Expect(der::kOid, "algorithm"));
    return oid.content;
  }();
  if (!algorithm.has_value()) return algorithm.error();
  const std::string_view name = AlgorithmName(*algorithm);
  if (name == "Ed25519") {
    return InvalidArgument(fmt::format("{} is not in the one accepted form of Ed25519", what));
  }
  return InvalidArgument(
      fmt::format("{} is of algorithm {}, only Ed25519 is accepted", what, name));
}

struct BigNumberFree {
  void operator()(BIGNUM* number) const { BN_free(number); }
};
using BigNumber = std::unique_ptr<BIGNUM, BigNumberFree>;

struct ContextFree {
  void operator()(BN_CTX* context) const { BN_CTX_free(context); }
};

BigNumber FromDecimal(const char* decimal) {
  BIGNUM* number = nullptr;
  CHECK(BN_dec2bn(&number, decimal) > 0, "constant {}", decimal);
  return BigNumber(number);
}

// The field of the curve: p = 2^255 - 19.
const BIGNUM* FieldPrime() {
  static const BigNumber prime =
      FromDecimal("57896044618658097711785492504343953926634992332820282019728792003956564819949");
  return prime.get();
}

// d of -x^2 + y^2 = 1 + d x^2 y^2.
const BIGNUM* CurveConstant() {
  static const BigNumber d =
      FromDecimal("37095705934669439343138083508754565189542113879843219016388785533085940283555");
  return d.get();
}

// The y of the points whose order divides 8: with them as key, signatures can be made by anybody.
bool IsSmallOrder(const BIGNUM* y) {
  static const std::array<BigNumber, 5> kSmall = {
      FromDecimal("0"), FromDecimal("1"),
      FromDecimal("57896044618658097711785492504343953926634992332820282019728792003956564819948"),
      FromDecimal("2707385501144840649318225287225658788936804267575313519463743609750303402022"),
      FromDecimal("55188659117513257062467267217118295137698188065244968500265048394206261417927")};
  return std::ranges::any_of(kSmall,
                             [y](const BigNumber& small) { return BN_cmp(y, small.get()) == 0; });
}

// x^2 = (y^2 - 1) / (d y^2 + 1) has a solution if and only if the product of the two is a square.
bool HasPoint(const BIGNUM* y) {
  const std::unique_ptr<BN_CTX, ContextFree> context(BN_CTX_new());
  const BigNumber square(BN_new());
  const BigNumber numerator(BN_new());
  const BigNumber denominator(BN_new());
  const BigNumber product(BN_new());
  const BIGNUM* p = FieldPrime();
  CHECK(context && square && numerator && denominator && product, "no memory");
  const bool done =
      BN_mod_sqr(square.get(), y, p, context.get()) == 1 &&
      BN_mod_sub(numerator.get(), square.get(), BN_value_one(), p, context.get()) == 1 &&
      BN_mod_mul(denominator.get(), square.get(), CurveConstant(), p, context.get()) == 1 &&
      BN_mod_add(denominator.get(), denominator.get(), BN_value_one(), p, context.get()) == 1 &&
      BN_mod_mul(product.get(), numerator.get(), denominator.get(), p, context.get()) == 1;
  CHECK(done, "arithmetic modulo p");
  return BN_kronecker(product.get(), p, context.get()) == 1;
}

Status ComputeCheckPoint(const PublicKey::Raw& raw) {
  if (std::ranges::all_of(raw, [](std::uint8_t byte) { return byte == 0; })) {
    return Fail(InvalidArgument("public key is all zero"));
  }
  PublicKey::Raw bytes = raw;
  bytes.back() &= 0x7FU;  // The top bit is the sign of x.
  const BigNumber y(BN_lebin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  CHECK(y != nullptr, "no memory");
  if (BN_cmp(y.get(), FieldPrime()) >= 0) {
    return Fail(InvalidArgument("public key is not in reduced form"));
  }
  if (IsSmallOrder(y.get())) return Fail(InvalidArgument("public key is a point of small order"));
  if (!HasPoint(y.get())) return Fail(InvalidArgument("public key is not a point on the curve"));
  return {};
}

// One key is read several times while its holder joins, and again whenever it connects: each thread
// remembers some that were found good. A key has one place, so others can only take it.
Status CheckPoint(const PublicKey::Raw& raw) {
  constexpr std::size_t kPlaces = 256;
  thread_local std::vector<PublicKey::Raw> good(kPlaces);  // All zero: none, and never good.
  PublicKey::Raw& place = good[raw.front()];
  if (place == raw && place != PublicKey::Raw{}) return {};
  RETURN_IF_ERROR(ComputeCheckPoint(raw));
  place = raw;
  return {};
}

struct DigestContextFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using DigestContext = std::unique_ptr<EVP_MD_CTX, DigestContextFree>;

}  // namespace

Result<PublicKey> PublicKey::FromRaw(std::span<const std::uint8_t> raw) {
  if (raw.size() != kSize) {
    return Fail(InvalidArgument(
        fmt::format("public key has {} bytes, {} belong there", raw.size(), kSize)));
  }
  Raw bytes{};
  std::ranges::copy(raw, bytes.begin());
  RETURN_IF_ERROR(CheckPoint(bytes));
  return PublicKey(bytes);
}

Result<PublicKey> PublicKey::FromSpki(std::span<const std::uint8_t> der) {
  if (der.size() != kSpkiSize || !std::ranges::equal(der.first(kSpkiPrefix.size()), kSpkiPrefix)) {
    return Fail(WrongForm(der, "public key"));
  }
  return FromRaw(der.subspan(kSpkiPrefix.size()));
}

Result<PublicKey> PublicKey::FromPem(std::string_view pem, InputSource source) {
  ASSIGN_OR_RETURN(const Bytes der, ReadPem(pem, kPublicKeyPem, source));
  Result<PublicKey> key = FromSpki(der);
  if (!key.has_value()) source.Bad("public-key");
  return key;
}

Spki PublicKey::ToSpki() const {
  Spki der{};
  const auto rest = std::ranges::copy(kSpkiPrefix, der.begin()).out;
  std::ranges::copy(raw_, rest);
  return der;
}

std::string PublicKey::ToPem() const { return WritePem(kPublicKeyPem, ToSpki()); }

Sha256Digest PublicKey::SpkiSha256() const { return Sha256(ToSpki()); }

bool PublicKey::Verify(std::span<const std::uint8_t> message,
                       std::span<const std::uint8_t> signature) const {
  if (signature.size() != std::tuple_size_v<Signature>) return false;
  const OpensslErrorScope errors;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw_.data(), raw_.size()),
      EVP_PKEY_free);
  const DigestContext context(EVP_MD_CTX_new());
  CHECK(key != nullptr && context != nullptr, "no memory");
  CHECK(EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1, "Ed25519");
  return EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(),
                          message.size()) == 1;
}

void PrivateKey::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

namespace {

// Decodes PKCS#8. Setting a decoder up takes longer than decoding a key: each thread keeps one.
class KeyDecoder final {
 public:
  KeyDecoder()
      : context_(OSSL_DECODER_CTX_new_for_pkey(&key_, "DER", "PrivateKeyInfo", "ED25519",
                                               EVP_PKEY_KEYPAIR, nullptr, nullptr),
                 OSSL_DECODER_CTX_free) {
    CHECK(context_ != nullptr && OSSL_DECODER_CTX_get_num_decoders(context_.get()) > 0,
          "no decoder of private keys");
  }
  // Null: no memory.
  [[nodiscard]] EVP_PKEY* Decode(std::span<const std::uint8_t> der) {
    const OpensslErrorScope errors;
    const unsigned char* at = der.data();
    std::size_t size = der.size();
    key_ = nullptr;
    if (OSSL_DECODER_from_data(context_.get(), &at, &size) != 1) return nullptr;
    return std::exchange(key_, nullptr);
  }

 private:
  EVP_PKEY* key_ = nullptr;  // Where the decoder puts what it has read.
  std::unique_ptr<OSSL_DECODER_CTX, decltype(&OSSL_DECODER_CTX_free)> context_;
};

}  // namespace

// Through PKCS#8: OpenSSL puts keys from raw bytes on the ordinary heap, decoded ones on the secure
// heap.
PrivateKey PrivateKey::FromSeed(std::span<const std::uint8_t, kSeedSize> seed) {
  Secret der(kPkcs8Prefix.size() + kSeedSize);
  const auto rest = std::ranges::copy(kPkcs8Prefix, der.MutableBytes().begin()).out;
  std::ranges::copy(seed, rest);
  thread_local KeyDecoder decoder;
  Handle key(decoder.Decode(der.Reveal()));
  CHECK(key != nullptr, "no memory for a private key");
  PublicKey::Raw raw{};
  std::size_t size = raw.size();
  CHECK(EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &size) == 1 && size == raw.size(),
        "public key of {} bytes", size);
  return {std::move(key), PublicKey(raw)};
}

Result<PrivateKey> PrivateKey::FromPem(std::string_view pem) {
  ASSIGN_OR_RETURN(Bytes plain, ReadPem(pem, kPrivateKeyPem));
  const Secret der = Secret::CopyOf(plain);
  Wipe(plain);
  const auto bytes = der.Reveal();
  if (bytes.size() != kPkcs8Prefix.size() + kSeedSize ||
      !std::ranges::equal(bytes.first(kPkcs8Prefix.size()), kPkcs8Prefix)) {
    return Fail(WrongForm(bytes, "private key"));
  }
  return FromSeed(bytes.subspan<kPkcs8Prefix.size(), kSeedSize>());
}

Secret PrivateKey::ToPem() const {
  Secret der(kPkcs8Prefix.size() + kSeedSize);
  const auto bytes = der.MutableBytes();
  std::ranges::copy(kPkcs8Prefix, bytes.begin());
  std::size_t size = kSeedSize;
  CHECK(EVP_PKEY_get_raw_private_key(key_.get(), bytes.subspan(kPkcs8Prefix.size()).data(),
                                     &size) == 1,
        "private key of {} bytes", size);
  std::string pem = WritePem(kPrivateKeyPem, der.Reveal());
  Secret out = Secret::CopyOf(AsBytes(pem));
  Wipe(pem);
  return out;
}

Signature PrivateKey::Sign(std::span<const std::uint8_t> message) const {
  const DigestContext context(EVP_MD_CTX_new());
  CHECK(context != nullptr, "no memory");
  Signature signature{};
  std::size_t size = signature.size();
  CHECK(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1, "Ed25519");
  CHECK(EVP_DigestSign(context.get(), signature.data(), &size, message.data(), message.size()) == 1,
        "Ed25519");
  CHECK(size == signature.size(), "signature of {} bytes", size);
  return signature;
}

}  // namespace nstance::crypto
