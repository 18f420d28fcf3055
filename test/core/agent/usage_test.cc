// Texts as kernels write them, then counters that move by hand.
#include "core/agent/usage.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "core/agent/own_certificate.h"
#include "core/agent/proc_text.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::agent {
namespace {

using testing::ElementsAre;

constexpr std::string_view kStat =
    "cpu  100 10 50 800 40 5 5 10 7 0\n"
    "cpu0 60 5 25 400 20 3 2 5 7 0\n"
    "cpu3 40 5 25 400 20 2 3 5 0 0\n"
    "intr 12345 0 0\n"
    "ctxt 99\n"
    "btime 1700000000\n"
    "processes 4\n";

TEST(ProcTextTest, ProcessorTimesCountWaitingAsIdleAndGuestsOnce) {
  const auto times = ParseCpuTimes(kStat);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->all, (CpuTime{.core = -1, .busy = 180, .total = 1020}));
  EXPECT_THAT(times->cores, ElementsAre(CpuTime{.core = 0, .busy = 100, .total = 520},
                                        CpuTime{.core = 3, .busy = 80, .total = 500}));
}

TEST(ProcTextTest, OtherTextsOfTheKernel) {
  EXPECT_EQ(ParseBootTime(kStat), Timestamp::FromUnix(1'700'000'000));
  EXPECT_EQ(ParseMemory("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n"),
            (MemorySizes{.total = 2048, .available = 512}));
  EXPECT_EQ(ParseUptime("93784.42 180000.00\n"), Duration::Seconds(93'784));
  EXPECT_EQ(ParseCounter("18446744073709551615\n"), UINT64_MAX);
}

TEST(ProcTextTest, WhatIsNotThereIsAnError) {
  for (const std::string_view text :
       {"", "cpu", "cpu 1 2 3", "cpu a b c d", "cpux 1 2 3 4\ncpu 1 2 3 4", "cpu-5 1 2 3 4",
        "cpu 18446744073709551615 1 1 1"}) {
    EXPECT_FALSE(ParseCpuTimes(text)) << text;
  }
  for (const std::string_view text : {"", "btime", "btime -5", "btime 1x"}) {
    EXPECT_FALSE(ParseBootTime(text)) << text;
  }
  for (const std::string_view text :
       {"", "MemTotal: 5", "MemTotal: 0\nMemAvailable: 0", "MemTotal: x\nMemAvailable: 1"}) {
    EXPECT_FALSE(ParseMemory(text)) << text;
  }
  for (const std::string_view text : {"", "x", "-3.0 1"}) EXPECT_FALSE(ParseUptime(text)) << text;
  for (const std::string_view text : {"", "1 2", "-1", "99999999999999999999"}) {
    EXPECT_FALSE(ParseCounter(text)) << text;
  }
}

TEST(ProcTextTest, AnyBytesGiveAnAnswer) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng prng(seed);
    std::string text(kStat);
    for (int i = 0; i < 10; ++i) {
      text[prng.Below(text.size())] = static_cast<char>(prng.Below(256));
    }
    (void)ParseCpuTimes(text);
    (void)ParseBootTime(text);
    (void)ParseMemory(text);
    (void)ParseUptime(text);
    (void)ParseCounter(text);
  }
}

// A machine whose counters a test moves.
struct Counters {
  CpuTimes cpu = {.all = {}, .cores = {{.core = 0}, {.core = 1}}};
  std::uint64_t available = 1'000;
  TrafficCounters traffic = {};

  // Five seconds in which core 0 is busy for `busy` of 500 ticks and core 1 not at all.
  UsageReading Pass(std::uint64_t busy) {
    for (CpuTime& core : cpu.cores) core.total += 500;
    if (!cpu.cores.empty()) cpu.cores.front().busy += busy;
    cpu.all.total += 1'000;
    cpu.all.busy += busy;
    traffic.rx_bytes += 10;
    return {.cpu = cpu,
            .memory = MemorySizes{.total = 1'000, .available = available},
            .traffic = traffic};
  }
};

TEST(UsageTest, TheFirstReadingOnlyBeginsAnInterval) {
  Counters counters;
  UsageHistory history;
  history.Add(counters.Pass(0));
  EXPECT_EQ(history.latest(), nullptr);
  counters.available = 250;
  history.Add(counters.Pass(250));
  ASSERT_NE(history.latest(), nullptr);
  EXPECT_EQ(history.latest()->cpu, 250'000);
  EXPECT_THAT(history.latest()->cores, ElementsAre(CoreUsage{.core = 0, .share = 500'000},
                                                   CoreUsage{.core = 1, .share = 0}));
  EXPECT_EQ(history.latest()->memory, 750'000);
  EXPECT_EQ(history.latest()->traffic->rx_bytes, 10U);
}

TEST(UsageTest, AMeanExistsOnceItsWindowIsFull) {
  Counters counters;
  UsageHistory history;
  history.Add(counters.Pass(0));
  for (std::size_t i = 0; i + 1 < UsageHistory::kOneMinute; ++i) history.Add(counters.Pass(100));
  EXPECT_FALSE(history.Mean(UsageHistory::kOneMinute));
  history.Add(counters.Pass(100 + (12 * 100)));
  const auto mean = history.Mean(UsageHistory::kOneMinute);
  ASSERT_TRUE(mean);
  EXPECT_EQ(mean->cpu, 175'000);  // 11 intervals of a tenth, one that is cut at the whole.
  EXPECT_EQ(mean->traffic->rx_bytes, 120U);
  EXPECT_FALSE(history.Mean(UsageHistory::kFiveMinutes));
}

TEST(UsageTest, TheRingForgetsWhatIsOlderThanFifteenMinutes) {
  Counters counters;
  UsageHistory history;
  history.Add(counters.Pass(0));
  for (int i = 0; i < 180; ++i) history.Add(counters.Pass(1'000));
  EXPECT_EQ(history.Mean(UsageHistory::kFifteenMinutes)->cpu, kWhole);
  for (int i = 0; i < 180; ++i) history.Add(counters.Pass(0));
  EXPECT_EQ(history.Mean(UsageHistory::kFifteenMinutes)->cpu, 0);
}

TEST(UsageTest, CoresThatWereTakenAwayAreNotInMeans) {
  Counters counters;
  UsageHistory history;
  for (int i = 0; i < 10; ++i) history.Add(counters.Pass(50));
  counters.cpu.cores.pop_back();
  for (int i = 0; i < 10; ++i) history.Add(counters.Pass(50));
  EXPECT_THAT(history.Mean(12)->cores, ElementsAre(CoreUsage{.core = 0, .share = 100'000}));
  counters.cpu.cores.push_back({.core = 1});
  history.Add(counters.Pass(50));
  history.Add(counters.Pass(50));
  EXPECT_EQ(history.Mean(12)->cores.size(), 2U);
}

TEST(UsageTest, CountersThatGoBackGiveNoNonsense) {
  Counters counters;
  UsageHistory history;
  counters.traffic.rx_bytes = 1'000'000;
  history.Add(counters.Pass(500));
  counters.cpu = Counters().cpu;
  counters.traffic = {};
  history.Add(counters.Pass(0));
  EXPECT_FALSE(history.latest()->cpu);
  EXPECT_EQ(history.latest()->traffic->rx_bytes, 10U);
}

TEST(UsageTest, ASourceThatFailsIsLeftOutAlone) {
  Counters counters;
  UsageHistory history;
  history.Add(counters.Pass(100));
  UsageReading without_cpu = counters.Pass(100);
  without_cpu.cpu.reset();
  history.Add(without_cpu);
  EXPECT_FALSE(history.latest()->cpu);
  EXPECT_TRUE(history.latest()->memory);
  history.Add(counters.Pass(100));
  EXPECT_FALSE(history.latest()->cpu);  // Nothing to compare with.
  history.Add(counters.Pass(100));
  EXPECT_TRUE(history.latest()->cpu);
}

TEST(UsageTest, SharesStayBetweenNothingAndTheWholeForAnyCounters) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Prng prng(seed);
    UsageHistory history;
    for (int i = 0; i < 20; ++i) {
      UsageReading reading;
      CpuTimes cpu;
      cpu.all = {.busy = prng.Next(), .total = prng.Next()};
      for (int core = 0; core < static_cast<int>(prng.Below(4)); ++core) {
        cpu.cores.push_back({.core = core, .busy = prng.Next(), .total = prng.Next()});
      }
      reading.cpu = cpu;
      reading.memory = MemorySizes{.total = prng.Next() | 1U, .available = prng.Next()};
      reading.traffic = TrafficCounters{.rx_bytes = prng.Next(), .tx_drops = prng.Next()};
      history.Add(reading);
    }
    const auto mean = history.Mean(12);
    ASSERT_TRUE(mean);
    for (const auto share : {mean->cpu.value_or(0), mean->memory.value_or(0)}) {
      EXPECT_GE(share, 0) << "seed " << seed;
      EXPECT_LE(share, kWhole) << "seed " << seed;
    }
  }
}

TEST(OwnCertificateTest, OnlyTheOneForThisKeyAndInstanceIsKept) {
  const auto authority = crypto::test::Authority();
  const crypto::PrivateKey key = crypto::test::KeyOf(7);
  const crypto::PrivateKey other = crypto::test::KeyOf(8);
  const std::optional<InstanceId> me = crypto::test::Instance();
  const std::optional<InstanceId> anybody;
  const auto issue = [&](const crypto::ClientSubject& subject) {
    return crypto::test::Must(
               authority.IssueClient(subject, key.public_key(), crypto::test::Terms()))
        .ToPem();
  };
  const std::string good = issue(crypto::test::Agent());
  const auto own = ReadOwnCertificate(good, {.key = key.public_key(), .instance = me});
  ASSERT_TRUE(own) << own.error().ToString();
  EXPECT_EQ(own->instance.text(), crypto::test::kInstance);
  EXPECT_EQ(own->validity().not_after, crypto::test::Noon() + Duration::Hours(24));
  EXPECT_TRUE(ReadOwnCertificate(good, {.key = key.public_key(), .instance = anybody}));
  EXPECT_FALSE(ReadOwnCertificate(good, {.key = other.public_key(), .instance = me}));
  EXPECT_FALSE(ReadOwnCertificate("", {.key = key.public_key(), .instance = me}));
  EXPECT_FALSE(ReadOwnCertificate(issue(crypto::test::Operator()),
                                  {.key = key.public_key(), .instance = me}));
  const std::optional<InstanceId> stranger =
      Puidv7Generator().Next("knc", crypto::test::Noon(), {});
  EXPECT_FALSE(ReadOwnCertificate(good, {.key = key.public_key(), .instance = stranger}));
}

}  // namespace
}  // namespace nstance::agent
