#include "test/support/test_certificates.h"

#include <atomic>
#include <cstring>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace nstance::test {
namespace {

struct Deleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter>;
using Certificate = std::unique_ptr<X509, Deleter>;

constexpr long kHour = 3600;

Key MakeKey() {
  Key key(EVP_EC_gen("P-256"));
  CHECK(key != nullptr);
  return key;
}

std::string Drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string ToPem(X509* certificate) {
  const std::unique_ptr<BIO, Deleter> bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_X509(bio.get(), certificate) == 1);
  return Drain(bio.get());
}

std::string ToPem(EVP_PKEY* key) {
  const std::unique_ptr<BIO, Deleter> bio(BIO_new(BIO_s_mem()));
  CHECK(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return Drain(bio.get());
}

void AddExtension(X509* certificate, int id, const std::string& value) {
  X509V3_CTX context;
  std::memset(&context, 0, sizeof(context));
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Deleter> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  CHECK(extension != nullptr, "{}", value);
  CHECK(X509_add_ext(certificate, extension.get(), -1) == 1);
}

Certificate MakeUnsigned(const std::string& common_name, EVP_PKEY* key) {
  static std::atomic<long> serial = 1;
  Certificate certificate(X509_new());
  CHECK(certificate != nullptr);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 24 * kHour);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

}  // namespace

struct TestAuthority::State {
  Key key = MakeKey();
  Certificate certificate;
};

TestAuthority::TestAuthority(const std::string& name) : state_(std::make_unique<State>()) {
  state_->certificate = MakeUnsigned(name, state_->key.get());
  X509* certificate = state_->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  CHECK(X509_sign(certificate, state_->key.get(), EVP_sha256()) > 0);
  certificate_ = ToPem(certificate);
}

TestAuthority::~TestAuthority() = default;

TestCertificate TestAuthority::Issue(const std::string& common_name,
                                     const std::vector<std::string>& names) const {
  const Key key = MakeKey();
  const Certificate certificate = MakeUnsigned(common_name, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(state_->certificate.get()));
  AddExtension(certificate.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  if (!joined.empty()) AddExtension(certificate.get(), NID_subject_alt_name, joined);
  CHECK(X509_sign(certificate.get(), state_->key.get(), EVP_sha256()) > 0);
  return {.certificate = ToPem(certificate.get()), .key = ToPem(key.get())};
}

}  // namespace nstance::test
