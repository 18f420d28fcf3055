#include "adapters/rpc/admission.h"

#include <arpa/inet.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace nstance::grpc {
namespace {

constexpr std::size_t kMaxRates = 65'536;

bool IsLoopback(std::string_view host) { return host.starts_with("127.") || host == "::1"; }

bool Belongs(RpcPort port, const crypto::PeerIdentity& identity) {
  return identity.role ==
         (port == RpcPort::kAgent ? crypto::Role::kAgent : crypto::Role::kOperator);
}

// Whoever has knocked at the wrong port must not take the places of those who belong there.
std::string IdentityKey(RpcPort port, const crypto::PeerIdentity& identity) {
  if (!Belongs(port, identity)) return fmt::format("other/{}", identity.id);
  return port == RpcPort::kAgent ? "agent/" + identity.id : "operator/" + identity.tenant.text();
}

// Registrations are counted together, all others for whoever calls.
std::string CallKey(const Admission::Holder& holder) {
  if (holder.row.limits == RpcLimitsClass::kRegistration || holder.identity == nullptr) {
    return "registration";
  }
  const std::string& who =
      holder.row.port == RpcPort::kAgent ? holder.identity->id : holder.identity->tenant.text();
  return fmt::format("{} {}", static_cast<int>(holder.row.limits), who);
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t ConnectionsOfProcess() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 900'000;
  return static_cast<std::size_t>(limit.rlim_cur) / 10 * 9;
}

std::string AddressKey(std::string_view host) {
  std::string text(host);
  in6_addr address{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return text;
  for (std::size_t i = 8; i < 16; ++i) address.s6_addr[i] = 0;
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(AF_INET6, &address, out.data(), out.size());
  return fmt::format("{}/64", out.data());
}

// "Full at" is all the state: each token taken moves it one interval ahead.
bool TokenBucket::Take(Instant now) {
  const Duration interval = Duration::Seconds(1) / per_second_;
  const Instant from = std::max(full_at_, now);
  if (from + interval - now > interval * burst_) return false;
  full_at_ = from + interval;
  return true;
}

bool Admission::Exempt(std::string_view host) const {
  return limits_.loopback == AdmissionLimits::Loopback::kExempt && IsLoopback(host);
}

Status Admission::Accept(RpcPort port, std::string_view host) {
  const std::scoped_lock lock(mutex_);
  const std::size_t reserve = limits_.connections / 10;
  if (total_ >= limits_.connections || total_ - verified_ >= limits_.connections - reserve) {
    return Fail(ResourceExhausted("connections"));
  }
  if (port == RpcPort::kRegistration) {
    if (registration_ >= limits_.registration_connections) {
      return Fail(ResourceExhausted("registration_connections"));
    }
    const std::string key = AddressKey(host);
    std::size_t& count = by_address_[key];
    if (count >= limits_.registration_per_address && !Exempt(host)) {
      return Fail(ResourceExhausted("registration_connections_per_address"));
    }
    ++count;
    ++registration_;
  }
  ++total_;
  return {};
}

Result<std::optional<ConnectionId>> Admission::Verify(const Verified& verified) {
  const std::scoped_lock lock(mutex_);
  std::deque<ConnectionId>& open = by_identity_[IdentityKey(verified.port, verified.identity)];
  std::optional<ConnectionId> victim;
  if (verified.port == RpcPort::kAgent || !Belongs(verified.port, verified.identity)) {
    if (open.size() >= limits_.agent_connections) victim = open.front();
  } else if (open.size() >= limits_.operator_connections) {
    return Fail(ResourceExhausted("operator_connections"));
  }
  // The victim's place is free from now on, whenever it goes: a third one closes the next.
  if (victim) open.pop_front();
  open.push_back(verified.connection);
  ++verified_;
  return victim;
}

void Admission::Release(const Gone& gone) {
  const std::scoped_lock lock(mutex_);
  --total_;
  if (gone.port == RpcPort::kRegistration) {
    --registration_;
    const auto at = by_address_.find(AddressKey(gone.host));
    if (at != by_address_.end() && --at->second == 0) by_address_.erase(at);
  }
  if (gone.identity == nullptr) return;
  --verified_;
  const auto at = by_identity_.find(IdentityKey(gone.port, *gone.identity));
  if (at == by_identity_.end()) return;
  std::erase(at->second, gone.connection);
  if (at->second.empty()) by_identity_.erase(at);
}

// Buckets that are full again say nothing; they are dropped when there are many.
void Admission::Sweep(Instant now) {
  if (rates_.size() < kMaxRates) return;
  std::erase_if(rates_, [&](const auto& entry) { return entry.second.IsFull(now); });
}

Status Admission::TakeRate(std::string_view host, Instant now) {
  if (!total_rate_) total_rate_.emplace(limits_.calls_total, limits_.calls_total, now);
  if (!Exempt(host)) {
    Sweep(now);
    const auto at =
        rates_.try_emplace(AddressKey(host), limits_.calls_per_address, limits_.calls_burst, now)
            .first;
    if (!at->second.Take(now)) {
      return Fail(ResourceExhausted("too many calls from this address; try again later"));
    }
  }
  if (!total_rate_->Take(now)) {
    return Fail(ResourceExhausted("too many registrations; try again later"));
  }
  return {};
}

Result<std::string> Admission::StartCall(const Holder& holder, Instant now) {
  const std::optional<std::size_t> limit = InFlightLimit(holder.row.limits);
  const std::scoped_lock lock(mutex_);
  const bool registration = holder.row.limits == RpcLimitsClass::kRegistration;
  if (registration) RETURN_IF_ERROR(TakeRate(holder.host, now));
  if (!limit) return std::string();
  std::string key = CallKey(holder);
  std::size_t& count = calls_[key];
  if (count >= *limit) {
    std::string message = fmt::format("more than {} calls of this kind at once", *limit);
    return Fail(registration ? Unavailable(std::move(message))
                             : ResourceExhausted(std::move(message)));
  }
  ++count;
  return key;
}

void Admission::EndCall(const std::string& key) {
  if (key.empty()) return;
  const std::scoped_lock lock(mutex_);
  const auto at = calls_.find(key);
  if (at != calls_.end() && --at->second == 0) calls_.erase(at);
}

Admission::Usage Admission::usage() const {
  const std::scoped_lock lock(mutex_);
  Usage usage = {.connections = total_,
                 .verified = verified_,
                 .registration = registration_,
                 .addresses = by_address_.size(),
                 .identities = by_identity_.size()};
  for (const auto& [key, count] : calls_) usage.calls += count;
  return usage;
}

}  // namespace nstance::grpc
