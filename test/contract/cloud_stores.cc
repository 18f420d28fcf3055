#include "test/contract/cloud_stores.h"

#include <utility>

#include "base/prng.h"

namespace nstance::test {
namespace {

// Slow machines and sanitizers: no test here is about the deadline.
constexpr Duration kDeadline = Duration::Seconds(60);

cloud::Environment EmptyEnvironment() {
  return {.variable = [](const std::string&) { return std::nullopt; },
          .read_file = [](const std::string&) { return Fail(NotFound("no files here")); }};
}

aws::AwsSettings TestKeys() {
  aws::AwsSettings settings;
  settings.access_key = RunningStore::kAccessKey;
  settings.secret_key = RunningStore::kSecretKey;
  return settings;
}

}  // namespace

bool HonoursDeleteCondition(StorePeer peer) {
  return peer == StorePeer::kVersitygw || peer == StorePeer::kMinistack;
}

Result<std::unique_ptr<StoreUnderTest>> CloudStoresUnderTest::Make(StorePeer peer) {
  ASSIGN_OR_RETURN(RunningStore* const running, SharedStore(peer));
  auto world = std::make_unique<CloudStoresUnderTest>();
  RETURN_IF_ERROR(world->Add(peer, *running));
  RETURN_IF_ERROR(world->Add(peer, *running));
  return world;
}

std::vector<ObjectStore*> CloudStoresUnderTest::stores() {
  std::vector<ObjectStore*> all;
  for (const Way& way : ways_) all.push_back(way.store.get());
  return all;
}

Status CloudStoresUnderTest::Add(StorePeer peer, const RunningStore& running) {
  Way way;
  way.http = std::make_unique<CurlHttpClient>(CurlHttpClient::Deps{.io = loop_, .home = loop_});
  if (SpeaksS3(peer)) {
    way.aws = std::make_unique<aws::AwsCredentials>(
        aws::AwsCredentials::Deps{
            .loop = loop_, .http = *way.http, .environment = EmptyEnvironment()},
        TestKeys());
    ASSIGN_OR_RETURN(
        way.store, s3::S3Store::Make(
                       {.loop = loop_, .http = *way.http, .credentials = *way.aws, .prng = Prng(1)},
                       {.bucket = std::string(RunningStore::kBucket),
                        .region = "us-east-1",
                        .endpoint = running.endpoint(),
                        .conditional_delete = s3::ConditionalDelete::kIfMatch,
                        .deadline = kDeadline}));
  } else {
    way.gcp = std::make_unique<gcp::GcpCredentials>(
        gcp::GcpCredentials::Deps{
            .loop = loop_, .http = *way.http, .environment = EmptyEnvironment()},
        gcp::GcpSettings{});
    ASSIGN_OR_RETURN(
        way.store, gcs::GcsStore::Make(
                       {.loop = loop_, .http = *way.http, .credentials = *way.gcp, .prng = Prng(1)},
                       {.bucket = std::string(RunningStore::kBucket),
                        .endpoint = running.endpoint(),
                        .deadline = kDeadline}));
  }
  ways_.push_back(std::move(way));
  return {};
}

}  // namespace nstance::test
