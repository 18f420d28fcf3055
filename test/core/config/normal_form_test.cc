// The cluster/shard-rooted form and other spellings: the same Config as ours, messages in the
// file's own words, and conversion.
#include <string>

#include <gtest/gtest.h>

#include "core/config/load.h"
#include "test/core/config/complete_example.h"
#include "test/core/config/config_text.h"

namespace nstance::config {
namespace {

constexpr std::string_view kOld = R"({
  // As the Go implementation has it.
  "cluster": {
    "id": "example",
    "storage": {"provider": "s3", "bucket": "b"},
    "secrets": {"encryption_key": {"provider": "env", "source": "KEY"}},
    "leader_election": {"frequent_interval": "3s", "leader_timeout": "12s", "enabled": false}
  },
  "shard": {
    "id": "a",
    "infra": {"provider": "local", "options": {"root": "/x"}},
    "bind": {"health_addr": ":1"},
    "advertise": {"agent_addr": "h:2"},
    "subnet_pools": {"main": ["s1"]},
    "dynamic_subnet_pools": ["main"],
    "request_timeout": "20s", "create_rate_limit": "1s", "health_check_interval": "30s",
    "default_drain_timeout": "1m", "image_refresh_interval": "1h", "shutdown_timeout": "5s",
    "garbage_collection": {"interval": "5m"},
    "expiry": {"forced_age": "9d"},
    "error_exit_jitter": {"min_delay": "1s"},
    "leader_election": {"frequent_interval": "1s", "infrequent_interval": "30s"}
  },
  "templates": {"knd": {"kind": "knd", "arch": "amd64", "subnet_pool": "main",
                        "userdata": {"templateString": "hi"}}},
  "groups": {"prod": {"w": {"template": "knd"}}, "default": {"w": {"template": "knd"}}}
})";

constexpr std::string_view kNew = R"({
  "server": {
    "cluster_id": "example",
    "shard": "a",
    "storage": {"provider": "s3", "bucket": "b", "prefix": "cluster/"},
    "secrets": {"encryption_key": {"provider": "env", "source": "KEY"}},
    "provider": {"kind": "local", "options": {"root": "/x"}},
    "bind": {"health_addr": ":1"},
    "advertise": {"agent_addr": "h:2"},
    "subnet_pools": {"main": ["s1"]},
    "dynamic_subnet_pools": ["main"],
    "request_timeout": "20s", "create_rate_limit": "1s", "health_check_interval": "30s",
    "default_drain_timeout": "1m", "image_refresh_interval": "1h", "shutdown_timeout": "5s",
    "garbage_collection": {"interval": "5m"},
    "expiry": {"forced_age": "9d"},
    "error_exit_jitter": {"min_delay": "1s"},
    "leader_election": {"renew_interval": "1s", "infrequent_interval": "30s",
      "cluster": {"renew_interval": "3s", "lease_timeout": "12s", "enabled": false}}
  },
  "tenants": {"prod": {}},
  "templates": {"knd": {"kind": "knd", "arch": "amd64", "subnet_pool": "main",
                        "userdata": {"content": "hi"}}},
  "groups": {"prod": {"w": {"template": "knd"}}, "default": {"w": {"template": "knd"}}}
})";

std::string OldErrors(const std::vector<Edit>& edits) {
  json::Value root = *json::Parse(kOld, {.syntax = json::Syntax::kJsonc});
  for (const Edit& edit : edits) Apply(root, edit);
  return ErrorLines(Load(json::Write(root)));
}

TEST(NormalFormTest, BothFormsGiveTheSameConfig) {
  const LoadResult old_form = Load(kOld);
  const LoadResult new_form = Load(kNew);
  ASSERT_TRUE(old_form.config.has_value()) << ErrorLines(old_form);
  ASSERT_TRUE(new_form.config.has_value()) << ErrorLines(new_form);
  EXPECT_TRUE(*old_form.config == *new_form.config);
}

TEST(NormalFormTest, MessagesSpeakOfTheKeysOfTheFile) {
  EXPECT_EQ(OldErrors({{"cluster/id", "\"A\""}}).substr(0, 12), "cluster.id: ");
  EXPECT_EQ(OldErrors({{"cluster/id", ""}}), "cluster.id: missing; a name");
  EXPECT_EQ(OldErrors({{"shard/infra/provider", "\"tmux\""}}),
            "shard.infra.provider: \"tmux\" is not supported; use `local`");
  EXPECT_EQ(OldErrors({{"shard/leader_election/frequent_interval", "\"1h\""}}),
            "shard.leader_election.frequent_interval: \"1h\" is above the maximum; a duration from "
            "500ms to 1m");
  EXPECT_EQ(OldErrors({{"cluster/leader_election/leader_timeout", "\"1s\""}}).substr(0, 40),
            "cluster.leader_election.leader_timeout: ");
  EXPECT_EQ(OldErrors({{"shard/infra", "7"}}), "shard.infra: is a number; an object");
  EXPECT_EQ(OldErrors({{"templates/knd/userdata/templateString", "7"}}),
            "templates.knd.userdata.templateString: is a number; a string or a list of strings");
}

TEST(NormalFormTest, UnknownKeysOfTheOldFormAreErrors) {
  EXPECT_EQ(OldErrors({{"cluster/name", "1"}}),
            "cluster.name: unknown key; allowed here: id, leader_election, secrets, storage");
  EXPECT_EQ(OldErrors({{"shard/infra/kind", "1"}}),
            "shard.infra.kind: unknown key; allowed here: options, provider, region, zone");
  EXPECT_TRUE(OldErrors({{"shard/binds", "1"}}).ends_with(", ... . Did you mean \"bind\"?"));
  EXPECT_EQ(OldErrors({{"shard/leader_election/cluster", "{}"}}),
            "shard.leader_election.cluster: unknown key; allowed here: frequent_interval, "
            "infrequent_interval, leader_timeout");
  EXPECT_EQ(OldErrors({{"shard/_x", "1"}, {"cluster/$y", "1"}}), "");
}

TEST(NormalFormTest, TwoLayoutsInOneFileAreRefused) {
  EXPECT_EQ(OldErrors({{"server", R"({"shard": "a"})"}}),
            "server: two layouts in one file: use `server.cluster_id` and `server.shard`, or "
            "`cluster` and `shard`, not both");
  EXPECT_EQ(OldErrors({{"server", R"({"files": {}})"}}),
            "server.files: not supported by this server; remove it");
  EXPECT_EQ(OldErrors({{"tunnels", "{}"}}), "tunnels: not supported by this server; remove it");
}

TEST(NormalFormTest, TenantsThatAreListedAreThoseThatCount) {
  EXPECT_EQ(OldErrors({{"tenants", R"({"other": {}})"}}),
            "groups.prod: tenant \"prod\" is not declared; one of: default, other");
}

TEST(NormalFormTest, OtherNamesOfKeysInOurForm) {
  const auto errors = [](const std::vector<Edit>& edits) {
    return ErrorLines(Load(Edited(kSmall, edits)));
  };
  EXPECT_EQ(errors({{"server/leader_election/frequent_interval", "\"3s\""},
                    {"server/leader_election/leader_timeout", "\"9s\""}}),
            "");
  EXPECT_EQ(errors({{"server/leader_election/frequent_interval", "\"2s\""},
                    {"server/leader_election/renew_interval", "\"2s\""}}),
            "server.leader_election.frequent_interval: is another name of `renew_interval`, which "
            "is given too; one of the two");
  const LoadResult url =
      Load(Edited(kSmall, {{"defaults/userdata", R"({"templateUrl": "https://x.example/u"})"}}));
  ASSERT_TRUE(url.config.has_value()) << ErrorLines(url);
  EXPECT_EQ(url.config->defaults.userdata->source, "url");
  EXPECT_EQ(url.config->defaults.userdata->content, "https://x.example/u");
}

TEST(NormalFormTest, GroupsWithoutTenantsAreThoseOfDefault) {
  const std::string text =
      Edited(kSmall, {{"groups", R"({"w": {"template": "knd"}, "v": {"template": "knd"}})"}});
  const LoadResult result = Load(text);
  ASSERT_TRUE(result.config.has_value()) << ErrorLines(result);
  EXPECT_EQ(result.config->groups.at(DefaultTenant()).size(), 2U);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].path, "groups");
  const std::string wrong = Edited(kSmall, {{"groups", R"({"w": {"template": "x"}})"}});
  EXPECT_EQ(ErrorLines(Load(wrong)).substr(0, 18), "groups.w.template:");
  // A tenant with a group of that name is no group.
  const std::string tenant =
      Edited(kSmall, {{"groups", R"({"prod": {"template": {"template": "knd"}}})"}});
  EXPECT_TRUE(Load(tenant).warnings.empty());
}

TEST(ConvertTest, AnOldFileBecomesOneThatGivesTheSameConfig) {
  const ConvertResult converted = Convert(kOld);
  ASSERT_TRUE(converted.text.has_value());
  EXPECT_TRUE(converted.text->starts_with("{\n  \"server\": {\n    \"shard\": \"a\""));
  EXPECT_EQ(converted.text->find("cluster\": {\n    \"id\""), std::string::npos);
  const LoadResult again = Load(*converted.text);
  ASSERT_TRUE(again.config.has_value()) << ErrorLines(again);
  EXPECT_TRUE(*again.config == *Load(kOld).config);
  EXPECT_EQ(Convert(*converted.text).text, converted.text);
}

TEST(ConvertTest, ANewFileOnlyLosesItsComments) {
  const ConvertResult converted = Convert(kCompleteExample);
  ASSERT_TRUE(converted.text.has_value());
  const auto original = json::Parse(kCompleteExample, {.syntax = json::Syntax::kJsonc});
  EXPECT_EQ(json::WriteCanonical(*json::Parse(*converted.text)), json::WriteCanonical(*original));
}

TEST(ConvertTest, AFileWithErrorsIsNotConverted) {
  const ConvertResult converted = Convert("{\"cluster\": 1}");
  EXPECT_FALSE(converted.text.has_value());
  EXPECT_FALSE(converted.errors.empty());
}

}  // namespace
}  // namespace nstance::config
