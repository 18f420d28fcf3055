// BaselineServer: the small Go server of bench/baseline_go as a running peer: a second
// implementation of the contract to try clients on.
#pragma once

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/json.h"
#include "base/result.h"
#include "test/support/background_process.h"
#include "test/support/json_lines.h"
#include "test/support/loop_runner.h"

namespace nstance::test {

class BaselineServer final {
 public:
  // Folder must be the server's own; `flags` come after what is set here. Waits until it serves.
  [[nodiscard]] static Result<BaselineServer> Start(RealLoop& loop, const std::string& program,
                                                    const std::string& folder,
                                                    std::vector<std::string> flags) {
    BaselineServer server;
    server.folder_ = folder;
    const std::string addresses = folder + "/addresses.json";
    std::vector<std::string> argv = {program, "-dir", folder, "-addresses-file", addresses};
    argv.insert(argv.end(), flags.begin(), flags.end());
    ASSIGN_OR_RETURN(server.process_,
                     BackgroundProcess::Start({.argv = argv}, folder + "/server.log"));
    const bool ready = RunUntil(loop, [&] {
      const Result<json::Value> read = json::Parse(ReadText(addresses));
      if (read.has_value()) server.addresses_ = *read;
      return read.has_value() || !server.process_->Running();
    });
    if (!ready || server.addresses_.is_null()) {
      return Fail(FailedPrecondition("baseline-server: " + server.process_->OutputTail()));
    }
    return server;
  }

  // "host:port" of registration, agent, operator or health.
  [[nodiscard]] std::string Address(std::string_view name) const {
    return TextOf(addresses_, name);
  }
  [[nodiscard]] std::string File(std::string_view name) const {
    return fmt::format("{}/{}", folder_, name);
  }
  [[nodiscard]] BackgroundProcess& process() { return *process_; }
  void Kill() { process_.reset(); }

  [[nodiscard]] static std::string ReadText(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string folder_;
  json::Value addresses_;
  std::unique_ptr<BackgroundProcess> process_;
};

}  // namespace nstance::test
