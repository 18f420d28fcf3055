#include "admin/shard_commands.h"

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/shard/run.h"

namespace nstance::admin {
namespace {

constexpr int kExitBySignal = 128;

class ShardProgram final : public Running {
 public:
  ShardProgram(const ShardDeps& deps, Done done)
      : loop_(deps.loop), terminal_(deps.terminal), done_(std::move(done)) {}

  void Start(const ShardCommand& command, const CommonFlags& common, ShardDeps deps) {
    auto session = Session::Open(std::move(deps), common, command.flags);
    if (!session) {
      Ending ending = Failed(session.error(), common.output);
      ending.exit_code = kExitError;
      return OnEnd(ending);
    }
    session_ = *std::move(session);
    stop_ = terminal_.WhenStopped([this](int number) { OnStop(number); });
    run_ = std::visit(
        [this](const auto& action) {
          return MakeRun(*session_, action, [this](const Ending& ending) { OnEnd(ending); });
        },
        command.action);
    run_->Start();
  }

 private:
  // The run is still inside its last call: it goes in a turn of its own.
  void OnEnd(const Ending& ending) {
    ending_ = loop_.CallAfter({}, [this, ending] { Finish(ending); });
  }

  // Comes from the terminal, not from inside the run: nothing of it may draw any more.
  void OnStop(int number) {
    if (run_ == nullptr) return;
    const std::string note = run_->StopNote();
    run_.reset();
    OnEnd({.exit_code = kExitBySignal + number, .err = note.empty() ? "" : note + "\n"});
  }

  void Finish(const Ending& ending) {
    auto done = std::move(done_);
    run_.reset();
    stop_ = {};
    done(ending);
  }

  Loop& loop_;
  Terminal& terminal_;
  Done done_;
  std::unique_ptr<Session> session_;
  Pending stop_;
  Pending ending_;
  RunPtr run_;
};

}  // namespace

std::unique_ptr<Running> StartShardCommand(const ShardCommand& command, const CommonFlags& common,
                                           ShardDeps deps, Done done) {
  auto program = std::make_unique<ShardProgram>(deps, std::move(done));
  program->Start(command, common, std::move(deps));
  return program;
}

}  // namespace nstance::admin
