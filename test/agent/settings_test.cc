// Tables of variables: what is read, and every problem at once.
#include "agent/settings.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/agent.h"
#include "agent/command_line.h"
#include "base/prng.h"

namespace nstance::agent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

using Variables = std::vector<std::string>;

const Variables kLeast = {"NSTANCE_SERVER_REGISTRATION_ADDR=reg.example:8992",
                          "NSTANCE_SERVER_AGENT_ADDR=[::1]:8994"};

Variables With(const std::vector<std::string>& more) {
  Variables all = kLeast;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(SettingsTest, TheAddressesSuffice) {
  const auto settings = ReadSettings(kLeast);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->registration, (RpcAddress{.host = "reg.example", .port = 8992}));
  EXPECT_EQ(settings->agent, (RpcAddress{.host = "::1", .port = 8994}));
  EXPECT_EQ(settings->identity_dir, "/opt/nstance-agent/identity");
  EXPECT_EQ(settings->identity_mode, 0600U);
  EXPECT_EQ(settings->report_interval, Duration::Seconds(60));
  EXPECT_FALSE(settings->health);
  EXPECT_FALSE(settings->debug);
}

TEST(SettingsTest, EveryVariableIsRead) {
  const auto settings = ReadSettings(With({"NSTANCE_INSTANCE_ID=knc06bgm7733st2576nx5jht4ecjw",
                                           "NSTANCE_IDENTITY_DIR=/a",
                                           "NSTANCE_KEYS_DIR=/b",
                                           "NSTANCE_RECV_DIR=/c",
                                           "NSTANCE_IDENTITY_MODE=0400",
                                           "NSTANCE_KEYS_MODE=600",
                                           "NSTANCE_RECV_MODE=0777",
                                           "NSTANCE_INSTANCE_HOSTNAME=h",
                                           "NSTANCE_INSTANCE_FQDN=h.example",
                                           "NSTANCE_INSTANCE_IPV4=10.1.2.3",
                                           "NSTANCE_INSTANCE_IPV6=2001:db8::1",
                                           "NSTANCE_REPORT_INTERVAL=1d",
                                           "NSTANCE_METRICS_INTERFACE=eth0",
                                           "NSTANCE_EBPF_COUNTERS_PATH=/x",
                                           "NSTANCE_HEALTH_ADDR=:0",
                                           "NSTANCE_DEBUG=true",
                                           "NSTANCE_ENVIRONMENT=production",
                                           "NSTANCE_PROVIDER=aws",
                                           "NSTANCE_SPOT_POLL_INTERVAL=2s",
                                           "HOME=/root",
                                           "NSTANCE_REPORT_INTERVALL=5s",
                                           "NSTANCE_KEYS_MODE="}));
  ASSERT_TRUE(settings) << testing::PrintToString(settings.error());
  EXPECT_EQ(settings->instance->text(), "knc06bgm7733st2576nx5jht4ecjw");
  EXPECT_EQ(settings->keys_mode, 0600U);
  EXPECT_EQ(settings->hostname, "h.example");
  EXPECT_EQ(settings->report_interval, Duration::Days(1));
  EXPECT_EQ(settings->health, (RpcAddress{.host = "", .port = 0}));
  EXPECT_TRUE(settings->ebpf);
  EXPECT_TRUE(settings->debug);
  EXPECT_THAT(settings->unused, ElementsAre("NSTANCE_SPOT_POLL_INTERVAL", "NSTANCE_PROVIDER"));
  EXPECT_THAT(settings->unknown, ElementsAre("NSTANCE_REPORT_INTERVALL"));
}

TEST(SettingsTest, AllProblemsAreTold) {
  const auto settings = ReadSettings(
      Variables{"NSTANCE_SERVER_AGENT_ADDR=x", "NSTANCE_DEBUG=maybe", "NSTANCE_KEYS_MODE=0999"});
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error(),
              ElementsAre(StartsWith("NSTANCE_SERVER_REGISTRATION_ADDR: is required"),
                          AllOf(StartsWith("NSTANCE_SERVER_AGENT_ADDR: "), HasSubstr("no port")),
                          StartsWith("NSTANCE_KEYS_MODE: "), StartsWith("NSTANCE_DEBUG: ")));
}

TEST(SettingsTest, BadValuesAreRefusedOneByOne) {
  for (const std::string bad : {"SERVER_AGENT_ADDR=host:0",
                                "SERVER_AGENT_ADDR=:8994",
                                "SERVER_AGENT_ADDR=host:65536",
                                "SERVER_AGENT_ADDR=host:",
                                "SERVER_AGENT_ADDR=::1:80",
                                "SERVER_AGENT_ADDR=[x]:80",
                                "SERVER_AGENT_ADDR=a b:80",
                                "SERVER_AGENT_ADDR=-a:80",
                                "SERVER_AGENT_ADDR=a..b:80",
                                "INSTANCE_ID=x",
                                "INSTANCE_ID=KNC06BGM7733ST2576NX5JHT4ECJW",
                                "IDENTITY_DIR=relative",
                                "IDENTITY_MODE=01000",
                                "IDENTITY_MODE=-1",
                                "IDENTITY_MODE=0x1",
                                "REPORT_INTERVAL=-5s",
                                "REPORT_INTERVAL=10ms",
                                "REPORT_INTERVAL=5",
                                "REPORT_INTERVAL=25h",
                                "SPOT_POLL_INTERVAL=1ms",
                                "PROVIDER=acme",
                                "METADATA_ENDPOINT=ftp://x",
                                "INSTANCE_HOSTNAME=a_b",
                                "INSTANCE_IPV4=1.2.3",
                                "INSTANCE_IPV4=010.1.1.1",
                                "INSTANCE_IPV6=1.2.3.4",
                                "METRICS_INTERFACE=../etc",
                                "METRICS_INTERFACE=waytoolongname00",
                                "HEALTH_ADDR=name:80",
                                "HEALTH_ADDR=8996",
                                "DEBUG=yes"}) {
    const auto settings = ReadSettings(
        Variables{"NSTANCE_" + bad, kLeast[0],
                  bad.starts_with("SERVER_AGENT_ADDR") ? std::string("X=") : kLeast[1]});
    ASSERT_FALSE(settings) << bad;
    ASSERT_THAT(settings.error(), SizeIs(1)) << bad;
    EXPECT_THAT(settings.error().front(), StartsWith("NSTANCE_" + bad.substr(0, bad.find('='))));
  }
}

TEST(SettingsTest, ZeroDisablesReportsAndLocalhostListens) {
  const auto settings =
      ReadSettings(With({"NSTANCE_REPORT_INTERVAL=0", "NSTANCE_HEALTH_ADDR=localhost:8996"}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->report_interval, Duration());
  EXPECT_EQ(settings->health->host, "127.0.0.1");
}

TEST(SettingsTest, AnyBytesGiveSettingsOrProblems) {
  for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
    Prng prng(seed);
    Variables variables = With({"NSTANCE_REPORT_INTERVAL=1h", "NSTANCE_HEALTH_ADDR=[::1]:80"});
    std::string& text = variables[prng.Below(variables.size())];
    text[prng.Below(text.size())] = static_cast<char>(prng.Between(1, 255));
    const auto settings = ReadSettings(variables);
    if (!settings) {
      EXPECT_THAT(settings.error(), testing::Not(IsEmpty()));
    }
  }
}

TEST(CommandLineTest, HelpTeachesAndUnknownWordsEndWithTwo) {
  const auto parse = [](std::vector<std::string> words) { return ParseCommandLine(words); };
  EXPECT_FALSE(parse({})->debug);
  EXPECT_TRUE(parse({"--debug"})->debug);
  EXPECT_TRUE(parse({"-v"})->debug);
  const auto help = parse({"--help"});
  ASSERT_FALSE(help);
  EXPECT_EQ(help.error().exit_code, 0);
  EXPECT_THAT(help.error().out, AllOf(HasSubstr("NSTANCE_SERVER_AGENT_ADDR"), HasSubstr("/readyz"),
                                      HasSubstr("Exit codes")));
  EXPECT_THAT(parse({"--version"}).error().out, StartsWith("nstance-agent "));
  const auto wrong = parse({"--report-interval=5s"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().exit_code, kExitBadCommandLine);
  EXPECT_THAT(wrong.error().err, HasSubstr("environment"));
}

}  // namespace
}  // namespace nstance::agent
