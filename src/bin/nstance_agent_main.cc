// nstance-agent: the program that runs on every instance. One thread, one loop.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/agent_files/local_agent_files.h"
#include "adapters/host_facts/linux_host.h"
#include "adapters/host_facts/own_memory.h"
#include "adapters/http_server/loop_http_server.h"
#include "adapters/log_sink/stream_log_sink.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/secure_random/system_random.h"
#include "adapters/signals/signal_watch.h"
#include "agent/agent.h"
#include "agent/command_line.h"
#include "agent/settings.h"
#include "bin/library_versions.h"
#include "crypto/secret.h"

namespace nstance::agent {
namespace {

int Finish(const Ending& ending) {
  (void)std::fwrite(ending.out.data(), 1, ending.out.size(), stdout);
  (void)std::fwrite(ending.err.data(), 1, ending.err.size(), stderr);
  return std::fflush(stdout) == 0 ? ending.exit_code : kExitUnusable;
}

// Every problem on a line of its own.
int Unusable(std::span<const std::string> problems) {
  std::string text;
  for (const std::string& problem : problems) text += fmt::format("Error: {}\n", problem);
  return Finish({.exit_code = kExitUnusable, .err = std::move(text)});
}

struct Directories {
  std::unique_ptr<LocalAgentFiles> identity = nullptr;
  std::unique_ptr<LocalAgentFiles> keys = nullptr;  // Held open so that a missing one is found now.
  std::unique_ptr<LocalAgentFiles> received = nullptr;
  std::vector<std::string> problems = {};

  explicit Directories(const Settings& settings) {
    Open("NSTANCE_IDENTITY_DIR", settings.identity_dir, settings.identity_mode, identity);
    Open("NSTANCE_KEYS_DIR", settings.keys_dir, settings.keys_mode, keys);
    Open("NSTANCE_RECV_DIR", settings.recv_dir, settings.recv_mode, received);
  }

 private:
  void Open(const char* variable, const std::string& path, unsigned mode,
            std::unique_ptr<LocalAgentFiles>& files) {
    auto opened = LocalAgentFiles::Open(path, mode);
    if (opened) {
      files = *std::move(opened);
    } else {
      problems.push_back(fmt::format("{}: {}", variable, opened.error().message));
    }
  }
};

int Run(const Settings& settings, const Directories& directories) {
  StreamLogSink sink({.descriptor = STDOUT_FILENO,
                      .level = settings.debug ? log::Level::kDebug : log::Level::kInfo});
  const log::Logger log(sink, "agent");
  const std::vector<RpcMethod> methods = rpc_codec::MakeAgentMethodTable();

  int exit_code = kExitStopped;
  RealLoop loop;
  SystemRandom random;
  LinuxHost host({.interface = settings.metrics_interface});
  grpc::SocketRpcDialer dialer({.loop = loop, .methods = methods});
  Agent agent({.loop = loop,
               .dialer = dialer,
               .random = random,
               .host = host,
               .identity = *directories.identity,
               .received = *directories.received,
               .log = log,
               .settled = ReturnUnusedMemory},
              settings, [&](int code) {
                exit_code = code;
                loop.Stop();
              });
  LoopHttpServer pages(loop);
  if (settings.health) {
    const auto port = pages.Listen(
        settings.health->host, settings.health->port,
        [&](const HttpQuestion& question, HttpReply reply) { reply(agent.Page(question)); });
    if (!port) return Unusable({{"NSTANCE_HEALTH_ADDR: " + port.error().message}});
    log.Info("serving /healthz and /readyz", {{"port", *port}});
  }
  const SignalWatch signals(loop, {SIGINT, SIGTERM}, [&](int) { agent.Stop(); });
  agent.Start();
  loop.Run();
  log.Info("ended", {{"exit_code", exit_code}});
  return exit_code;
}

int Main(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto line = ParseCommandLine(words, LibraryVersions());
  if (!line) return Finish(line.error());
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  auto settings = ReadSettings(environment);
  if (!settings) return Unusable(settings.error());
  settings->debug = settings->debug || line->debug;
  const Directories directories(*settings);
  if (!directories.problems.empty()) return Unusable(directories.problems);
  crypto::InitSecureHeap(crypto::kSmallSecureHeapBytes);
  (void)std::signal(SIGPIPE, SIG_IGN);
  return Run(*settings, directories);
}

}  // namespace
}  // namespace nstance::agent

int main(int argc, char** argv) {
  return nstance::agent::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
