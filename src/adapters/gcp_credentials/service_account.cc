#include "adapters/gcp_credentials/service_account.h"

#include <memory>
#include <utility>

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/json.h"
#include "base/text.h"

namespace nstance::gcp {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} * 1024;
constexpr int kLeastBits = 2048;
constexpr std::string_view kDefaultTokenUri = "https://oauth2.googleapis.com/token";

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* what) const {
    kFree(what);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;

// Leaves OpenSSL's list of errors as it was found: others on this thread look at it.
class ErrorMark final {
 public:
  ErrorMark() { ERR_set_mark(); }
  ErrorMark(const ErrorMark&) = delete;
  ErrorMark& operator=(const ErrorMark&) = delete;
  ~ErrorMark() { ERR_pop_to_mark(); }
};

std::string StringMember(const json::Value& document, std::string_view name) {
  const json::Value* member = document.Find(name);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string() : *text;
}

// Never asks anybody for a pass phrase.
int NoPassPhrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

Result<Key> ReadKey(const crypto::Secret& pem) {
  const auto bytes = pem.Reveal();
  const Bio bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  Key key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassPhrase, nullptr) : nullptr);
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA ||
      EVP_PKEY_get_bits(key.get()) < kLeastBits) {
    return Fail(FailedPrecondition(
        fmt::format("the private key is no RSA key of at least {} bits", kLeastBits)));
  }
  return key;
}

Result<Bytes> SignRs256(EVP_PKEY* key, std::string_view text) {
  const DigestContext context(EVP_MD_CTX_new());
  const auto bytes = AsBytes(text);
  std::size_t size = 0;
  const bool sized = context &&
                     EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
                     EVP_DigestSign(context.get(), nullptr, &size, bytes.data(), bytes.size()) == 1;
  Bytes signature(size);
  if (!sized ||
      EVP_DigestSign(context.get(), signature.data(), &size, bytes.data(), bytes.size()) != 1) {
    return Fail(FailedPrecondition("the private key does not sign"));
  }
  signature.resize(size);
  return signature;
}

}  // namespace

Result<ServiceAccount> ParseServiceAccount(std::string_view text) {
  const auto document = json::Parse(text, {.max_bytes = kMaxFileBytes, .max_depth = 4});
  if (!document) return Fail(FailedPrecondition("malformed JSON: " + document.error().message));
  const std::string type = StringMember(*document, "type");
  if (type != "service_account") {
    return Fail(FailedPrecondition(
        fmt::format("credentials of type {}; only service_account is read", Quote(type))));
  }
  ServiceAccount account{.client_email = StringMember(*document, "client_email"),
                         .private_key_id = StringMember(*document, "private_key_id"),
                         .token_uri = StringMember(*document, "token_uri"),
                         .private_key = {}};
  std::string pem = StringMember(*document, "private_key");
  account.private_key = crypto::Secret::CopyOf(AsBytes(pem));
  crypto::Wipe(pem);
  if (account.token_uri.empty()) account.token_uri = kDefaultTokenUri;
  if (account.client_email.empty() || account.private_key.empty()) {
    return Fail(FailedPrecondition("client_email or private_key is missing"));
  }
  return account;
}

Result<std::string> SignAssertion(const ServiceAccount& account, std::string_view scope,
                                  Timestamp now) {
  const ErrorMark mark;
  ASSIGN_OR_RETURN(const Key key, ReadKey(account.private_key));
  json::Value header = json::Value::Map({});
  header.Set("alg", json::Value::String("RS256"));
  if (!account.private_key_id.empty()) {
    header.Set("kid", json::Value::String(account.private_key_id));
  }
  header.Set("typ", json::Value::String("JWT"));
  json::Value claims = json::Value::Map({});
  claims.Set("iss", json::Value::String(account.client_email));
  claims.Set("scope", json::Value::String(std::string(scope)));
  claims.Set("aud", json::Value::String(account.token_uri));
  claims.Set("iat", json::Value::Integer(now.unix_seconds()));
  claims.Set("exp", json::Value::Integer((now + Duration::Hours(1)).unix_seconds()));
  std::string assertion = Base64UrlEncode(AsBytes(json::Write(header))) + "." +
                          Base64UrlEncode(AsBytes(json::Write(claims)));
  ASSIGN_OR_RETURN(const Bytes signature, SignRs256(key.get(), assertion));
  return assertion + "." + Base64UrlEncode(signature);
}

}  // namespace nstance::gcp
