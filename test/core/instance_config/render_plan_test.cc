// Rendering of an instance: the data that templates see, then args, user data, certificates and
// files of one plan. The complete example of the reference goes through from its text.
#include "core/instance_config/render_plan.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/instance_config/template_data.h"
#include "test/core/instance_config/config_builder.h"

namespace nstance::test {
namespace {

using config::File;
using config::FileKind;
using config::UserData;

const ServerFacts kServer = {.cluster_id = "example-cluster",
                             .ca_certificate = "PEM",
                             .shard = "local-a",
                             .registration_addr = "192.0.2.1:8992",
                             .agent_addr = "192.0.2.1:8994",
                             .operator_addr = "192.0.2.1:8993",
                             .provider_kind = "google",
                             .region = "r1",
                             .zone = "z1"};

InstanceFacts Instance() {
  return {.id = "wrk1",
          .kind = "wrk",
          .arch = config::Arch::kArm64,
          .type = "t.small",
          .tenant = "prod",
          .group = "workers",
          .vars = {{"ROLE", "worker"}, {"EVIL", "$(reboot) 'x' {{ .Nonce }}"}},
          .hostname = "host",
          .fqdn = "host.example",
          .ip4 = "192.0.2.9",
          .ip6 = "2001:db8::9"};
}

tmpl::Value CreationData() {
  return SharedTemplateData(kServer, {{"base", "ami-1"}}).ForCreation(Instance(), "token");
}
tmpl::Value FilesData() {
  return SharedTemplateData(kServer, {{"base", "ami-1"}}).ForFiles(Instance());
}

MergedInstanceConfig WithUserData(std::string text) {
  MergedInstanceConfig merged;
  merged.template_name = "worker";
  merged.userdata = UserData{.content = std::move(text)};
  return merged;
}

MergedInstanceConfig WithFile(std::string name, File file) {
  MergedInstanceConfig merged;
  merged.files = {{std::move(name), std::move(file)}};
  return merged;
}

// Of the one file there is.
Result<RenderedFile> RenderOne(const MergedInstanceConfig& merged,
                               const config::Certificates& certificates = {}) {
  ASSIGN_OR_RETURN(const RenderPlan plan, RenderPlan::Compile(merged, certificates));
  ASSIGN_OR_RETURN(const RenderedFiles files, plan.RenderFiles(FilesData()));
  return files.begin()->second;
}

std::string TextOf(const Result<RenderedFile>& file) {
  if (!file) return "error: " + file.error().message;
  const auto* const text = std::get_if<TextFile>(&*file);
  return text != nullptr ? text->content : "not a text";
}

std::string UserDataOf(std::string text) {
  const auto plan = RenderPlan::Compile(WithUserData(std::move(text)), {});
  if (!plan) return "error: " + plan.error().message;
  const auto rendered = plan->RenderUserData(CreationData());
  return rendered ? *rendered : "error: " + rendered.error().message;
}

std::string StringFileOf(const std::string& text) {
  return TextOf(RenderOne(
      WithFile("f.txt", {.kind = FileKind::kString, .content = json::Value::String(text)})));
}

struct DataRow {
  const char* expression;
  const char* at_creation;  // Null: no such field.
  const char* in_files;
};

TEST(TemplateDataTest, EveryFieldOfBothModels) {
  for (const DataRow& row :
       std::vector<DataRow>{{"{{ .Instance.ID }}", "wrk1", "wrk1"},
                            {"{{ .Instance.Kind }}", "wrk", "wrk"},
                            {"{{ .Instance.Arch }}", "arm64", "arm64"},
                            {"{{ .Instance.Type }}", "t.small", "t.small"},
                            {"{{ .Instance.Hostname }}", nullptr, "host"},
                            {"{{ .Instance.FQDN }}", nullptr, "host.example"},
                            {"{{ .Instance.IP4 }}", nullptr, "192.0.2.9"},
                            {"{{ .Instance.IP6 }}", nullptr, "2001:db8::9"},
                            {"{{ .Cluster.ID }}", "example-cluster", "example-cluster"},
                            {"{{ .Cluster.CACert }}", "PEM", "PEM"},
                            {"{{ .ClusterID }}", nullptr, "example-cluster"},
                            {"{{ .Server.Shard }}", "local-a", "local-a"},
                            {"{{ .Server.RegistrationAddr }}", "192.0.2.1:8992", "192.0.2.1:8992"},
                            {"{{ .Server.AgentAddr }}", "192.0.2.1:8994", "192.0.2.1:8994"},
                            {"{{ .Server.OperatorAddr }}", "192.0.2.1:8993", "192.0.2.1:8993"},
                            {"{{ .Provider.Kind }}", "google", "google"},
                            {"{{ .Provider.Region }}", "r1", "r1"},
                            {"{{ .Provider.Zone }}", "z1", "z1"},
                            {"{{ .Vars.ROLE }}", "worker", "worker"},
                            {"{{ .Vars.MISSING }}", "", ""},
                            {"{{ .Image.base }}", "ami-1", "ami-1"},
                            {"{{ .Image.missing }}", "", ""},
                            {"{{ .Nonce }}", "token", nullptr},
                            {"{{ .Tenant }}/{{ .Group }}", "prod/workers", "prod/workers"},
                            {"{{ .Nothing }}", nullptr, nullptr},
                            {"{{ .Instance.Nothing }}", nullptr, nullptr}}) {
    SCOPED_TRACE(row.expression);
    const std::string at_creation = UserDataOf(row.expression);
    const std::string in_files = StringFileOf(row.expression);
    if (row.at_creation != nullptr) {
      EXPECT_EQ(at_creation, row.at_creation);
    } else {
      EXPECT_TRUE(at_creation.contains("can't evaluate field")) << at_creation;
    }
    if (row.in_files != nullptr) {
      EXPECT_EQ(in_files, row.in_files);
    } else {
      EXPECT_TRUE(in_files.contains("can't evaluate field")) << in_files;
    }
  }
}

TEST(RenderPlanTest, ValuesAreNeverParsedAgain) {
  EXPECT_EQ(UserDataOf("{{ .Vars.EVIL }}"), "$(reboot) 'x' {{ .Nonce }}");
  EXPECT_EQ(UserDataOf("{{ .Vars.EVIL | shellquote }}"), "'$(reboot) '\\''x'\\'' {{ .Nonce }}'");
}

TEST(RenderPlanTest, EveryStringLeafOfArgsIsATemplate) {
  MergedInstanceConfig merged;
  merged.args = Object(
      R"({"a":"{{ .Instance.ID }}","n":5,"t":true,"z":null,"plain":"x",)"
      R"("list":["{{ .Vars.ROLE }}",{"deep":"{{ .Group }}"},2],"{{ .Nonce }}":"key stays"})");
  const MergedInstanceConfig before = merged;
  const auto plan = RenderPlan::Compile(merged, {});
  ASSERT_TRUE(plan) << plan.error().ToString();
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(plan->RenderArgs(CreationData()),
              Object(R"({"a":"wrk1","n":5,"t":true,"z":null,"plain":"x",)"
                     R"("list":["worker",{"deep":"workers"},2],"{{ .Nonce }}":"key stays"})"));
  }
  EXPECT_EQ(merged, before);
}

TEST(RenderPlanTest, AnErrorInArgsNamesTheLeaf) {
  MergedInstanceConfig merged;
  merged.args = Object(R"({"tags":{"a.b":["x","{{ .Nope }}"]}})");
  const auto plan = RenderPlan::Compile(merged, {});
  ASSERT_TRUE(plan);
  const auto args = plan->RenderArgs(CreationData());
  ASSERT_FALSE(args);
  EXPECT_TRUE(args.error().message.contains("args.tags[\"a.b\"][1]")) << args.error().message;
  merged.args = Object(R"({"x":"{{ if }}"})");
  EXPECT_EQ(RenderPlan::Compile(merged, {}).error().code, Code::kInvalidArgument);
}

TEST(RenderPlanTest, UserDataIsDecodedThenRendered) {
  MergedInstanceConfig merged = WithUserData(" e3sgLkluc3Rh\nbmNlLklEIH19 ");  // {{ .Instance.ID }}
  merged.userdata->encoding = "base64";
  const auto plan = RenderPlan::Compile(merged, {});
  ASSERT_TRUE(plan) << plan.error().ToString();
  EXPECT_EQ(plan->RenderUserData(CreationData()), "wrk1");
  merged.userdata->content = "not base64!";
  EXPECT_FALSE(RenderPlan::Compile(merged, {}));
}

TEST(RenderPlanTest, UserDataBehindAUrlIsRenderedFromTheBody) {
  MergedInstanceConfig merged = WithUserData("https://example.com/u");
  merged.userdata->source = "url";
  const auto plan = RenderPlan::Compile(merged, {});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->needs_fetch());
  EXPECT_EQ(plan->RenderUserData(CreationData(), "id {{ .Instance.ID }}"), "id wrk1");
  const auto broken = plan->RenderUserData(CreationData(), "{{ nope }}");
  ASSERT_FALSE(broken);
  EXPECT_TRUE(broken.error().message.starts_with("userdata: ")) << broken.error().message;
}

TEST(RenderPlanTest, WithoutUserDataNothingIsCreated) {
  MergedInstanceConfig merged = WithUserData("");
  merged.userdata.reset();
  const auto rendered = RenderPlan::Compile(merged, {})->RenderUserData(CreationData());
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code, Code::kFailedPrecondition);
}

File Env(std::string_view object) {
  return {.kind = FileKind::kEnv, .content = json::Value::Map(Object(object))};
}

TEST(RenderFilesTest, EnvironmentFiles) {
  EXPECT_EQ(TextOf(RenderOne(WithFile("a.env", Env("{}")))), "");
  EXPECT_EQ(TextOf(RenderOne(
                WithFile("a.env", Env(R"({"B":"{{ .Vars.ROLE }}","A":"x y=\"z\"","AA":""})")))),
            "A=x y=\"z\"\nAA=\nB=worker");
  EXPECT_EQ(TextOf(RenderOne(WithFile("a.env", Env(R"({"A":"{{ \"x\\ny\" }}"})")))),
            "error: file \"a.env\": the value of \"A\" has a newline; one line");
  EXPECT_EQ(TextOf(RenderOne(WithFile("a.env", Env(R"({"A":5})")))),
            "error: file \"a.env\": \"A\" is a number; a string");
}

TEST(RenderFilesTest, JsonFiles) {
  const File file{.kind = FileKind::kJson,
                  .content = json::Value::Map(
                      Object(R"({"b":{"y":"{{ .Group }}","x":[1,"<&>"]},"a":"{{ .Vars.EVIL }}",)"
                             R"("e":{},"l":[],"n":null,"big":9007199254740993})"))};
  EXPECT_EQ(TextOf(RenderOne(WithFile("a.json", file))),
            "{\n"
            "  \"a\": \"$(reboot) 'x' {{ .Nonce }}\",\n"
            "  \"b\": {\n"
            "    \"x\": [\n"
            "      1,\n"
            "      \"\\u003c\\u0026\\u003e\"\n"
            "    ],\n"
            "    \"y\": \"workers\"\n"
            "  },\n"
            "  \"big\": 9007199254740993,\n"
            "  \"e\": {},\n"
            "  \"l\": [],\n"
            "  \"n\": null\n"
            "}");
}

TEST(RenderFilesTest, NamesOfSecretsAndObjectsAreTemplatesThatCannotEscape) {
  const auto secret = [](std::string source) {
    return RenderOne(WithFile("s.key", {.kind = FileKind::kSecret, .source = std::move(source)}));
  };
  const auto good = secret("{{ .Tenant }}/{{ .Vars.ROLE }}.key");
  ASSERT_TRUE(good);
  EXPECT_EQ(std::get<SecretFile>(*good).name.text(), "prod/worker.key");
  for (const char* source : {"", "{{ .Vars.MISSING }}", "../ca.key", "/etc", "a//b", "a\nb"}) {
    const auto bad = secret(source);
    ASSERT_FALSE(bad) << source;
    EXPECT_TRUE(bad.error().message.starts_with("file \"s.key\": source: ")) << bad.error().message;
  }
  for (const char* source : {"ca.key", "registration-nonce.key", "{{ print \"ca.\" \"key\" }}"}) {
    EXPECT_EQ(secret(source).error().code, Code::kPermissionDenied) << source;
  }
  const auto stored = RenderOne(
      WithFile("s.txt", {.kind = FileKind::kStorage, .source = "boot/{{ .Instance.Arch }}.img"}));
  EXPECT_EQ(std::get<StorageFile>(*stored).name.text(), "boot/arm64.img");
}

TEST(RenderFilesTest, CertificatesAreRenderedForTheirKey) {
  config::Certificates certificates;
  certificates.named["node"] = {.kind = config::CertificateKind::kServer,
                                .cn = "{{ .Instance.ID }}",
                                .organization = {"plain", "{{ .Tenant }}"},
                                .dns = {"{{ .Instance.Hostname }}", "static.example"},
                                .ip = {"{{ .Instance.IP4 }}", "{{ .Instance.IP6 }}"},
                                .uri = {"spiffe://{{ .ClusterID }}/{{ .Group }}"},
                                .country = {"NO"},
                                .ttl = Duration::Hours(168)};
  certificates.named["bare"] = {};
  const auto file_of = [](const char* name) {
    return WithFile("node.crt", {.kind = FileKind::kCertificate,
                                 .content = json::Value::String(name),
                                 .key = config::FileKey{.source = "agent", .name = "node.pub"}});
  };
  const auto rendered = RenderOne(file_of("node"), certificates);
  ASSERT_TRUE(rendered) << rendered.error().ToString();
  const auto& file = std::get<CertificateFile>(*rendered);
  EXPECT_EQ(file.certificate, "node");
  EXPECT_EQ(file.key_name, "node");
  EXPECT_EQ(file.ttl, Duration::Hours(168));
  EXPECT_EQ(file.subject.kind, crypto::FileCertificateKind::kServer);
  EXPECT_EQ(file.subject.common_name, "wrk1");
  EXPECT_EQ(file.subject.organization, (std::vector<std::string>{"plain", "prod"}));
  EXPECT_EQ(file.subject.country, std::vector<std::string>{"NO"});
  EXPECT_EQ(file.subject.names.dns, (std::vector<std::string>{"host", "static.example"}));
  EXPECT_EQ(file.subject.names.ip, (std::vector<std::string>{"192.0.2.9", "2001:db8::9"}));
  EXPECT_EQ(file.subject.names.uri, std::vector<std::string>{"spiffe://example-cluster/workers"});

  const auto bare = RenderOne(file_of("bare"), certificates);
  EXPECT_EQ(std::get<CertificateFile>(*bare).subject.common_name, "bare");
  EXPECT_EQ(RenderOne(file_of("none"), certificates).error().code, Code::kFailedPrecondition);
  certificates.named["node"].dns.emplace_back("{{ .Nonce }}");
  const auto broken = RenderOne(file_of("node"), certificates);
  ASSERT_FALSE(broken);
  EXPECT_TRUE(broken.error().message.starts_with("file \"node.crt\": ")) << broken.error().message;
}

TEST(RenderFilesTest, AllOrNothing) {
  MergedInstanceConfig merged;
  merged.files = {
      {"a.env", Env(R"({"A":"1"})")},
      {"b.txt", {.kind = FileKind::kString, .content = json::Value::String("{{ .No }}")}},
      {"c.env", Env(R"({"C":"1"})")}};
  const auto plan = RenderPlan::Compile(merged, {});
  ASSERT_TRUE(plan);
  const auto files = plan->RenderFiles(FilesData());
  ASSERT_FALSE(files);
  EXPECT_TRUE(files.error().message.starts_with("file \"b.txt\": ")) << files.error().message;
  // Only those of a list: what is not asked for is not rendered.
  const std::vector<std::string> warm = {"c.env", "a.env"};
  const auto some = plan->RenderFiles(FilesData(), &warm);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->size(), 2U);
}

TEST(RenderPlanTest, LimitsHoldForEveryString) {
  EXPECT_TRUE(UserDataOf("{{ range 1000000000 }}x{{ end }}").starts_with("error: "));
  EXPECT_TRUE(UserDataOf("{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}")
                  .starts_with("error: "));
  EXPECT_TRUE(UserDataOf(std::string(300'000, 'x')).starts_with("error: "));
  EXPECT_EQ(UserDataOf(std::string(200'000, 'x')).size(), 200'000U);
  EXPECT_TRUE(UserDataOf("{{ template \"nope\" }}").starts_with("error: "));
}

TEST(RenderPlanTest, TheCompleteExample) {
  const config::Config config = ExampleConfig();
  const auto merged =
      MergeInstanceConfig(config, config.groups.at(DefaultTenant()).at(Group("workers")));
  const auto plan = RenderPlan::Compile(*merged, config.certificates);
  ASSERT_TRUE(plan) << plan.error().ToString();
  const auto userdata = plan->RenderUserData(CreationData());
  ASSERT_TRUE(userdata) << userdata.error().ToString();
  EXPECT_TRUE(userdata->contains("printf '%s' 'token' > identity/nonce.jwt\n")) << *userdata;
  EXPECT_TRUE(userdata->contains("NSTANCE_SERVER_AGENT_ADDR='192.0.2.1:8994'\n")) << *userdata;
  InstanceFacts facts = Instance();
  facts.vars = merged->vars;
  const auto files = plan->RenderFiles(SharedTemplateData(kServer, {}).ForFiles(facts));
  ASSERT_TRUE(files) << files.error().ToString();
  EXPECT_EQ(std::get<TextFile>(files->at("node.env")).content, "LOG_LEVEL=info\nNODE=wrk1");
  EXPECT_EQ(std::get<CertificateFile>(files->at("node.crt")).subject.common_name, "wrk1");
}

}  // namespace
}  // namespace nstance::test
