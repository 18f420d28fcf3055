// Cloud stores for tests: an adapter with everything that it needs, on one real loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/gcp_credentials/gcp_credentials.h"
#include "adapters/gcs_store/gcs_store.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/s3_store/s3_store.h"
#include "test/contract/object_store_contract.h"
#include "test/support/store_peers.h"

namespace nstance::test {

class CloudStoresUnderTest final : public StoreUnderTest {
 public:
  // Two ways to the shared instance of a peer, each with connections of its own.
  [[nodiscard]] static Result<std::unique_ptr<StoreUnderTest>> Make(StorePeer peer);

  Loop& loop() override { return loop_; }
  std::vector<ObjectStore*> stores() override;
  bool RunUntil(const std::function<bool()>& done) override { return RunLoopUntil(loop_, done); }

 private:
  struct Way {
    std::unique_ptr<CurlHttpClient> http;
    std::unique_ptr<aws::AwsCredentials> aws;
    std::unique_ptr<gcp::GcpCredentials> gcp;
    std::unique_ptr<ObjectStore> store;
  };
  [[nodiscard]] Status Add(StorePeer peer, const RunningStore& running);

  RealLoop loop_;
  std::vector<Way> ways_;
};

// What the store probe is to find out about deletes.
[[nodiscard]] bool HonoursDeleteCondition(StorePeer peer);

}  // namespace nstance::test
