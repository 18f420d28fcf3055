// What goes wrong around the nstance-admin program: identity folders that cannot be read, buckets
// that are not there, each with its message and exit code.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "test/support/process.h"
#include "test/support/raw_http_server.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

ProcessOutput Admin(std::vector<std::string> words, std::vector<std::string> environment = {},
                    const std::vector<std::string>& before = {}) {
  words.insert(words.begin(), NSTANCE_ADMIN_PROGRAM);
  words.insert(words.begin(), before.begin(), before.end());
  auto result = RunProcess({.argv = std::move(words), .environment = std::move(environment)});
  EXPECT_TRUE(result) << result.error().ToString();
  return result.value_or(ProcessOutput{});
}

// --- Identities ----------------------------------------------------------------------------------

class AdminIdentityTest : public testing::Test {
 public:
  // `group list` with that identity; nobody is asked.
  void Expect(const std::string& identity, const std::string& why) const {
    const ProcessOutput output = Admin(
        {"group", "list", "--servers", "a=127.0.0.1:1", "--identity-dir", identity}, {}, before);
    EXPECT_EQ(output.exit_code, 1) << output.err;
    EXPECT_THAT(output.out, IsEmpty());
    EXPECT_THAT(output.err,
                AllOf(StartsWith("Error: the identity cannot be read: " + identity), HasSubstr(why),
                      HasSubstr("cluster register-operator"), HasSubstr("--identity-dir")));
  }
  [[nodiscard]] std::string Path(const std::string& name) const {
    return (folder.path() / name).string();
  }

  TempDir folder;
  std::vector<std::string> before;  // What runs the program.
};

TEST_F(AdminIdentityTest, AFolderThatIsNotThereIsNamed) {
  Expect(Path("none"), "No such file or directory");
}

TEST_F(AdminIdentityTest, AFileInPlaceOfTheFolderIsNamed) {
  static_cast<void>(folder.Write("id", "not a folder"));
  Expect(Path("id"), "Not a directory");
}

TEST_F(AdminIdentityTest, ALinkToNothingIsNamed) {
  fs::create_directory_symlink(Path("gone"), Path("id"));
  Expect(Path("id"), "No such file or directory");
}

TEST_F(AdminIdentityTest, AFolderInPlaceOfAFileIsNamed) {
  fs::create_directories(Path("id/ca.crt"));
  Expect(Path("id"), "Is a directory");
}

// Who runs the tests as root may read everything: then the program runs without that right.
TEST_F(AdminIdentityTest, AFolderThatIsNotOursIsNamed) {
  fs::create_directories(Path("id"));
  ASSERT_EQ(::chmod(Path("id").c_str(), 0), 0);
  if (::geteuid() == 0) {
    before = {"setpriv", "--bounding-set=-dac_override,-dac_read_search",
              "--inh-caps=-dac_override,-dac_read_search"};
  }
  Expect(Path("id"), "Permission denied");
  ASSERT_EQ(::chmod(Path("id").c_str(), 0700), 0);
}

// --- Buckets -------------------------------------------------------------------------------------

// Reading one object, listing, and a command that does both.
const std::vector<std::vector<std::string>>& StoreCommands() {
  static const std::vector<std::vector<std::string>> commands = {
      {"cert", "denied"},
      {"cluster", "nonce", "--cluster-id", "c1"},
      {"secrets", "reseal", "--dry-run"},
      {"cert", "deny", "--serial", "4711"},
  };
  return commands;
}

void ExpectNoBucket(const std::vector<std::string>& store,
                    const std::vector<std::string>& environment) {
  for (std::vector<std::string> words : StoreCommands()) {
    words.insert(words.end(), store.begin(), store.end());
    const ProcessOutput output = Admin(words, environment);
    EXPECT_EQ(output.exit_code, 1) << words[0] << " " << words[1] << ": " << output.err;
    EXPECT_THAT(output.err, AllOf(StartsWith("Error: "), HasSubstr("there is no such bucket"),
                                  HasSubstr("--storage-bucket")))
        << words[0] << " " << words[1];
    EXPECT_THAT(output.out, IsEmpty());
  }
  std::vector<std::string> as_json = {"cert", "denied", "--json"};
  as_json.insert(as_json.end(), store.begin(), store.end());
  const auto error = json::Parse(Admin(as_json, environment).err);
  ASSERT_TRUE(error);
  EXPECT_EQ(*error->Find("code")->if_string(), "FAILED_PRECONDITION");
}

TEST(AdminBucketTest, AnS3BucketThatDoesNotExistIsToldAsSuch) {
  const RawHttpServer server(
      AnswerAll(Answer(404, "<Error><Code>NoSuchBucket</Code><RequestId>r1</RequestId></Error>",
                       "Content-Type: application/xml\r\n")));
  ExpectNoBucket({"--storage-provider", "s3", "--storage-bucket", "no-such-bucket"},
                 {"AWS_ENDPOINT_URL=" + server.Url(""), "AWS_ACCESS_KEY_ID=id",
                  "AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=us-east-1",
                  "AWS_S3_USE_PATH_STYLE=true", "NSTANCE_ENCRYPTION_KEY=" + std::string(64, 'a')});
}

TEST(AdminBucketTest, AGcsBucketThatDoesNotExistIsToldAsSuch) {
  const RawHttpServer server([](RawConnection& connection) {
    while (const auto request = connection.ReadRequest()) {
      const bool metadata = request->Target().starts_with("/computeMetadata/");
      const std::string answer =
          metadata
              ? Answer(200, R"({"access_token":"t","expires_in":3600,"token_type":"Bearer"})",
                       "Metadata-Flavor: Google\r\nContent-Type: application/json\r\n")
              : Answer(404,
                       R"({"error":{"code":404,"message":"The specified bucket does not exist.",)"
                       R"("errors":[{"reason":"notFound"}]}})",
                       "Content-Type: application/json\r\n");
      if (!connection.Write(answer)) return;
    }
  });
  const std::string host = "127.0.0.1:" + std::to_string(server.port());
  ExpectNoBucket(
      {"--storage-provider", "gcs", "--storage-bucket", "no-such-bucket"},
      {"STORAGE_EMULATOR_HOST=http://" + host, "GCE_METADATA_HOST=" + host,
       "GOOGLE_APPLICATION_CREDENTIALS=", "NSTANCE_ENCRYPTION_KEY=" + std::string(64, 'a')});
}

TEST(AdminBucketTest, AFolderThatDoesNotExistIsToldAsSuch) {
  const TempDir folder;
  const std::string bucket = (folder.path() / "bucket").string();
  for (std::vector<std::string> words : StoreCommands()) {
    words.insert(words.end(), {"--storage-provider", "file", "--storage-bucket", bucket});
    const ProcessOutput output = Admin(words, {"NSTANCE_ENCRYPTION_KEY=" + std::string(64, 'a')});
    EXPECT_EQ(output.exit_code, 1) << words[0] << " " << words[1] << ": " << output.err;
    EXPECT_THAT(output.err, AllOf(StartsWith("Error: "), HasSubstr(bucket),
                                  HasSubstr("No such file"), HasSubstr("--storage-bucket")))
        << words[0] << " " << words[1];
    EXPECT_FALSE(fs::exists(bucket));
  }
}

// The store of a command to servers only makes an error better: variables that are left from
// something else do not end it.
TEST(AdminBucketTest, AStoreThatDoesNotOpenKeepsNoCommandFromItsServers) {
  const std::vector<std::string> words = {"group",         "list",           "--servers",
                                          "a=127.0.0.1:1", "--identity-dir", "/nowhere"};
  const std::vector<std::string> left = {"NSTANCE_ADMIN_STORAGE_BUCKET=b",
                                         "NSTANCE_ADMIN_STORAGE_PROVIDER=file",
                                         "NSTANCE_ADMIN_STORAGE_PREFIX=//"};
  const ProcessOutput output = Admin(words, left);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, AllOf(StartsWith("Note: prefix "), HasSubstr("going on without"),
                                HasSubstr("NSTANCE_ADMIN_STORAGE_BUCKET"),
                                HasSubstr("\nError: the identity cannot be read: /nowhere")));
  std::vector<std::string> quiet = words;
  quiet.emplace_back("--quiet");
  EXPECT_THAT(Admin(quiet, left).err, StartsWith("Error: the identity"));
  // A command on the store itself cannot do without.
  EXPECT_THAT(Admin({"cert", "denied"}, left).err, StartsWith("Error: prefix "));
}

}  // namespace
}  // namespace nstance::test
