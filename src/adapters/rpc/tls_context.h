// TlsContext: what one side shows and trusts, ready for handshakes. TlsSession: one connection's
// TLS over memory buffers; it owns no socket and reads no clock.
//
// TLS 1.3 only, signatures Ed25519 only, ALPN `h2` required of both sides and checked again after
// the handshake (a client that offers none is otherwise let through). No tickets, no session cache,
// no early data. The other side's certificates, at most 64 KiB of them, are judged by VerifyPeer()
// alone: OpenSSL's own chain and clock checks are replaced. A client also checks that the
// certificate names the host that was dialled; the subject's CN does not count.
//
// A context is immutable and shared between threads; connections keep the one they began with.
//
//   TlsSession tls(context, TlsSession::Target{});      // A server's side.
//   tls.Feed(received);
//   ASSIGN_OR_RETURN(const bool open, tls.Handshake(now));
//   while (open) {
//     ASSIGN_OR_RETURN(const std::size_t n, tls.Read(plain));
//     if (n == 0) break;
//   }
//   Send(tls.output());                                 // Also after an error: it holds the alert.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "crypto/certificate.h"
#include "crypto/verify_peer.h"
#include "ports/rpc.h"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;
struct x509_store_ctx_st;

namespace nstance::grpc {

enum class ClientCertificates : std::uint8_t { kNone, kRequired };

class TlsContext final {
 public:
  // kInvalidArgument: no chain, no key, a key that does not belong to the leaf, no roots where
  // client certificates are required.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> ForServer(
      RpcTls material, ClientCertificates client_certificates);
  // A client without chain and key shows none. kInvalidArgument: no roots, chain and key that do
  // not fit.
  [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> ForClient(RpcTls material);

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  [[nodiscard]] const std::vector<crypto::Certificate>& roots() const { return material_->roots; }
  [[nodiscard]] crypto::PeerUsage peer_usage() const { return peer_usage_; }
  [[nodiscard]] bool asks_for_certificate() const { return asks_for_certificate_; }
  [[nodiscard]] ssl_ctx_st* native_handle() const { return native_; }

 private:
  TlsContext(RpcTls material, crypto::PeerUsage peer_usage);
  [[nodiscard]] Status SetUp();
  [[nodiscard]] Status UseIdentity();

  RpcTls material_;
  crypto::PeerUsage peer_usage_;
  bool asks_for_certificate_ = true;
  ssl_ctx_st* native_ = nullptr;
};

class TlsSession final {
 public:
  // Whom a client dialled; empty for a server. Names go into SNI, literal addresses do not.
  struct Target {
    std::string host = {};
  };

  TlsSession(std::shared_ptr<const TlsContext> context, Target target);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // Bytes from the other side. All of them are taken by the calls of Handshake() or Read() that
  // follow, until those want more; the span must live as long.
  void Feed(std::span<const std::uint8_t> bytes) { input_ = bytes; }

  // One step; true once it is complete. A client calls it first without input. Errors are final;
  // output() then holds the alert, if there is one:
  //   kUnauthenticated    the other side did not accept our certificate, or (server) showed none
  //                       that counts
  //   kPermissionDenied   (client) the server is not the one that was dialled
  //   kUnavailable        anything else
  [[nodiscard]] Result<bool> Handshake(Timestamp now);
  // Plaintext; 0 when more input is needed or the other side has closed. Errors as above.
  [[nodiscard]] Result<std::size_t> Read(std::span<std::uint8_t> plain);
  // REQUIRES: the handshake is complete.
  void Write(std::span<const std::uint8_t> plain);
  // Appends close_notify.
  void Close();

  // Ciphertext to be sent; the caller takes it out.
  [[nodiscard]] Bytes& output() { return output_; }
  // The other side said close_notify.
  [[nodiscard]] bool closed() const { return closed_; }
  // Key updates received so far.
  [[nodiscard]] std::uint64_t key_updates() const { return key_updates_; }
  // What VerifyPeer() said about the certificates; empty when none were asked for.
  [[nodiscard]] const std::optional<crypto::PeerVerdict>& verdict() const { return verdict_; }
  // Whether the certificates shown also lead to one of these roots.
  [[nodiscard]] bool LeadsTo(const TlsContext& other, Timestamp now) const;

 private:
  friend struct TlsHooks;
  [[nodiscard]] bool VerifyChain(x509_store_ctx_st* store);
  [[nodiscard]] Error Failure(int ssl_error) const;
  [[nodiscard]] Error FromAlert() const;

  std::shared_ptr<const TlsContext> context_;
  Target target_;
  ssl_st* ssl_ = nullptr;
  std::span<const std::uint8_t> input_;
  Bytes output_;
  Timestamp now_;
  bool open_ = false;
  bool closed_ = false;
  std::uint64_t key_updates_ = 0;
  std::optional<std::uint8_t> alert_received_;
  std::optional<crypto::PeerVerdict> verdict_;
  std::optional<Error> name_error_;
};

}  // namespace nstance::grpc
