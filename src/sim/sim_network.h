// SimNetwork: how frames of simulated connections travel between processes, in virtual time.
//
// A connection (SimWire) keeps TCP's promises: in each direction frames arrive in order, each once,
// or not at all. They take time, drawn from the seed. A cut of one direction between two processes
// stops what travels there until it is healed; nobody is told, as in life: keepalive finds out. A
// broken connection is told to both ends at once and drops what was under way. A process that dies
// (its end is destroyed) is told to the other end, over the network, by its kernel.
//
// Frames are handed over on the receiver's loop, one per turn. Used by sim_rpc.h.
//
// Lifetimes: scheduler, then network, then everything that uses it; an end detaches before its loop
// goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/certificate.h"
#include "crypto/verify_peer.h"
#include "ports/loop.h"
#include "ports/rpc.h"
#include "ports/rpc_codec.h"
#include "sim/sim_loop.h"
#include "sim/sim_scheduler.h"

namespace nstance::sim {

// --- What travels --------------------------------------------------------------------------------

using SimCallId = std::uint64_t;

struct SimConnect {
  std::vector<crypto::Certificate> chain;
};
struct SimAccepted {
  std::vector<crypto::Certificate> chain;
};
struct SimHeaders {
  SimCallId call = 0;
  std::string path;
  std::optional<Duration> timeout;
  RpcMetadata metadata;
};
struct SimResponseHead {
  SimCallId call = 0;
  RpcMetadata metadata;
};
struct SimData {
  SimCallId call = 0;
  Result<RpcMessage> message;  // An error: the receiver cannot decode it.
};
struct SimHalfClose {
  SimCallId call = 0;
};
enum class SimRefused : std::uint8_t { kNo, kBeforeHandling };
struct SimTrailers {
  SimCallId call = 0;
  Status status;
  RpcMetadata trailing = {};
  SimRefused refused = SimRefused::kNo;
};
struct SimReset {
  SimCallId call = 0;
};
// One message was handed over.
struct SimCredit {
  SimCallId call = 0;
};
struct SimPing {};
struct SimPong {};
struct SimGoAway {};
// The other end is gone, or never was.
struct SimClosed {
  Error why;
};
using SimFrame =
    std::variant<SimConnect, SimAccepted, SimHeaders, SimResponseHead, SimData, SimHalfClose,
                 SimTrailers, SimReset, SimCredit, SimPing, SimPong, SimGoAway, SimClosed>;

// --- One connection ------------------------------------------------------------------------------

enum class SimEnd : std::uint8_t { kClient, kServer };

class SimWireUser {
 public:
  SimWireUser() = default;
  SimWireUser(const SimWireUser&) = delete;
  SimWireUser& operator=(const SimWireUser&) = delete;
  virtual ~SimWireUser() = default;
  virtual void OnFrame(SimFrame frame) = 0;
};

class SimNetwork;

class SimWire final : public std::enable_shared_from_this<SimWire> {
 public:
  SimWire(SimNetwork& network, std::string client, std::string server)
      : network_(network), names_{std::move(client), std::move(server)} {}
  SimWire(const SimWire&) = delete;
  SimWire& operator=(const SimWire&) = delete;

  void Attach(SimEnd end, Loop& loop, SimWireUser& user);
  // Nothing is handed over at that end any more. What it sent before still travels.
  void Detach(SimEnd end);
  void Send(SimEnd from, SimFrame frame);
  // Both ends learn it; what was under way is gone.
  void Break(const Error& why);

 private:
  friend class SimNetwork;
  struct Parcel {
    Instant due;
    SimFrame frame;
  };
  struct Way {  // Towards one end.
    std::deque<Parcel> travelling;
    Pending timer;
    std::deque<SimFrame> arrived;
    Loop* loop = nullptr;  // Of the end; null when it is detached.
    SimWireUser* user = nullptr;
    bool look_posted = false;
  };

  [[nodiscard]] Way& To(SimEnd end) { return ways_[static_cast<std::size_t>(end)]; }
  [[nodiscard]] const std::string& NameOf(SimEnd end) const {
    return names_[static_cast<std::size_t>(end)];
  }
  [[nodiscard]] static SimEnd Other(SimEnd end) {
    return end == SimEnd::kClient ? SimEnd::kServer : SimEnd::kClient;
  }
  // Moves what has arrived, unless that direction is cut, and sets the timer for the rest.
  void Pump(SimEnd towards);
  void PostLook(SimEnd end);
  void Look(SimEnd end);

  SimNetwork& network_;
  std::array<std::string, 2> names_;  // Of the processes, by end.
  std::array<Way, 2> ways_;           // By the end that they lead to.
};

// --- All connections -----------------------------------------------------------------------------

// Somebody who accepts connections.
class SimListener {
 public:
  SimListener() = default;
  SimListener(const SimListener&) = delete;
  SimListener& operator=(const SimListener&) = delete;
  virtual ~SimListener() = default;
  [[nodiscard]] virtual const std::string& process() const = 0;
  // A client has begun to connect: attach to the wire. Its first frame is SimConnect.
  virtual void OnWire(std::shared_ptr<SimWire> wire, const RpcAddress& from,
                      const RpcAddress& to) = 0;
};

class SimNetwork final {
 public:
  struct Options {
    Duration latency_min = Duration::Microseconds(100);
    Duration latency_max = Duration::Milliseconds(2);
    // When given, every message crosses as bytes through its codec: limits of size and count hold,
    // and a type error is found at once. Else the structs themselves cross.
    std::span<const RpcMethod> methods = {};
    // An address that moves between hosts: which one has it now. Empty: hosts are what they are.
    std::function<std::string(const std::string& host)> route = {};
  };

  SimNetwork(SimScheduler& scheduler, Options options);
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // From now on nothing travels from one process to the other. What is sent meanwhile waits.
  void Cut(const std::string& from, const std::string& to);
  void Heal(const std::string& from, const std::string& to);
  void HealAll();
  // Breaks every connection between the two, whichever dialled.
  void BreakConnections(const std::string& one, const std::string& other);

  // Nothing that the process sends from now on leaves its machine: it is dying.
  void Silence(const std::string& process) { silent_.insert(process); }
  void Unsilence(const std::string& process) { silent_.erase(process); }

  // --- For sim_rpc ---

  // kUnavailable: somebody listens there already.
  [[nodiscard]] Status Listen(const RpcAddress& address, SimListener& listener);
  void StopListening(const RpcAddress& address);
  // A port that was not given out for a long time.
  [[nodiscard]] std::uint16_t FreePort();

  // A wire with the client's end attached, towards whoever listens there now; if nobody does, it
  // ends with SimClosed.
  [[nodiscard]] std::shared_ptr<SimWire> Dial(const std::string& process, const RpcAddress& to,
                                              Loop& loop, SimWireUser& user);

  // What becomes of a message on its way: itself, or through the codec of the path. An empty
  // optional: too large to be sent.
  enum class Direction : std::uint8_t { kRequest, kResponse };
  [[nodiscard]] std::optional<Result<RpcMessage>> Carry(std::string_view path, Direction direction,
                                                        RpcMessage message) const;

  // What crypto::VerifyPeer says of a chain. Checked once: the verdict on the same certificates is
  // the same for as long as all of them are valid, and handshakes are most of what a world costs.
  struct Presented {
    const std::vector<crypto::Certificate>& chain;
    const std::vector<crypto::Certificate>& roots;
    Timestamp now;
    crypto::PeerUsage usage = crypto::PeerUsage::kClient;
  };
  [[nodiscard]] crypto::PeerVerdict Verify(const Presented& presented);
  // Hears of every chain that is refused although all certificates are within their time.
  using Refused = std::function<void(const Presented&, const Error& why)>;
  void set_on_refused(Refused told) { on_refused_ = std::move(told); }

  [[nodiscard]] bool IsCut(const std::string& from, const std::string& to) const {
    return cuts_.contains({from, to});
  }

 private:
  friend class SimWire;
  static constexpr std::uint16_t kFirstPort = 40'000;
  using Place = std::pair<std::string, std::uint16_t>;

  [[nodiscard]] Duration DrawLatency();
  [[nodiscard]] std::vector<std::shared_ptr<SimWire>> Wires();

  SimLoop loop_;
  Prng prng_;
  Options options_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::set<std::string> silent_;
  std::map<Place, SimListener*> listeners_;
  std::vector<std::weak_ptr<SimWire>> wires_;
  std::map<std::string, crypto::PeerVerdict> verdicts_;  // By usage and all certificates.
  Refused on_refused_;
  std::uint16_t next_port_ = kFirstPort;
};

}  // namespace nstance::sim
