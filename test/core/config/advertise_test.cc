// Advertised addresses, row by row.
#include "core/config/advertise.h"

#include <gtest/gtest.h>

#include "core/config/load.h"
#include "test/core/config/config_text.h"

namespace nstance::config {
namespace {

AdvertiseInputs Inputs() {
  return {.primary = {.ipv4 = "10.0.0.5", .ipv6 = "fd00::5"}, .advertise_host = {}, .bound = {}};
}

Server ServerWith(const std::vector<Edit>& edits) {
  const LoadResult result = Load(Edited(kSmall, edits));
  EXPECT_TRUE(result.config.has_value()) << ErrorLines(result);
  return result.config->server;
}

TEST(AdvertiseTest, UnspecifiedHostsBecomeThePrimaryAddress) {
  const auto advertised =
      AdvertisedAddresses(ServerWith({{"server/bind/agent_addr", "\"0.0.0.0:1\""},
                                      {"server/bind/operator_addr", "\"192.0.2.1:2\""}}),
                          Inputs());
  ASSERT_TRUE(advertised.has_value());
  EXPECT_EQ(advertised->health_addr, (Address{"10.0.0.5", 8990}));
  EXPECT_EQ(advertised->agent_addr, (Address{"10.0.0.5", 1}));
  EXPECT_EQ(advertised->operator_addr, (Address{"192.0.2.1", 2}));
}

TEST(AdvertiseTest, TheFamilyIsThatOfTheHealthBind) {
  const auto advertised =
      AdvertisedAddresses(ServerWith({{"server/bind/health_addr", "\"[::]:1\""}}), Inputs());
  ASSERT_TRUE(advertised.has_value());
  EXPECT_EQ(FormatAddress(advertised->health_addr), "[fd00::5]:1");
  EXPECT_EQ(FormatAddress(advertised->agent_addr), "[fd00::5]:8994");
}

TEST(AdvertiseTest, ALocalProviderOnLoopbackStaysThere) {
  const auto advertised =
      AdvertisedAddresses(ServerWith({{"server/bind/health_addr", "\"127.0.0.1:1\""}}), Inputs());
  ASSERT_TRUE(advertised.has_value());
  EXPECT_EQ(advertised->agent_addr, (Address{"127.0.0.1", 8994}));
}

TEST(AdvertiseTest, PortZeroIsThePortThatWasBound) {
  AdvertiseInputs inputs = Inputs();
  inputs.bound.agent_addr.port = 4'711;
  const auto advertised =
      AdvertisedAddresses(ServerWith({{"server/bind/agent_addr", "\":0\""},
                                      {"server/advertise/agent_addr", "\"gate.example:0\""}}),
                          inputs);
  ASSERT_TRUE(advertised.has_value());
  EXPECT_EQ(advertised->agent_addr, (Address{"gate.example", 4'711}));
}

TEST(AdvertiseTest, TheFlagReplacesTheHostOfHealthAndElection) {
  AdvertiseInputs inputs = Inputs();
  inputs.advertise_host = "node-1";
  const auto advertised = AdvertisedAddresses(ServerWith({}), inputs);
  ASSERT_TRUE(advertised.has_value());
  EXPECT_EQ(advertised->health_addr.host, "node-1");
  EXPECT_EQ(advertised->election_addr.host, "node-1");
  EXPECT_EQ(advertised->agent_addr.host, "10.0.0.5");
  const auto refused =
      AdvertisedAddresses(ServerWith({{"server/advertise/election_addr", "\"e:1\""}}), inputs);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "--advertise-host: server.advertise.election_addr names the host \"e\" already; one of "
            "the two");
}

TEST(AdvertiseTest, AHostWithoutAddressIsAnError) {
  AdvertiseInputs inputs = Inputs();
  inputs.primary = {};
  const auto refused = AdvertisedAddresses(ServerWith({}), inputs);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  inputs.primary.ipv6 = "fd00::5";
  EXPECT_EQ(AdvertisedAddresses(ServerWith({}), inputs)->agent_addr.host, "fd00::5");
}

}  // namespace
}  // namespace nstance::config
