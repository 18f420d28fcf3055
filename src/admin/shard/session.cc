#include "admin/shard/session.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/words.h"
#include "base/json.h"
#include "base/text.h"
#include "core/config/suggest.h"
#include "storage/prefixed_store.h"

namespace nstance::admin {
namespace {

std::uint64_t SeedOf(SecureRandom& random) {
  const auto bytes = random.Array<sizeof(std::uint64_t)>();
  std::uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

std::string ErrorJson(std::string_view message, std::string_view code, std::string_view shard) {
  std::string out = "{\"error\":";
  json::AppendString(out, message);
  out += ",\"code\":";
  json::AppendString(out, code);
  out += ",\"shard\":";
  json::AppendString(out, shard);
  out += "}\n";
  return out;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Open(ShardDeps deps, CommonFlags common,
                                               ShardFlags flags) {
  ASSIGN_OR_RETURN(OperatorIdentity identity,
                   ReadIdentity(flags.identity_dir, deps.read, deps.loop.WallNow()));
  return std::unique_ptr<Session>(
      new Session(std::move(deps), std::move(common), std::move(flags), std::move(identity)));
}

Session::Session(ShardDeps deps, CommonFlags common, ShardFlags flags, OperatorIdentity identity)
    : deps_(std::move(deps)),
      common_(std::move(common)),
      flags_(std::move(flags)),
      identity_(std::move(identity)),
      debug_(deps_.loop, deps_.terminal, common_.debug),
      jitter_(SeedOf(deps_.random)) {
  log::Logger(debug_, "admin")
      .Debug("identity read", {{"folder", identity_.folder},
                               {"tenant", identity_.tenant},
                               {"expires", identity_.tls->chain.front().facts().not_after},
                               {"timeout", flags_.timeout}});
  LeaseBucket leases{.store = deps_.store};
  if (flags_.storage) {
    leases.prefix = CheckStorePrefix(flags_.storage->prefix).value_or("");
    leases.layout = flags_.storage->layout;
  }
  for (const ServerAddress& server : flags_.servers) {
    callers_.push_back(std::make_unique<ShardCaller>(
        ShardCaller::Setup{
            .loop = deps_.loop,
            .dialer = deps_.dialer,
            .identity = identity_,
            .jitter = jitter_.Fork(),
            .log = LogOf(server),
            .leases = leases,
            .trouble = [this](const ServerAddress& at, const Error& why) { OnTrouble(at, why); }},
        server));
  }
}

Session::~Session() = default;

Paint Session::paint(Terminal::Stream stream) const {
  const bool plain =
      common_.no_color || common_.output == Output::kJson || !deps_.terminal.IsTerminal(stream);
  return plain ? Paint::kPlain : Paint::kColour;
}

std::unique_ptr<ShardStreams> Session::Streams(std::size_t server, std::vector<StreamWanted> wanted,
                                               StreamsEvents events) {
  return std::make_unique<ShardStreams>(ShardStreams::Setup{.loop = deps_.loop,
                                                            .dialer = deps_.dialer,
                                                            .identity = identity_,
                                                            .jitter = jitter_.Fork(),
                                                            .log = LogOf(this->server(server))},
                                        flags_.servers.at(server), std::move(wanted),
                                        std::move(events));
}

log::Logger Session::LogOf(const ServerAddress& server) {
  return log::Logger(debug_, "rpc")
      .With({{"shard", server.shard}, {"address", AddressText(server.address)}});
}

Instant Session::Deadline(std::size_t server) const {
  return deps_.loop.Now() + std::max(Duration(), flags_.timeout - callers_.at(server)->spent());
}

bool Session::MayRedraw() const {
  return deps_.terminal.IsTerminal(Terminal::Stream::kErr) && !common_.debug;
}

void Session::OnScreenOpened() {
  if (deps_.terminal.IsTerminal(Terminal::Stream::kErr)) debug_.Close();
}

std::string Session::NewRequestId() { return HexEncode(deps_.random.Array<16>()); }

void Session::Note(std::string_view text) {
  if (common_.quiet || json()) return;
  deps_.terminal.Write(Terminal::Stream::kErr, fmt::format("{}\n", text));
}

// Only to somebody who sits and waits: a script wants the error at the end, once.
void Session::OnTrouble(const ServerAddress& server, const Error& why) {
  if (silent_ || !deps_.terminal.IsTerminal(Terminal::Stream::kErr)) return;
  Note(fmt::format("{}: {}; trying again for up to {}", server.shard.text(), Printable(why.message),
                   FormatDuration(flags_.timeout)));
}

// --- Endings -------------------------------------------------------------------------------------

void Outcomes::Failed(std::size_t server, const Error& error) {
  ++failed_;
  if (error.code == Code::kNotFound) ++not_found_;
  err_ += session_.json()
              ? ErrorJson(error.message, CodeName(error.code), session_.name(server))
              : fmt::format("Error on {}: {}\n", session_.name(server), Printable(error.message));
}

void Outcomes::TimedOut(std::size_t server, std::string_view message) {
  ++timed_out_;
  err_ += session_.json()
              ? ErrorJson(message, CodeName(Code::kDeadlineExceeded), session_.name(server))
              : fmt::format("Error on {}: {}\n", session_.name(server), message);
}

Ending Outcomes::End(std::string out) && {
  Ending ending{.out = std::move(out), .err = std::move(err_)};
  if (failed_ == 0) {
    ending.exit_code = timed_out_ == 0 ? kExitDone : kExitWaitedTooLong;
  } else if (succeeded_ + timed_out_ > 0) {
    ending.exit_code = kExitSomeShardsFailed;
  } else {
    ending.exit_code = failed_ == not_found_ ? kExitNotFound : kExitError;
  }
  return ending;
}

Error UnknownGroup(const Session& session, std::string_view group,
                   const std::vector<std::string>& known) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  return NotFound(fmt::format(
      "tenant {} has no group {}; it has: {}{}", session.identity().tenant.text(), Quote(group),
      names.empty() ? "none" : config::Listed(names), config::DidYouMean(group, names)));
}

}  // namespace nstance::admin
