// Keys from the environment and from files; what an unusable source says.
#include "adapters/key_source/local_key_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/text.h"
#include "sim/sim_loop.h"
#include "test/support/temp_dir.h"

namespace nstance {
namespace {

constexpr std::string_view kKey = "0123456789abcdef0123456789abcdef";

class LocalKeySourceTest : public testing::Test {
 protected:
  Result<crypto::EncryptionKey> Load(KeySource& source) {
    std::optional<Result<crypto::EncryptionKey>> answer;
    const Pending pending = source.Load([&](auto key) { answer = std::move(key); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    scheduler_.RunFor(Duration::Seconds(1));
    EXPECT_TRUE(answer.has_value());
    return *std::move(answer);
  }

  Result<crypto::EncryptionKey> LoadFile(const std::string& path) {
    FileKeySource source(loop_, path);
    return Load(source);
  }

  std::string KeyFile(std::string_view content, mode_t mode = 0600) {
    std::string path = folder_.path().string() + "/key" + std::to_string(files_++);
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  test::TempDir folder_;
  int files_ = 0;
  sim::SimScheduler scheduler_{1};
  sim::SimLoop loop_{scheduler_, Timestamp()};
};

TEST_F(LocalKeySourceTest, ReadsAFileWithTrailingNewline) {
  const auto key = LoadFile(KeyFile(std::string(kKey) + "\n"));
  ASSERT_TRUE(key.has_value()) << key.error().message;
  EXPECT_EQ(AsText(key->Reveal()), kKey);
  EXPECT_TRUE(LoadFile(KeyFile(kKey, 0400)).has_value());
}

TEST_F(LocalKeySourceTest, BI97_RefusesFilesThatAreNoKey) {
  for (const std::size_t size : {0UZ, 31UZ, 33UZ, 5'000UZ}) {
    const auto key = LoadFile(KeyFile(std::string(size, 'k')));
    ASSERT_FALSE(key.has_value()) << size;
    EXPECT_EQ(key.error().message.find("kkk"), std::string::npos) << "the value is never shown";
  }
  const auto missing = LoadFile(folder_.path().string() + "/none");
  EXPECT_NE(missing.error().message.find("it does not exist"), std::string::npos);
}

TEST_F(LocalKeySourceTest, BI97_RefusesFilesThatOthersMayRead) {
  for (const mode_t mode : {0644U, 0640U, 0604U, 0610U, 0666U}) {
    const auto key = LoadFile(KeyFile(kKey, mode));
    ASSERT_FALSE(key.has_value()) << mode;
    EXPECT_NE(key.error().message.find("chmod"), std::string::npos) << key.error().message;
  }
}

TEST_F(LocalKeySourceTest, BI97_RefusesLinksAndWhatIsNoFile) {
  const std::string target = KeyFile(kKey);
  const std::string link = folder_.path().string() + "/link";
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  EXPECT_NE(LoadFile(link).error().message.find("symbolic link"), std::string::npos);
  const std::string device = folder_.path().string() + "/device";
  ASSERT_EQ(symlink("/dev/zero", device.c_str()), 0);
  EXPECT_FALSE(LoadFile(device).has_value());
  EXPECT_FALSE(LoadFile("/dev/zero").has_value());
  EXPECT_FALSE(LoadFile(folder_.path().string()).has_value()) << "a folder";
  const std::string pipe = folder_.path().string() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(LoadFile(pipe).has_value()) << "and does not wait for its writer";
}

TEST_F(LocalKeySourceTest, ReadsTheEnvironment) {
  ASSERT_EQ(setenv("NSTANCE_TEST_KEY", std::string(kKey).c_str(), 1), 0);
  EnvironmentKeySource source(loop_, "NSTANCE_TEST_KEY");
  const auto key = Load(source);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(AsText(key->Reveal()), kKey);
  ASSERT_EQ(unsetenv("NSTANCE_TEST_KEY"), 0);
  EXPECT_EQ(Load(source).error().message,
            "encryption key in environment variable NSTANCE_TEST_KEY: it is not set");
}

TEST_F(LocalKeySourceTest, DroppingThePendingDropsTheAnswer) {
  FileKeySource source(loop_, KeyFile(kKey));
  bool called = false;
  {
    const Pending pending = source.Load([&](const auto&) { called = true; });
  }
  scheduler_.RunFor(Duration::Seconds(1));
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace nstance
