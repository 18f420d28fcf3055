// What the file store adds to the contract of all stores: bytes and modes on disk, locks between
// processes, what an administrator may have left in the directory, and its threads. The lock of
// another process is played by a descriptor of our own, which flock(2) treats the same.
#include "adapters/file_store/file_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/file_store/file_error.h"
#include "adapters/real_loop/real_loop.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

namespace fs = std::filesystem;

// MD5 of "a", "hello" and "".
constexpr std::string_view kMd5OfA = "0cc175b9c0f1b6a831c399e269772661";
constexpr std::string_view kMd5OfHello = "5d41402abc4b2a76b9719d911017c592";
constexpr std::string_view kMd5OfNothing = "d41d8cd98f00b204e9800998ecf8427e";

ObjectKey Key(std::string_view text) { return *ObjectKey::Parse(text); }

Status WithoutValue(const Result<ObjectVersion>& result) {
  if (!result) return Fail(result.error());
  return {};
}

unsigned Mode(const fs::path& path) {
  struct stat about{};
  EXPECT_EQ(::lstat(path.c_str(), &about), 0) << path;
  return about.st_mode & 0777U;
}

class FileBucketTest : public testing::Test {
 protected:
  void SetUp() override {
    auto bucket = FileBucket::Open(root().string(), FileBucket::Missing::kCreate);
    ASSERT_TRUE(bucket) << bucket.error().ToString();
    bucket_ = *std::move(bucket);
  }
  [[nodiscard]] fs::path root() const { return folder_.path() / "bucket"; }
  [[nodiscard]] fs::path locks() const { return folder_.path() / "bucket.locks"; }

  static FileBucket::Patience Patient(std::chrono::milliseconds length = std::chrono::seconds(30)) {
    return {.until = std::chrono::steady_clock::now() + length, .stop = {}};
  }
  Result<ObjectVersion> Create(std::string_view key, std::string bytes) {
    return bucket_->Put({.key = Key(key), .bytes = std::move(bytes), .condition = IfAbsent{}},
                        Patient());
  }
  Result<ObjectVersion> Update(std::string_view key, ObjectVersion from, std::string bytes) {
    return bucket_->Put(
        {.key = Key(key), .bytes = std::move(bytes), .condition = IfVersion{std::move(from)}},
        Patient());
  }
  std::vector<std::string> Listed(std::string_view prefix = "") {
    const auto page = bucket_->List({.prefix = std::string(prefix)});
    if (!page) return {page.error().ToString()};
    std::vector<std::string> keys;
    for (const ListedObject& object : page->objects) keys.push_back(object.key.text());
    return keys;
  }

  TempDir folder_;
  std::unique_ptr<FileBucket> bucket_;
};

TEST_F(FileBucketTest, AnObjectIsAFileAndItsVersionTheMd5OfItsBytes) {
  const auto version = Create("config/a.jsonc", "hello");
  ASSERT_TRUE(version) << version.error().ToString();
  EXPECT_EQ(version->text, kMd5OfHello);
  EXPECT_EQ(fs::file_size(root() / "config/a.jsonc"), 5U);
  EXPECT_EQ(Create("config/empty", "")->text, kMd5OfNothing);
  // Nothing is left beside them.
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(root() / "config")) files += entry.exists();
  EXPECT_EQ(files, 2U);
}

TEST_F(FileBucketTest, ModesAreOpenForReadingExceptForSecrets) {
  ASSERT_TRUE(Create("instance/a/b.json", "x"));
  ASSERT_TRUE(Create("secret/ca.key", "x"));
  ASSERT_TRUE(Create("prefix/secret/ca.key", "x"));
  ASSERT_TRUE(Create("secretive/x", "x"));
  EXPECT_EQ(Mode(root() / "instance"), 0755U);
  EXPECT_EQ(Mode(root() / "instance/a"), 0755U);
  EXPECT_EQ(Mode(root() / "instance/a/b.json"), 0644U);
  EXPECT_EQ(Mode(root() / "secret"), 0700U);
  EXPECT_EQ(Mode(root() / "secret/ca.key"), 0600U);
  EXPECT_EQ(Mode(root() / "prefix"), 0755U);
  EXPECT_EQ(Mode(root() / "prefix/secret"), 0700U);
  EXPECT_EQ(Mode(root() / "prefix/secret/ca.key"), 0600U);
  EXPECT_EQ(Mode(root() / "secretive/x"), 0644U);
  const auto version = bucket_->Get(Key("secret/ca.key"));
  ASSERT_TRUE(Update("secret/ca.key", version->version, "y"));
  EXPECT_EQ(Mode(root() / "secret/ca.key"), 0600U);
}

TEST_F(FileBucketTest, AChangeWaitsForTheLockOfItsKeyAndGivesUp) {
  const auto version = Create("a", "hello");
  ASSERT_TRUE(version) << version.error().ToString();
  ASSERT_TRUE(bucket_->PutUnconditionally(Key("a"), "hello", Patient()));
  const fs::path lock = locks() / (std::string(kMd5OfA) + ".lock");
  ASSERT_TRUE(fs::exists(lock));
  std::optional<FileDescriptor> theirs(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(theirs->number(), LOCK_EX), 0);
  const auto short_patience = Patient(std::chrono::milliseconds(20));
  const std::array<Status, 3> results = {
      WithoutValue(bucket_->Put({.key = Key("a"), .bytes = "x", .condition = IfVersion{*version}},
                                short_patience)),
      WithoutValue(bucket_->PutUnconditionally(Key("a"), "x", short_patience)),
      bucket_->Delete({.key = Key("a"), .version = {}}, short_patience)};
  for (const Status& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUnavailable) << result.error().ToString();
    EXPECT_EQ(result.error().outcome, Outcome::kNotDone);
  }
  // Reads and other keys do not wait.
  EXPECT_EQ(bucket_->Get(Key("a"))->bytes, "hello");
  EXPECT_TRUE(Create("b", "x"));

  std::latch waiting(1);
  std::thread waiter([&] {
    waiting.count_down();
    EXPECT_TRUE(Update("a", *version, "after"));
  });
  waiting.wait();
  theirs.reset();
  waiter.join();
  EXPECT_EQ(bucket_->Get(Key("a"))->bytes, "after");
}

TEST_F(FileBucketTest, TheLockGoesWithTheObjectAndNobodyHoldsALockWithoutAName) {
  ASSERT_TRUE(Create("a", "hello"));
  const fs::path lock = locks() / (std::string(kMd5OfA) + ".lock");
  // Somebody waits on a lock file that is removed meanwhile.
  const int file = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  std::optional<FileDescriptor> theirs(file);
  ASSERT_EQ(::flock(theirs->number(), LOCK_EX), 0);
  std::latch waiting(1);
  std::thread waiter([&] {
    waiting.count_down();
    EXPECT_TRUE(bucket_->PutUnconditionally(Key("a"), "after", Patient()));
  });
  waiting.wait();
  fs::remove(lock);
  theirs.reset();
  waiter.join();
  EXPECT_TRUE(fs::exists(lock));
  ASSERT_TRUE(bucket_->Delete({.key = Key("a"), .version = {}}, Patient()));
  EXPECT_FALSE(fs::exists(lock));
}

TEST_F(FileBucketTest, TemporariesAndForeignFilesAreNotListed) {
  ASSERT_TRUE(Create("folder/object", "x"));
  for (const std::string name : {".nstance-put-1", ".nstance-create-1", ".nstance-update-1"}) {
    (void)folder_.Write("bucket/folder/" + name, "half");
    (void)folder_.Write("bucket/" + name, "half");
  }
  (void)folder_.Write("bucket/folder/with blank", "x");
  (void)folder_.Write("bucket/folder/\xc3\xa4", "x");
  ASSERT_EQ(::mkfifo((root() / "folder/pipe").c_str(), 0600), 0);
  fs::create_directory(root() / "empty");
  EXPECT_EQ(Listed(), std::vector<std::string>{"folder/object"});
  const auto pipe = bucket_->Get(Key("folder/pipe"));
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().code, Code::kNotFound);
}

TEST_F(FileBucketTest, AListingRemovesTemporariesOlderThanAnHour) {
  ASSERT_TRUE(Create("folder/object", "x"));
  const std::vector<std::string> names = {".nstance-put-1", ".nstance-create-1",
                                          ".nstance-update-1", ".nstance-other"};
  const auto age = [&](const std::string& name, int seconds) {
    const std::string path = folder_.Write("bucket/folder/" + name, "half");
    const timespec at{.tv_sec = std::time(nullptr) - seconds, .tv_nsec = 0};
    const std::array<timespec, 2> times = {at, at};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  };
  for (const std::string& name : names) age(name, 3'500);
  EXPECT_EQ(Listed("folder/"), std::vector<std::string>{"folder/object"});
  for (const std::string& name : names) EXPECT_TRUE(fs::exists(root() / "folder" / name)) << name;
  for (const std::string& name : names) age(name, 3'700);
  EXPECT_EQ(Listed("folder/"), std::vector<std::string>{"folder/object"});
  for (const std::string& name : names) {
    EXPECT_EQ(fs::exists(root() / "folder" / name), name == ".nstance-other") << name;
  }
}

TEST_F(FileBucketTest, KeysThatLookLikeTemporariesAreRefused) {
  for (const std::string key : {".nstance-put-1", "a/.nstance-create-1", ".nstance-x/a"}) {
    const auto created = Create(key, "x");
    ASSERT_FALSE(created) << key;
    EXPECT_EQ(created.error().code, Code::kInvalidArgument);
    const auto read = bucket_->Get(Key(key));
    ASSERT_FALSE(read) << key;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  }
}

TEST_F(FileBucketTest, SymbolicLinksAreNotFollowedNorListed) {
  const std::string outside = folder_.Write("outside/file", "secret");
  ASSERT_TRUE(Create("folder/object", "x"));
  fs::create_directory_symlink(folder_.path() / "outside", root() / "linked");
  fs::create_symlink(outside, root() / "folder/link");
  for (const std::string key : {"linked/file", "folder/link"}) {
    const auto read = bucket_->Get(Key(key));
    ASSERT_FALSE(read) << key;
    EXPECT_EQ(read.error().code, Code::kFailedPrecondition) << read.error().ToString();
    const auto updated = Update(key, ObjectVersion{"x"}, "y");
    ASSERT_FALSE(updated) << key;
    EXPECT_EQ(updated.error().code, Code::kFailedPrecondition) << updated.error().ToString();
  }
  const auto created = Create("linked/new", "x");
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Code::kFailedPrecondition) << created.error().ToString();
  EXPECT_FALSE(fs::exists(folder_.path() / "outside/new"));
  EXPECT_FALSE(bucket_->Delete({.key = Key("linked/file"), .version = {}}, Patient()));
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_EQ(Listed(), std::vector<std::string>{"folder/object"});
}

TEST_F(FileBucketTest, AKeyCannotBeObjectAndFolderAtOnce) {
  ASSERT_TRUE(Create("a/b", "x"));
  ASSERT_TRUE(Create("c", "x"));
  const std::array<Result<ObjectVersion>, 4> results = {
      Create("a", "y"), Create("c/d", "y"), bucket_->PutUnconditionally(Key("a"), "y", Patient()),
      bucket_->PutUnconditionally(Key("c/d"), "y", Patient())};
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kFailedPrecondition) << result.error().ToString();
    EXPECT_EQ(result.error().outcome, Outcome::kNotDone);
  }
  for (const std::string key : {"a", "c/d"}) {
    EXPECT_EQ(bucket_->Get(Key(key)).error().code, Code::kNotFound) << key;
    EXPECT_TRUE(bucket_->Delete({.key = Key(key), .version = {}}, Patient())) << key;
  }
  EXPECT_EQ(Listed(), (std::vector<std::string>{"a/b", "c"}));
}

TEST_F(FileBucketTest, AComponentThatIsTooLongForTheFileSystemIsRefused) {
  const auto created = Create(std::string(300, 'x'), "x");
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Code::kInvalidArgument) << created.error().ToString();
}

TEST_F(FileBucketTest, WhenTheBucketIsRemovedNothingIsSaidToBeAbsent) {
  ASSERT_TRUE(Create("folder/a", "x"));
  fs::remove_all(root());
  const auto read = bucket_->Get(Key("folder/a"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kUnavailable) << read.error().ToString();
  const auto page = bucket_->List({.prefix = ""});
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::kUnavailable) << page.error().ToString();
  const auto created = Create("folder/b", "x");
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Code::kUnavailable) << created.error().ToString();
  EXPECT_EQ(created.error().outcome, Outcome::kNotDone);
  const auto deleted = bucket_->Delete({.key = Key("folder/a"), .version = {}}, Patient());
  EXPECT_FALSE(deleted);
}

TEST_F(FileBucketTest, AMissingDirectoryIsRefusedUnlessItMayBeMade) {
  const std::string path = (folder_.path() / "other").string();
  const auto refused = FileBucket::Open(path, FileBucket::Missing::kRefuse);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(FileBucket::Open(path + "/", FileBucket::Missing::kCreate));
  EXPECT_TRUE(fs::exists(path + ".locks"));
  EXPECT_FALSE(FileBucket::Open("", FileBucket::Missing::kCreate));
  EXPECT_FALSE(FileBucket::Open("/", FileBucket::Missing::kCreate));
}

TEST_F(FileBucketTest, AFileAboveTheLimitIsNotRead) {
  (void)folder_.Write("bucket/huge", "x");
  fs::resize_file(root() / "huge", ObjectStore::kMaxObjectBytes + 1);
  const auto read = bucket_->Get(Key("huge"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kResourceExhausted);
  fs::resize_file(root() / "huge", ObjectStore::kMaxObjectBytes);
  EXPECT_TRUE(bucket_->Get(Key("huge")));
}

TEST_F(FileBucketTest, ADiskThatRefusesTheBytesLeavesTheObjectAsItWas) {
  const auto version = Create("a", "hello");
  ASSERT_TRUE(version) << version.error().ToString();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1'000, .rlim_max = before.rlim_max};
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto updated = Update("a", *version, std::string(5'000, 'x'));
  const auto created = Create("b", std::string(5'000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old);
  for (const auto& result : {updated, created}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUnavailable) << result.error().ToString();
    EXPECT_EQ(result.error().outcome, Outcome::kNotDone);
  }
  EXPECT_EQ(bucket_->Get(Key("a"))->bytes, "hello");
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(root())) files += entry.exists();
  EXPECT_EQ(files, 1U) << "a temporary was left";
}

TEST(FileErrorTest, SaysWhoMayActAndWhatToDo) {
  struct Row {
    int error_number;
    Code code;
    std::string_view advice;
  };
  for (const Row& row : std::vector<Row>{
           {ENOSPC, Code::kUnavailable, "free some space"},
           {EDQUOT, Code::kUnavailable, "quota"},
           {EACCES, Code::kUnavailable, "must own the bucket's directory"},
           {EROFS, Code::kUnavailable, "read-only"},
           {EPERM, Code::kUnavailable, "hard links"},
           {EOPNOTSUPP, Code::kUnavailable, "hard links"},
           {EMFILE, Code::kUnavailable, "open files"},
           {ENOLCK, Code::kUnavailable, "use a local one"},
           {EIO, Code::kUnavailable, "error"},
           {ELOOP, Code::kFailedPrecondition, "follows none"},
           {ENAMETOOLONG, Code::kInvalidArgument, "255"},
       }) {
    const Error error = FileError(row.error_number, "writing a");
    EXPECT_EQ(error.code, row.code) << error.ToString();
    EXPECT_EQ(error.outcome, Outcome::kNotDone);
    EXPECT_TRUE(error.message.starts_with("writing a: ")) << error.message;
    EXPECT_NE(error.message.find(row.advice), std::string::npos) << error.message;
  }
  EXPECT_TRUE(SurelyNotDone(ENOSPC));
  EXPECT_TRUE(SurelyNotDone(EEXIST));
  EXPECT_FALSE(SurelyNotDone(EIO));
  EXPECT_FALSE(SurelyNotDone(ETIMEDOUT));
}

class FileStoreTest : public testing::Test {
 protected:
  void Open(Duration deadline, WorkerPool::Options pool) {
    auto store = FileStore::Open(loop_, {.directory = (folder_.path() / "bucket").string(),
                                         .missing = FileBucket::Missing::kCreate,
                                         .deadline = deadline,
                                         .pool = pool});
    ASSERT_TRUE(store) << store.error().ToString();
    store_ = *std::move(store);
  }
  // The lock of "a", held by somebody else.
  FileDescriptor HoldLock() {
    const fs::path lock = folder_.path() / "bucket.locks" / (std::string(kMd5OfA) + ".lock");
    FileDescriptor theirs(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(::flock(theirs.number(), LOCK_EX), 0);
    return theirs;
  }
  Pending Overwrite(std::vector<Status>& answers) {
    return store_->PutUnconditionally(Key("a"), "x", [&](auto result) {
      answers.push_back(WithoutValue(result));
      loop_.Stop();
    });
  }

  TempDir folder_;
  RealLoop loop_;
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileStoreTest, AFullQueueIsAnErrorWithoutEffect) {
  Open(Duration::Seconds(60), {.threads = 1, .queue = 2});
  std::optional<FileDescriptor> theirs = HoldLock();
  std::vector<Status> answers;
  std::vector<Pending> pendings;
  // One runs, two wait. Whether the thread has taken the first already is a matter of chance, so
  // that of five one or two are too many for sure.
  for (int i = 0; i < 5; ++i) pendings.push_back(Overwrite(answers));
  EXPECT_TRUE(answers.empty());
  while (answers.size() < 2) loop_.Run();
  for (const Status& answer : answers) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kUnavailable);
    EXPECT_EQ(answer.error().outcome, Outcome::kNotDone);
  }
  theirs.reset();
  while (answers.size() < 5) loop_.Run();
  EXPECT_TRUE(answers.back());
}

TEST_F(FileStoreTest, ACallThatHasNotBegunAtItsDeadlineIsNotDone) {
  Open(Duration::Milliseconds(5), {.threads = 0, .queue = 20});
  std::optional<Status> answer;
  const Pending put = store_->Put({.key = Key("a"), .bytes = "x", .condition = IfAbsent{}},
                                  [&](const auto& result) {
                                    answer = WithoutValue(result);
                                    loop_.Stop();
                                  });
  loop_.Run();
  ASSERT_FALSE(answer->has_value());
  EXPECT_EQ(answer->error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(answer->error().outcome, Outcome::kNotDone);
}

TEST_F(FileStoreTest, WhatIsSaidAtTheDeadlineIsTrue) {
  // One thread cannot write and sync all of this in the time, unless the loop is slower still.
  Open(Duration::Milliseconds(5), {.threads = 1, .queue = 20});
  constexpr int kCalls = 12;
  std::vector<std::optional<Status>> answers(kCalls);
  std::vector<Pending> pendings;
  int answered = 0;
  for (std::size_t i = 0; i < kCalls; ++i) {
    pendings.push_back(store_->Put({.key = Key(fmt::format("key/{}", i)),
                                    .bytes = std::string(4'000'000, 'x'),
                                    .condition = IfAbsent{}},
                                   [&, i](const auto& result) {
                                     answers[i] = WithoutValue(result);
                                     if (++answered == kCalls) loop_.Stop();
                                   }));
  }
  loop_.Run();
  store_.reset();  // What has begun has ended now.
  for (std::size_t i = 0; i < kCalls; ++i) {
    const bool there = fs::exists(folder_.path() / "bucket/key" / std::to_string(i));
    if (answers[i]->has_value()) {
      EXPECT_TRUE(there) << i;
      continue;
    }
    const Error& error = answers[i]->error();
    EXPECT_EQ(error.code, Code::kDeadlineExceeded) << error.ToString();
    if (error.outcome == Outcome::kNotDone) {
      EXPECT_FALSE(there) << i;
    }
  }
}

TEST_F(FileStoreTest, DestroyingItDropsAnswersAndDoesNotWaitForALock) {
  Open(Duration::Hours(1), {.threads = 2, .queue = 10});
  const FileDescriptor theirs = HoldLock();
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  bool ran = false;
  std::vector<Pending> pendings;
  for (int i = 0; i < 6; ++i) {
    pendings.push_back(
        store_->PutUnconditionally(Key("a"), "x", [&, token](const auto&) { ran = true; }));
  }
  // Also one whose answer may be posted already.
  pendings.push_back(store_->Get(Key("b"), [&, token](const auto&) { ran = true; }));
  token.reset();
  store_.reset();
  EXPECT_TRUE(watch.expired());
  const Pending end = loop_.CallAfter(Duration::Milliseconds(5), [&] { loop_.Stop(); });
  loop_.Run();
  EXPECT_FALSE(ran);
  pendings.clear();  // Harmless after the store is gone.
}

}  // namespace
}  // namespace nstance::test
