// The agent's file checks: tables of names and contents, certificates for the right and the wrong
// key, and the limits of a patch.
#include "core/agent_file/agent_file_check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "crypto/pem.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance {
namespace {

using crypto::test::KeyOf;

// Self-signed with key 1.
std::string SomeCertificate() {
  return crypto::test::Must(crypto::IssueCa({.common_name = "Nstance CA", .organization = {}},
                                            KeyOf(1), crypto::test::Terms(Duration::Hours(87'600))))
      .ToPem();
}

TEST(AgentFileNameTest, BaseNamesOnly) {
  for (const char* name : {"node.env", "a", "kubelet.client.crt", "UPPER.JSON", "with space.txt"}) {
    EXPECT_TRUE(CheckAgentFileName(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".hidden"),
        std::string("a/b"), std::string("/etc/passwd"), std::string("..\\x"),
        std::string("write-files.last"), std::string("errors"), std::string("a\nb"),
        std::string("a\0b", 3), std::string("\xFF"), std::string(129, 'x')}) {
    EXPECT_FALSE(CheckAgentFileName(name)) << name;
  }
  EXPECT_TRUE(CheckAgentFileName(std::string(128, 'x')));
}

TEST(AgentFileNameTest, ExtensionsThatGoAgentsKnow) {
  for (const char* name : {"a.env", "a.CRT", "a.pub", "a.key", "a.b.json"}) {
    EXPECT_TRUE(GoAgentAccepts(name)) << name;
  }
  for (const char* name : {"a.txt", "a", "env", "a.yaml", "a.env.bak"}) {
    EXPECT_FALSE(GoAgentAccepts(name)) << name;
  }
}

struct Row {
  const char* name;
  std::string content;
  bool good;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Status status = CheckAgentFile({.name = row.name, .content = row.content});
    EXPECT_EQ(status.has_value(), row.good)
        << row.name << ": " << row.content << (status ? "" : status.error().message);
    if (status) continue;
    EXPECT_TRUE(status.error().message.starts_with(std::string("file \"") + row.name + "\": "))
        << status.error().message;
    EXPECT_FALSE(status.error().message.contains("hunter2")) << status.error().message;
  }
}

TEST(AgentFileTest, EnvironmentFiles) {
  Check({{"a.env", "", true},
         {"a.env", "A=1\nB_2=\n\n# comment\n  # another\n \t\nC==x=y", true},
         {"a.env", "  A=1", true},
         {"a.env", "1=x", true},
         {"a.env", "hunter2", false},
         {"a.env", "A=1\nlower=hunter2", false},
         {"a.env", "=hunter2", false},
         {"a.env", "export A=hunter2", false},
         {"a.env", "A =hunter2", false},
         {"a.ENV", "hunter2", false},
         {"a.txt", "anything \x01\xFF", true}});
}

TEST(AgentFileTest, JsonFiles) {
  Check({{"a.json", "{}", true},
         {"a.json", "[1, \"x\", null]\n", true},
         {"a.json", R"({"a":1,"a":2})", true},
         {"a.json", "", false},
         {"a.json", "{\"a\":\"hunter2\"", false},
         {"a.json", "{} hunter2", false},
         {"a.json", std::string(100'000, '['), false}});
}

TEST(AgentFileTest, Keys) {
  const std::string key = crypto::WritePem(
      crypto::kPrivateKeyPem, AsBytes(std::string("\x30\x0c\x02\x01\x00\x30\x03\x06\x01"
                                                  "\x2a\x04\x02xy",
                                                  14)));
  const std::string public_key = KeyOf(3).public_key().ToPem();
  Check({{"a.key", key, true},
         {"a.key", "a comment\n" + key + "and more", true},
         {"a.pub", public_key, true},
         {"a.pub", key, false},
         {"a.key", public_key, false},
         {"a.key", "", false},
         {"a.pub", "-----BEGIN PUBLIC KEY-----\nhunter2\n-----END PUBLIC KEY-----\n", false},
         {"a.pub", "-----BEGIN PUBLIC KEY-----\naGVsbG8=\n-----END PUBLIC KEY-----\n", false},
         {"a.pub", "-----BEGIN PUBLIC KEY-----\n", false},
         {"a.key", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", false},
         {"a.key", crypto::WritePem(crypto::kPrivateKeyPem, AsBytes("\x30\x03\x02\x01\x02")),
          false}});
}

TEST(AgentFileTest, CertificatesParseAndBelongToTheKey) {
  const std::string pem = SomeCertificate();
  Check({{"a.crt", pem, true},
         {"a.crt", "text before\n" + pem + pem, true},
         {"a.crt", pem.substr(0, pem.size() / 2), false},
         {"a.crt", KeyOf(1).public_key().ToPem() + pem, false},
         {"a.crt", "hunter2", false}});
  EXPECT_TRUE(CheckAgentFile({.name = "a.crt", .content = pem, .key = KeyOf(1).public_key()}));
  const Status other =
      CheckAgentFile({.name = "a.crt", .content = pem, .key = KeyOf(2).public_key()});
  ASSERT_FALSE(other);
  EXPECT_TRUE(other.error().message.contains("another key")) << other.error().message;
}

TEST(AgentPatchTest, LimitsAndNames) {
  const std::string most(kMaxAgentFileBytes, 'x');
  EXPECT_TRUE(CheckAgentPatch({}));
  EXPECT_TRUE(CheckAgentPatch(std::vector<AgentFile>{{.name = "a", .content = most}}));
  const std::string more = most + "x";
  EXPECT_EQ(CheckAgentPatch(std::vector<AgentFile>{{.name = "a", .content = more}}).error().code,
            Code::kResourceExhausted);

  std::vector<std::string> names;
  for (int i = 0; i < 257; ++i) names.push_back("f" + std::to_string(i));
  std::vector<AgentFile> files;
  for (const std::string& name : names) files.push_back({.name = name});
  EXPECT_EQ(CheckAgentPatch(files).error().code, Code::kResourceExhausted);
  files.pop_back();
  EXPECT_TRUE(CheckAgentPatch(files));
  for (std::size_t i = 0; i < 6; ++i) files[i].content = most;
  EXPECT_EQ(CheckAgentPatch(files).error().code, Code::kResourceExhausted);
  files[5].content = {};
  EXPECT_TRUE(CheckAgentPatch(files));
  files[6].name = "f7";
  EXPECT_EQ(CheckAgentPatch(files).error().code, Code::kInvalidArgument);
}

TEST(AgentPatchTest, OneBadFileRefusesTheWhole) {
  EXPECT_FALSE(CheckAgentPatch(std::vector<AgentFile>{{.name = "a.env", .content = "A=1"},
                                                      {.name = "b.json", .content = "{"}}));
}

}  // namespace
}  // namespace nstance
