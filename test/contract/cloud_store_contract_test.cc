// The suite of object_store_contract.h against the S3 and GCS adapters with real stores behind
// them.
#include "test/contract/cloud_stores.h"
#include "test/contract/object_store_contract.h"
#include "test/support/store_peers.h"

namespace nstance::test {
namespace {

StoreKind Kind(std::string name, StorePeer peer) {
  return {.name = std::move(name),
          .make = [peer] { return CloudStoresUnderTest::Make(peer); },
          .honours_delete_condition = HonoursDeleteCondition(peer)};
}

INSTANTIATE_TEST_SUITE_P(Clouds, ObjectStoreContractTest,
                         testing::Values(Kind("S3Minio", StorePeer::kMinio),
                                         Kind("S3Versitygw", StorePeer::kVersitygw),
                                         Kind("S3Ministack", StorePeer::kMinistack),
                                         Kind("GcsFakeServer", StorePeer::kFakeGcs)),
                         StoreKindName);

}  // namespace
}  // namespace nstance::test
