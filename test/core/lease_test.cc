// The lease record by examples and over seeds, and the bounds of its timings. The machine has a
// file of its own.
#include "core/lease.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

LeaseRecord Example() {
  return {.leader_id = "s1",
          .leader_addr = "10.0.0.1:8989",
          .last_updated = Timestamp::FromUnix(1'767'225'600, 500'000'000),
          .incarnation = "00112233445566ff",
          .term = 7,
          .lease = Duration::Seconds(8),
          .released = false,
          .write_id = "AAECAwQFBgcICQoLDA0ODw",
          .unknown = {}};
}

TEST(LeaseRecordTest, IsWrittenByteForByteInTheOrderOfTheFormat) {
  EXPECT_EQ(
      EncodeLease(Example()),
      R"({"leaderID":"s1","leaderAddr":"10.0.0.1:8989","lastUpdated":"2026-01-01T00:00:00.5Z",)"
      R"("incarnation":"00112233445566ff","term":7,"lease_ms":8000,"released":false,)"
      R"("write_id":"AAECAwQFBgcICQoLDA0ODw",)"
      R"("checksum":"sha256:)"
      "b5116ea35d955307427c00c23df21ce3f17fcb6b91355e3e52c87cb6a97c8e96\"}");
}

TEST(LeaseRecordTest, AReleasedRecordCarriesTheZeroTime) {
  LeaseRecord record = Example();
  record.released = true;
  record.last_updated = Timestamp::GoZero();
  const std::string bytes = EncodeLease(record);
  EXPECT_NE(bytes.find(R"("lastUpdated":"0001-01-01T00:00:00Z")"), std::string::npos);
  EXPECT_EQ(DecodeLease(bytes).record, record);
}

TEST(LeaseRecordTest, UnknownKeysAreKeptOnRewrite) {
  const DecodedLease decoded = DecodeLease(
      R"({"zone":"a","leaderID":"s1","leaderAddr":"","lastUpdated":"2026-01-01T01:00:00+01:00",)"
      R"("incarnation":"00112233445566ff","term":1,"lease_ms":1,"released":false,"write_id":"x",)"
      R"("more":{"deep":[1,null]}})");
  ASSERT_EQ(decoded.form, LeaseForm::kValid) << decoded.flaw;
  const std::string again = EncodeLease(decoded.record);
  EXPECT_NE(again.find(R"("zone":"a","more":{"deep":[1,null]},"checksum")"), std::string::npos);
  EXPECT_EQ(DecodeLease(again).record, decoded.record);
}

struct BadLease {
  LeaseForm form;
  std::string bytes;
};

TEST(LeaseRecordTest, WhatIsNotOursIsForeignOrCorruptAndNeverAnError) {
  const std::string theirs =
      R"({"leaderID":"go-1","leaderAddr":"a:1","lastUpdated":"2026-01-01T00:00:00Z")";
  const std::string ours = theirs + R"(,"incarnation":"00112233445566ff")";
  const std::string good = EncodeLease(Example());
  std::string flipped = good;
  flipped[14] = 'x';
  const std::vector<BadLease> rows = {
      {LeaseForm::kForeign, theirs + "}"},
      {LeaseForm::kForeign, theirs + R"(,"term":3})"},
      {LeaseForm::kCorrupt, ""},
      {LeaseForm::kCorrupt, "null"},
      {LeaseForm::kCorrupt, "[]"},
      {LeaseForm::kCorrupt, "{}"},
      {LeaseForm::kCorrupt, good.substr(0, good.size() / 2)},
      {LeaseForm::kCorrupt, good + good},
      {LeaseForm::kCorrupt, flipped},
      {LeaseForm::kCorrupt, std::string(1'000, '\0')},
      {LeaseForm::kCorrupt, R"({"leaderID":3})"},
      {LeaseForm::kCorrupt, ours + "}"},
      {LeaseForm::kCorrupt,
       theirs + R"(,"incarnation":"0","term":1,"lease_ms":1,"released":false,"write_id":"x"})"},
      {LeaseForm::kCorrupt, ours + R"(,"term":0,"lease_ms":1,"released":false,"write_id":"x"})"},
      {LeaseForm::kCorrupt, ours + R"(,"term":1,"lease_ms":0,"released":false,"write_id":"x"})"},
      {LeaseForm::kCorrupt,
       ours + R"(,"term":1,"lease_ms":9000000000,"released":false,"write_id":"x"})"},
      {LeaseForm::kCorrupt, ours + R"(,"term":1,"lease_ms":1,"released":1,"write_id":"x"})"},
      {LeaseForm::kCorrupt, ours + R"(,"term":1,"lease_ms":1,"released":false,"write_id":""})"},
      {LeaseForm::kCorrupt, ours + R"(,"term":1,"lease_ms":1,"released":false,"write_id":"x",)"
                                   R"("checksum":"sha256:00"})"},
  };
  for (const BadLease& row : rows) {
    const DecodedLease decoded = DecodeLease(row.bytes);
    EXPECT_EQ(decoded.form, row.form) << row.bytes;
    EXPECT_FALSE(decoded.flaw.empty()) << row.bytes;
  }
}

TEST(LeaseRecordTest, WhatIsWrittenIsReadBackTheSame) {
  Prng prng(1);
  for (int i = 0; i < 2'000; ++i) {
    LeaseRecord record = Example();
    record.leader_id = std::string(1 + prng.Below(40), static_cast<char>('!' + prng.Below(90)));
    record.term = prng.Between(1, 1'000'000'000'000);
    record.lease = Duration::Milliseconds(prng.Between(1, 600'000));
    record.released = prng.Chance(1, 2);
    record.last_updated = Timestamp::FromUnix(prng.Between(0, 4'000'000'000),
                                              static_cast<std::int32_t>(prng.Below(1'000'000'000)));
    if (prng.Chance(1, 2)) {
      record.unknown.push_back(
          {.key = "later", .key_position = {}, .value = json::Value::Integer(prng.Between(-9, 9))});
    }
    const DecodedLease decoded = DecodeLease(EncodeLease(record));
    ASSERT_EQ(decoded.form, LeaseForm::kValid) << decoded.flaw;
    EXPECT_EQ(decoded.record, record);
  }
}

TEST(LeaseTimingsTest, ProviderRequestsFitIntoTheFirstHalfOfWhatALeaseLeaves) {
  EXPECT_EQ(SendTimeout(Duration::Seconds(8)), Duration::Seconds(2));
  EXPECT_EQ(SendTimeout(Duration::Minutes(10)), Duration::Seconds(2));
  EXPECT_EQ(SendTimeout(Duration::Seconds(4)), Duration::Milliseconds(1500));
  for (int seconds = 2; seconds <= 600; ++seconds) {
    const Duration lease = Duration::Seconds(seconds);
    // The holder acts for 3/4 of the lease after a renewal was sent.
    EXPECT_LE(SendTimeout(lease) * 2, (lease * 3) / 4) << seconds;
  }
}

TEST(LeaseTimingsTest, TheMarginIsAQuarterOfTheLease) {
  const auto timings = MakeLeaseTimings({});
  ASSERT_TRUE(timings.has_value());
  EXPECT_EQ(*timings, LeaseTimings{});
  EXPECT_EQ(timings->margin, Duration::Seconds(2));
}

TEST(LeaseTimingsTest, WhatCannotWorkIsRefused) {
  const auto ms = [](std::int64_t n) { return Duration::Milliseconds(n); };
  const std::vector<LeaseSettings> bad = {
      {ms(499), ms(8'000), ms(1'000)},   {ms(60'001), ms(600'000), ms(1'000)},
      {ms(2'000), ms(5'999), ms(1'000)}, {ms(2'000), ms(600'001), ms(1'000)},
      {ms(2'000), ms(8'000), ms(4'000)}, {ms(2'000), ms(8'000), ms(0)},
      {ms(2'000), ms(8'000), ms(-1)},
  };
  for (const LeaseSettings& settings : bad) {
    EXPECT_FALSE(MakeLeaseTimings(settings).has_value())
        << FormatDuration(settings.renew) << FormatDuration(settings.lease);
  }
  EXPECT_TRUE(MakeLeaseTimings({ms(2'000), ms(8'000), ms(3'999)}).has_value());
  EXPECT_TRUE(MakeLeaseTimings({ms(500), ms(1'500), ms(500)}).has_value());
  EXPECT_TRUE(MakeLeaseTimings({ms(60'000), ms(600'000), ms(3'000)}).has_value());
}

TEST(MayStartTest, AnEffectMustEndBeforeTheDeadline) {
  const Instant deadline = Instant::FromClock(Duration::Seconds(10));
  EXPECT_TRUE(MayStart(Instant::FromClock(Duration::Seconds(6)), Duration::Seconds(3), deadline));
  EXPECT_FALSE(MayStart(Instant::FromClock(Duration::Seconds(7)), Duration::Seconds(3), deadline));
  EXPECT_FALSE(MayStart(deadline, Duration(), deadline));
}

}  // namespace
}  // namespace nstance
