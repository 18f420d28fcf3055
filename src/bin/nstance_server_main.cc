// nstance-server: one shard of a cluster. Parses flags, builds adapters, wires, runs, stops.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/cache_folder/disk_cache_folder.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/http_server/loop_http_server.h"
#include "adapters/key_source/local_key_source.h"
#include "adapters/log_sink/stream_log_sink.h"
#include "adapters/provider_local/local_provider.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/secure_random/system_random.h"
#include "adapters/signals/signal_watch.h"
#include "base/check.h"
#include "bin/addresses_file.h"
#include "bin/server_store.h"
#include "core/instance_config/template_check.h"
#include "core/rpc_policy.h"
#include "crypto/secret.h"
#include "server/process/command_line.h"
#include "server/process/server_process.h"

namespace nstance {
namespace {

constexpr int kExitInvalid = 3;

int Finish(const ServerEnding& ending) {
  (void)std::fwrite(ending.out.data(), 1, ending.out.size(), stdout);
  (void)std::fwrite(ending.err.data(), 1, ending.err.size(), stderr);
  return std::fflush(stdout) == 0 ? ending.exit_code : ServerProcess::kExitFatal;
}

int Fail(const std::string& why) {
  return Finish({.exit_code = ServerProcess::kExitFatal, .err = "Error: " + why + "\n"});
}

int Validate(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(path + ": cannot be read");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const config::LoadResult loaded = LoadChecked(text);
  std::string out;
  for (const auto& problem : loaded.warnings) out += config::Format(problem, path) + "\n";
  for (const auto& problem : loaded.errors) out += config::Format(problem, path) + "\n";
  return Finish({.exit_code = loaded.errors.empty() ? 0 : kExitInvalid, .out = std::move(out)});
}

ServerFactories Factories(RealLoop& loop, const ShardId& shard) {
  return {
      .provider = [&loop,
                   shard](const config::Config& config) -> Result<std::unique_ptr<Provider>> {
        const auto* local = std::get_if<config::LocalOptions>(&config.server.provider.options);
        if (local == nullptr) {
          return nstance::Fail(Error{.code = Code::kUnimplemented,
                                     .message = "server.provider.kind: this build has `local`"});
        }
        ASSIGN_OR_RETURN(
            auto provider,
            LocalProvider::Open(loop, {.local = *local,
                                       .cluster = config.server.cluster_id,
                                       .shard = shard,
                                       .keeper_command = {"/proc/self/exe", "local-keeper"}}));
        return provider;
      },
      .key_source =
          [&loop](const config::EncryptionKey& key) -> Result<std::unique_ptr<KeySource>> {
        if (key.provider == config::KeyProvider::kEnv) {
          return std::make_unique<EnvironmentKeySource>(loop, key.source);
        }
        if (key.provider == config::KeyProvider::kFile) {
          return std::make_unique<FileKeySource>(loop, key.source);
        }
        return nstance::Fail(InvalidArgument("encryption_key: this build has env and file"));
      }};
}

int Run(const ServerCommandLine& line) {
  StreamLogSink sink({.descriptor = STDOUT_FILENO,
                      .format = line.text_logs ? LogFormat::kText : LogFormat::kJson,
                      .level = line.debug ? log::Level::kDebug : log::Level::kInfo});
  const log::Logger log(sink, "server");
  const auto methods = rpc_codec::MakeMethodTable(RpcPolicy());
  if (!methods.has_value()) return Fail(methods.error().message);
  RealLoop loop;
  // Before the first thread: one that does not block the signals would end the process by them.
  std::function<void()> stop = [] {};
  const SignalWatch signals(loop, {SIGINT, SIGTERM}, [&stop](int) { stop(); });
  SystemRandom random;
  metrics::Registry registry;
  InputProbe probe(registry);
  CurlHttpClient http({.io = loop, .home = loop});
  auto parts = OpenServerStore(line, loop, http);
  if (!parts.has_value()) return Fail(parts.error().message);
  DiskCacheFolder cache(loop, line.cachedir);
  grpc::SocketRpcServer rpc({.loop = loop,
                             .methods = *methods,
                             .policy = RpcPolicy(),
                             .logger = log.For("rpc"),
                             .io_threads = line.io_threads});
  int exit_code = 0;
  AddressesFile addresses(line.addresses_file);
  const ShardId shard = *ShardId::Parse(line.shard);
  ServerProcess server(
      {.loop = loop,
       .store = (*parts)->store(),
       .http = http,
       .cache = cache,
       .random = random,
       .metrics = registry,
       .probe = probe,
       .log = log,
       .rpc = rpc,
       .factories = Factories(loop, shard)},
      {.id = line.id,
       .shard = shard,
       .bind = line.bind,
       .advertise = line.advertise,
       .advertise_host = line.advertise_host},
      {.ended =
           [&](int code) {
             exit_code = code;
             loop.Stop();
           },
       .acting =
           [&](std::int64_t epoch, const std::map<RpcPort, RpcAddress>& open) {
             const Status written = addresses.Write(epoch, open);
             if (!written) log.Error("addresses file", {{"error", written.error()}});
           },
       .more_metrics = [&rpc](auto done) { return rpc.TakeMetrics(std::move(done)); }});
  LoopHttpServer pages(loop);
  const config::Address health =
      line.bind.health_addr.value_or(config::Address{.host = {}, .port = 8990});
  const auto port = pages.Listen(health.host, health.port, [&](const auto& question, auto reply) {
    server.Page(question, std::move(reply));
  });
  if (!port.has_value()) return Fail("health listener: " + port.error().message);
  addresses.SetHealth({.host = health.host, .port = *port});
  log.Info("serving health pages", {{"host", health.host}, {"port", *port}});
  stop = [&server] { server.Stop(); };
  server.Start();
  loop.Run();
  log.Info("ended", {{"exit_code", exit_code}});
  return exit_code;
}

int Main(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (!words.empty() && words.front() == "local-keeper") {
    return RunLocalKeeper({words.begin() + 1, words.end()});
  }
  const auto line = ParseServerCommandLine(words);
  if (!line.has_value()) return Finish(line.error());
  if (line->validate && !line->validate_file.empty()) return Validate(line->validate_file);
  if (line->validate) {
    if (line->storage != "file") return Fail("--validate of a stored file: give --validate=FILE");
    return Validate(line->bucket + "/config/" + line->shard + ".jsonc");
  }
  crypto::InitSecureHeap(crypto::kSmallSecureHeapBytes);
  (void)std::signal(SIGPIPE, SIG_IGN);
  grpc::RaiseDescriptorLimit();
  return Run(*line);
}

}  // namespace
}  // namespace nstance

int main(int argc, char** argv) {
  return nstance::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
