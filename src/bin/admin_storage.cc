#include "bin/admin_storage.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "adapters/http/curl_http_client.h"
#include "adapters/local_machine/posix_machine.h"
#include "adapters/log_sink/stream_log_sink.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/secure_random/system_random.h"
#include "admin/print.h"
#include "admin/storage/run_storage.h"
#include "admin/storage/store_commands.h"
#include "bin/open_key_source.h"
#include "bin/open_store.h"
#include "crypto/secret.h"

namespace nstance::admin {
namespace {

// How long one call of the store may take: nobody else waits for this process.
constexpr Duration kStoreTimeout = Duration::Seconds(15);

class LoopTurns final : public Turns {
 public:
  explicit LoopTurns(RealLoop& loop) : loop_(loop) {}
  void Run() override { loop_.Run(); }
  void Stop() override { loop_.Stop(); }

 private:
  RealLoop& loop_;
};

void Note(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fputc('\n', stderr);
}

}  // namespace

Ending RunStorageCommand(const StorageCommand& command, const CommonFlags& common) {
  if (const auto* cost = std::get_if<StoreCost>(&command)) return Run(*cost, common);
  crypto::InitSecureHeap(crypto::kSmallSecureHeapBytes);
  const StorageFlags& flags = *StorageOf(command);
  RealLoop loop;
  LoopTurns turns(loop);
  SystemRandom random;
  PosixMachine machine;
  StreamLogSink sink({.descriptor = STDERR_FILENO,
                      .format = LogFormat::kText,
                      .level = common.debug ? log::Level::kDebug : log::Level::kError});
  CurlHttpClient http({.io = loop, .home = loop});
  const auto store = OpenStore({.kind = flags.provider, .bucket = flags.bucket}, loop, http);
  if (!store.has_value()) return Failed(store.error(), common.output);
  (*store)->SetDeadline(kStoreTimeout);
  const StorageDeps deps{
      .loop = loop,
      .turns = turns,
      .store = (*store)->store(),
      .random = random,
      .machine = machine,
      .key_source = [&](const config::EncryptionKey& key) { return OpenKeySource(loop, key); },
      .log = log::Logger(sink, "admin"),
      .note = common.quiet ? std::function<void(std::string_view)>([](std::string_view) {}) : Note};
  return RunOnBucket(command, common, deps);
}

}  // namespace nstance::admin
