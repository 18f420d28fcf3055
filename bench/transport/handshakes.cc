#include "bench/transport/handshakes.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include <openssl/ssl.h>

#include "base/check.h"

namespace nstance::bench {
namespace {

SSL_CTX* MakeContext(const std::filesystem::path& folder) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  CHECK(context != nullptr);
  constexpr std::array<unsigned char, 3> kAlpn = {2, 'h', '2'};
  CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
  CHECK(SSL_CTX_set_alpn_protos(context, kAlpn.data(), kAlpn.size()) == 0);
  CHECK(SSL_CTX_use_certificate_file(context, (folder / "agent.pem").c_str(), SSL_FILETYPE_PEM) ==
        1);
  CHECK(SSL_CTX_use_PrivateKey_file(context, (folder / "agent.key").c_str(), SSL_FILETYPE_PEM) ==
        1);
  CHECK(SSL_CTX_load_verify_locations(context, (folder / "ca.pem").c_str(), nullptr) == 1);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return context;
}

void MakeOne(SSL_CTX* context, const sockaddr_in& server) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(descriptor >= 0);
  const int one = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  CHECK(connect(descriptor, reinterpret_cast<const sockaddr*>(&server), sizeof(server)) == 0);
  SSL* ssl = SSL_new(context);
  CHECK(ssl != nullptr && SSL_set_fd(ssl, descriptor) == 1);
  CHECK(SSL_connect(ssl) == 1);
  SSL_shutdown(ssl);
  shutdown(descriptor, SHUT_WR);
  std::array<char, 4096> rest{};
  while (read(descriptor, rest.data(), rest.size()) > 0) {
  }
  SSL_free(ssl);
  close(descriptor);
}

}  // namespace

void MakeHandshakes(const std::filesystem::path& folder, std::uint16_t port, std::uint32_t count) {
  SSL_CTX* context = MakeContext(folder);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(port);
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (std::uint32_t i = 0; i < count; ++i) MakeOne(context, server);
  SSL_CTX_free(context);
}

}  // namespace nstance::bench
