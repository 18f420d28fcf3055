// nstance_bench_server: our side of the comparisons (bench/harness/sides.py): nstance-server's own
// ServerProcess on the real loop, transport and store, with a provider in memory.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cache_folder/disk_cache_folder.h"
#include "adapters/file_store/file_store.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/http_server/loop_http_server.h"
#include "adapters/log_sink/stream_log_sink.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/real_loop/stopwatch.h"
#include "adapters/rpc/rpc_server.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/s3_store/s3_store.h"
#include "adapters/secure_random/system_random.h"
#include "adapters/signals/signal_watch.h"
#include "adapters/sqlite_cache/sqlite_cache.h"
#include "bench/server/bench_config.h"
#include "bench/server/preparation.h"
#include "bench/server/stub_provider.h"
#include "bin/addresses_file.h"
#include "core/rpc_policy.h"
#include "crypto/secret.h"
#include "server/process/server_process.h"

namespace nstance::bench {
namespace {

int Die(const std::string& why) {
  fmt::print(stderr, "nstance_bench_server: {}\n", why);
  return 1;
}

class BenchKeySource final : public KeySource {
 public:
  explicit BenchKeySource(Loop& loop) : loop_(loop) {}
  [[nodiscard]] Pending Load(Done done) override {
    return loop_.CallAfter({}, [done = std::move(done)]() mutable {
      done(crypto::EncryptionKey::Parse(AsBytes(kBenchEncryptionKey)));
    });
  }
  [[nodiscard]] std::string Description() const override { return "the benchmark's key"; }

 private:
  Loop& loop_;
};

// The stub of the object store checks no signature; any key will do.
cloud::Environment StubEnvironment() {
  return {.variable = [](const std::string& name) -> std::optional<std::string> {
            if (name == "AWS_ACCESS_KEY_ID") return "bench";
            if (name == "AWS_SECRET_ACCESS_KEY") return "bench-secret";
            return std::nullopt;
          },
          .read_file = [](const std::string& path) -> Result<std::string> {
            return Fail(NotFound(path));
          }};
}

// What the store of a run needs.
struct StoreParts {
  std::unique_ptr<aws::AwsCredentials> credentials = nullptr;
  std::unique_ptr<ObjectStore> store = nullptr;
};

Result<StoreParts> OpenStore(const BenchFlags& flags, RealLoop& loop, HttpClient& http) {
  StoreParts parts;
  if (flags.store.empty()) {
    const std::string folder = flags.dir + "/objects";
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    ASSIGN_OR_RETURN(parts.store, FileStore::Open(loop, {.directory = folder}));
    return parts;
  }
  const std::size_t slash = flags.store.rfind('/');
  parts.credentials = std::make_unique<aws::AwsCredentials>(
      aws::AwsCredentials::Deps{.loop = loop, .http = http, .environment = StubEnvironment()});
  ASSIGN_OR_RETURN(
      parts.store,
      s3::S3Store::Make(
          {.loop = loop, .http = http, .credentials = *parts.credentials, .prng = Prng(1)},
          {.bucket = flags.store.substr(slash + 1), .endpoint = flags.store.substr(0, slash)}));
  return parts;
}

int Run(const BenchFlags& flags) {
  StreamLogSink sink({.descriptor = STDOUT_FILENO, .level = log::Level::kWarning});
  const log::Logger log(sink, "server");
  const auto methods = rpc_codec::MakeMethodTable(RpcPolicy());
  if (!methods.has_value()) return Die(methods.error().message);
  RealLoop loop;
  ServerProcess* server = nullptr;
  const SignalWatch signals(loop, {SIGINT, SIGTERM}, [&](int) { server->Stop(); });
  SystemRandom random;
  metrics::Registry registry;
  InputProbe probe(registry);
  CurlHttpClient http({.io = loop, .home = loop});
  const auto parts = OpenStore(flags, loop, http);
  if (!parts.has_value()) return Die(parts.error().message);
  CountingStore store(*parts->store);
  DiskCacheFolder cache(loop, flags.dir + "/cache");
  SqliteCache rows(loop, log.For("cache"), {.path = flags.dir + "/cache/db/nstance.db"});
  grpc::SocketRpcServer rpc(
      {.loop = loop, .methods = *methods, .policy = RpcPolicy(), .logger = log.For("rpc")});
  AddressesFile addresses(flags.addresses_file);
  int exit_code = 0;
  std::int64_t epoch = 0;
  std::map<RpcPort, RpcAddress> open;
  Preparation preparation({.loop = loop, .store = store, .random = random, .metrics = registry},
                          flags,
                          {.configured = [&] { server->Start(); },
                           .ready = [&] { (void)addresses.Write(epoch, open); },
                           .failed =
                               [&](const Error& error) {
                                 exit_code = Die(error.message);
                                 loop.Stop();
                               }});
  ServerProcess process(
      {.loop = loop,
       .store = store,
       .http = http,
       .cache = cache,
       .random = random,
       .metrics = registry,
       .probe = probe,
       .log = log,
       .rpc = rpc,
       .factories = {
           .provider = [&](const config::Config&) -> Result<std::unique_ptr<Provider>> {
             return std::make_unique<StubProvider>(
                 loop, flags.create_time,
                 [&](const ProviderCreate& made) { preparation.Created(made); });
           },
           .key_source = [&](const config::EncryptionKey&) -> Result<std::unique_ptr<KeySource>> {
             return std::make_unique<BenchKeySource>(loop);
           }}},
      {.id = "bench", .shard = *ShardId::Parse(kBenchShard)},
      {.ended =
           [&](int code) {
             exit_code = code;
             loop.Stop();
           },
       .acting =
           [&](std::int64_t of, std::map<RpcPort, RpcAddress> at) {
             epoch = of;
             open = std::move(at);
             preparation.Acting();
           },
       .more_metrics = [&rpc](auto done) { return rpc.TakeMetrics(std::move(done)); }});
  server = &process;
  LoopHttpServer pages(loop);
  const auto port = pages.Listen("127.0.0.1", 0, [&](const auto& question, auto reply) {
    process.Page(question, std::move(reply));
  });
  if (!port.has_value()) return Die(port.error().message);
  addresses.SetHealth({.host = "127.0.0.1", .port = *port});
  preparation.Start();
  loop.Run();
  return exit_code;
}

int Main(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto flags = ReadBenchFlags(words);
  if (!flags.has_value()) return Die(flags.error().message);
  std::error_code error;
  std::filesystem::create_directories(flags->dir + "/cache", error);
  crypto::InitSecureHeap();
  (void)std::signal(SIGPIPE, SIG_IGN);
  grpc::RaiseDescriptorLimit();
  return Run(*flags);
}

}  // namespace
}  // namespace nstance::bench

int main(int argc, char** argv) {
  return nstance::bench::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
