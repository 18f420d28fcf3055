// The operators of the cache on disk, over a simulated store and disk: what the header promises.
#include "server/services/operator_rows.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "crypto/ed25519.h"
#include "sim/sim_cache.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Timestamp kStart = Timestamp::FromUnix(1'700'000'000);

crypto::PublicKey KeyOf(std::uint8_t number) {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  seed[0] = number;
  return crypto::PrivateKey::FromSeed(seed).public_key();
}

OperatorRecord RecordOf(std::uint8_t number, int days) {
  return {.cert_serial = "1",
          .client_id = "c1",
          .expires_at = kStart + Duration::Days(days),
          .public_key_pem = KeyOf(number).ToPem(),
          .registered_at = kStart,
          .registered_by = "nstance-server",
          .write_id = "w"};
}

OperatorName NameOf(std::uint8_t number) {
  return {.tenant = DefaultTenant(), .storage_key = OperatorStorageKey(KeyOf(number))};
}

cache::OperatorRow RowOf(std::uint8_t number, int days) {
  return {.tenant = DefaultTenant(),
          .storage_key = NameOf(number).storage_key,
          .public_key_sha256 = HexEncode(KeyOf(number).SpkiSha256()),
          .registered_at = kStart,
          .expires_at = kStart + Duration::Days(days)};
}

class OperatorRowsTest : public testing::Test {
 public:
  void PutRecord(std::uint8_t number, int days) {
    const OperatorName name = NameOf(number);
    bucket.SetByHand(OperatorKey(name.tenant, name.storage_key),
                     EncodeOperatorRecord(RecordOf(number, days)));
  }
  [[nodiscard]] std::vector<cache::OperatorRow> Rows() const { return disk.Read().operators; }

  sim::SimScheduler scheduler{1};
  sim::SimBucket bucket{scheduler, {.wall_start = kStart}};
  sim::SimLoop loop{scheduler, kStart};
  sim::SimObjectStore store{bucket, loop, {.process = "s1"}};
  sim::SimCacheDisk disk;
  sim::SimCache cache{loop, disk};
  OperatorRows rows{{.loop = loop, .store = store, .cache = &cache}};
};

TEST_F(OperatorRowsTest, I10_RowsAreThoseOfTheRecordsAndOthersGo) {
  PutRecord(1, 30);
  bucket.SetByHand(*ObjectKey::Parse("operator/default.unreadable.json"), "not a record");
  bucket.SetByHand(*ObjectKey::Parse("operator/no-name"), "x");
  disk.Apply(RowOf(2, 30));
  disk.Apply(RowOf(1, 7));
  rows.Start();
  scheduler.RunFor(Duration::Seconds(5));
  EXPECT_THAT(Rows(), ElementsAre(RowOf(1, 30)));
}

TEST_F(OperatorRowsTest, WhatIsWrittenMeanwhileIsNewerThanWhatWasRead) {
  PutRecord(1, 30);
  rows.Start();
  rows.Write(NameOf(1), RecordOf(1, 60));
  rows.Write(NameOf(2), RecordOf(2, 60));
  scheduler.RunFor(Duration::Seconds(5));
  EXPECT_THAT(Rows(), testing::UnorderedElementsAre(RowOf(1, 60), RowOf(2, 60)));
}

TEST_F(OperatorRowsTest, I10_ACacheThatBeganAnewIsFilledAgain) {
  PutRecord(1, 30);
  rows.Start();
  scheduler.RunFor(Duration::Seconds(5));
  disk.broken = true;
  PutRecord(2, 30);
  rows.Write(NameOf(2), RecordOf(2, 30));
  scheduler.RunFor(Duration::Seconds(5));
  disk.broken = false;
  PutRecord(3, 30);
  rows.Write(NameOf(3), RecordOf(3, 30));
  scheduler.RunFor(Duration::Seconds(20));
  EXPECT_THAT(Rows(), testing::UnorderedElementsAre(RowOf(1, 30), RowOf(2, 30), RowOf(3, 30)));
}

TEST_F(OperatorRowsTest, AStoreThatDoesNotAnswerIsAskedAgain) {
  PutRecord(1, 30);
  store.link().requests_lost = true;
  rows.Start();
  scheduler.RunFor(Duration::Seconds(20));
  EXPECT_THAT(Rows(), IsEmpty());
  store.link().requests_lost = false;
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_THAT(Rows(), ElementsAre(RowOf(1, 30)));
}

}  // namespace
}  // namespace nstance::test
