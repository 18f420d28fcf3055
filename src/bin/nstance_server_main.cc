// nstance-server: one shard of a cluster. Parses flags, builds adapters, wires, runs, stops.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapters/cache_folder/disk_cache_folder.h"
#include "adapters/host_facts/linux_host.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/log_sink/stream_log_sink.h"
#include "adapters/provider_local/local_provider.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/real_loop/stopwatch.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/rpc_reflection/reflection_service.h"
#include "adapters/secure_random/system_random.h"
#include "adapters/signals/signal_watch.h"
#include "adapters/sqlite_cache/sqlite_cache.h"
#include "base/metric_families.h"
#include "bin/addresses_file.h"
#include "bin/health_pages.h"
#include "bin/library_versions.h"
#include "bin/open_store.h"
#include "bin/server_factories.h"
#include "bin/validate_config.h"
#include "core/rpc_policy.h"
#include "crypto/secret.h"
#include "server/process/command_line.h"
#include "server/process/process_families.h"
#include "server/process/server_process.h"
#include "storage/prefixed_store.h"

namespace nstance {
namespace {

int Finish(const ServerEnding& ending) {
  (void)std::fwrite(ending.out.data(), 1, ending.out.size(), stdout);
  (void)std::fwrite(ending.err.data(), 1, ending.err.size(), stderr);
  return std::fflush(stdout) == 0 ? ending.exit_code : ServerProcess::kExitFatal;
}

int Fail(const std::string& why) {
  return Finish({.exit_code = ServerProcess::kExitFatal, .err = "Error: " + why + "\n"});
}

// The methods that are served, and by whom they may be called.
struct RpcTables {
  std::vector<RpcMethod> methods;
  std::vector<RpcPolicyRow> policy;
};

Result<RpcTables> MakeTables(const ServerCommandLine& line) {
  RpcTables tables = {.methods = {}, .policy = {RpcPolicy().begin(), RpcPolicy().end()}};
  ASSIGN_OR_RETURN(tables.methods, rpc_codec::MakeMethodTable(RpcPolicy()));
  if (line.debug) rpc_reflection::AddReflection(tables.methods, tables.policy);
  return tables;
}

// Reflection for one leadership, behind the gate.
OtherCalls MakeReflection(const std::vector<RpcPolicyRow>& policy) {
  auto service = std::make_shared<rpc_reflection::ReflectionService>(policy);
  return [service](std::unique_ptr<RpcServerCall> call) -> std::unique_ptr<RpcServerCall> {
    if (!rpc_reflection::ReflectionService::Owns(*call)) return call;
    service->Accept(std::move(call));
    return nullptr;
  };
}

config::HostAddresses PrimaryAddresses(LinuxHost& host) {
  HostNames names = host.Names();
  return {.ipv4 = std::move(names.ipv4), .ipv6 = std::move(names.ipv6)};
}

// What the running server tells its program.
struct Listener {
  const ServerCommandLine& line;
  const log::Logger& log;
  RealLoop& loop;
  grpc::SocketRpcServer& rpc;
  OpenedStore& store;
  HealthPages& pages;
  AddressesFile addresses;
  int exit_code = 0;

  void ShowHealth() {
    addresses.SetHealth({.host = pages.address().host, .port = pages.address().port});
    log.Info("serving health pages",
             {{"host", pages.address().host}, {"port", pages.address().port}});
  }

  void Follow(const config::Config& config) {
    store.SetDeadline(config.server.store_timeout);
    if (line.bind.health_addr || config.server.bind.health_addr == pages.asked()) return;
    const Status moved = pages.Follow(config.server.bind.health_addr);
    if (!moved) log.Error("the health listener cannot move", {{"error", moved.error()}});
    ShowHealth();
  }

  ServerProcess::Owner Owner() {
    return {.ended =
                [this](int code) {
                  exit_code = code;
                  loop.Stop();
                },
            .acting =
                [this](std::int64_t epoch, const std::map<RpcPort, RpcAddress>& open) {
                  const Status written = addresses.Write(epoch, open);
                  if (!written) log.Error("addresses file", {{"error", written.error()}});
                },
            .more_metrics = [this](auto done) { return rpc.TakeMetrics(std::move(done)); },
            .election_open =
                [this](const config::Address& bound) {
                  addresses.SetElection({.host = bound.host, .port = bound.port});
                },
            .configured = [this](const config::Config& config) { Follow(config); }};
  }
};

ServerSettings SettingsOf(const ServerCommandLine& line, LinuxHost& host, std::string prefix) {
  return {.id = line.id,
          .shard = *ShardId::Parse(line.shard),
          .bind = line.bind,
          .advertise = line.advertise,
          .advertise_host = line.advertise_host,
          .host = PrimaryAddresses(host),
          .layout = line.layout,
          .prefix = std::move(prefix)};
}

void ObserveTurns(RealLoop& loop, metrics::Registry& registry) {
  loop.ObserveTurns([&turns = registry.Histogram(LoopTurnSeconds(), {})](Duration length) {
    turns.Observe(InSeconds(length));
  });
}

int Run(const ServerCommandLine& line) {
  StreamLogSink sink({.descriptor = STDOUT_FILENO,
                      .format = line.text_logs ? LogFormat::kText : LogFormat::kJson,
                      .level = line.debug ? log::Level::kDebug : log::Level::kInfo});
  const log::Logger log(sink, "server");
  const Result<RpcTables> tables = MakeTables(line);
  if (!tables.has_value()) return Fail(tables.error().message);
  RealLoop loop;
  // Before the first thread: one that does not block the signals would end the process by them.
  std::function<void()> stop = [] {};
  const SignalWatch signals(loop, {SIGINT, SIGTERM}, [&stop](int) { stop(); });
  SystemRandom random;
  metrics::Registry registry;
  ObserveTurns(loop, registry);
  InputProbe probe(registry);
  CurlHttpClient http({.io = loop, .home = loop});
  auto parts = OpenStore(AddressOf(line), loop, http);
  if (!parts.has_value()) return Fail(parts.error().message);
  const Result<std::string> prefix = CheckStorePrefix(line.prefix);
  if (!prefix.has_value()) return Fail(prefix.error().message);
  DiskCacheFolder folder(loop, line.cachedir);
  SqliteCache rows(loop, log.For("cache"), {.path = line.cachedir + "/db/nstance.db"});
  grpc::SocketRpcServer rpc({.loop = loop,
                             .methods = tables->methods,
                             .policy = tables->policy,
                             .logger = log.For("rpc"),
                             .io_threads = line.io_threads});
  ServerFactoryParts made(loop, http, *ShardId::Parse(line.shard));
  LoopHttpServer election(loop,
                          {.source = {.interface = "election", .probe = &probe}, .tls = true});
  LinuxHost host({});
  std::unique_ptr<ServerProcess> server;
  HealthPages pages(loop, [&](const HttpQuestion& question, HttpReply reply) {
    server->Page(question, std::move(reply));
  });
  Listener listener{.line = line,
                    .log = log,
                    .loop = loop,
                    .rpc = rpc,
                    .store = **parts,
                    .pages = pages,
                    .addresses = AddressesFile(line.addresses_file)};
  std::function<OtherCalls()> reflection;
  if (line.debug) reflection = [&] { return MakeReflection(tables->policy); };
  server = std::make_unique<ServerProcess>(ServerProcess::Deps{.loop = loop,
                                                               .store = (*parts)->store(),
                                                               .http = http,
                                                               .cache = folder,
                                                               .random = random,
                                                               .metrics = registry,
                                                               .probe = probe,
                                                               .log = log,
                                                               .rpc = rpc,
                                                               .factories = made.Factories(),
                                                               .rows = &rows,
                                                               .stopwatch = ReadStopwatch,
                                                               .other_calls = reflection,
                                                               .election = &election,
                                                               .host = &host},
                                           SettingsOf(line, host, *prefix), listener.Owner());
  if (const Status open = pages.Open(FirstHealthAddress(line)); !open) {
    return Fail("health listener: " + open.error().message);
  }
  listener.ShowHealth();
  stop = [&server] { server->Stop(); };
  server->Start();
  loop.Run();
  log.Info("ended", {{"exit_code", listener.exit_code}});
  return listener.exit_code;
}

int Main(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (!words.empty() && words.front() == "local-keeper") {
    return RunLocalKeeper({words.begin() + 1, words.end()});
  }
  const auto line = ParseServerCommandLine(words, LibraryVersions());
  if (!line.has_value()) return Finish(line.error());
  (void)std::signal(SIGPIPE, SIG_IGN);
  if (line->validate) return Finish(ValidateConfig(*line));
  crypto::InitSecureHeap();
  grpc::RaiseDescriptorLimit();
  return Run(*line);
}

}  // namespace
}  // namespace nstance

int main(int argc, char** argv) {
  return nstance::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
