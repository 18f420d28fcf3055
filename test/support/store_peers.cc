#include "test/support/store_peers.h"

#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "test/support/peer_client.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

constexpr Duration kReadyWithin = Duration::Seconds(60);

ProcessRequest CommandOf(StorePeer peer, const std::string& program, const std::string& folder,
                         int port) {
  const std::string address = fmt::format("127.0.0.1:{}", port);
  const std::string number = std::to_string(port);
  const std::string key(RunningStore::kAccessKey);
  const std::string secret(RunningStore::kSecretKey);
  switch (peer) {
    case StorePeer::kMinio:
      return {.argv = {program, "server", "--quiet", "--address", address, folder + "/data"},
              .environment = {"MINIO_ROOT_USER=" + key, "MINIO_ROOT_PASSWORD=" + secret,
                              "MINIO_BROWSER=off", "MINIO_UPDATE=off", "HOME=" + folder},
              .directory = folder};
    case StorePeer::kVersitygw:
      return {.argv = {program, "--quiet", "--port", address, "posix", folder + "/data"},
              .environment = {"ROOT_ACCESS_KEY=" + key, "ROOT_SECRET_KEY=" + secret},
              .directory = folder};
    case StorePeer::kMinistack:
      return {.argv = {program},
              .environment = {"BIND_HOST=127.0.0.1", "GATEWAY_PORT=" + number, "HOME=" + folder,
                              "TMPDIR=" + folder},
              .directory = folder};
    case StorePeer::kFakeGcs:
      return {.argv = {program, "-scheme", "http", "-host", "127.0.0.1", "-port", number,
                       "-backend", "memory", "-public-host", address},
              .directory = folder};
    case StorePeer::kGcpStorageEmulator:
      return {.argv = {program, "start", "--host", "127.0.0.1", "--port", number, "--in-memory"},
              .directory = folder};
  }
  return {};
}

HttpRequest BucketRequest(StorePeer peer, const std::string& endpoint) {
  HttpRequest request;
  if (SpeaksS3(peer)) {
    request.method = HttpMethod::kPut;
    request.url = fmt::format("{}/{}", endpoint, RunningStore::kBucket);
    request.aws_signature = AwsSignature{.access_key = std::string(RunningStore::kAccessKey),
                                         .secret_key = std::string(RunningStore::kSecretKey),
                                         .region = "us-east-1",
                                         .service = "s3"};
  } else {
    request.method = HttpMethod::kPost;
    request.url = endpoint + "/storage/v1/b?project=test";
    request.headers = {{.name = "content-type", .value = "application/json"}};
    request.body = fmt::format(R"({{"name":"{}"}})", RunningStore::kBucket);
  }
  request.deadline = Duration::Seconds(10);
  return request;
}

}  // namespace

std::string_view PeerName(StorePeer peer) {
  switch (peer) {
    case StorePeer::kMinio: return "minio";
    case StorePeer::kVersitygw: return "versitygw";
    case StorePeer::kMinistack: return "ministack";
    case StorePeer::kFakeGcs: return "fake-gcs-server";
    case StorePeer::kGcpStorageEmulator: return "gcp-storage-emulator";
  }
  return "";
}

bool SpeaksS3(StorePeer peer) {
  return peer != StorePeer::kFakeGcs && peer != StorePeer::kGcpStorageEmulator;
}

Result<std::string> FindPeer(std::string_view name) {
  ASSIGN_OR_RETURN(const ProcessOutput output,
                   RunProcess({.argv = {fmt::format("{}/tools/peers", NSTANCE_SOURCE_DIR), "--path",
                                        std::string(name)}}));
  if (output.exit_code != 0) {
    return Fail(NotFound(fmt::format("peer {} is missing: {}", name, output.err)));
  }
  const std::string folder = output.out.substr(0, output.out.find('\n'));
  return fmt::format("{}/bin/{}", folder, name);
}

Result<std::unique_ptr<RunningStore>> RunningStore::Start(StorePeer peer) {
  ASSIGN_OR_RETURN(const std::string program, FindPeer(PeerName(peer)));
  std::unique_ptr<RunningStore> store(new RunningStore);
  RETURN_IF_ERROR(store->Run(peer, program));
  RETURN_IF_ERROR(store->MakeBucket(peer));
  return store;
}

Status RunningStore::Run(StorePeer peer, const std::string& program) {
  const std::string folder = folder_.path().string();
  std::filesystem::create_directories(folder_.path() / "data");
  port_ = FreePort();
  endpoint_ = fmt::format("http://127.0.0.1:{}", port_);
  ASSIGN_OR_RETURN(process_, BackgroundProcess::Start(CommandOf(peer, program, folder, port_),
                                                      folder + "/output"));
  return {};
}

// Also waits until the store is ready: a bucket can be made then, and not before.
Status RunningStore::MakeBucket(StorePeer peer) {
  PeerClient client;
  std::string last;
  const bool ready = client.SendUntil(
      BucketRequest(peer, endpoint_),
      [&](const Result<HttpResponse>& answer) {
        if (!process_->Running()) return true;
        last =
            answer ? fmt::format("{} {}", answer->status, answer->body) : answer.error().ToString();
        return answer && (answer->status == 200 || answer->status == 409);
      },
      kReadyWithin);
  if (ready && process_->Running()) return {};
  return Fail(Unavailable(fmt::format("{} does not become ready: {}; it wrote: {}", PeerName(peer),
                                      last, process_->OutputTail())));
}

Result<RunningStore*> SharedStore(StorePeer peer) {
  static std::map<StorePeer, Result<std::unique_ptr<RunningStore>>> stores;
  auto found = stores.find(peer);
  if (found == stores.end()) {
    found = stores.emplace(peer, RunningStore::Start(peer)).first;
  }
  if (!found->second) return Fail(found->second.error());
  return found->second->get();
}

}  // namespace nstance::test
