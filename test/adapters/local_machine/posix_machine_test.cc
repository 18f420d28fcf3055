// PosixMachine on a temporary folder: modes, create-only files, errors with their paths.
#include "adapters/local_machine/posix_machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/temp_dir.h"

namespace nstance {
namespace {

using testing::HasSubstr;

unsigned ModeOf(const std::string& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 ? about.st_mode & 07777U : 0;
}

class PosixMachineTest : public testing::Test {
 public:
  [[nodiscard]] std::string Path(const std::string& name) const {
    return (folder.path() / name).string();
  }

  nstance::test::TempDir folder;
  PosixMachine machine;
};

TEST_F(PosixMachineTest, FoldersAndFilesAreForTheirOwnerOnly) {
  const auto files = machine.OpenFolder(Path("a/b/c"));
  ASSERT_TRUE(files) << files.error().ToString();
  ASSERT_TRUE((*files)->Replace("identity.key", "secret"));
  EXPECT_EQ(ModeOf(Path("a")), 0700U);
  EXPECT_EQ(ModeOf(Path("a/b/c")), 0700U);
  EXPECT_EQ(ModeOf(Path("a/b/c/identity.key")), 0600U);
  EXPECT_TRUE(machine.OpenFolder(Path("a/b/c/"))) << "there already";
}

TEST_F(PosixMachineTest, AFileIsCreatedOnce) {
  ASSERT_TRUE(machine.CreateFile(Path("keys/k"), "first"));
  EXPECT_EQ(ModeOf(Path("keys/k")), 0600U);
  EXPECT_EQ(ModeOf(Path("keys")), 0700U);
  const Status again = machine.CreateFile(Path("keys/k"), "second");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_EQ(machine.ReadFile(Path("keys/k"), 100).value_or(""), "first");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Path("keys"))) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, std::set<std::string>{"k"}) << "no temporary stays";
}

TEST_F(PosixMachineTest, AFolderForEverybodyToLookInto) {
  ASSERT_TRUE(machine.MakeFolder(Path("x/bucket")));
  EXPECT_EQ(ModeOf(Path("x/bucket")) & 0700U, 0700U);
  EXPECT_TRUE(machine.MakeFolder(Path("x/bucket/")));
  ASSERT_TRUE(machine.CreateFile(Path("file"), ""));
  const Status in_the_way = machine.MakeFolder(Path("file"));
  ASSERT_FALSE(in_the_way);
  EXPECT_THAT(in_the_way.error().message, HasSubstr(Path("file") + " is there and is no folder"));
}

TEST_F(PosixMachineTest, ErrorsNameThePathAndTheReason) {
  const auto missing = machine.ReadFile(Path("none"), 10);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(Path("none") + ": No such file or directory"));
  ASSERT_TRUE(machine.CreateFile(Path("big"), "12345678901"));
  EXPECT_EQ(machine.ReadFile(Path("big"), 10).error().code, Code::kResourceExhausted);
  EXPECT_EQ(machine.ReadFile(Path("big"), 11).value_or("").size(), 11U);
  EXPECT_FALSE(machine.OpenFolder(Path("big/x")));
}

TEST_F(PosixMachineTest, FactsOfTheMachine) {
  EXPECT_EQ(machine.AbsolutePath("/a/./b/../c/"), "/a/c");
  EXPECT_EQ(machine.AbsolutePath("x"), (std::filesystem::current_path() / "x").string());
  EXPECT_TRUE(machine.Exists(machine.ProgramFolder() + "/posix_machine_test"));
  EXPECT_THAT(machine.Architecture(), testing::AnyOf("amd64", "arm64"));
  const auto ports = machine.FreePorts(5);
  ASSERT_TRUE(ports);
  EXPECT_EQ(std::set(ports->begin(), ports->end()).size(), 5U);
}

}  // namespace
}  // namespace nstance
