// A service account made for one test: its key file, and the check of what was signed with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/json.h"
#include "base/text.h"

namespace nstance::gcp {

class TestAccount final {
 public:
  explicit TestAccount(unsigned bits = 2048) : key_(EVP_RSA_gen(bits)) {}
  TestAccount(const TestAccount&) = delete;
  TestAccount& operator=(const TestAccount&) = delete;
  ~TestAccount() { EVP_PKEY_free(key_); }

  // The key file, as the vendor's console writes it.
  [[nodiscard]] std::string File(const std::string& token_uri) const {
    json::Value file = json::Value::Map({});
    file.Set("type", json::Value::String("service_account"));
    file.Set("project_id", json::Value::String("project"));
    file.Set("private_key_id", json::Value::String("key-1"));
    file.Set("private_key", json::Value::String(Pem()));
    file.Set("client_email", json::Value::String("a@project.iam.gserviceaccount.com"));
    file.Set("token_uri", json::Value::String(token_uri));
    return json::Write(file, {.indent = 2});
  }

  // The claims of an assertion, or null when it was not signed with this key.
  [[nodiscard]] json::Value Verified(std::string_view assertion) const {
    const std::size_t dot = assertion.rfind('.');
    if (dot == std::string_view::npos) return {};
    const std::string_view text = assertion.substr(0, dot);
    const auto signature = Base64UrlDecode(assertion.substr(dot + 1));
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    const bool good = signature &&
                      EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key_) == 1 &&
                      EVP_DigestVerify(context, signature->data(), signature->size(),
                                       AsBytes(text).data(), text.size()) == 1;
    EVP_MD_CTX_free(context);
    const auto claims = Base64UrlDecode(text.substr(text.find('.') + 1));
    if (!good || !claims) return {};
    return json::Parse(AsText(*claims)).value_or(json::Value());
  }

 private:
  [[nodiscard]] std::string Pem() const {
    BIO* memory = BIO_new(BIO_s_mem());
    EXPECT_EQ(PEM_write_bio_PKCS8PrivateKey(memory, key_, nullptr, nullptr, 0, nullptr, nullptr),
              1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(memory, &data);
    std::string pem(data, static_cast<std::size_t>(size));
    BIO_free_all(memory);
    return pem;
  }

  EVP_PKEY* key_;
};

}  // namespace nstance::gcp
