// A client that does as it likes: a plain socket, TLS with any certificates and versions, HTTP/2
// frames by hand. It blocks, and gives up after ten seconds, which only a broken test meets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/rpc/tls_connection.h"
#include "base/text.h"
#include "ports/rpc.h"
#include "test/adapters/rpc/raw_frames.h"
#include "test/adapters/rpc/rpc_materials.h"
#include "test/crypto/certificate_forge.h"

struct ssl_ctx_st;
struct ssl_st;
struct ssl_session_st;
struct nghttp2_hd_inflater;

namespace nstance::grpc::test {

class RawClient {
 public:
  // `from`: an address of the loopback network, to look like somebody else.
  explicit RawClient(const RpcAddress& address, const std::string& from = "");

  [[nodiscard]] bool connected() const { return connected_; }
  bool Write(std::span<const std::uint8_t> bytes);
  // What is there, at least a byte; empty when the other side has closed, or gives nothing in time.
  Bytes Read();
  // Reads to the end; false when it does not come in time.
  bool ReadToEnd(Bytes& all);
  // Whether the other side closes within so many milliseconds. What it says is dropped.
  bool ClosesWithin(int milliseconds);
  // The same without reading anything.
  bool HangsUpWithin(int milliseconds);
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  // Instead of after ten seconds.
  void GiveUpAfter(Duration time);

 private:
  Descriptor socket_;
  bool connected_ = false;
  bool timed_out_ = false;
};

// What a client shows in the handshake.
struct RawIdentity {
  std::vector<Bytes> chain = {};  // DER, leaf first; empty: none.
  std::optional<crypto::test::ForgeKey> key = std::nullopt;
};
[[nodiscard]] RawIdentity IdentityOf(Who who);

struct RawTlsSetup {
  RawIdentity identity = {};
  bool old_version = false;     // TLS 1.2 at most.
  std::string alpn = "\x02h2";  // Empty: none.
  ssl_session_st* resume = nullptr;
};

class RawTlsClient {
 public:
  RawTlsClient(const RpcAddress& address, RawTlsSetup setup, const std::string& from = "");
  RawTlsClient(const RawTlsClient&) = delete;
  RawTlsClient& operator=(const RawTlsClient&) = delete;
  ~RawTlsClient();

  // Our side of the handshake is complete; the server may still refuse our certificate.
  [[nodiscard]] bool open() const { return open_; }
  // No byte of HTTP/2 comes before the end.
  [[nodiscard]] bool Refused();
  // False when the server has had enough.
  bool Write(std::span<const std::uint8_t> plain);
  bool Write(const RawFrame& frame);
  bool KeyUpdate();
  // The first bytes of the handshake, as the client would send them; made without a connection.
  [[nodiscard]] static Bytes Hello();

  // Reads until `enough`, which looks at frames(), or the end.
  bool ReadUntil(const std::function<bool()>& enough);
  // False when the server does not close.
  bool ReadToEnd();
  [[nodiscard]] const std::vector<RawFrame>& frames() const { return frames_; }
  [[nodiscard]] bool ended() const { return ended_; }
  // GOAWAY's code; -1 when there was none.
  [[nodiscard]] int goaway() const;
  [[nodiscard]] std::string goaway_text() const;

  // Opens a call by hand; more fields may follow those of the request.
  bool Request(std::uint32_t stream, std::string_view path, std::string_view more = "",
               std::uint8_t flags = 0);
  bool Message(std::uint32_t stream, std::string_view message, std::uint8_t flags = kEndStream);
  // Reads until the call has ended. Its gRPC status; 100 + the code of a reset; -1: the connection
  // ended.
  int StatusOf(std::uint32_t stream);
  [[nodiscard]] std::string HeaderOf(std::uint32_t stream, const std::string& name) const;

  [[nodiscard]] ssl_st* native_handle() const { return ssl_; }
  [[nodiscard]] RawClient& raw() { return raw_; }

 private:
  void SendOut();
  bool TakeIn();
  void TakeFrames();
  void Inflate(const RawFrame& frame);

  ssl_ctx_st* context_ = nullptr;
  ssl_st* ssl_ = nullptr;
  RawClient raw_;  // Connects when everything is prepared.
  nghttp2_hd_inflater* inflater_ = nullptr;
  bool open_ = false;
  bool ended_ = false;
  bool write_failed_ = false;
  Bytes plain_;
  std::vector<RawFrame> frames_;
  std::map<std::uint32_t, std::map<std::string, std::string>> headers_;
};

}  // namespace nstance::grpc::test
