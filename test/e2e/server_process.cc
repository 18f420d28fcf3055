#include "test/e2e/server_process.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/core.h>

#include "base/check.h"
#include "test/e2e/tcp_socket.h"
#include "test/support/loop_runner.h"

namespace nstance::test {
namespace {

constexpr std::size_t kTail = 8'000;

}  // namespace

ServerProcess::ServerProcess(Options options)
    : options_(std::move(options)), health_address_(fmt::format("127.0.0.1:{}", FreePort())) {
  std::filesystem::create_directories(options_.folder + "/cache");
}

Status ServerProcess::Start() {
  Kill();
  std::vector<std::string> argv = {options_.program,
                                   "--id",
                                   options_.id,
                                   "--shard",
                                   options_.shard,
                                   "--storage",
                                   "file",
                                   "--bucket",
                                   options_.bucket,
                                   "--cachedir",
                                   options_.folder + "/cache",
                                   "--addresses-file",
                                   addresses_file(),
                                   "--bind",
                                   "health=" + health_address_};
  argv.insert(argv.end(), options_.flags.begin(), options_.flags.end());
  ASSIGN_OR_RETURN(process_, BackgroundProcess::Start({.argv = std::move(argv),
                                                       .environment = options_.environment,
                                                       .directory = options_.folder},
                                                      log_file()));
  return {};
}

void ServerProcess::Kill() { process_.reset(); }

std::optional<int> ServerProcess::Terminate(RealLoop& loop, Duration limit) {
  if (process_ == nullptr) return std::nullopt;
  process_->Signal(SIGTERM);
  if (!RunUntil(loop, [this] { return !process_->Running(); }, limit)) return std::nullopt;
  return process_->exit_code();
}

bool ServerProcess::WaitUntilReady(RealLoop& loop, Duration limit) {
  return WaitFor(loop, "/readyz", limit);
}

bool ServerProcess::WaitUntilActing(RealLoop& loop, Duration limit) {
  return WaitFor(loop, "/leader/health", limit);
}

bool ServerProcess::IsActing() const {
  return HttpGet(health_address_, "/leader/health").status == 200;
}

bool ServerProcess::WaitFor(RealLoop& loop, std::string_view path, Duration limit) {
  bool answered = false;
  const bool over = RunUntil(
      loop,
      [&] {
        answered = Running() && HttpGet(health_address_, path).status == 200;
        return answered || !Running();
      },
      limit);
  return over && answered;
}

std::string ServerProcess::Output() const {
  std::ifstream file(log_file(), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ServerProcess::OutputTail() const {
  const std::string text = Output();
  return text.size() > kTail ? text.substr(text.size() - kTail) : text;
}

}  // namespace nstance::test
