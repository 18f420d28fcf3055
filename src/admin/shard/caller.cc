#include "admin/shard/caller.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace nstance::admin {

std::string AddressText(const RpcAddress& address) {
  return address.host.contains(':') ? fmt::format("[{}]:{}", address.host, address.port)
                                    : fmt::format("{}:{}", address.host, address.port);
}

RpcTarget TargetOf(const ServerAddress& server, const OperatorIdentity& identity) {
  return {.address = server.address,
          .tls = identity.tls,
          .connect_limit = Duration::Seconds(10),
          .ping_after = Duration::Seconds(300),
          .ping_limit = Duration::Seconds(10)};
}

Duration RetryPause::Next(Prng& jitter) {
  const Duration length = next_;
  next_ = std::min(next_ * 2, kMost);
  return length + jitter.UpTo(length / 4);
}

void LogState(const log::Logger& log, RpcChannelState state, const Status& why) {
  switch (state) {
    case RpcChannelState::kIdle: return;
    case RpcChannelState::kResolving: return log.Debug("resolving the name");
    case RpcChannelState::kConnecting: return log.Debug("connecting");
    case RpcChannelState::kReady:
      return log.Debug("connected", {{"tls", "its certificate and ours are accepted"}});
    case RpcChannelState::kGone: break;
  }
  if (why) return log.Debug("connection ended");
  log.Debug(IsRefusal(why.error()) ? "connection refused by TLS" : "connection failed",
            {{"error", why.error()}});
}

ShardCaller::ShardCaller(Setup setup, ServerAddress server)
    : setup_(std::move(setup)), server_(std::move(server)) {}

ShardCaller::~ShardCaller() = default;

Duration ShardCaller::Remaining() const {
  return std::max(Duration(), deadline_ - setup_.loop.Now());
}

void ShardCaller::Begin(Instant deadline) {
  CHECK(!call_under_way_, "one call at a time");
  call_under_way_ = true;
  call_began_ = setup_.loop.Now();
  if (deadline != deadline_) began_ = call_began_;
  deadline_ = deadline;
  last_.reset();
  lease_.reset();
  tries_ = 0;
  told_ = false;
  pause_.Reset();
  deadline_timer_ = setup_.loop.CallAt(deadline, [this] { OnDeadline(); });
  if (Remaining() == Duration()) return;  // Earlier calls have taken all the time.
  if (setup_.leases.store != nullptr) {
    const Duration lead = std::min(kLeaseLead, Remaining() / 2);
    lease_timer_ = setup_.loop.CallAt(deadline - lead, [this] { AskForLease(); });
  }
  // A connection that has gone meanwhile answers at once, and is made again.
  if (channel_ != nullptr && channel_->state() == RpcChannelState::kReady) return Try();
  Connect();
}

void ShardCaller::Connect() {
  setup_.log.Debug("dialling", {{"rest", Remaining()}});
  channel_ = setup_.dialer.Dial(
      TargetOf(server_, setup_.identity),
      {.state = [this](RpcChannelState state, const Status& why) { OnState(state, why); }});
  channel_->Connect();
}

void ShardCaller::OnState(RpcChannelState state, const Status& why) {
  LogState(setup_.log, state, why);
  if (!call_under_way_) return;
  if (state == RpcChannelState::kReady) return Try();
  if (state != RpcChannelState::kGone) return;
  const Error error = why ? Unavailable("the connection ended") : why.error();
  if (IsRefusal(error)) return GiveUp(AdviseOnConnection(error, setup_.identity));
  Again(error);
}

void ShardCaller::Try() {
  const Duration limit = std::min(kOneTry, Remaining());
  setup_.log.Debug("calling", {{"method", path_}, {"try", ++tries_}, {"limit", limit}});
  call_ = attempt_(*channel_, limit);
}

void ShardCaller::OnAnswered() {
  setup_.log.Debug(
      "answered",
      {{"method", path_}, {"took", setup_.loop.Now() - call_began_}, {"tries", tries_}});
}

void ShardCaller::OnCallFailed(const Error& error) {
  setup_.log.Debug("call failed", {{"method", path_}, {"try", tries_}, {"error", error}});
  const bool passing = error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
  if (passing) return Again(error);
  GiveUp(AdviseOnCall(error, setup_.identity));
}

void ShardCaller::Again(const Error& error) {
  last_ = error;
  call_ = {};
  channel_.reset();
  if (!told_ && setup_.trouble) {
    told_ = true;
    setup_.trouble(server_, error);
  }
  const Duration pause = pause_.Next(setup_.jitter);
  setup_.log.Debug("trying again", {{"pause", pause}});
  timer_ = setup_.loop.CallAfter(pause, [this] { Connect(); });
}

void ShardCaller::AskForLease() {
  setup_.log.Debug("reading the lease");
  lease_call_ = ReadLease(setup_.leases, server_.shard, [this](const Result<Object>& object) {
    setup_.log.Debug("lease", {{"says", LeaseClause(object, setup_.loop.WallNow())}});
    lease_ = object;
  });
}

std::string ShardCaller::LeaderClause() const {
  if (setup_.leases.store == nullptr) {
    return "ask each of its servers for /leader/health, or correct --servers; with "
           "--storage-bucket this names the holder of the lease";
  }
  if (!lease_) return "its lease could not be read in time";
  return LeaseClause(*lease_, setup_.loop.WallNow());
}

void ShardCaller::OnDeadline() {
  const std::string tried = FormatDuration(deadline_ - began_);
  // Asked once more without any time left: nothing has changed.
  if (deadline_ <= call_began_ && gave_up_) return GiveUp(*gave_up_);
  if (deadline_ <= call_began_) {
    return GiveUp(DeadlineExceeded(
        fmt::format("all the time was taken by what was asked of {} before; --timeout gives it "
                    "more",
                    AddressText(server_.address))));
  }
  if (!last_) {
    gave_up_ = DeadlineExceeded(
        fmt::format("no answer from {} within {}; --timeout gives it more time{}",
                    AddressText(server_.address), tried, lease_ ? "; " + LeaderClause() : ""));
    return GiveUp(*gave_up_);
  }
  gave_up_ = Error{.code = last_->code,
                   .outcome = last_->outcome,
                   .message = fmt::format("{} (tried for {}); nobody leads shard {} at {}: {}",
                                          last_->message, tried, server_.shard.text(),
                                          AddressText(server_.address), LeaderClause())};
  GiveUp(*gave_up_);
}

void ShardCaller::GiveUp(Error error) {
  const auto tell = std::move(fail_);
  const bool lost = channel_ != nullptr && channel_->state() != RpcChannelState::kReady;
  End();
  if (lost) channel_.reset();
  tell(std::move(error));
}

void ShardCaller::End() {
  call_under_way_ = false;
  spent_ += setup_.loop.Now() - call_began_;
  lease_timer_ = {};
  lease_call_ = {};
  call_ = {};
  timer_ = {};
  deadline_timer_ = {};
  attempt_ = nullptr;
  fail_ = nullptr;
}

void ShardCaller::Cancel() {
  if (!call_under_way_) return;
  End();
  channel_.reset();
}

// --- What to do about it -------------------------------------------------------------------------

bool IsRefusal(const Error& error) {
  return error.code == Code::kUnauthenticated || error.code == Code::kPermissionDenied;
}

Error AdviseOnConnection(Error error, const OperatorIdentity& identity) {
  if (error.code == Code::kUnauthenticated) return AdviseOnCall(std::move(error), identity);
  if (error.code != Code::kPermissionDenied) return error;
  error.message += fmt::format(
      "; --servers must name the operator port (8993) of a server of this cluster by a name of its "
      "certificate, and {}/ca.crt must be this cluster's",
      identity.folder);
  return error;
}

Error AdviseOnCall(Error error, const OperatorIdentity& identity) {
  if (error.code == Code::kUnauthenticated) {
    error.message += fmt::format(
        "; the server does not take {}/identity.crt: get a new one with `nstance-admin cluster "
        "register-operator`",
        identity.folder);
  } else if (error.code == Code::kPermissionDenied) {
    error.message += fmt::format(
        "; {}/identity.crt is of tenant {}: use the identity of another tenant with "
        "--identity-dir, or define the tenant in the server's configuration",
        identity.folder, identity.tenant.text());
  } else if (error.code == Code::kUnimplemented) {
    error.message += "; the server does not offer this: it is older than this tool";
  }
  return error;
}

}  // namespace nstance::admin
