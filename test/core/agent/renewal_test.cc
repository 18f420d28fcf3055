// The machine's table row by row; the exchange of files as plain sets of keys.
#include "core/agent/renewal.h"

#include <array>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/agent/identity_swap.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Timestamp kIssued = Timestamp::FromUnix(1'800'000'000);
const Validity kDay = {.not_before = kIssued, .not_after = kIssued + Duration::Hours(24)};
const Timestamp kDue = kIssued + Duration::Hours(17);  // Later than 2/3.

Renewal::Moment At(Timestamp wall, Renewal::Link link = Renewal::Link::kUp) {
  return {.now = Instant::FromClock(wall - kIssued), .wall = wall, .link = link};
}

template <class T>
bool Is(const Renewal::Command& command) {
  return std::holds_alternative<T>(command);
}

// Up to the call.
void Begin(Renewal& machine, Prng& jitter, Timestamp wall = kDue) {
  ASSERT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(wall))));
  ASSERT_TRUE(Is<Renewal::Call>(machine.KeyReady({}, At(wall), jitter)));
}

TEST(RenewalTest, IsDueBetweenAHalfAndTwoThirdsOfTheLife) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng jitter(seed);
    Renewal machine(kDay, jitter);
    EXPECT_GE(machine.due(), kIssued + Duration::Hours(12));
    EXPECT_LE(machine.due(), kIssued + Duration::Hours(16));
    EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(At(machine.due() - Duration::Seconds(1)))));
    EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(At(machine.due(), Renewal::Link::kDown))));
    EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(machine.due()))));
  }
}

TEST(RenewalTest, StoresWhatItGotThenSwitchesAndPlansAnew) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  Begin(machine, jitter);
  EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(At(kDue))));  // One at a time.
  const auto store = machine.Answered(std::string("pem"), At(kDue), jitter);
  ASSERT_TRUE(Is<Renewal::Store>(store));
  const Validity next = {.not_before = kDue, .not_after = kDue + Duration::Hours(24)};
  EXPECT_TRUE(Is<Renewal::Switch>(machine.Stored(next, At(kDue), jitter)));
  EXPECT_GE(machine.due(), kDue + Duration::Hours(12));
  EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(At(kDue))));
}

// Gets a certificate for a day from `issued` on, at a moment of both clocks.
void Renew(Renewal& machine, Prng& jitter, const Renewal::Moment& at, Timestamp issued) {
  ASSERT_TRUE(Is<Renewal::PrepareKey>(machine.Look(at)));
  ASSERT_TRUE(Is<Renewal::Call>(machine.KeyReady({}, at, jitter)));
  ASSERT_TRUE(Is<Renewal::Store>(machine.Answered(std::string("pem"), at, jitter)));
  ASSERT_TRUE(Is<Renewal::Switch>(machine.Stored(
      Validity{.not_before = issued, .not_after = issued + Duration::Hours(24)}, at, jitter)));
}

TEST(RenewalTest, W8_F11_AWallClockThatIsAheadDoesNotExchangeEveryCertificateAtOnce) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  const auto ahead = [](Duration passed) {
    Renewal::Moment moment = At(kIssued + passed);
    moment.wall = moment.wall + Duration::Days(3'650);
    return moment;
  };
  ASSERT_NO_FATAL_FAILURE(Renew(machine, jitter, ahead(Duration::Hours(1)), kIssued));
  EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(ahead(Duration::Hours(1)))));
  EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(ahead(Duration::Hours(12)))));
  EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(ahead(Duration::Hours(17)))));
}

TEST(RenewalTest, W8_F11_AWallClockThatWentBackDoesNotKeepACertificateTooLong) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  ASSERT_NO_FATAL_FAILURE(Renew(machine, jitter, At(kDue), kDue));
  Renewal::Moment behind = At(kDue + Duration::Hours(11));
  behind.wall = kIssued;
  EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(behind)));
  behind.now = behind.now + Duration::Hours(6);
  EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(behind)));
}

TEST(RenewalTest, FailuresAreTriedAgainAtMostATwentiethOfTheRestLater) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  Timestamp wall = kDay.not_after - Duration::Minutes(10);
  for (int i = 0; i < 50; ++i) {
    Begin(machine, jitter, wall);
    ASSERT_TRUE(
        Is<Renewal::Nothing>(machine.Answered(Fail(Unauthenticated("blocked")), At(wall), jitter)));
    const Duration most = std::max((kDay.not_after - wall) / 20, Duration::Seconds(1));
    ASSERT_TRUE(Is<Renewal::Nothing>(machine.Look(At(wall))));
    wall = wall + most;
  }
}

TEST(RenewalTest, AnAnswerThatCouldNotBeStoredIsStoredAgainAndNeverAskedForAgain) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  Begin(machine, jitter);
  (void)machine.Answered(std::string("pem"), At(kDue), jitter);
  Timestamp wall = kDue;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(
        Is<Renewal::Nothing>(machine.Stored(Fail(Unavailable("disk full")), At(wall), jitter)));
    wall = wall + Duration::Hours(1);
    machine.Rebind();
    // Also without a connection: nothing needs to be asked.
    const auto again = machine.Look(At(wall, Renewal::Link::kDown));
    ASSERT_TRUE(Is<Renewal::Store>(again));
    EXPECT_EQ(std::get<Renewal::Store>(again).certificate_pem, "pem");
  }
}

TEST(RenewalTest, AServerWithoutTheMethodIsAskedAgainAfterAReconnect) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  Begin(machine, jitter);
  const Error unimplemented = {.code = Code::kUnimplemented, .message = "no"};
  (void)machine.Answered(Fail(unimplemented), At(kDue), jitter);
  const Timestamp later = kDue + Duration::Hours(1);
  EXPECT_TRUE(Is<Renewal::Nothing>(machine.Look(At(later))));
  machine.Reconnected();
  EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(later))));
}

TEST(RenewalTest, ARebindStartsAtOnceAndOneDuringACallIsFollowedByAnother) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  machine.Rebind();
  Begin(machine, jitter, kIssued);
  machine.Rebind();
  (void)machine.Answered(std::string("pem"), At(kIssued), jitter);
  (void)machine.Stored(kDay, At(kIssued), jitter);
  EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(kIssued))));
}

TEST(RenewalTest, AFailedRebindIsNotForgotten) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  machine.Rebind();
  Begin(machine, jitter, kIssued);
  (void)machine.Answered(Fail(Unavailable("gone")), At(kIssued), jitter);
  EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(kIssued + Duration::Seconds(10)))));
}

TEST(RenewalTest, WithoutADurableKeyNothingIsAsked) {
  Prng jitter(1);
  Renewal machine(kDay, jitter);
  ASSERT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(kDue))));
  EXPECT_TRUE(
      Is<Renewal::Nothing>(machine.KeyReady(Fail(Unavailable("disk full")), At(kDue), jitter)));
  EXPECT_TRUE(Is<Renewal::PrepareKey>(machine.Look(At(kDue + Duration::Hours(1)))));
}

TEST(IdentitySwapTest, EveryStateHasItsSteps) {
  const crypto::PublicKey a = crypto::test::KeyOf(1).public_key();
  const crypto::PublicKey b = crypto::test::KeyOf(2).public_key();
  const crypto::PublicKey c = crypto::test::KeyOf(3).public_key();
  const auto plan = [](IdentityKeys keys, bool has_next) {
    return PlanSwap({.keys = keys, .has_next_certificate = has_next});
  };
  EXPECT_THAT(plan({}, false), IsEmpty());
  EXPECT_THAT(plan({.key = a, .public_key = a}, false), IsEmpty());
  EXPECT_THAT(plan({.key = a, .public_key = a, .next_key = b}, false), IsEmpty());
  EXPECT_THAT(plan({.key = a}, false), ElementsAre(SwapStep::kWritePublicKey));
  EXPECT_THAT(plan({.key = a, .public_key = b}, false), ElementsAre(SwapStep::kWritePublicKey));
  EXPECT_THAT(plan({.public_key = b}, false), IsEmpty());
  EXPECT_THAT(
      plan({.key = a, .public_key = a, .next_key = b, .next_certificate = b}, true),
      ElementsAre(SwapStep::kMoveKey, SwapStep::kWritePublicKey, SwapStep::kMoveCertificate));
  EXPECT_THAT(plan({.key = b, .public_key = a, .next_certificate = b}, true),
              ElementsAre(SwapStep::kWritePublicKey, SwapStep::kMoveCertificate));
  EXPECT_THAT(plan({.key = b, .public_key = b, .next_certificate = b}, true),
              ElementsAre(SwapStep::kMoveCertificate));
  EXPECT_THAT(plan({.key = a, .public_key = a, .next_certificate = c}, true),
              ElementsAre(SwapStep::kDropCertificate));
  EXPECT_THAT(plan({.key = a, .public_key = a, .next_key = b}, true),
              ElementsAre(SwapStep::kDropCertificate));
}

}  // namespace
}  // namespace nstance::agent
