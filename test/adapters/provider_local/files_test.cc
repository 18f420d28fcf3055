// Trees as instances leave them: deep, wide, without rights, with links that point outside.
#include "adapters/provider_local/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/provider_local/console.h"
#include "test/support/temp_dir.h"

namespace nstance::provider_local {
namespace {

namespace fs = std::filesystem;

class FilesTest : public testing::Test {
 public:
  void SetUp() override {
    auto folder = OpenFolder(AT_FDCWD, temp_.path().string());
    ASSERT_TRUE(folder) << folder.error().ToString();
    folder_ = *std::move(folder);
  }
  test::TempDir temp_;
  Descriptor folder_;
};

TEST_F(FilesTest, ATreeOfAnyDepthAndWidthIsRemoved) {
  ASSERT_EQ(::mkdirat(folder_.number(), "tree", 0700), 0);
  auto at = OpenFolder(folder_.number(), "tree");
  for (int depth = 0; depth < 3'000; ++depth) {
    ASSERT_EQ(::mknodat(at->number(), "file", S_IFREG | 0600, 0), 0);
    ASSERT_EQ(::mkdirat(at->number(), "d", 0700), 0);
    at = OpenFolder(at->number(), "d");
    ASSERT_TRUE(at) << at.error().ToString();
  }
  for (int i = 0; i < 6'000; ++i) {
    const std::string name = fmt::format("many-{}", i);
    ASSERT_EQ(::mknodat(at->number(), name.c_str(), S_IFREG | 0600, 0), 0);
  }
  const Status removed = RemoveTree(folder_.number(), "tree");
  EXPECT_TRUE(removed) << removed.error().ToString();
  EXPECT_TRUE(fs::is_empty(temp_.path()));
  EXPECT_TRUE(RemoveTree(folder_.number(), "tree"));  // Gone is success.
}

TEST_F(FilesTest, WhatAnInterruptedRemovalLeftIsRemovedToo) {
  fs::create_directories(temp_.path() / "tree/.nstance-moved-1/a/b");
  fs::create_directories(temp_.path() / "tree/x/.nstance-moved-1/y");
  (void)temp_.Write("tree/.nstance-moved-2", "a file of that name");
  (void)temp_.Write("tree/x/z", "x");
  const Status removed = RemoveTree(folder_.number(), "tree");
  EXPECT_TRUE(removed) << removed.error().ToString();
  EXPECT_TRUE(fs::is_empty(temp_.path()));
}

TEST_F(FilesTest, RightsThatWereTakenAwayAreNoHindrance) {
  fs::create_directories(temp_.path() / "tree/a/b/c");
  (void)temp_.Write("tree/a/b/file", "x");
  fs::permissions(temp_.path() / "tree/a/b/c", fs::perms::none);
  fs::permissions(temp_.path() / "tree/a/b", fs::perms::none);
  fs::permissions(temp_.path() / "tree/a", fs::perms::owner_read);
  fs::permissions(temp_.path() / "tree", fs::perms::none);
  const Status removed = RemoveTree(folder_.number(), "tree");
  EXPECT_TRUE(removed) << removed.error().ToString();
  EXPECT_TRUE(fs::is_empty(temp_.path()));
}

TEST_F(FilesTest, LinksAreRemovedAndNotFollowed) {
  const std::string outside = temp_.Write("outside/file", "keep");
  fs::create_directory(temp_.path() / "tree");
  fs::create_directory_symlink(temp_.path() / "outside", temp_.path() / "tree/folder");
  fs::create_symlink(outside, temp_.path() / "tree/file");
  fs::create_directory_symlink(temp_.path() / "outside", temp_.path() / "linked");
  EXPECT_TRUE(RemoveTree(folder_.number(), "tree"));
  EXPECT_TRUE(fs::exists(outside));
  const Status refused = RemoveTree(folder_.number(), "linked");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition) << refused.error().ToString();
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_FALSE(ReadFile(folder_.number(), "linked/file", 0).has_value());
}

TEST_F(FilesTest, AFileIsReplacedWholeAndReadUpToItsLimit) {
  ASSERT_TRUE(ReplaceFile(folder_.number(), "file", "first", 0600));
  ASSERT_TRUE(ReplaceFile(folder_.number(), "file", "second", 0640));
  EXPECT_EQ(ReadFile(folder_.number(), "file", 6), "second");
  const auto large = ReadFile(folder_.number(), "file", 5);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kDataLoss);
  EXPECT_EQ(ReadFile(folder_.number(), "nothing", 5).error().code, Code::kNotFound);
  EXPECT_FALSE(WriteNewFile(folder_.number(), "file", "x", 0600));
  // A left-over of a crash is in nobody's way.
  (void)temp_.Write(".file.new", "half");
  EXPECT_TRUE(ReplaceFile(folder_.number(), "file", "third", 0600));
  EXPECT_EQ(ReadFile(folder_.number(), "file", 100), "third");
}

TEST_F(FilesTest, TheConsoleKeepsTheLastPartAndTheOneBefore) {
  Console console(folder_.number(), 10);
  console.Write("0123456");
  console.Write("789ab");
  console.Write("cdefghijklmnopqrstuv");
  EXPECT_EQ(ReadFile(folder_.number(), "console.log.1", 100), "klmnopqrst");
  EXPECT_EQ(ReadFile(folder_.number(), "console.log", 100), "uv");
  Console later(folder_.number(), 10);
  later.Write("wxyz0123456");
  EXPECT_EQ(ReadFile(folder_.number(), "console.log.1", 100), "uvwxyz0123");
  EXPECT_EQ(ReadFile(folder_.number(), "console.log", 100), "456");
}

}  // namespace
}  // namespace nstance::provider_local
