// TLS of the small HTTP server: 1.2 or later, no client certificates, no tickets.
//
//   ASSIGN_OR_RETURN(auto identity, HttpTlsIdentity::Make(material));
//   HttpTlsStream stream(identity, descriptor);      // One connection; the handshake is implied.
//   const HttpTransfer got = stream.Receive(buffer);
//
// The descriptor stays the caller's: a stream reads and writes it and never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "ports/rpc.h"

struct ssl_ctx_st;
struct ssl_st;

namespace nstance::http_server {

// What came of one attempt to read or write.
struct HttpTransfer {
  enum class State : std::uint8_t { kMoved, kWantsRead, kWantsWrite, kEnded };
  State state = State::kEnded;
  std::size_t bytes = 0;  // kMoved only; not 0.
};

class HttpTlsIdentity final {
 public:
  // kInvalidArgument: no chain, no key, or a key that does not belong to the leaf.
  [[nodiscard]] static Result<std::shared_ptr<const HttpTlsIdentity>> Make(
      const RpcTlsMaterial& material);
  HttpTlsIdentity(const HttpTlsIdentity&) = delete;
  HttpTlsIdentity& operator=(const HttpTlsIdentity&) = delete;
  ~HttpTlsIdentity();
  [[nodiscard]] ssl_ctx_st* native_handle() const { return native_; }

 private:
  HttpTlsIdentity();
  ssl_ctx_st* native_ = nullptr;
};

class HttpTlsStream final {
 public:
  HttpTlsStream(std::shared_ptr<const HttpTlsIdentity> identity, int descriptor);
  HttpTlsStream(const HttpTlsStream&) = delete;
  HttpTlsStream& operator=(const HttpTlsStream&) = delete;
  ~HttpTlsStream();

  [[nodiscard]] HttpTransfer Receive(std::span<char> into);
  [[nodiscard]] HttpTransfer Send(std::span<const char> from);
  // Says that nothing more follows, as far as the socket takes it.
  void EndSending();

 private:
  [[nodiscard]] HttpTransfer Outcome(int result) const;

  std::shared_ptr<const HttpTlsIdentity> identity_;
  ssl_st* native_ = nullptr;
};

}  // namespace nstance::http_server
