#include "test/crypto/certificate_forge.h"

#include <openssl/asn1.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace nstance::crypto::test {
namespace {

using X509Handle = std::unique_ptr<X509, decltype(&X509_free)>;

EVP_PKEY* MakeKey(ForgeKeyKind kind) {
  switch (kind) {
    case ForgeKeyKind::kEd25519: return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
    case ForgeKeyKind::kRsa2048:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048});
    case ForgeKeyKind::kRsa1024:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{1024});
    case ForgeKeyKind::kP256: return EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  }
  return nullptr;
}

void SetSerial(X509* certificate, const std::string& hex) {
  BIGNUM* number = nullptr;
  CHECK(BN_hex2bn(&number, hex.c_str()) > 0, "serial {}", hex);
  ASN1_INTEGER* serial = BN_to_ASN1_INTEGER(number, nullptr);
  CHECK(X509_set_serialNumber(certificate, serial) == 1, "serial {}", hex);
  ASN1_INTEGER_free(serial);
  BN_free(number);
}

void SetSubject(X509* certificate, const std::vector<ForgedPart>& subject) {
  X509_NAME* name = X509_NAME_new();
  for (const ForgedPart& part : subject) {
    const auto bytes = AsBytes(part.value);
    CHECK(X509_NAME_add_entry_by_txt(name, part.field.c_str(), part.string_type, bytes.data(),
                                     static_cast<int>(bytes.size()), -1,
                                     part.set == ForgedPart::Set::kShared ? -1 : 0) == 1,
          "subject part {}", part.field);
  }
  CHECK(X509_set_subject_name(certificate, name) == 1, "subject");
  X509_NAME_free(name);
}

void AddText(X509* certificate, int nid, const std::string& value) {
  if (value.empty()) return;
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_nconf_nid(nullptr, &context, nid, value.c_str());
  CHECK(extension != nullptr, "extension {}", value);
  CHECK(X509_add_ext(certificate, extension, -1) == 1, "extension {}", value);
  X509_EXTENSION_free(extension);
}

void AddRaw(X509* certificate, const char* oid, const ForgedRole& role) {
  ASN1_OBJECT* object = OBJ_txt2obj(oid, 1);
  ASN1_OCTET_STRING* value = ASN1_OCTET_STRING_new();
  ASN1_OCTET_STRING_set(value, role.value.data(), static_cast<int>(role.value.size()));
  X509_EXTENSION* extension = X509_EXTENSION_create_by_OBJ(
      nullptr, object, role.critical == ForgedRole::Criticality::kYes ? 1 : 0, value);
  CHECK(X509_add_ext(certificate, extension, -1) == 1, "extension {}", oid);
  X509_EXTENSION_free(extension);
  ASN1_OCTET_STRING_free(value);
  ASN1_OBJECT_free(object);
}

void SetIssuer(X509* certificate, const Bytes* issuer) {
  if (issuer == nullptr) {
    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1, "issuer");
    return;
  }
  const unsigned char* at = issuer->data();
  const X509Handle parsed(d2i_X509(nullptr, &at, static_cast<long>(issuer->size())), X509_free);
  CHECK(parsed != nullptr, "issuer does not parse");
  CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(parsed.get())) == 1, "issuer");
}

Bytes SignAndEncode(X509* certificate, EVP_PKEY* key) {
  const bool pure = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519;
  CHECK(X509_sign(certificate, key, pure ? nullptr : EVP_sha256()) > 0, "signature");
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  CHECK(size > 0, "encoding");
  Bytes out(der, der + size);
  OPENSSL_free(der);
  return out;
}

}  // namespace

ForgeKey::ForgeKey(ForgeKeyKind kind) : key_(MakeKey(kind), EVP_PKEY_free) {
  CHECK(key_ != nullptr, "no key");
}

ForgeKey::ForgeKey(evp_pkey_st* key) : key_(key, EVP_PKEY_free) { EVP_PKEY_up_ref(key); }

Bytes Forge(const ForgeSpec& spec, const ForgeKey& key, const ForgeIssuer& issuer) {
  const X509Handle certificate(X509_new(), X509_free);
  X509* x = certificate.get();
  CHECK(X509_set_version(x, 2) == 1, "version");
  SetSerial(x, spec.serial_hex);
  SetSubject(x, spec.subject);
  SetIssuer(x, issuer.certificate);
  ASN1_TIME_set(X509_getm_notBefore(x), spec.not_before.unix_seconds());
  ASN1_TIME_set(X509_getm_notAfter(x), spec.not_after.unix_seconds());
  CHECK(X509_set_pubkey(x, key.get()) == 1, "key");
  AddText(x, NID_basic_constraints, spec.basic_constraints);
  AddText(x, NID_key_usage, spec.key_usage);
  AddText(x, NID_ext_key_usage, spec.extended_key_usage);
  for (const ForgedRole& role : spec.roles) AddRaw(x, "1.3.6.1.4.1.999999.1", role);
  if (spec.unknown_critical_oid.has_value()) {
    AddRaw(x, spec.unknown_critical_oid->c_str(),
           {.value = {5, 0}, .critical = ForgedRole::Criticality::kYes});
  }
  return SignAndEncode(x, issuer.key.get());
}

}  // namespace nstance::crypto::test
