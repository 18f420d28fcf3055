#include "adapters/http_server/http_tls.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/check.h"

namespace nstance::http_server {
namespace {

int AsInt(std::size_t size) {
  return static_cast<int>(
      std::min(size, static_cast<std::size_t>(std::numeric_limits<int>::max())));
}

bool Show(SSL_CTX* context, const RpcTlsMaterial& material) {
  bool first = true;
  for (const crypto::Certificate& shown : material.chain) {
    const auto& der = shown.der();
    const unsigned char* at = der.data();
    X509* certificate = d2i_X509(nullptr, &at, static_cast<long>(der.size()));
    const bool taken =
        certificate != nullptr && (first ? SSL_CTX_use_certificate(context, certificate)
                                         : SSL_CTX_add1_chain_cert(context, certificate)) == 1;
    X509_free(certificate);
    if (!taken) return false;
    first = false;
  }
  return SSL_CTX_use_PrivateKey(context, material.key->native_handle()) == 1 &&
         SSL_CTX_check_private_key(context) == 1;
}

}  // namespace

HttpTlsIdentity::HttpTlsIdentity() : native_(SSL_CTX_new(TLS_server_method())) {
  CHECK(native_ != nullptr, "no memory for TLS");
  CHECK(SSL_CTX_set_min_proto_version(native_, TLS1_2_VERSION) == 1, "TLS 1.2 is not there");
  SSL_CTX_set_verify(native_, SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_session_cache_mode(native_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native_, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(native_, 0);
  SSL_CTX_set_mode(native_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
}

HttpTlsIdentity::~HttpTlsIdentity() { SSL_CTX_free(native_); }

Result<std::shared_ptr<const HttpTlsIdentity>> HttpTlsIdentity::Make(
    const RpcTlsMaterial& material) {
  if (material.chain.empty() || material.key == nullptr) {
    return Fail(InvalidArgument("TLS needs a certificate and its private key"));
  }
  std::shared_ptr<const HttpTlsIdentity> identity(new HttpTlsIdentity());
  if (!Show(identity->native_, material)) {
    ERR_clear_error();
    return Fail(InvalidArgument("the certificate and its private key cannot be used together"));
  }
  return identity;
}

HttpTlsStream::HttpTlsStream(std::shared_ptr<const HttpTlsIdentity> identity, int descriptor)
    : identity_(std::move(identity)), native_(SSL_new(identity_->native_handle())) {
  CHECK(native_ != nullptr && SSL_set_fd(native_, descriptor) == 1, "no memory for TLS");
  SSL_set_accept_state(native_);
}

HttpTlsStream::~HttpTlsStream() { SSL_free(native_); }

HttpTransfer HttpTlsStream::Outcome(int result) const {
  const int error = SSL_get_error(native_, result);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ) return {.state = HttpTransfer::State::kWantsRead};
  if (error == SSL_ERROR_WANT_WRITE) return {.state = HttpTransfer::State::kWantsWrite};
  return {};
}

HttpTransfer HttpTlsStream::Receive(std::span<char> into) {
  ERR_clear_error();
  const int count = SSL_read(native_, into.data(), AsInt(into.size()));
  if (count <= 0) return Outcome(count);
  return {.state = HttpTransfer::State::kMoved, .bytes = static_cast<std::size_t>(count)};
}

HttpTransfer HttpTlsStream::Send(std::span<const char> from) {
  ERR_clear_error();
  const int count = SSL_write(native_, from.data(), AsInt(from.size()));
  if (count <= 0) return Outcome(count);
  return {.state = HttpTransfer::State::kMoved, .bytes = static_cast<std::size_t>(count)};
}

void HttpTlsStream::EndSending() {
  (void)SSL_shutdown(native_);
  ERR_clear_error();
}

}  // namespace nstance::http_server
