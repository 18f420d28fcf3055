// Session: what the run of one command shares: its doors, flags, identity, one caller per shard,
// and how answers and errors of several shards become one ending.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/common_flags.h"
#include "admin/config_commands.h"
#include "admin/ending.h"
#include "admin/shard/caller.h"
#include "admin/shard/identity.h"
#include "admin/shard/streams.h"
#include "admin/shard_command.h"
#include "admin/table.h"
#include "base/log.h"
#include "base/prng.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/rpc.h"
#include "ports/secure_random.h"
#include "ports/terminal.h"

namespace nstance::admin {

// The doors to the world.
struct ShardDeps {
  Loop& loop;
  RpcDialer& dialer;
  SecureRandom& random;
  Terminal& terminal;
  ReadFile read;
  // Where the leases are: the whole bucket, of which `flags.storage` says more; null: not given.
  ObjectStore* store = nullptr;
};

// --debug: lines of text on stderr.
class DebugLog final : public log::Sink {
 public:
  DebugLog(Loop& loop, Terminal& terminal, bool wanted)
      : loop_(loop), terminal_(terminal), wanted_(wanted) {}
  [[nodiscard]] bool Wants(log::Level /*level*/) const override { return wanted_; }
  void Write(const log::Record& record) override {
    terminal_.Write(Terminal::Stream::kErr, log::FormatText(record, loop_.WallNow()) + "\n");
  }
  void Close() { wanted_ = false; }

 private:
  Loop& loop_;
  Terminal& terminal_;
  bool wanted_;
};

using Done = std::move_only_function<void(Ending ending)>;

// How a run tells its ending: once. What it would say afterwards is not told.
class Teller final {
 public:
  explicit Teller(Done done) : done_(std::move(done)) {}
  void operator()(Ending ending) {
    if (!done_) return;
    Done done = std::exchange(done_, nullptr);
    done(std::move(ending));
  }

 private:
  Done done_;
};

// An answer of one shard; `server` is its number in the order of --servers.
template <class T>
struct ShardAnswer {
  std::size_t server = 0;
  Result<T> answer;
};
template <class T>
using ShardAnswers = std::vector<ShardAnswer<T>>;

class Session final {
 public:
  // The identity is read now; nothing is dialled before it is needed.
  [[nodiscard]] static Result<std::unique_ptr<Session>> Open(ShardDeps deps, CommonFlags common,
                                                             ShardFlags flags);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  [[nodiscard]] Loop& loop() { return deps_.loop; }
  [[nodiscard]] Terminal& terminal() { return deps_.terminal; }
  [[nodiscard]] Timestamp now() const { return deps_.loop.WallNow(); }
  [[nodiscard]] const CommonFlags& common() const { return common_; }
  [[nodiscard]] bool json() const { return common_.output == Output::kJson; }
  // Of what goes to that stream.
  [[nodiscard]] Paint paint(Terminal::Stream stream) const;
  [[nodiscard]] Paint paint() const { return paint(Terminal::Stream::kOut); }
  [[nodiscard]] const OperatorIdentity& identity() const { return identity_; }

  [[nodiscard]] std::size_t shards() const { return callers_.size(); }
  [[nodiscard]] ShardCaller& caller(std::size_t server) { return *callers_.at(server); }
  [[nodiscard]] const ServerAddress& server(std::size_t number) const {
    return flags_.servers.at(number);
  }
  [[nodiscard]] const std::string& name(std::size_t number) const {
    return server(number).shard.text();
  }
  // Of what begins now with that shard: what is left of --timeout, which bounds all its calls
  // together. The time that somebody takes to answer a question does not count, nor does --wait.
  [[nodiscard]] Instant Deadline(std::size_t server) const;
  [[nodiscard]] std::unique_ptr<ShardStreams> Streams(std::size_t server,
                                                      std::vector<StreamWanted> wanted,
                                                      StreamsEvents events);

  // Makes a repeat of a call harmless: 32 hexadecimal digits.
  [[nodiscard]] std::string NewRequestId();
  // A line on stderr, unless --quiet or --json.
  void Note(std::string_view text);
  // From now on nobody is told that a shard is being tried again: something else tells.
  void BeSilentAboutRetries() { silent_ = true; }
  // A line on stderr may be written over: it is a terminal, and no lines of --debug come between.
  [[nodiscard]] bool MayRedraw() const;
  // The whole screen is drawn from now on: lines of --debug go only elsewhere.
  void OnScreenOpened();

 private:
  Session(ShardDeps deps, CommonFlags common, ShardFlags flags, OperatorIdentity identity);
  void OnTrouble(const ServerAddress& server, const Error& why);
  [[nodiscard]] log::Logger LogOf(const ServerAddress& server);

  ShardDeps deps_;
  CommonFlags common_;
  ShardFlags flags_;
  OperatorIdentity identity_;
  DebugLog debug_;
  Prng jitter_;
  bool silent_ = false;
  std::vector<std::unique_ptr<ShardCaller>> callers_;
};

// Collects what went wrong and how the command therefore ends.
class Outcomes final {
 public:
  explicit Outcomes(const Session& session) : session_(session) {}

  void Succeeded() { ++succeeded_; }
  // "Error on <shard>: ..." or {"error","code","shard"}.
  void Failed(std::size_t server, const Error& error);
  // --wait ran out of time in one place.
  void TimedOut(std::size_t server, std::string_view message);
  // Of every answer.
  template <class T>
  void Take(const ShardAnswers<T>& answers) {
    for (const auto& [server, answer] : answers) {
      answer ? Succeeded() : Failed(server, answer.error());
    }
  }

  [[nodiscard]] bool any_failed() const { return failed_ > 0 || timed_out_ > 0; }
  // With this on stdout. Exit code: 0; 5 when a wait ran out of time and nothing else failed; 4
  // when some failed; 3 when all did and all were not found; else 1.
  [[nodiscard]] Ending End(std::string out) &&;

 private:
  const Session& session_;
  std::string err_;
  int succeeded_ = 0;
  int failed_ = 0;
  int not_found_ = 0;
  int timed_out_ = 0;
};

// `group` is unknown in that shard; `known` are those that it has.
[[nodiscard]] Error UnknownGroup(const Session& session, std::string_view group,
                                 const std::vector<std::string>& known);

}  // namespace nstance::admin
