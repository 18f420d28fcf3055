// SimRpcServer and SimRpcDialer: ports/rpc.h in virtual time, over sim_network.h.
//
// The same semantics as the real transport: order, half-close, cancel, deadlines, back-pressure,
// policy rows, limits of calls in flight, keepalive, revocation, GOAWAY. Certificates are real and
// are judged by the same VerifyPeer; only the signatures of the TLS handshake are left out. Send
// queues count messages instead of bytes (SimSendQueue).
//
// What is stricter: events of different calls come in an order chosen by the seed, one per turn.
// What differs from life: nothing is limited by address, and a message costs no bytes unless the
// network was given codecs.
//
// A process that dies destroys its server and dialers; the other ends learn it over the network.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/rpc_policy.h"
#include "ports/loop.h"
#include "ports/pending.h"
#include "ports/rpc.h"
#include "sim/sim_network.h"

namespace nstance::sim {

class SimServerConnection;

class SimRpcServer final : public RpcServer, public SimListener {
 public:
  struct Options {
    std::string process = {};
    std::span<const RpcPolicyRow> policy = RpcPolicy();
    Duration ping_after = Duration::Seconds(10);
    Duration ping_limit = Duration::Seconds(5);
  };

  SimRpcServer(SimNetwork& network, Loop& loop, Options options);
  ~SimRpcServer() override;

  [[nodiscard]] Status SetTls(RpcTls material) override;
  [[nodiscard]] Pending Open(RpcListen listen, Opened done) override;
  [[nodiscard]] Pending Close(RpcPort port, Instant deadline, Task done) override;
  void CloseConnections(const RpcConnectionsOf& whose, const Error& why) override;
  [[nodiscard]] Pending Stop(Instant deadline, Task done) override;

  [[nodiscard]] const std::string& process() const override { return options_.process; }
  void OnWire(std::shared_ptr<SimWire> wire, const RpcAddress& from, const RpcAddress& to) override;

  // Whether a handler has an open stream of that client: the server's side of it, so neither a call
  // that is on its way nor one whose refusal is.
  [[nodiscard]] bool HasStreamOf(const RpcIdentity& whose) const;

 private:
  friend class SimServerConnection;

  struct Listener {
    RpcAddress address;
    std::shared_ptr<RpcAcceptor> accept;  // Shared: one that runs may destroy the server.
  };
  // Somebody waits until no connection of these ports is left.
  struct Closing {
    std::vector<RpcPort> ports;
    Pending deadline;
    Task done;
  };

  [[nodiscard]] bool IsOpen(RpcPort port) const { return listeners_.contains(port); }
  [[nodiscard]] Pending CloseAll(std::vector<RpcPort> ports, Instant deadline, Task done);
  [[nodiscard]] std::vector<std::shared_ptr<SimServerConnection>> ConnectionsOn(RpcPort port) const;
  [[nodiscard]] bool HasRoomFor(const RpcPolicyRow& row, const SimServerConnection& caller) const;
  void LimitConnections(const SimServerConnection& newest);
  // The connection has closed and is to be forgotten.
  void Forget(const SimServerConnection& connection);
  void CheckClosings();

  SimNetwork& network_;
  Loop& loop_;
  Options options_;
  RpcTls tls_;
  bool stopped_ = false;
  std::map<RpcPort, Listener> listeners_;
  std::map<RpcPort, std::uint16_t> chosen_ports_;
  std::map<std::uint64_t, std::shared_ptr<SimServerConnection>> connections_;  // By age.
  std::uint64_t next_connection_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Closing>> closings_;
  std::uint64_t next_closing_ = 1;
};

class SimRpcDialer final : public RpcDialer {
 public:
  struct Options {
    std::string process = {};
    std::span<const RpcPolicyRow> policy = RpcPolicy();  // For the kinds of methods.
    // What is sent instead of a message; empty: the message. For what another client would say.
    std::function<RpcMessage(std::string_view path, RpcMessage message)> instead = {};
  };

  SimRpcDialer(SimNetwork& network, Loop& loop, Options options)
      : network_(network), loop_(loop), options_(std::move(options)) {}

  [[nodiscard]] std::unique_ptr<RpcChannel> Dial(RpcTarget target,
                                                 RpcChannelEvents events) override;

 private:
  SimNetwork& network_;
  Loop& loop_;
  Options options_;
};

}  // namespace nstance::sim
