#include "adapters/rpc/tls_context.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/check.h"

namespace nstance::grpc {
namespace {

constexpr std::array<unsigned char, 3> kAlpn = {2, 'h', '2'};
constexpr std::string_view kH2 = "h2";
constexpr std::uint8_t kKeyUpdateMessage = 24;

// Alerts that are about the certificate that we have shown.
constexpr std::array<std::uint8_t, 8> kCertificateAlerts = {
    SSL_AD_BAD_CERTIFICATE,     SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
    SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN,     SSL_AD_UNKNOWN_CA,
    SSL_AD_ACCESS_DENIED,       SSL_AD_CERTIFICATE_REQUIRED};

// The last reason in OpenSSL's queue, which is emptied.
std::string TakeReason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "protocol error" : reason;
}

bool IsLiteralAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> scratch{};
  return inet_pton(AF_INET, host.c_str(), scratch.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), scratch.data()) == 1;
}

Bytes ToDer(X509* certificate) {
  const int size = i2d_X509(certificate, nullptr);
  if (size <= 0) return {};
  Bytes der(static_cast<std::size_t>(size));
  unsigned char* at = der.data();
  i2d_X509(certificate, &at);
  return der;
}

std::vector<Bytes> ToDer(const STACK_OF(X509) * certificates) {
  std::vector<Bytes> chain;
  chain.reserve(static_cast<std::size_t>(std::max(sk_X509_num(certificates), 0)));
  for (int i = 0; i < sk_X509_num(certificates); ++i) {
    chain.push_back(ToDer(sk_X509_value(certificates, i)));
  }
  return chain;
}

X509* FromDer(const Bytes& der) {
  const unsigned char* at = der.data();
  return d2i_X509(nullptr, &at, static_cast<long>(der.size()));
}

// NOLINTNEXTLINE(readability-function-size): OpenSSL's signature.
int SelectAlpn(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
               const unsigned char* in, unsigned int in_size, void* /*arg*/) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kAlpn.data(), kAlpn.size(), in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

// OpenSSL calls these; they find their session and hand over.
struct TlsHooks {
  static int ReadBytes(BIO* bio, char* data, int size) {
    auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const std::size_t n = std::min(session.input_.size(), static_cast<std::size_t>(size));
    if (n == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(data, session.input_.data(), n);
    session.input_ = session.input_.subspan(n);
    return static_cast<int>(n);
  }

  static int WriteBytes(BIO* bio, const char* data, int size) {
    auto& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(data);
    session.output_.insert(session.output_.end(), bytes, bytes + size);
    return size;
  }

  static long Control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static const BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "nstance rpc");
      CHECK(made != nullptr);
      BIO_meth_set_read(made, ReadBytes);
      BIO_meth_set_write(made, WriteBytes);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    return method;
  }

  static TlsSession& Of(const SSL* ssl) {
    return *static_cast<TlsSession*>(SSL_get_ex_data(ssl, Index()));
  }
  static int Index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
  }

  static int Verify(X509_STORE_CTX* store, void* /*arg*/) {
    const auto* ssl = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    if (Of(ssl).VerifyChain(store)) {
      X509_STORE_CTX_set_error(store, X509_V_OK);
      return 1;
    }
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  }

  // NOLINTNEXTLINE(readability-function-size): OpenSSL's signature.
  static void Message(int sent, int /*version*/, int type, const void* data, std::size_t size,
                      SSL* ssl, void* /*arg*/) {
    if (sent != 0) return;
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    TlsSession& session = Of(ssl);
    if (type == SSL3_RT_ALERT && size == 2) {
      session.alert_received_ = bytes[1];
    } else if (type == SSL3_RT_HANDSHAKE && size > 0 && bytes[0] == kKeyUpdateMessage) {
      ++session.key_updates_;
    }
  }
};

// --- Context ------------------------------------------------------------------------------------

TlsContext::TlsContext(RpcTls material, crypto::PeerUsage peer_usage)
    : material_(std::move(material)), peer_usage_(peer_usage) {}

TlsContext::~TlsContext() { SSL_CTX_free(native_); }

Status TlsContext::SetUp() {
  native_ = SSL_CTX_new(peer_usage_ == crypto::PeerUsage::kClient ? TLS_server_method()
                                                                  : TLS_client_method());
  CHECK(native_ != nullptr);
  SSL_CTX_set_min_proto_version(native_, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(native_, TLS1_3_VERSION);
  CHECK(SSL_CTX_set1_sigalgs_list(native_, "ed25519") == 1);
  CHECK(SSL_CTX_set1_client_sigalgs_list(native_, "ed25519") == 1);
  SSL_CTX_set_options(native_, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(native_, 0);
  SSL_CTX_set_session_cache_mode(native_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_early_data(native_, 0);
  SSL_CTX_set_mode(native_, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(native_, static_cast<long>(crypto::kMaxChainBytes));
  SSL_CTX_set_msg_callback(native_, TlsHooks::Message);
  SSL_CTX_set_cert_verify_callback(native_, TlsHooks::Verify, nullptr);
  if (peer_usage_ == crypto::PeerUsage::kClient) {
    SSL_CTX_set_alpn_select_cb(native_, SelectAlpn, nullptr);
  } else {
    CHECK(SSL_CTX_set_alpn_protos(native_, kAlpn.data(), kAlpn.size()) == 0);
  }
  SSL_CTX_set_verify(
      native_,
      asks_for_certificate_ ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
      nullptr);
  return UseIdentity();
}

Status TlsContext::UseIdentity() {
  const auto& chain = material_->chain;
  if (chain.empty()) return {};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    X509* certificate = FromDer(chain[i].der());
    const bool taken =
        certificate != nullptr && (i == 0 ? SSL_CTX_use_certificate(native_, certificate)
                                          : SSL_CTX_add1_chain_cert(native_, certificate)) == 1;
    X509_free(certificate);
    if (!taken) {
      return Fail(InvalidArgument(
          fmt::format("certificate {} of the chain cannot be used: {}", i + 1, TakeReason())));
    }
  }
  if (SSL_CTX_use_PrivateKey(native_, material_->key->native_handle()) != 1 ||
      SSL_CTX_check_private_key(native_) != 1) {
    ERR_clear_error();
    return Fail(InvalidArgument("the private key does not belong to the certificate"));
  }
  return {};
}

Result<std::shared_ptr<const TlsContext>> TlsContext::ForServer(
    RpcTls material, ClientCertificates client_certificates) {
  if (material == nullptr || material->chain.empty() || material->key == nullptr) {
    return Fail(InvalidArgument("a server needs a certificate and its private key"));
  }
  const bool asks = client_certificates == ClientCertificates::kRequired;
  if (asks && material->roots.empty()) {
    return Fail(InvalidArgument("client certificates need at least one root to lead to"));
  }
  std::shared_ptr<TlsContext> context(
      new TlsContext(std::move(material), crypto::PeerUsage::kClient));
  context->asks_for_certificate_ = asks;
  RETURN_IF_ERROR(context->SetUp());
  return context;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::ForClient(RpcTls material) {
  if (material == nullptr || material->roots.empty()) {
    return Fail(InvalidArgument("a client needs at least one root to trust"));
  }
  if (material->chain.empty() != (material->key == nullptr)) {
    return Fail(InvalidArgument("a certificate needs its private key, and a key its certificate"));
  }
  std::shared_ptr<TlsContext> context(
      new TlsContext(std::move(material), crypto::PeerUsage::kServer));
  RETURN_IF_ERROR(context->SetUp());
  return context;
}

// --- Session ------------------------------------------------------------------------------------

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, Target target)
    : context_(std::move(context)),
      target_(std::move(target)),
      ssl_(SSL_new(context_->native_handle())) {
  CHECK(ssl_ != nullptr);
  SSL_set_ex_data(ssl_, TlsHooks::Index(), this);
  BIO* bio = BIO_new(TlsHooks::Method());
  CHECK(bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  if (context_->peer_usage() == crypto::PeerUsage::kClient) {
    SSL_set_accept_state(ssl_);
    return;
  }
  SSL_set_connect_state(ssl_);
  if (!IsLiteralAddress(target_.host)) SSL_set_tlsext_host_name(ssl_, target_.host.c_str());
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

bool TlsSession::VerifyChain(X509_STORE_CTX* store) {
  const std::vector<Bytes> chain = ToDer(X509_STORE_CTX_get0_untrusted(store));
  verdict_ = crypto::VerifyPeer({.chain = chain,
                                 .roots = context_->roots(),
                                 .now = now_,
                                 .usage = context_->peer_usage(),
                                 .source = {},
                                 .parsed_leaf = X509_STORE_CTX_get0_cert(store)});
  if (!verdict_->chain.has_value()) return false;
  if (context_->peer_usage() == crypto::PeerUsage::kClient) return true;
  X509* leaf = X509_STORE_CTX_get0_cert(store);
  const bool named = IsLiteralAddress(target_.host)
                         ? X509_check_ip_asc(leaf, target_.host.c_str(), 0) == 1
                         : X509_check_host(leaf, target_.host.data(), target_.host.size(),
                                           X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1;
  if (named) return true;
  name_error_ = PermissionDenied(
      fmt::format("the server's certificate does not name {}", Quote(target_.host)));
  return false;
}

bool TlsSession::LeadsTo(const TlsContext& other, Timestamp now) const {
  const STACK_OF(X509)* presented = SSL_get_peer_cert_chain(ssl_);
  std::vector<Bytes> chain;
  // On a server OpenSSL keeps the leaf apart from the others.
  if (context_->peer_usage() == crypto::PeerUsage::kClient) {
    X509* leaf = SSL_get0_peer_certificate(ssl_);
    if (leaf == nullptr) return false;
    chain.push_back(ToDer(leaf));
  }
  if (presented != nullptr) {
    for (Bytes& der : ToDer(presented)) chain.push_back(std::move(der));
  }
  return crypto::VerifyPeer({.chain = chain,
                             .roots = other.roots(),
                             .now = now,
                             .usage = context_->peer_usage(),
                             .source = {}})
      .chain.has_value();
}

Error TlsSession::FromAlert() const {
  const char* text = SSL_alert_desc_string_long(*alert_received_);
  const std::string message = fmt::format("the other side ended TLS: {}", text);
  const bool about_us =
      std::ranges::find(kCertificateAlerts, *alert_received_) != kCertificateAlerts.end();
  return about_us ? Unauthenticated(message) : Unavailable(message);
}

Error TlsSession::Failure(int ssl_error) const {
  const std::string reason = TakeReason();
  if (name_error_) return *name_error_;
  if (verdict_ && !verdict_->chain.has_value()) {
    const Error& error = verdict_->chain.error();
    return context_->peer_usage() == crypto::PeerUsage::kClient ? error
                                                                : PermissionDenied(error.message);
  }
  if (alert_received_ && *alert_received_ != SSL_AD_CLOSE_NOTIFY) return FromAlert();
  if (ssl_error == SSL_ERROR_ZERO_RETURN) return Unavailable("closed during the TLS handshake");
  return Unavailable(fmt::format("TLS: {}", reason));
}

Result<bool> TlsSession::Handshake(Timestamp now) {
  if (open_) return true;
  now_ = now;
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  if (done != 1) {
    const int error = SSL_get_error(ssl_, done);
    if (error == SSL_ERROR_WANT_READ) return false;
    return Fail(Failure(error));
  }
  const unsigned char* protocol = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_, &protocol, &size);
  if (std::string_view(reinterpret_cast<const char*>(protocol), size) != kH2) {
    return Fail(Unavailable("the other side does not speak HTTP/2 (ALPN h2)"));
  }
  open_ = true;
  return true;
}

Result<std::size_t> TlsSession::Read(std::span<std::uint8_t> plain) {
  if (closed_) return 0;
  ERR_clear_error();
  std::size_t size = 0;
  const int got = SSL_read_ex(ssl_, plain.data(), plain.size(), &size);
  if (got == 1) return size;
  const int error = SSL_get_error(ssl_, got);
  if (error == SSL_ERROR_WANT_READ) return 0;
  if (error == SSL_ERROR_ZERO_RETURN) {
    closed_ = true;
    return 0;
  }
  return Fail(Failure(error));
}

void TlsSession::Write(std::span<const std::uint8_t> plain) {
  if (plain.empty()) return;
  ERR_clear_error();
  output_.reserve(output_.size() + plain.size() + 64 * (plain.size() / 16384 + 1));
  std::size_t written = 0;
  // Our BIO takes everything; a failure means that the session has failed already.
  static_cast<void>(SSL_write_ex(ssl_, plain.data(), plain.size(), &written));
  ERR_clear_error();
}

void TlsSession::Close() {
  if (!open_) return;
  ERR_clear_error();
  static_cast<void>(SSL_shutdown(ssl_));
  ERR_clear_error();
}

}  // namespace nstance::grpc
