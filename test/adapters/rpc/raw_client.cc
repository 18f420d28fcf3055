#include "test/adapters/rpc/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include <nghttp2/nghttp2.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "adapters/rpc/grpc_frame.h"
#include "base/check.h"

namespace nstance::grpc::test {
namespace {

sockaddr_in ToNative(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

void Show(SSL_CTX* context, const RawIdentity& identity) {
  for (std::size_t i = 0; i < identity.chain.size(); ++i) {
    const unsigned char* at = identity.chain[i].data();
    X509* certificate = d2i_X509(nullptr, &at, static_cast<long>(identity.chain[i].size()));
    CHECK(certificate != nullptr, "certificate {}", i);
    if (i == 0) {
      CHECK(SSL_CTX_use_certificate(context, certificate) == 1);
    } else {
      CHECK(SSL_CTX_add1_chain_cert(context, certificate) == 1);
    }
    X509_free(certificate);
  }
  if (identity.key) CHECK(SSL_CTX_use_PrivateKey(context, identity.key->get()) == 1);
}

SSL_CTX* MakeContext(const RawTlsSetup& setup) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  CHECK(context != nullptr);
  if (setup.old_version) SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  if (!setup.alpn.empty()) {
    CHECK(SSL_CTX_set_alpn_protos(context,
                                  reinterpret_cast<const unsigned char*>(setup.alpn.data()),
                                  static_cast<unsigned>(setup.alpn.size())) == 0);
  }
  SSL_CTX_set_max_cert_list(context, 1 << 24);
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
  Show(context, setup.identity);
  return context;
}

SSL* MakeSsl(SSL_CTX* context) {
  SSL* ssl = SSL_new(context);
  CHECK(ssl != nullptr);
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(ssl);
  return ssl;
}

Bytes Drain(BIO* bio) {
  Bytes bytes(BIO_ctrl_pending(bio));
  if (!bytes.empty()) BIO_read(bio, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

}  // namespace

// --- Socket -------------------------------------------------------------------------------------

RawClient::RawClient(const RpcAddress& address, const std::string& from)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (!from.empty()) {
    const sockaddr_in self = ToNative(from, 0);
    CHECK(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&self), sizeof(self)) == 0,
          "errno {}", errno);
  }
  const sockaddr_in to = ToNative(address.host, address.port);
  connected_ = connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
}

void RawClient::GiveUpAfter(Duration time) {
  const timeval limit{.tv_sec = time.seconds(), .tv_usec = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

bool RawClient::Write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

Bytes RawClient::Read() {
  Bytes room(65'536);
  const ssize_t got = recv(socket_.get(), room.data(), room.size(), 0);
  room.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  timed_out_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  return room;
}

bool RawClient::ReadToEnd(Bytes& all) {
  for (;;) {
    const Bytes more = Read();
    if (more.empty()) return !timed_out_;
    all.insert(all.end(), more.begin(), more.end());
  }
}

bool RawClient::ClosesWithin(int milliseconds) {
  for (;;) {
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, milliseconds) <= 0) return false;
    if (Read().empty()) return true;
  }
}

bool RawClient::HangsUpWithin(int milliseconds) {
  pollfd ready{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&ready, 1, milliseconds) > 0;
}

// --- TLS ----------------------------------------------------------------------------------------

RawIdentity IdentityOf(Who who) {
  const RpcTls material = ClientMaterial(who);
  RawIdentity identity;
  for (const crypto::Certificate& certificate : material->chain) {
    identity.chain.push_back(certificate.der());
  }
  if (material->key != nullptr) {
    identity.key.emplace(material->key->native_handle());
  }
  return identity;
}

RawTlsClient::RawTlsClient(const RpcAddress& address, RawTlsSetup setup, const std::string& from)
    : context_(MakeContext(setup)), ssl_(MakeSsl(context_)), raw_(address, from) {
  CHECK(nghttp2_hd_inflate_new(&inflater_) == 0);
  if (setup.resume != nullptr) SSL_set_session(ssl_, setup.resume);
  for (;;) {
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_);
    const bool wants = done != 1 && SSL_get_error(ssl_, done) == SSL_ERROR_WANT_READ;
    SendOut();
    open_ = done == 1;
    if (!wants || !TakeIn()) return;
  }
}

RawTlsClient::~RawTlsClient() {
  nghttp2_hd_inflate_del(inflater_);
  SSL_free(ssl_);
  SSL_CTX_free(context_);
}

Bytes RawTlsClient::Hello() {
  SSL_CTX* context = MakeContext({});
  SSL* ssl = MakeSsl(context);
  SSL_do_handshake(ssl);
  Bytes bytes = Drain(SSL_get_wbio(ssl));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return bytes;
}

void RawTlsClient::SendOut() {
  if (!raw_.Write(Drain(SSL_get_wbio(ssl_)))) write_failed_ = true;
}

bool RawTlsClient::TakeIn() {
  const Bytes bytes = raw_.Read();
  if (bytes.empty()) {
    ended_ = !raw_.timed_out();
    return false;
  }
  BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
  return true;
}

bool RawTlsClient::Refused() { return !open_ || (ReadToEnd() && frames_.empty()); }

bool RawTlsClient::Write(std::span<const std::uint8_t> plain) {
  if (plain.empty()) return true;
  std::size_t written = 0;
  ERR_clear_error();
  if (SSL_write_ex(ssl_, plain.data(), plain.size(), &written) != 1) return false;
  SendOut();
  return !write_failed_;
}

bool RawTlsClient::Write(const RawFrame& frame) {
  Bytes bytes;
  AppendFrame(bytes, frame);
  return Write(bytes);
}

bool RawTlsClient::KeyUpdate() {
  ERR_clear_error();
  if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1 || SSL_do_handshake(ssl_) != 1) {
    return false;
  }
  SendOut();
  return !write_failed_;
}

void RawTlsClient::TakeFrames() {
  Bytes room(65'536);
  for (;;) {
    std::size_t size = 0;
    ERR_clear_error();
    if (SSL_read_ex(ssl_, room.data(), room.size(), &size) != 1) break;
    plain_.insert(plain_.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
  }
  std::size_t used = 0;
  for (RawFrame& frame : ParseFrames(plain_)) {
    used += 9 + frame.payload.size();
    if (frame.type == FrameType::kHeaders) Inflate(frame);
    frames_.push_back(std::move(frame));
  }
  plain_.erase(plain_.begin(), plain_.begin() + static_cast<std::ptrdiff_t>(used));
}

// Our server sends header blocks in one frame, without padding or priority.
void RawTlsClient::Inflate(const RawFrame& frame) {
  std::string_view rest = frame.payload;
  for (;;) {
    nghttp2_nv field{};
    int flags = 0;
    const ssize_t used =
        nghttp2_hd_inflate_hd2(inflater_, &field, &flags,
                               reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size(), 1);
    CHECK(used >= 0, "HPACK {}", used);
    rest.remove_prefix(static_cast<std::size_t>(used));
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      const std::string name(reinterpret_cast<const char*>(field.name), field.namelen);
      headers_[frame.stream][name] =
          std::string(reinterpret_cast<const char*>(field.value), field.valuelen);
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
  }
  nghttp2_hd_inflate_end_headers(inflater_);
}

bool RawTlsClient::ReadUntil(const std::function<bool()>& enough) {
  TakeFrames();
  while (!enough()) {
    if (!TakeIn()) return false;
    TakeFrames();
  }
  return true;
}

bool RawTlsClient::ReadToEnd() {
  ReadUntil([] { return false; });
  return ended_;
}

int RawTlsClient::goaway() const {
  const auto at = std::ranges::find(frames_, FrameType::kGoaway, &RawFrame::type);
  return at == frames_.end() ? -1 : static_cast<unsigned char>(at->payload.at(7));
}

std::string RawTlsClient::goaway_text() const {
  const auto at = std::ranges::find(frames_, FrameType::kGoaway, &RawFrame::type);
  return at == frames_.end() ? "" : at->payload.substr(8);
}

// --- Calls --------------------------------------------------------------------------------------

bool RawTlsClient::Request(std::uint32_t stream, std::string_view path, std::string_view more,
                           std::uint8_t flags) {
  return Write(RawFrame{.type = FrameType::kHeaders,
                        .flags = static_cast<std::uint8_t>(kEndHeaders | flags),
                        .stream = stream,
                        .payload = RequestFields(path) + std::string(more)});
}

bool RawTlsClient::Message(std::uint32_t stream, std::string_view message, std::uint8_t flags) {
  const FramePrefix prefix = MakeFramePrefix(message.size());
  std::string payload(prefix.begin(), prefix.end());
  payload += message;
  return Write(RawFrame{
      .type = FrameType::kData, .flags = flags, .stream = stream, .payload = std::move(payload)});
}

int RawTlsClient::StatusOf(std::uint32_t stream) {
  const auto reset = [&] {
    return std::ranges::find_if(frames_, [&](const RawFrame& frame) {
      return frame.type == FrameType::kReset && frame.stream == stream;
    });
  };
  ReadUntil([&] { return !HeaderOf(stream, "grpc-status").empty() || reset() != frames_.end(); });
  const std::string status = HeaderOf(stream, "grpc-status");
  if (!status.empty()) return std::stoi(status);
  return reset() == frames_.end() ? -1 : 100 + static_cast<unsigned char>(reset()->payload.at(3));
}

std::string RawTlsClient::HeaderOf(std::uint32_t stream, const std::string& name) const {
  const auto at = headers_.find(stream);
  if (at == headers_.end()) return "";
  const auto field = at->second.find(name);
  return field == at->second.end() ? "" : field->second;
}

}  // namespace nstance::grpc::test
