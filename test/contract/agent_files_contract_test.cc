// One suite for ports/agent_files.h: a directory of this machine, and the simulated disk. Below it,
// what only a real directory has: modes, links, leftovers of a crash.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/agent_files/local_agent_files.h"
#include "sim/sim_agent_files.h"
#include "test/support/temp_dir.h"

namespace nstance {
namespace {

using testing::HasSubstr;
using testing::Key;
using testing::UnorderedElementsAre;

enum class Kind : std::uint8_t { kLocal, kSimulated };

class AgentFilesContractTest : public testing::TestWithParam<Kind> {
 public:
  AgentFilesContractTest() {
    if (GetParam() == Kind::kSimulated) {
      files = std::make_unique<sim::SimAgentFiles>(disk);
    } else {
      files = LocalAgentFiles::Open(folder.path().string(), 0640).value();
    }
  }
  std::optional<std::string> Read(std::string_view name) const {
    const auto text = files->Read(name);
    EXPECT_TRUE(text) << text.error().ToString();
    return text.value_or(std::nullopt);
  }

  test::TempDir folder;
  sim::SimAgentDisk disk;
  std::unique_ptr<AgentFiles> files;
};

TEST_P(AgentFilesContractTest, WhatWasReplacedIsReadBackWhole) {
  EXPECT_EQ(Read("a"), std::nullopt);
  ASSERT_TRUE(files->Replace("a", std::string("x\0y", 3)));
  EXPECT_EQ(Read("a"), std::string("x\0y", 3));
  ASSERT_TRUE(files->Replace("a", ""));
  EXPECT_EQ(Read("a"), "");
  EXPECT_THAT(files->PathOf("a"), HasSubstr("/a"));
}

TEST_P(AgentFilesContractTest, AMoveTakesThePlaceOfWhatWasThere) {
  ASSERT_TRUE(files->Replace("a", "1"));
  ASSERT_TRUE(files->Replace("b", "2"));
  ASSERT_TRUE(files->Move("a", "b"));
  EXPECT_EQ(Read("a"), std::nullopt);
  EXPECT_EQ(Read("b"), "1");
  const Status missing = files->Move("a", "b");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(Read("b"), "1");
}

TEST_P(AgentFilesContractTest, RemovingWhatIsNotThereIsASuccess) {
  EXPECT_TRUE(files->Remove("a"));
  ASSERT_TRUE(files->Replace("a", "1"));
  EXPECT_TRUE(files->Remove("a"));
  EXPECT_EQ(Read("a"), std::nullopt);
}

TEST_P(AgentFilesContractTest, ListsFilesWithoutDotsAndAFileAboveTheLimitIsNotRead) {
  ASSERT_TRUE(files->Replace("a", "1"));
  ASSERT_TRUE(files->Replace(".b", "1"));
  const auto listed = files->List();
  ASSERT_TRUE(listed);
  EXPECT_THAT(*listed, UnorderedElementsAre(Key("a")));
  EXPECT_EQ(listed->at("a").nanoseconds(), 0);
  ASSERT_TRUE(files->Replace("large", std::string(AgentFiles::kMaxFileBytes + 1, 'x')));
  const auto large = files->Read("large");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(Files, AgentFilesContractTest,
                         testing::Values(Kind::kLocal, Kind::kSimulated), [](const auto& maker) {
                           return maker.param == Kind::kLocal ? "Local" : "Simulated";
                         });

class LocalAgentFilesTest : public testing::Test {
 public:
  [[nodiscard]] std::string At(const std::string& name) const {
    return (folder.path() / name).string();
  }
  test::TempDir folder;
};

TEST_F(LocalAgentFilesTest, FilesHaveTheModeAskedForWhateverTheUmask) {
  const mode_t old = ::umask(0077);
  auto files = LocalAgentFiles::Open(folder.path().string(), 0644).value();
  ASSERT_TRUE(files->Replace("a", "1"));
  ::umask(old);
  struct stat about{};
  ASSERT_EQ(::stat(At("a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0644U);
}

TEST_F(LocalAgentFilesTest, LinksAreNotFollowedAndDirectoriesAreNoFiles) {
  auto files = LocalAgentFiles::Open(folder.path().string(), 0600).value();
  std::ofstream(At("outside")) << "secret";
  std::filesystem::create_symlink(At("outside"), At("link"));
  std::filesystem::create_directory(At("dir"));
  for (const std::string name : {"link", "dir"}) {
    const auto read = files->Read(name);
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, Code::kFailedPrecondition) << name;
  }
  // Writing replaces the link, not what it points to.
  ASSERT_TRUE(files->Replace("link", "mine"));
  EXPECT_FALSE(std::filesystem::is_symlink(At("link")));
  std::ifstream in(At("outside"));
  std::string text;
  in >> text;
  EXPECT_EQ(text, "secret");
  EXPECT_FALSE(files->Replace("dir", "mine"));
  EXPECT_FALSE(std::filesystem::exists(At(".nstance-tmp-dir")));
}

TEST_F(LocalAgentFilesTest, LeftoversOfACrashAreRemoved) {
  std::ofstream(At(".nstance-tmp-a")) << "half";
  std::ofstream(At(".other")) << "theirs";
  const auto files = LocalAgentFiles::Open(folder.path().string(), 0600);
  ASSERT_TRUE(files);
  EXPECT_FALSE(std::filesystem::exists(At(".nstance-tmp-a")));
  EXPECT_TRUE(std::filesystem::exists(At(".other")));
}

TEST_F(LocalAgentFilesTest, AMissingDirectoryIsAnErrorThatNamesIt) {
  const auto files = LocalAgentFiles::Open(At("none"), 0600);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(files.error().message, HasSubstr("/none: No such file or directory"));
}

}  // namespace
}  // namespace nstance
