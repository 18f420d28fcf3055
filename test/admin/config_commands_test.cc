#include "admin/config_commands.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace nstance::admin {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kValid = R"({
  "server": {
    "cluster_id": "example",
    "shard": "a",
    "provider": { "kind": "local" },
    "subnet_pools": { "default": ["loopback"] },
    "secrets": { "encryption_key": { "provider": "env", "source": "KEY" } }
  },
  "tenants": { "prod": {} },
  "certificates": {
    "node": { "kind": "server", "cn": "{{ .Instance.ID }}", "dns": ["{{ .Instance.Hostname }}"] }
  },
  "defaults": {
    "vars": { "LEVEL": "info" },
    "userdata": { "content": "id {{ .Instance.ID }} level {{ .Vars.LEVEL }} in {{ .Group }}" }
  },
  "templates": {
    "worker": {
      "kind": "wrk", "arch": "amd64", "instance_type": "small", "subnet_pool": "default",
      "args": { "Env": { "TIER": "{{ .Vars.TIER }}" } },
      "files": {
        "node.env": { "kind": "env", "template": { "LEVEL": "{{ .Vars.LEVEL }}" } },
        "node.crt": { "kind": "certificate", "template": "node",
                      "key": { "source": "agent", "name": "node.pub" } },
        "api.key": { "kind": "secret", "source": "api-{{ .Tenant }}" }
      }
    }
  },
  "groups": {
    "default": { "workers": { "template": "worker", "size": 3, "vars": { "TIER": "one" } } },
    "prod": { "web": { "template": "worker", "vars": { "LEVEL": "warn", "TIER": "two" } } }
  }
}
)";

class ConfigCommandsTest : public testing::Test {
 public:
  ReadFile Reader() {
    return [this](const std::string& path, std::size_t max_bytes) -> Result<std::string> {
      const auto at = files.find(path);
      if (at == files.end()) return Fail(FailedPrecondition(path + ": No such file or directory"));
      if (at->second.size() > max_bytes) {
        return Fail(ResourceExhausted(fmt::format("{} is larger than {} bytes", path, max_bytes)));
      }
      return at->second;
    };
  }

  template <class Command>
  Ending Do(const Command& command, const CommonFlags& common = {}) {
    return admin::Run(command, common, Reader());
  }

  ConfigRenderGroup Render(const char* tenant, const char* group,
                           RenderPart part = RenderPart::kAll) {
    return {.file = "c",
            .tenant = TenantId::Parse(tenant).value(),
            .group = GroupKey::Parse(group).value(),
            .part = part};
  }

  std::map<std::string, std::string> files{{"c", kValid}};
};

const CommonFlags kJson{.output = Output::kJson};

TEST_F(ConfigCommandsTest, ValidatePraisesAValidFile) {
  const Ending end = Do(ConfigValidate{"c"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(end.out, "c is valid: cluster example, shard a, 1 template, 2 groups\n");
  EXPECT_THAT(end.err, IsEmpty());
  EXPECT_THAT(Do(ConfigValidate{"c"}, {.quiet = true}).out, IsEmpty());
}

TEST_F(ConfigCommandsTest, ValidateShowsEveryProblemInItsPlace) {
  files["c"] =
      "{\n  \"server\": {\n    \"cluster_id\": \"Example\",\n    \"shrd\": \"a\"\n  }\n}\n";
  const Ending end = Do(ConfigValidate{"c"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.out, IsEmpty());
  EXPECT_THAT(end.err, AllOf(HasSubstr("c:3:19: server.cluster_id: "),
                             HasSubstr("    3 |     \"cluster_id\": \"Example\",\n"),
                             HasSubstr("c:4:5: server.shrd: unknown key"),
                             HasSubstr("Did you mean \"shard\"?"), HasSubstr("^\n")));
  EXPECT_THAT(end.err, testing::ContainsRegex("Error: c is not valid: [0-9]+ errors\n$"));
}

TEST_F(ConfigCommandsTest, ValidateTellsOfTemplatesToo) {
  std::string text = kValid;
  text.replace(text.find(".Instance.ID }} level"), 12, ".Instance.No");
  files["c"] = text;
  const Ending end = Do(ConfigValidate{"c"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("No"));
}

TEST_F(ConfigCommandsTest, ValidateInJsonIsOneDocument) {
  files["c"] = "{\"server\": {}}";
  const Ending end = Do(ConfigValidate{"c"}, kJson);
  EXPECT_EQ(end.exit_code, 1);
  const auto report = json::Parse(end.out);
  ASSERT_TRUE(report) << end.out;
  EXPECT_EQ(*report->Find("valid")->if_bool(), false);
  const json::Array& errors = *report->Find("errors")->if_array();
  ASSERT_FALSE(errors.empty());
  for (const char* key : {"line", "column", "path", "message"}) {
    EXPECT_NE(errors[0].Find(key), nullptr) << key;
  }
  EXPECT_THAT(end.err, StartsWith("{\"error\":\"c is not valid: "));
  const Ending good = (files["c"] = kValid, Do(ConfigValidate{"c"}, kJson));
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_THAT(good.out, HasSubstr("\"valid\": true"));
  EXPECT_THAT(good.err, IsEmpty());
}

TEST_F(ConfigCommandsTest, AFileThatCannotBeReadIsAnError) {
  const Ending missing = Do(ConfigValidate{"nowhere"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.err, "Error: nowhere: No such file or directory\n");
  files["big"] = std::string(5'000'000, ' ');
  EXPECT_THAT(Do(ConfigValidate{"big"}).err, HasSubstr("larger than"));
}

TEST_F(ConfigCommandsTest, ConvertPrintsTheServerRootedForm) {
  files["old"] = R"({
    "cluster": { "id": "example", "secrets": {
      "encryption_key": { "provider": "env", "source": "KEY" } } },
    "shard": { "id": "a", "infra": { "provider": "local" },
               "subnet_pools": { "default": ["loopback"] } }
  })";
  const Ending end = Do(ConfigConvert{"old"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("\"cluster_id\": \"example\""), EndsWith("}\n")));
  files["new"] = end.out;
  EXPECT_EQ(Do(ConfigValidate{"new"}).exit_code, 0);
  files["bad"] = "{";
  const Ending bad = Do(ConfigConvert{"bad"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, IsEmpty());
  EXPECT_THAT(bad.err, HasSubstr("bad:1:"));
}

TEST_F(ConfigCommandsTest, RenderShowsAllThatAnInstanceGets) {
  const Ending end = Do(Render("default", "workers"));
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_THAT(end.out,
              AllOf(StartsWith("==> instance <==\nwrk"), HasSubstr("==> userdata <==\nid wrk"),
                    HasSubstr("level info in workers\n"), HasSubstr("\"TIER\": \"one\""),
                    HasSubstr("==> files/node.env <==\nLEVEL=info\n"),
                    HasSubstr("(the secret api-default)"), HasSubstr("\"ip-192-0-2-10\"")));
}

TEST_F(ConfigCommandsTest, OnePartIsPrintedAsItIs) {
  const Ending userdata = Do(Render("prod", "web", RenderPart::kUserData));
  EXPECT_THAT(userdata.out, AllOf(StartsWith("id wrk"), EndsWith(" level warn in web")));
  const Ending args = Do(Render("prod", "web", RenderPart::kArgs));
  EXPECT_EQ(args.out, "{\n  \"Env\": {\n    \"TIER\": \"two\"\n  }\n}\n");
  const Ending all_files = Do(Render("prod", "web", RenderPart::kFiles));
  EXPECT_THAT(all_files.out, AllOf(StartsWith("==> api.key <==\n"), Not(HasSubstr("userdata"))));
}

TEST_F(ConfigCommandsTest, VariablesOfTheRequestComeLast) {
  ConfigRenderGroup command = Render("prod", "web", RenderPart::kUserData);
  command.vars = {{"LEVEL", "debug"}};
  EXPECT_THAT(Do(command).out, HasSubstr("level debug"));
}

TEST_F(ConfigCommandsTest, RenderInJson) {
  const Ending end = Do(Render("prod", "web"), kJson);
  const auto preview = json::Parse(end.out);
  ASSERT_TRUE(preview) << end.out;
  EXPECT_EQ(*preview->Find("tenant")->if_string(), "prod");
  EXPECT_THAT(*preview->Find("infra_config_hash")->if_string(), StartsWith("sha256:"));
  EXPECT_EQ(*preview->Find("files")->Find("node.env")->Find("kind")->if_string(), "env");
  EXPECT_EQ(*preview->Find("files")->Find("node.crt")->Find("key")->if_string(), "node.pub");
}

TEST_F(ConfigCommandsTest, AGroupThatTheFileHasNotIsNotFound) {
  const Ending end = Do(Render("prod", "workers"));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.err, "Error: c has no group prod/workers; its groups: default/workers, prod/web\n");
  files["c"] = "{";
  EXPECT_EQ(Do(Render("prod", "web")).exit_code, 1);
}

TEST_F(ConfigCommandsTest, UserDataBehindAUrlIsNotFetched) {
  std::string text = kValid;
  const std::size_t at = text.find("\"userdata\": {");
  text.replace(at, text.find('}', text.find(".Group }}") + 9) + 1 - at,
               R"("userdata": { "source": "url", "content": "https://example.com/u" })");
  files["c"] = text;
  const Ending all = Do(Render("prod", "web"));
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("https://example.com/u"));
  const Ending part = Do(Render("prod", "web", RenderPart::kUserData));
  EXPECT_EQ(part.exit_code, 1);
  EXPECT_THAT(part.out, IsEmpty());
}

TEST_F(ConfigCommandsTest, OneTemplateAgainstOneDocument) {
  files["dir/t"] = "{{ range .names }}<{{ . }}>{{ end }}";
  files["d"] = R"({"names": ["a", "b"]})";
  const Ending end = Do(ConfigRenderTemplate{"dir/t", "d"});
  EXPECT_EQ(end, (Ending{.out = "<a><b>"}));
  files["dir/t"] = "{{ .a.b.c }}";
  const Ending bad = Do(ConfigRenderTemplate{"dir/t", "d"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, StartsWith("Error: template: t:1:"));
  EXPECT_THAT(bad.out, IsEmpty());
  files["d"] = "{";
  EXPECT_THAT(Do(ConfigRenderTemplate{"dir/t", "d"}).err, StartsWith("Error: d: "));
}

}  // namespace
}  // namespace nstance::admin
