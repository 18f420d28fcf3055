// The machine's table row by row, then random answers over seeds: it ends only after the expiry.
#include "core/agent/registration.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

namespace nstance::agent {
namespace {

const Timestamp kStart = Timestamp::FromUnix(1'800'000'000);
const Timestamp kExpiry = kStart + Duration::Minutes(5);

Error With(Code code) { return {.code = code, .message = "no"}; }

template <class T>
const T* If(const Registration::Command& command) {
  return std::get_if<T>(&command);
}

TEST(RegistrationTest, EachAnswerHasItsWait) {
  struct Row {
    Code code;
    Duration low;
    Duration high;
  };
  const Duration quick_low = Duration::Milliseconds(250);
  const Duration quick_high = Duration::Milliseconds(750);
  for (const Row& row :
       {Row{Code::kUnavailable, quick_low, quick_high},
        Row{Code::kDeadlineExceeded, quick_low, quick_high},
        Row{Code::kAborted, quick_low, quick_high}, Row{Code::kInternal, quick_low, quick_high},
        Row{Code::kFailedPrecondition, quick_low, quick_high},
        Row{Code::kResourceExhausted, quick_low, quick_high},
        Row{Code::kUnauthenticated, Duration::Seconds(10), Duration::Seconds(30)},
        Row{Code::kInvalidArgument, Duration::Seconds(30), Duration::Seconds(60)},
        Row{Code::kPermissionDenied, Duration::Seconds(30), Duration::Seconds(60)},
        Row{Code::kUnimplemented, Duration::Seconds(30), Duration::Seconds(60)}}) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      Prng jitter(seed);
      Registration machine(kExpiry);
      ASSERT_TRUE(If<Registration::Call>(machine.Start()));
      const auto command = machine.Answered(Fail(With(row.code)), kStart, jitter);
      const auto* wait = If<Registration::Wait>(command);
      ASSERT_NE(wait, nullptr) << CodeName(row.code);
      EXPECT_GE(wait->length, row.low) << CodeName(row.code);
      EXPECT_LE(wait->length, row.high) << CodeName(row.code);
      EXPECT_TRUE(If<Registration::Call>(machine.Woke(kStart, jitter)));
    }
  }
}

TEST(RegistrationTest, QuickRetriesGrowToTenSeconds) {
  Prng jitter(3);
  Registration machine(kStart + Duration::Hours(24));
  (void)machine.Start();
  Duration longest;
  for (int i = 0; i < 40; ++i) {
    const auto command = machine.Answered(Fail(With(Code::kUnavailable)), kStart, jitter);
    longest = std::max(longest, If<Registration::Wait>(command)->length);
    (void)machine.Woke(kStart, jitter);
  }
  EXPECT_GT(longest, Duration::Seconds(10));
  EXPECT_LE(longest, Duration::Seconds(15));
}

TEST(RegistrationTest, ACertificateIsStoredBeforeItEnds) {
  Prng jitter(1);
  Registration machine(kExpiry);
  (void)machine.Start();
  const auto store = machine.Answered(std::string("pem"), kStart, jitter);
  ASSERT_NE(If<Registration::Store>(store), nullptr);
  EXPECT_EQ(If<Registration::Store>(store)->certificate_pem, "pem");
  EXPECT_NE(If<Registration::Finish>(machine.Stored({}, kStart, jitter)), nullptr);
}

TEST(RegistrationTest, WhatCouldNotBeStoredIsAskedForAgain) {
  Prng jitter(1);
  Registration machine(kExpiry);
  (void)machine.Start();
  (void)machine.Answered(std::string("pem"), kStart, jitter);
  const auto wait = machine.Stored(Fail(Unavailable("disk full")), kStart, jitter);
  ASSERT_NE(If<Registration::Wait>(wait), nullptr);
  EXPECT_EQ(machine.last_error().message, "disk full");
  EXPECT_NE(If<Registration::Call>(machine.Woke(kStart, jitter)), nullptr);
}

TEST(RegistrationTest, AnExpiredNonceIsTriedOnceAndThenGivenUp) {
  Prng jitter(1);
  Registration machine(kExpiry);
  EXPECT_TRUE(If<Registration::Call>(machine.Start()));
  const Timestamp late = kExpiry + Duration::Hours(1);
  const auto at_once = machine.Answered(Fail(With(Code::kUnauthenticated)), late, jitter);
  EXPECT_EQ(If<Registration::Wait>(at_once)->length, Duration());
  const auto leaving = machine.Woke(late, jitter);
  EXPECT_LE(If<Registration::Wait>(leaving)->length, Duration::Seconds(9));
  const auto give_up = machine.Woke(late, jitter);
  ASSERT_NE(If<Registration::GiveUp>(give_up), nullptr);
  EXPECT_EQ(If<Registration::GiveUp>(give_up)->why.code, Code::kUnauthenticated);
}

TEST(RegistrationTest, NoErrorEndsItBeforeTheNonceExpires) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng prng(seed);
    Registration machine(kExpiry);
    (void)machine.Start();
    Timestamp wall = kStart;
    int calls = 1;
    for (;;) {
      const auto code = static_cast<Code>(prng.Between(1, 16));
      auto command = machine.Answered(Fail(With(code)), wall, prng);
      const auto* wait = If<Registration::Wait>(command);
      ASSERT_NE(wait, nullptr);
      ASSERT_LE(wall + wait->length, kExpiry) << "seed " << seed;
      wall = wall + wait->length;
      command = machine.Woke(wall, prng);
      if (If<Registration::Call>(command) == nullptr) break;
      ASSERT_LT(wall, kExpiry) << "seed " << seed;
      ASSERT_LT(++calls, 2'000);
    }
    EXPECT_EQ(wall, kExpiry);
    EXPECT_NE(If<Registration::GiveUp>(machine.Woke(wall, prng)), nullptr);
  }
}

}  // namespace
}  // namespace nstance::agent
