// The nstance-admin program as a user runs it: files, standard input, exit codes.
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class AdminProgramTest : public testing::Test {
 public:
  std::string Write(const std::string& name, const std::string& text) const {
    std::string path = (folder.path() / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static ProcessOutput Admin(std::vector<std::string> words, std::string input = "") {
    words.insert(words.begin(), NSTANCE_ADMIN_PROGRAM);
    auto result = RunProcess({.argv = std::move(words), .input = std::move(input)});
    EXPECT_TRUE(result) << result.error().ToString();
    return result.value_or(ProcessOutput{});
  }

  TempDir folder;
};

TEST_F(AdminProgramTest, RendersTheBytesAndNothingElse) {
  const std::string source = Write("t", "{{ range .a }}{{ . }},{{ end }}\x01");
  const std::string data = Write("d", R"({"a": [1, 2.5, "x"]})");
  const auto result = Admin({"config", "render", "--template", source, "--data", data});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "1,2.5,x,\x01");
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(AdminProgramTest, ReadsStandardInput) {
  const auto result = Admin({"config", "validate", "-"}, "{ \"server\": 1 }");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("-:1:13: server: "));
}

TEST_F(AdminProgramTest, SaysWhichFileIsMissingOrTooLarge) {
  const auto missing = Admin({"config", "validate", (folder.path() / "none").string()});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, AllOf(StartsWith("Error: "), HasSubstr("No such file or directory")));
  const auto folder_itself = Admin({"config", "validate", folder.path().string()});
  EXPECT_EQ(folder_itself.exit_code, 1);
  EXPECT_THAT(folder_itself.err, HasSubstr("directory"));
  const auto large = Admin({"config", "validate", "/dev/zero"});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err, HasSubstr("larger than 4194304 bytes"));
}

TEST_F(AdminProgramTest, ExitCodesTellBadLinesFromErrors) {
  EXPECT_EQ(Admin({}).exit_code, 2);
  EXPECT_EQ(Admin({"--help"}).exit_code, 0);
  EXPECT_EQ(Admin({"config", "frobnicate"}).exit_code, 2);
  EXPECT_THAT(Admin({"--version"}).out, AllOf(StartsWith("nstance-admin "), HasSubstr("\nnghttp2 "),
                                              HasSubstr("\nOpenSSL "), HasSubstr("\nprotobuf ")));
}

}  // namespace
}  // namespace nstance::test
