#include "sim/sim_network.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"

namespace nstance::sim {

// --- SimWire -------------------------------------------------------------------------------------

void SimWire::Attach(SimEnd end, Loop& loop, SimWireUser& user) {
  Way& way = To(end);
  CHECK(way.user == nullptr);
  way.loop = &loop;
  way.user = &user;
}

void SimWire::Detach(SimEnd end) {
  Way& way = To(end);
  way.loop = nullptr;
  way.user = nullptr;
  way.travelling.clear();
  way.timer.Cancel();
  way.arrived.clear();
}

void SimWire::Send(SimEnd from, SimFrame frame) {
  if (network_.silent_.contains(NameOf(from))) return;
  const SimEnd towards = Other(from);
  Way& way = To(towards);
  if (way.user == nullptr) return;
  Instant due = network_.loop_.Now() + network_.DrawLatency();
  if (!way.travelling.empty()) due = std::max(due, way.travelling.back().due);
  way.travelling.push_back({.due = due, .frame = std::move(frame)});
  if (way.travelling.size() == 1) Pump(towards);
}

void SimWire::Break(const Error& why) {
  for (const SimEnd end : {SimEnd::kClient, SimEnd::kServer}) {
    Way& way = To(end);
    if (way.user == nullptr) continue;
    way.travelling.clear();
    way.timer.Cancel();
    way.arrived.clear();
    way.arrived.emplace_back(SimClosed{.why = why});
    PostLook(end);
  }
}

void SimWire::Pump(SimEnd towards) {
  Way& way = To(towards);
  way.timer.Cancel();
  if (network_.IsCut(NameOf(Other(towards)), NameOf(towards))) return;
  const Instant now = network_.loop_.Now();
  while (!way.travelling.empty() && way.travelling.front().due <= now) {
    way.arrived.push_back(std::move(way.travelling.front().frame));
    way.travelling.pop_front();
    PostLook(towards);
  }
  if (way.travelling.empty()) return;
  way.timer = network_.loop_.CallAt(way.travelling.front().due, [weak = weak_from_this(), towards] {
    if (const auto wire = weak.lock()) wire->Pump(towards);
  });
}

void SimWire::PostLook(SimEnd end) {
  Way& way = To(end);
  if (way.look_posted || way.loop == nullptr) return;
  way.look_posted = true;
  way.loop->Post([weak = weak_from_this(), end] {
    if (const auto wire = weak.lock()) wire->Look(end);
  });
}

void SimWire::Look(SimEnd end) {
  Way& way = To(end);
  way.look_posted = false;
  if (way.user == nullptr || way.arrived.empty()) return;
  SimFrame frame = std::move(way.arrived.front());
  way.arrived.pop_front();
  if (!way.arrived.empty()) PostLook(end);
  way.user->OnFrame(std::move(frame));
}

// --- SimNetwork ----------------------------------------------------------------------------------

SimNetwork::SimNetwork(SimScheduler& scheduler, Options options)
    : loop_(scheduler, Timestamp()), prng_(scheduler.prng().Fork()), options_(std::move(options)) {}

Duration SimNetwork::DrawLatency() {
  return options_.latency_min + prng_.UpTo(options_.latency_max - options_.latency_min);
}

std::vector<std::shared_ptr<SimWire>> SimNetwork::Wires() {
  std::vector<std::shared_ptr<SimWire>> alive;
  std::erase_if(wires_, [&](const std::weak_ptr<SimWire>& weak) {
    auto wire = weak.lock();
    if (wire == nullptr) return true;
    alive.push_back(std::move(wire));
    return false;
  });
  return alive;
}

void SimNetwork::Cut(const std::string& from, const std::string& to) { cuts_.emplace(from, to); }

void SimNetwork::Heal(const std::string& from, const std::string& to) {
  cuts_.erase({from, to});
  for (const auto& wire : Wires()) {
    wire->Pump(SimEnd::kClient);
    wire->Pump(SimEnd::kServer);
  }
}

void SimNetwork::HealAll() {
  const auto cuts = cuts_;
  for (const auto& [from, to] : cuts) Heal(from, to);
}

void SimNetwork::BreakConnections(const std::string& one, const std::string& other) {
  for (const auto& wire : Wires()) {
    const std::string& client = wire->NameOf(SimEnd::kClient);
    const std::string& server = wire->NameOf(SimEnd::kServer);
    const bool between = (client == one && server == other) || (client == other && server == one);
    if (between) wire->Break(Unavailable("connection reset"));
  }
}

std::uint16_t SimNetwork::FreePort() {
  if (next_port_ == std::numeric_limits<std::uint16_t>::max()) next_port_ = kFirstPort;
  return next_port_++;
}

Status SimNetwork::Listen(const RpcAddress& address, SimListener& listener) {
  const bool added = listeners_.emplace(Place{address.host, address.port}, &listener).second;
  if (added) return {};
  return Fail(Unavailable(fmt::format("{}:{} is in use", address.host, address.port)));
}

void SimNetwork::StopListening(const RpcAddress& address) {
  listeners_.erase({address.host, address.port});
}

std::shared_ptr<SimWire> SimNetwork::Dial(const std::string& process, const RpcAddress& to,
                                          Loop& loop, SimWireUser& user) {
  const std::string host = options_.route ? options_.route(to.host) : to.host;
  const auto found = listeners_.find({host, to.port});
  SimListener* listener = found == listeners_.end() ? nullptr : found->second;
  auto wire = std::make_shared<SimWire>(*this, process,
                                        listener == nullptr ? to.host : listener->process());
  wire->Attach(SimEnd::kClient, loop, user);
  std::erase_if(wires_, [](const std::weak_ptr<SimWire>& weak) { return weak.expired(); });
  wires_.push_back(wire);
  if (listener == nullptr) {
    wire->Send(
        SimEnd::kServer,
        SimClosed{.why = Unavailable(fmt::format("{}:{}: connection refused", to.host, to.port))});
  } else {
    listener->OnWire(wire, {.host = process, .port = FreePort()}, {.host = host, .port = to.port});
  }
  return wire;
}

namespace {

// Of the port that the method belongs to (wire.md 1.1).
std::size_t RequestLimit(std::string_view path) {
  const RpcPolicyRow* row = FindRpcPolicy(RpcPolicy(), path);
  if (row == nullptr || row->port == RpcPort::kOperator) return kMaxRpcMessageBytes;
  return std::size_t{row->port == RpcPort::kAgent ? 256U : 64U} * 1024;
}

}  // namespace

std::optional<Result<RpcMessage>> SimNetwork::Carry(std::string_view path, Direction direction,
                                                    RpcMessage message) const {
  const RpcMethod* method = FindRpcMethod(options_.methods, path);
  if (method == nullptr) return Result<RpcMessage>(std::move(message));
  const RpcMessageCodec& codec =
      direction == Direction::kRequest ? method->request : method->response;
  const RpcMessage::Encoded bytes = EncodeShared(codec, message);
  if (bytes->size() > kMaxRpcMessageBytes) return std::nullopt;
  if (direction == Direction::kRequest && bytes->size() > RequestLimit(path)) {
    return Result<RpcMessage>(Fail(ResourceExhausted("the message is larger than the port takes")));
  }
  return codec.decode(*bytes, {});
}

namespace {

// Usage, number of certificates in the chain, and all of them.
std::string NameOf(const SimNetwork::Presented& presented) {
  std::string name = presented.usage == crypto::PeerUsage::kClient ? "c" : "s";
  name += fmt::format("{} ", presented.chain.size());
  for (const auto* part : {&presented.chain, &presented.roots}) {
    for (const crypto::Certificate& certificate : *part) name += AsText(certificate.der());
  }
  return name;
}

bool AllValid(const SimNetwork::Presented& presented) {
  return std::ranges::all_of(std::array{&presented.chain, &presented.roots}, [&](const auto* part) {
    return std::ranges::all_of(*part, [&](const crypto::Certificate& certificate) {
      return certificate.facts().not_before <= presented.now &&
             presented.now <= certificate.facts().not_after;
    });
  });
}

}  // namespace

crypto::PeerVerdict SimNetwork::Verify(const Presented& presented) {
  const auto verify = [&] {
    std::vector<Bytes> der;
    der.reserve(presented.chain.size());
    for (const auto& certificate : presented.chain) der.push_back(certificate.der());
    return crypto::VerifyPeer({.chain = der,
                               .roots = presented.roots,
                               .now = presented.now,
                               .usage = presented.usage,
                               .source = {}});
  };
  if (!AllValid(presented)) return verify();
  std::string name = NameOf(presented);
  auto known = verdicts_.find(name);
  if (known == verdicts_.end()) known = verdicts_.emplace(std::move(name), verify()).first;
  const crypto::PeerVerdict& verdict = known->second;
  if (!verdict.chain && on_refused_) on_refused_(presented, verdict.chain.error());
  return verdict;
}

}  // namespace nstance::sim
