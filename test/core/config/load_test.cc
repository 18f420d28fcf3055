// Loading: the complete example value by value, the form of messages, and hostile files.
#include "core/config/load.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/config/dynamic_groups.h"
#include "test/core/config/complete_example.h"
#include "test/core/config/config_text.h"

namespace nstance::config {
namespace {

std::string FirstError(std::string_view text) {
  const LoadResult result = Load(text);
  EXPECT_FALSE(result.config.has_value());
  return result.errors.empty() ? "" : Format(result.errors.front(), "f");
}

TEST(LoadTest, TheCompleteExampleLoads) {
  const LoadResult loaded = Load(kCompleteExample);
  ASSERT_TRUE(loaded.config.has_value()) << ErrorLines(loaded);
  EXPECT_TRUE(loaded.warnings.empty());
  const Server& server = loaded.config->server;
  EXPECT_EQ(server.cluster_id.text(), "example-cluster");
  EXPECT_EQ(server.provider.word, "local");
  EXPECT_EQ(server.provider.region, "local");
  EXPECT_EQ(std::get<LocalOptions>(server.provider.options).root, "./instances");
  EXPECT_EQ(server.bind.agent_addr, (Address{"127.0.0.1", 8994}));
  EXPECT_EQ(server.secrets.encryption_key,
            (EncryptionKey{.provider = KeyProvider::kEnv, .source = "NSTANCE_ENCRYPTION_KEY"}));
  EXPECT_EQ(server.secrets.prefix, "secret/");
  EXPECT_EQ(server.health_check_interval, Duration::Seconds(5));
  EXPECT_EQ(server.garbage_collection.registration_timeout, Duration::Minutes(1));
  EXPECT_EQ(server.garbage_collection.deleted_record_retention, Duration::Hours(25));
  EXPECT_EQ(server.expiry.forced_age, Duration::Days(2));
  EXPECT_EQ(server.store_timeout, Duration::Seconds(3));
}

TEST(LoadTest, TheCompleteExamplesOtherRoots) {
  const LoadResult loaded = Load(kCompleteExample);
  ASSERT_TRUE(loaded.config.has_value()) << ErrorLines(loaded);
  const Config& config = *loaded.config;
  EXPECT_EQ(config.tenants.size(), 1U);
  EXPECT_EQ(config.certificates.named.at("node").ttl, Duration::Hours(168));
  EXPECT_EQ(config.certificates.agent.ttl, Duration::Hours(24));
  EXPECT_EQ(config.defaults.vars.at("LOG_LEVEL"), "info");
  ASSERT_TRUE(config.defaults.userdata.has_value());
  EXPECT_EQ(config.defaults.userdata->source, "inline");
  EXPECT_TRUE(config.defaults.userdata->content.starts_with("#!/bin/bash\nset -eu"));
  EXPECT_TRUE(config.defaults.userdata->content.ends_with("\nexec nstance-agent\n"));
  const Template& worker = config.templates.at("worker");
  EXPECT_EQ(worker.kind, "wrk");
  EXPECT_EQ(worker.files.at("node.crt").key, (FileKey{"agent", "node.pub"}));
  const TenantGroups& groups = config.groups.at(DefaultTenant());
  const GroupLayer& workers = groups.at(GroupKey::Parse("workers").value());
  EXPECT_EQ(workers.size, 3);
  EXPECT_FALSE(workers.drain_timeout.has_value());
  EXPECT_EQ(groups.at(GroupKey::Parse("warm").value()).pool->max_claimed, 10);
  // Seven userdata lines are one template; files, certificates and no args.
  std::vector<std::string> paths;
  for (const TemplateSource& source : loaded.templates) paths.push_back(source.path);
  EXPECT_EQ(paths,
            (std::vector<std::string>{"certificates.node.cn", "certificates.node.dns[0]",
                                      "certificates.node.ip[0]", "defaults.userdata.content",
                                      "templates.worker.files[\"node.env\"].template.NODE",
                                      "templates.worker.files[\"node.env\"].template.LOG_LEVEL"}));
}

// The messages of the specification, word for word.
TEST(LoadTest, MessagesHaveFilePositionPathAndWhatIsAllowed) {
  const auto error = [](const std::vector<Edit>& edits) {
    const std::string text = Edited(kSmall, edits);
    const LoadResult result = Load(text);
    return result.errors.size() == 1 ? Format(result.errors[0], "config/a.jsonc")
                                     : ErrorLines(result);
  };
  EXPECT_EQ(error({{"groups/default/workers/size", "-1"}}),
            "config/a.jsonc:38:17: groups.default.workers.size: -1 is below the minimum; a whole "
            "number from 0 to 10000");
  EXPECT_EQ(error({{"groups/default/workers/template", "\"knx\""}}),
            "config/a.jsonc:37:21: groups.default.workers.template: \"knx\" is not defined; one "
            "of: knd. Did you mean \"knd\"?");
  EXPECT_EQ(error({{"nat", "{}"}}),
            "config/a.jsonc:42:3: nat: not supported by this server; remove it");
  EXPECT_EQ(error({{"server/subnet_pool", "{}"}}),
            "config/a.jsonc:22:5: server.subnet_pool: unknown key; allowed here: advertise, bind, "
            "cluster_id, create_concurrency, create_rate_limit, default_drain_timeout, "
            "deletion_brake, dynamic_subnet_pools, error_exit_jitter, expiry, garbage_collection, "
            "health_check_interval, ... . Did you mean \"subnet_pools\"?");
  EXPECT_EQ(error({{"server/health_addr", "\":1\""}}).substr(0, 56),
            "config/a.jsonc:22:5: server.health_addr: unknown key; al");
  EXPECT_TRUE(error({{"server/health_addr", "\":1\""}})
                  .ends_with(", ... . Belongs under `server.bind` or `server.advertise`"));
  EXPECT_TRUE(error({{"server/groups", "{}"}}).ends_with(" . Belongs at the top level"));
  EXPECT_EQ(error({{"server/dynamic_subnet_pools", "\"main\""}}),
            "config/a.jsonc:22:29: server.dynamic_subnet_pools: is a string; a list of subnet pool "
            "names");
}

TEST(LoadTest, PathsPutNamesWithDotsInBrackets) {
  const std::string text =
      Edited(kSmall, {{"templates/knd/files/node.env", R"({"kind": "what"})"}});
  EXPECT_EQ(ErrorLines(Load(text)),
            "templates.knd.files[\"node.env\"].kind: \"what\" is not allowed; one of: secret, "
            "storage, certificate, env, json, string");
}

TEST(LoadTest, AllErrorsAreToldByPosition) {
  const std::string text = Edited(kSmall, {{"server/shard", "\"A\""},
                                           {"server/cluster_id", "5"},
                                           {"groups/default/workers/size", "1.5"},
                                           {"tenants/default", "{}"}});
  const LoadResult result = Load(text);
  std::vector<std::string> paths;
  for (const Problem& problem : result.errors) paths.push_back(problem.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"server.cluster_id", "server.shard", "tenants.default",
                                             "groups.default.workers.size"}));
  EXPECT_EQ(result.errors_left_off, 0U);
  for (const Problem& problem : result.errors) {
    const std::size_t line_start = text.rfind('\n', problem.offset) + 1;
    EXPECT_EQ(problem.offset - line_start + 1, problem.at.column) << problem.path;
  }
}

TEST(LoadTest, FiftyErrorsAtMostAndTheFirstOnes) {
  json::Value root = *json::Parse(kSmall);
  for (int i = 0; i < 200; ++i) {
    Apply(root, {"groups/default/g" + std::to_string(i), R"({"template": "knd", "size": -1})"});
  }
  const LoadResult result = Load(json::Write(root, {.indent = 2}));
  EXPECT_EQ(result.errors.size(), kMaxProblems);
  EXPECT_EQ(result.errors_left_off, 150U);
  EXPECT_EQ(result.errors.front().path, "groups.default.g0.size");
  EXPECT_EQ(result.errors.back().path, "groups.default.g49.size");
}

TEST(LoadTest, ValuesUnderSecretsVarsArgsAndUserdataAreNeverShown) {
  constexpr std::string_view kCanary = "\"hunter2\"";
  for (const std::string_view path :
       {"server/secrets/provider", "server/secrets/cache_ttl", "server/secrets/envelope",
        "server/secrets/allow_legacy", "server/secrets/encryption_key/provider", "defaults/vars",
        "defaults/args", "defaults/args/Env", "defaults/args/Timeout", "defaults/userdata",
        "defaults/userdata/encoding", "defaults/userdata/source", "defaults/userdata/sha256",
        "templates/knd/userdata/source", "templates/knd/vars"}) {
    const std::string text = Edited(kSmall, {{path, kCanary}});
    const LoadResult result = Load(text);
    ASSERT_FALSE(result.errors.empty()) << path;
    for (const Problem& problem : result.errors) {
      EXPECT_EQ(FormatWithExcerpt(problem, "f", text).find("hunter2"), std::string::npos) << path;
    }
  }
}

TEST(LoadTest, LongValuesAreCut) {
  const std::string text =
      Edited(kSmall, {{"server/shard", "\"" + std::string(1'000, 'X') + "\""}});
  EXPECT_LT(ErrorLines(Load(text)).size(), 250U);
}

TEST(LoadTest, KeysForToolsAreIgnored) {
  const LoadResult result = Load(Edited(kSmall, {{"$schema", "\"x\""},
                                                 {"_note", "1"},
                                                 {"server/_note", "[]"},
                                                 {"server/bind/$x", "null"},
                                                 {"tenants/_note", "\"free\""},
                                                 {"templates/_note", "\"free\""},
                                                 {"groups/_note", "\"free\""},
                                                 {"groups/default/_note", "\"free\""}}));
  EXPECT_TRUE(result.config.has_value()) << ErrorLines(result);
  EXPECT_EQ(result.config->tenants.size(), 1U);
}

// BI-90: empty, `{`, trailing garbage, open or nested comment; a comment at the end is fine.
TEST(LoadTest, Bi90SyntaxErrorsHaveLineAndColumn) {
  EXPECT_EQ(FirstError("").substr(0, 7), "f:1:1: ");
  EXPECT_EQ(FirstError("{").substr(0, 7), "f:1:2: ");
  EXPECT_EQ(FirstError("{}\n x").substr(0, 7), "f:2:2: ");
  EXPECT_EQ(FirstError("{}\n/* open").substr(0, 5), "f:2:1");
  EXPECT_EQ(FirstError("/* a /* b */ */ {}").substr(0, 8), "f:1:14: ");
  EXPECT_EQ(FirstError("[]"), "f:1:1: is a list; an object");
  const LoadResult commented = Load(std::string(kSmall) + "\n// the end");
  EXPECT_TRUE(commented.config.has_value()) << ErrorLines(commented);
}

// BI-91: duplicate, unknown and wrong-case keys.
TEST(LoadTest, Bi91KeysThatAreNotTheSchemas) {
  EXPECT_EQ(FirstError("{\"server\": {\"shard\": \"a\",\n \"shard\": \"b\"}}").substr(0, 80),
            "f:1:12: server.cluster_id: missing; a name");
  const LoadResult twice = Load("{\"server\": {\"shard\": \"a\",\n \"shard\": \"b\"}}");
  EXPECT_EQ(Format(twice.errors.back(), "f"),
            "f:2:2: server.shard: duplicate key, first at 1:13; each key once");
  EXPECT_TRUE(
      ErrorLines(Load(Edited(kSmall, {{"Tenants", "{}"}}))).ends_with("Did you mean \"tenants\"?"));
  EXPECT_TRUE(ErrorLines(Load(Edited(kSmall, {{"server/HEALTH_CHECK_INTERVAL", "\"5s\""}})))
                  .ends_with("Did you mean \"health_check_interval\"?"));
}

TEST(LoadTest, SuggestionsGoAsFarAsAThirdOfTheWord) {
  const auto suggests = [](std::string_view path) {
    return ErrorLines(Load(Edited(kSmall, {{path, "1"}}))).find("Did you mean") !=
           std::string::npos;
  };
  EXPECT_TRUE(suggests("server/reqest_timout"));
  EXPECT_TRUE(suggests("server/requst_timot"));
  EXPECT_FALSE(suggests("server/xxxxxx_timeout"));
  EXPECT_TRUE(suggests("server/secrets/prefi"));
  EXPECT_FALSE(suggests("groups/default/workers/xy"));
}

// BI-92: hostile sizes and bytes.
TEST(LoadTest, Bi92HostileFilesGetOneBoundedError) {
  EXPECT_NE(FirstError(std::string(100'000, '[')).find("64"), std::string::npos);
  EXPECT_NE(FirstError(std::string(std::size_t{100} * 1024 * 1024, ' ')).find("bytes"),
            std::string::npos);
  std::string many = R"({"groups": {"default": {)";
  for (int i = 0; i < 1'000'000; ++i) many += "\"g" + std::to_string(i) + "\":{},";
  EXPECT_NE(FirstError(many + "}}}").find("bytes"), std::string::npos);
  EXPECT_EQ(FirstError("{\"a\": \"\\ud800\"}").substr(0, 5), "f:1:8");
  EXPECT_EQ(FirstError("{\"a\": \"\xff\"}").substr(0, 5), "f:1:8");
  EXPECT_EQ(FirstError("\xef\xbb\xbf{}").substr(0, 5), "f:1:1");
}

// Tens of thousands of wrong things: every one refers to something that is nearly there.
TEST(LoadTest, Bi92AFileFullOfMistakesIsReadInBoundedTime) {
  std::string text = R"({"server": {"cluster_id": "c", "shard": "s", "provider": {"kind": "local"},
    "subnet_pools": {"p": ["x"]}, "secrets": {"provider": "memory"}}, "templates": {)";
  for (int i = 0; i < 20'000; ++i) text += "\"t" + std::to_string(i) + "\":{},";
  text += R"(}, "groups": {"default": {)";
  for (int i = 30'000; i > 0; --i) {
    text += "\"g" + std::to_string(i) + R"(":{"template":"u)" + std::to_string(i) + "\"},";
  }
  text += "}}}";
  ASSERT_LT(text.size(), kMaxConfigBytes);
  const LoadResult result = Load(text);
  EXPECT_EQ(result.errors.size(), kMaxProblems);
  EXPECT_GT(result.errors_left_off, 50'000U);
}

// BI-93: numbers.
TEST(LoadTest, Bi93NumbersThatAreNone) {
  for (const std::string_view literal : {"1e999", "-0", "01", "0x10", "+1", "1.", ".5"}) {
    std::string text(kSmall);
    text.replace(text.find("\"size\": 1"), 9, "\"size\": " + std::string(literal));
    EXPECT_FALSE(Load(text).errors.empty()) << literal;
  }
  const auto size = [](std::string_view literal) {
    return ErrorLines(Load(Edited(kSmall, {{"groups/default/workers/size", literal}})));
  };
  EXPECT_EQ(size("1.5"),
            "groups.default.workers.size: 1.5 is not a whole number; a whole number from 0 to "
            "10000");
  EXPECT_EQ(size("18446744073709551616"),
            "groups.default.workers.size: 18446744073709552000 is above the maximum; a whole "
            "number from 0 to 10000");
  EXPECT_EQ(size("10001"),
            "groups.default.workers.size: 10001 is above the maximum; a whole number from 0 to "
            "10000");
  EXPECT_EQ(size("\"3\""),
            "groups.default.workers.size: is a string; a whole number from 0 to 10000");
  EXPECT_EQ(size("10000"), "");
}

// BI-94: durations.
TEST(LoadTest, Bi94DurationsThatAreNone) {
  const auto timeout = [](std::string_view literal) {
    return ErrorLines(Load(Edited(kSmall, {{"server/request_timeout", literal}})));
  };
  constexpr std::string_view kNoUnit =
      "is not a duration with a unit (ns, us, ms, s, m, h, d); a duration from 1s to 10m";
  EXPECT_EQ(timeout("\"5\""), "server.request_timeout: \"5\" " + std::string(kNoUnit));
  EXPECT_EQ(timeout("\"5x\""), "server.request_timeout: \"5x\" " + std::string(kNoUnit));
  EXPECT_EQ(timeout("5"), "server.request_timeout: is a number; a duration from 1s to 10m");
  EXPECT_EQ(timeout("\"-5m\""),
            "server.request_timeout: \"-5m\" is negative; a duration from 1s to 10m");
  EXPECT_EQ(timeout("\"11m\""),
            "server.request_timeout: \"11m\" is above the maximum; a duration from 1s to 10m");
  EXPECT_EQ(timeout("0"),
            "server.request_timeout: 0 is below the minimum; a duration from 1s to 10m");
  EXPECT_EQ(timeout("\"1m30s\""), "");
  EXPECT_EQ(ErrorLines(Load(Edited(kSmall, {{"server/default_drain_timeout", "0"}}))), "");
}

// BI-95: tenants.
TEST(LoadTest, Bi95Tenants) {
  const auto errors = [](const Edit& edit) { return ErrorLines(Load(Edited(kSmall, {edit}))); };
  EXPECT_EQ(errors({"tenants/default", "{}"}),
            "tenants.default: \"default\" always exists and cannot be declared; remove it, its "
            "groups stay");
  EXPECT_EQ(errors({"tenants/a.b", "{}"}),
            "tenants[\"a.b\"]: \"a.b\" is not a tenant name: it contains \".\"; 1 to 32 "
            "lower-case letters and digits, with single hyphens between them");
  EXPECT_EQ(errors({"groups/pro", "{}"}),
            "groups.pro: tenant \"pro\" is not declared; one of: default, prod. Did you mean "
            "\"prod\"?");
  EXPECT_EQ(errors({"groups/prod", "{}"}), "");
  EXPECT_EQ(errors({"tenants/x", R"({"quota": 1})"}),
            "tenants.x.quota: unknown key; no keys are allowed here");
}

// BI-96: ports and hosts (an address in use is for the start).
TEST(LoadTest, Bi96PortsAndHosts) {
  const auto errors = [](const std::vector<Edit>& edits) {
    return ErrorLines(Load(Edited(kSmall, edits)));
  };
  EXPECT_EQ(errors({{"server/bind/agent_addr", "\"127.0.0.1:8990\""}}),
            "server.bind.agent_addr: port 8990 is that of `health_addr` too; a port of its own");
  EXPECT_EQ(errors({{"server/bind/health_addr", "\":8994\""}}),
            "server.bind.health_addr: port 8994 is that of `agent_addr` too; a port of its own");
  EXPECT_EQ(errors({{"server/bind/agent_addr", "\":0\""}, {"server/bind/health_addr", "\":0\""}}),
            "");
  EXPECT_EQ(errors({{"server/advertise/agent_addr", "\":8994\""}}),
            "server.advertise.agent_addr: \":8994\" has no host; host:port (IPv6 in "
            "brackets), port 0 is the one that is bound");
  EXPECT_EQ(errors({{"server/advertise/agent_addr", "\"[::1]:0\""}}), "");
  for (const std::string_view bad : {"\"8990\"", "\"h:\"", "\"h:65536\"", "\"h:-1\"", "\"::1:80\"",
                                     "\"[x]:80\"", "\"a b:80\"", "\"h:80 \"", "\"[]:80\""}) {
    EXPECT_NE(errors({{"server/bind/agent_addr", bad}}).find("is not an address"),
              std::string::npos)
        << bad;
  }
}

TEST(LoadTest, NothingComesOutWhenAnythingIsWrong) {
  const LoadResult result = Load(Edited(kSmall, {{"groups/default/workers/surge", "0"}}));
  EXPECT_FALSE(result.config.has_value());
  EXPECT_TRUE(result.templates.empty());
}

TEST(LoadTest, TheLayoutDecidesTheEnvelope) {
  EXPECT_EQ(Load(kSmall).config->server.secrets.envelope, Envelope::kV1);
  EXPECT_EQ(Load(kSmall, {.layout = Layout::kNstanceV2}).config->server.secrets.envelope,
            Envelope::kLegacy);
  const std::string explicit_form = Edited(kSmall, {{"server/secrets/envelope", "\"v1\""}});
  EXPECT_EQ(Load(explicit_form, {.layout = Layout::kNstanceV2}).config->server.secrets.envelope,
            Envelope::kV1);
}

TEST(LoadTest, AConfigurationOfAnotherShardOrClusterIsRefused) {
  const Config config = *Load(kSmall).config;
  const ShardId shard = ShardId::Parse("a").value();
  const ClusterId cluster = ClusterId::Parse("example").value();
  EXPECT_TRUE(CheckIdentity(config, shard, std::nullopt).has_value());
  EXPECT_TRUE(CheckIdentity(config, shard, cluster).has_value());
  EXPECT_EQ(CheckIdentity(config, ShardId::Parse("b").value(), cluster).error().message,
            "server.shard: \"a\" is not the shard of this server; b (--shard)");
  EXPECT_EQ(CheckIdentity(config, shard, ClusterId::Parse("other").value()).error().message,
            "server.cluster_id: \"example\" is not the cluster of this store; other (its journal)");
}

TEST(LoadTest, WarningsDoNotRefuse) {
  const std::string text =
      Edited(kSmall, {{"templates/knd/files/motd.txt", R"({"kind": "string", "template": "hi"})"}});
  const LoadResult result = Load(text);
  ASSERT_TRUE(result.config.has_value()) << ErrorLines(result);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(Format(result.warnings[0], "f"),
            "f:33:9: templates.knd.files[\"motd.txt\"]: agents of the Go implementation refuse "
            "files that do not end in .env, .crt, .pub, .key or .json");
}

TEST(LoadTest, EveryOffsetOfATemplateIsFoundInTheFile) {
  const std::string text = R"({"server": {"cluster_id": "c", "shard": "s",
  "provider": {"kind": "local"}, "subnet_pools": {"p": ["x"]}, "secrets": {"provider": "memory"}},
  "defaults": {"args": {"Env": {"A": "x\n\"é\u00e9\ud83d\ude00{{ z"}},
    "userdata": {"content": ["ab", "c\td{{", "e"]}}})";
  const LoadResult result = Load(text);
  ASSERT_EQ(result.templates.size(), 2U) << ErrorLines(result);
  const auto found = [&](const TemplateSource& source, std::size_t offset) {
    const json::Position at = PlaceInFile(text, source, offset);
    std::size_t start = 0;
    for (std::uint32_t line = 1; line < at.line; ++line) start = text.find('\n', start) + 1;
    return text.substr(start + at.column - 1, 4);
  };
  const TemplateSource& args = result.templates[0];
  EXPECT_EQ(args.path, "defaults.args.Env.A");
  EXPECT_EQ(found(args, 0).front(), 'x');
  EXPECT_EQ(found(args, 1).substr(0, 2), "\\n");
  EXPECT_EQ(found(args, args.text.find("{{")), "{{ z");
  EXPECT_EQ(found(args, args.text.find('z')).front(), 'z');
  const TemplateSource& userdata = result.templates[1];
  EXPECT_EQ(userdata.text, "ab\nc\td{{\ne\n");
  EXPECT_EQ(found(userdata, 1).front(), 'b');
  EXPECT_EQ(found(userdata, 3).substr(0, 3), "c\\t");
  EXPECT_EQ(found(userdata, 6).substr(0, 2), "{{");
  EXPECT_EQ(found(userdata, 9).front(), 'e');
}

TEST(ProblemTest, TheExcerptPointsAtThePlace) {
  const std::string text = "{\n\t\"é\": {},\n  \"nat\": 1\n}";
  const LoadResult result = Load(text);
  std::string shown;
  for (const Problem& problem : result.errors) {
    if (problem.path == "nat") shown = FormatWithExcerpt(problem, "f", text);
  }
  EXPECT_EQ(shown,
            "f:3:3: nat: not supported by this server; remove it\n"
            "     3 |   \"nat\": 1\n"
            "       |   ^\n");
}

TEST(ProblemTest, ExcerptsOfLongLinesAreCutAndEscaped) {
  const std::string text = "{\"" + std::string(500, 'a') + "\": 1, \x1b[31m";
  const LoadResult result = Load(text);
  ASSERT_EQ(result.errors.size(), 1U);
  const std::string shown = FormatWithExcerpt(result.errors[0], "f", text);
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
  EXPECT_LT(shown.size(), 400U);
}

}  // namespace
}  // namespace nstance::config
