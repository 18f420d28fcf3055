// I-44: a server that is told to stop ends within 10 s by its own clock, with its lease released
// and with nothing left in its loop.
//
// The lease may stay, and then expires, when something was done to the process or to its way to the
// store meanwhile; or when it was told a second time, which says: at once, whatever has not ended
// (faults.md 4.7 asks for the release within 10 s, and F1 leaves a lease that expires). Who stood
// still and was told twice ends before it has looked at what the network brought meanwhile, which
// waits in its loop. Crashes and sanitizer reports end the simulator itself, which its caller sees.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

constexpr Duration kLongest = Duration::Seconds(10);

class I44ItStopsCleanly final : public Checker {
 public:
  explicit I44ItStopsCleanly(CheckerWorld& world) : Checker("I-44", world) {}

  void OnServerExit(const ServerStanding& server, const ServerExit& exit) override {
    const bool at_once = exit.told_again && !exit.undisturbed;
    if (exit.left_in_loop > 0 && !at_once) {
      return Violated(fmt::format("{} has ended, and {} of its timers and tasks have not",
                                  server.name, exit.left_in_loop));
    }
    if (!exit.stopped) return;
    if (exit.undisturbed && exit.took > kLongest) {
      return Violated(fmt::format("{} took {} to stop", server.name, FormatDuration(exit.took)));
    }
    if (exit.code != 0 && exit.undisturbed) {
      return Violated(fmt::format("{} was told to stop and ended with {}", server.name, exit.code));
    }
    const auto& lease = world().truth().Of(server.shard).lease;
    const bool holds = lease && lease->incarnation == server.incarnation && !lease->released;
    if (!exit.led || exit.told_again || !exit.undisturbed || !holds) return;
    Violated(fmt::format("{} led, was told to stop, and has not released its lease", server.name));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI44(CheckerWorld& world) {
  return std::make_unique<I44ItStopsCleanly>(world);
}

}  // namespace nstance::sim
