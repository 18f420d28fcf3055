// IoThread: one thread of the server with a RealLoop of its own, its listeners and connections.
//
// Everything but the constructor, Post(), Join() and the link runs on the thread itself.
//
// Handshakes: a connection whose handshake bytes have arrived waits in a line, and a bounded number
// of the line is served per turn, so that a storm delays other handshakes and not open streams. A
// line that is too long pauses accepting; too many connections that let us wait close the oldest of
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/admission.h"
#include "adapters/rpc/server_connection.h"
#include "adapters/rpc/server_link.h"
#include "base/input_probe.h"
#include "base/log.h"
#include "base/metrics.h"

namespace nstance::grpc {

// What all threads of a server share. Immutable, except the admission object, which locks.
struct ServerShared {
  std::span<const RpcMethod> methods;
  std::span<const RpcPolicyRow> policy;
  log::Logger logger;
  std::unique_ptr<Admission> admission;
  RulesOfListeners rules;
  UntakenCount::Bytes untaken_bytes = std::make_shared<std::atomic<std::size_t>>(0);
};

// A listener's TLS for both kinds of ports.
struct ServerTls {
  std::shared_ptr<const TlsContext> anonymous;
  std::shared_ptr<const TlsContext> mutual;
};

struct Accepted {
  RpcPort port = RpcPort::kRegistration;
  Descriptor socket;
  RpcAddress address;
};

class IoThread final {
 public:
  // Where sockets go that a listener of this thread accepts, and how to reach a connection that may
  // be another thread's.
  struct Hooks {
    std::function<void(Accepted)> deal;
    std::function<bool()> behind;  // Too many have been dealt and not taken up.
    std::function<void(ConnectionId)> make_room;
    std::function<void()> wake_loop;  // Events are there.
  };

  // `number` tells the connections of different threads apart.
  IoThread(std::shared_ptr<ServerShared> shared, unsigned number, Hooks hooks);
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;
  // REQUIRES: joined.
  ~IoThread();

  // From any thread: runs `task` here.
  void Post(Task task) { loop_.Post(std::move(task)); }
  // From any other thread: cuts off what is open, ends the thread and waits for it.
  void Join();
  [[nodiscard]] const std::shared_ptr<ThreadLink>& link() const { return link_; }
  [[nodiscard]] static unsigned NumberOf(ConnectionId id) {
    return static_cast<unsigned>(id >> 48U);
  }

  void SetTls(const ServerTls& tls);
  // Connections of that port are taken from now on, until ClosePort().
  void OpenPort(RpcPort port) { open_.insert(port); }
  void Listen(RpcPort port, Descriptor socket);
  void Adopt(Accepted accepted);
  // Stops accepting; existing connections drain, at `deadline` they are closed. `done` runs when
  // the last one is gone.
  void ClosePort(RpcPort port, Instant deadline, Task done);
  void CloseConnections(const RpcConnectionsOf& whose, const Error& why);
  void CloseConnection(ConnectionId id, const Error& why);
  void EventsHandled();
  [[nodiscard]] metrics::Snapshot TakeMetrics() const { return registry_.Take(); }

 private:
  struct Listener {
    Descriptor socket;
    std::unique_ptr<DescriptorWatch> watch;
    Pending pause;  // Out of descriptors: tried again later.
    bool paused = false;
  };
  // Of one port. A connection in its handshake is in one of the two.
  struct Line {
    std::map<ConnectionId, std::string> waiting_client;  // By age, with the key of the address.
    std::map<std::string, std::size_t, std::less<>> by_address;  // Of those.
    std::deque<ConnectionId> waiting_us;                         // May name some that are gone.
    bool posted = false;
    bool behind = false;  // Too many: nothing is accepted.
  };
  struct Closing {
    Pending deadline;
    std::set<ConnectionId> left;
    std::vector<Task> done;
  };

  void OnAcceptable(RpcPort port);
  void AcceptSome(RpcPort port, Listener& listener);
  [[nodiscard]] bool AdmitAddress(RpcPort port, const RpcAddress& address);
  void SetAccepting();
  void RunCommands();
  void RunHandshakes(RpcPort port);
  [[nodiscard]] bool MayHandshake(ServerConnection& connection);
  void Opened(ServerConnection& connection);
  void Gone(ServerConnection& connection);
  void EnterLine(ServerConnection& connection);
  void LeaveLine(ServerConnection& connection);
  void HoldWaitingLimits(RpcPort port, const std::string& address);
  void CheckFull();
  [[nodiscard]] std::vector<std::shared_ptr<ServerConnection>> ConnectionsOf(
      const std::function<bool(const ServerConnection&)>& which) const;
  void FinishClosing(RpcPort port);

  std::shared_ptr<ServerShared> shared_;
  Hooks hooks_;
  RealLoop loop_;
  metrics::Registry registry_;
  InputProbe probe_{registry_};
  std::shared_ptr<ThreadLink> link_;
  ConnectionHost host_;
  ServerTls tls_;
  ConnectionId next_id_;
  std::map<RpcPort, ListenerRules> rules_;
  std::map<RpcPort, Listener> listeners_;
  std::map<RpcPort, Line> lines_;
  std::set<RpcPort> open_;
  std::map<RpcPort, Closing> closing_;
  std::unordered_map<ConnectionId, std::shared_ptr<ServerConnection>> connections_;
  std::thread thread_;
};

}  // namespace nstance::grpc
