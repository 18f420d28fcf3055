// ServerProcess: one nstance-server as a process of its own, from its start to its exit code.
//
//   ServerProcess server({.program = ..., .id = "s1", .shard = ..., .bucket = ..., .folder = ...});
//   ASSERT_TRUE(server.Start().has_value());
//   ASSERT_TRUE(server.WaitUntilReady(loop, Duration::Seconds(30))) << server.OutputTail();
//
// It has a folder of its own: cache/, addresses.json, server.log. It is killed with what it started
// when the object goes; agents that the local provider started live on in their own sessions, as
// they should (see E2eCluster).
#pragma once

#include <signal.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "test/support/background_process.h"

namespace nstance::test {

class ServerProcess final {
 public:
  struct Options {
    std::string program;
    std::string id;
    std::string shard;
    std::string bucket;                         // The folder of the file store.
    std::string folder;                         // Its own; made if it is missing.
    std::vector<std::string> flags = {};        // After those that are set here.
    std::vector<std::string> environment = {};  // "NAME=value".
  };

  explicit ServerProcess(Options options);

  // One that ran before is killed first. The health address is the same at every start.
  [[nodiscard]] Status Start();
  // SIGKILL, to its process group; waits for its end.
  void Kill();
  // SIGTERM, and its exit code; nothing when it did not end in time.
  [[nodiscard]] std::optional<int> Terminate(RealLoop& loop, Duration limit);
  void Pause() const { process_->Signal(SIGSTOP); }
  void Resume() const { process_->Signal(SIGCONT); }

  [[nodiscard]] bool Running() { return process_ != nullptr && process_->Running(); }
  [[nodiscard]] std::optional<int> exit_code() {
    return process_ == nullptr ? std::nullopt : process_->exit_code();
  }

  // Until /readyz says 200. False when the time is up, or the process has ended.
  [[nodiscard]] bool WaitUntilReady(RealLoop& loop, Duration limit);
  // Until /leader/health says 200.
  [[nodiscard]] bool WaitUntilActing(RealLoop& loop, Duration limit);
  [[nodiscard]] bool IsActing() const;

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const std::string& health_address() const { return health_address_; }
  [[nodiscard]] std::string addresses_file() const { return options_.folder + "/addresses.json"; }
  [[nodiscard]] std::string log_file() const { return options_.folder + "/server.log"; }
  // All that it has logged since its first start, and the end of that.
  [[nodiscard]] std::string Output() const;
  [[nodiscard]] std::string OutputTail() const;

 private:
  [[nodiscard]] bool WaitFor(RealLoop& loop, std::string_view path, Duration limit);

  Options options_;
  std::string health_address_;
  std::unique_ptr<BackgroundProcess> process_;
};

}  // namespace nstance::test
