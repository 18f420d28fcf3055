// nstance-admin: the command line tool.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "adapters/cloud_http/environment.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/secure_random/system_random.h"
#include "adapters/terminal/process_terminal.h"
#include "admin/command_line.h"
#include "admin/config_commands.h"
#include "admin/print.h"
#include "admin/reference.h"
#include "admin/shard_commands.h"
#include "bin/admin_storage.h"
#include "bin/library_versions.h"
#include "bin/open_store.h"
#include "core/rpc_policy.h"
#include "crypto/secret.h"
#include "storage/prefixed_store.h"

namespace nstance::admin {
namespace {

Error ReadFailed(const std::string& path, int error_number) {
  const std::error_code code(error_number, std::generic_category());
  const std::string what = fmt::format("{}: {}", path, code.message());
  return error_number == ENOENT ? FailedPrecondition(what) : Unavailable(what);
}

// A regular file, a pipe, or standard input for "-"; never more than `max_bytes` of it.
Result<std::string> ReadWhole(const std::string& path, std::size_t max_bytes) {
  const int file = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(ReadFailed(path, errno));
  std::string text;
  std::string chunk(std::size_t{64} * 1024, '\0');
  ssize_t got = 0;
  int error_number = 0;
  while (text.size() <= max_bytes) {
    got = ::read(file, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error_number = errno;
    if (got <= 0) break;
    text.append(chunk, 0, static_cast<std::size_t>(got));
  }
  if (file != STDIN_FILENO) (void)::close(file);
  if (got < 0) return Fail(ReadFailed(path, error_number));
  if (text.size() > max_bytes) {
    return Fail(ResourceExhausted(fmt::format("{} is larger than {} bytes", path, max_bytes)));
  }
  return text;
}

// False when not everything could be written.
bool Print(std::FILE* file, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

int Finish(const Ending& ending) {
  const bool printed = Print(stdout, ending.out) && Print(stderr, ending.err);
  return printed || ending.exit_code != kExitDone ? ending.exit_code : kExitError;
}

Ending RunFamily(const ConfigCommand& family, const CommonFlags& common) {
  return std::visit([&](const auto& command) { return Run(command, common, ReadWhole); }, family);
}

Ending RunFamily(const ReferenceCommand& command, const CommonFlags& common) {
  return Run(command, common);
}

Ending RunFamily(const StorageCommand& family, const CommonFlags& common) {
  return RunStorageCommand(family, common);
}

// The whole bucket. The prefix is looked at too: it is used later.
Result<std::unique_ptr<OpenedStore>> OpenLeases(const StorageFlags& storage, RealLoop& loop,
                                                CurlHttpClient& http) {
  RETURN_IF_ERROR(CheckStorePrefix(storage.prefix));
  return OpenStore({.kind = storage.provider, .bucket = storage.bucket}, loop, http);
}

// The store only makes an error better: one that does not open does not keep a command from its
// work.
Ending RunFamily(const ShardCommand& command, const CommonFlags& common) {
  const Result<std::vector<RpcMethod>> methods = rpc_codec::MakeMethodTable(RpcPolicy());
  if (!methods) return Failed(methods.error(), common.output);
  RealLoop loop;
  SystemRandom random;
  grpc::SocketRpcDialer dialer({.loop = loop, .methods = *methods});
  ProcessTerminal terminal(loop);
  CurlHttpClient http({.io = loop, .home = loop});
  std::unique_ptr<OpenedStore> leases;
  if (const auto& storage = command.flags.storage) {
    auto store = OpenLeases(*storage, loop, http);
    if (store) {
      leases = *std::move(store);
    } else if (!common.quiet && common.output != Output::kJson) {
      (void)Print(stderr, fmt::format("Note: {}; going on without the leases of --storage-bucket "
                                      "(NSTANCE_ADMIN_STORAGE_BUCKET)\n",
                                      store.error().message));
    }
  }
  Ending result;
  const auto running = StartShardCommand(command, common,
                                         {.loop = loop,
                                          .dialer = dialer,
                                          .random = random,
                                          .terminal = terminal,
                                          .read = ReadWhole,
                                          .store = leases == nullptr ? nullptr : &leases->store()},
                                         [&](Ending ending) {
                                           result = std::move(ending);
                                           loop.Stop();
                                         });
  loop.Run();
  return result;
}

int Main(std::span<char*> arguments) {
  // Who stops reading what is printed is found by the write.
  (void)std::signal(SIGPIPE, SIG_IGN);
  crypto::InitSecureHeap(crypto::kSmallSecureHeapBytes);
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto line =
      ParseCommandLine(words, cloud::Environment::OfProcess().variable, LibraryVersions());
  if (!line) return Finish(line.error());
  return Finish(std::visit([&](const auto& family) { return RunFamily(family, line->common); },
                           line->command));
}

}  // namespace
}  // namespace nstance::admin

int main(int argc, char** argv) {
  return nstance::admin::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
