// Several real processes write to one bucket and are killed with SIGKILL at random points, again
// and again. Their journals (journal.h) tell what was acknowledged; the bucket must hold exactly
// that, or more only where a write was under way.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/file_store/file_bucket.h"
#include "base/check.h"
#include "base/prng.h"
#include "test/adapters/file_store/journal.h"
#include "test/support/temp_dir.h"

namespace nstance::test {
namespace {

constexpr int kKills = 120;
constexpr std::size_t kProcesses = 4;
constexpr int kPatienceMilliseconds = 60'000;

// A writer of its own process, and what it has said.
class Child final {
 public:
  Child(const std::string& directory, std::string name, std::uint64_t seed)
      : name_(std::move(name)) {
    std::array<int, 2> ends{};
    CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "errno {}", errno);
    out_ = FileDescriptor(ends[0]);
    const FileDescriptor theirs(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.number(), STDOUT_FILENO);
    std::string program = NSTANCE_WRITER_PROGRAM;
    std::string folder = directory;
    std::string number = std::to_string(seed);
    std::array<char*, 5> arguments = {program.data(), folder.data(), name_.data(), number.data(),
                                      nullptr};
    CHECK(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0,
          "cannot start {}", program);
    posix_spawn_file_actions_destroy(&actions);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { Kill(); }

  [[nodiscard]] int out() const { return out_.number(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& journal() const { return journal_; }

  // Reads what is there; false at the end.
  bool Read() {
    std::array<char, 65'536> buffer;
    const ssize_t count = ::read(out(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    journal_.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }

  // Kills it and reads the rest. True when it was still alive.
  bool Kill() {
    if (pid_ < 0) return false;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0) CHECK(errno == EINTR, "errno {}", errno);
    pid_ = -1;
    while (Read()) continue;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

 private:
  std::string name_;
  pid_t pid_ = -1;
  FileDescriptor out_;
  std::string journal_;
};

// What all journals together say.
struct Acknowledged {
  std::set<std::uint64_t> increments;
  std::map<std::string, std::set<std::string>> tried;     // Key: ids.
  std::map<std::string, std::set<std::string>> replaced;  // Key: versions that an acknowledged
                                                          // write has replaced.
  std::map<std::string, int> creates;
  std::map<std::string, int> deletes;
  int kills = 0;
  int writes = 0;
};

class KillTest : public testing::Test {
 protected:
  void SetUp() override {
    auto bucket = FileBucket::Open(directory(), FileBucket::Missing::kCreate);
    ASSERT_TRUE(bucket) << bucket.error().ToString();
    bucket_ = *std::move(bucket);
  }
  [[nodiscard]] std::string directory() const { return (folder_.path() / "bucket").string(); }

  std::unique_ptr<Child> Spawn() {
    ++spawned_;
    return std::make_unique<Child>(directory(), fmt::format("w{}", spawned_), spawned_);
  }

  // Lets all run until one has written a few lines more, and a little longer.
  void RunALittle(std::vector<std::unique_ptr<Child>>& children, std::size_t victim) {
    const std::size_t enough = children[victim]->journal().size() + 1 + prng_.Below(250);
    while (children[victim]->journal().size() < enough) {
      ASSERT_TRUE(PollOnce(children, kPatienceMilliseconds)) << "nothing is written any more";
    }
    PollOnce(children, static_cast<int>(prng_.Below(3)));
  }

  static bool PollOnce(std::vector<std::unique_ptr<Child>>& children, int milliseconds) {
    std::vector<pollfd> waiting;
    for (const auto& child : children) {
      waiting.push_back({.fd = child->out(), .events = POLLIN, .revents = 0});
    }
    if (::poll(waiting.data(), waiting.size(), milliseconds) <= 0) return false;
    bool read = false;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (waiting[i].revents != 0) read = children[i]->Read() || read;
    }
    return read;
  }

  // The id of what is there, empty for nothing; a torn content fails the test.
  std::string IdOf(const ObjectKey& key) {
    const auto object = bucket_->Get(key);
    if (!object) {
      EXPECT_EQ(object.error().code, Code::kNotFound) << object.error().ToString();
      return {};
    }
    const std::string id = ContentId(object->bytes);
    EXPECT_NE(id, "") << key.text() << " is torn: " << object->bytes.size() << " bytes";
    return id;
  }

  void CheckListing() {
    const auto page = bucket_->List({.prefix = "", .page_size = 10'000});
    ASSERT_TRUE(page) << page.error().ToString();
    for (const ListedObject& object : page->objects) {
      EXPECT_EQ(object.key.text().find(".nstance-"), std::string::npos) << object.key.text();
      IdOf(object.key);
    }
  }

  // Adds a dead writer's journal, and compares the keys that only it has written.
  void Settle(const Child& child) {
    std::map<std::string, std::string> own;      // What is acknowledged; empty: deleted.
    std::map<std::string, std::string> pending;  // What was under way.
    std::istringstream lines(child.journal());
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      std::istringstream words(line);
      std::string what;
      std::string key;
      std::string id;
      std::string from;
      words >> what >> key >> id >> from;
      if (what == "inc") {
        EXPECT_TRUE(all_.increments.insert(CounterValue(key)).second)
            << "two writers were both told that they had counted to " << key;
      } else if (what == "try") {
        pending[key] = id;
        all_.tried[key].insert(id);
      } else if (what == "not") {
        pending.erase(key);
      } else if (what == "ack") {
        pending.erase(key);
        own[key] = id == "-" ? "" : id;
        Note(key, id, from);
      } else {
        ADD_FAILURE() << child.name() << ": " << line;
      }
    }
    CheckOwn(child, own, pending);
  }

  void Note(const std::string& key, const std::string& id, const std::string& from) {
    ++all_.writes;
    if (id == "-") {
      ++all_.deletes[key];
    } else if (from == "-") {
      ++all_.creates[key];
    } else {
      EXPECT_TRUE(all_.replaced[key].insert(from).second)
          << key << ": two acknowledged updates have replaced version " << from;
    }
  }

  void CheckOwn(const Child& child, const std::map<std::string, std::string>& own,
                const std::map<std::string, std::string>& pending) {
    for (int i = 0; i < 3; ++i) {
      const std::string key = fmt::format("own/{}/{}", child.name(), i);
      const auto acknowledged = own.find(key);
      const std::string expected = acknowledged == own.end() ? "" : acknowledged->second;
      const std::string id = IdOf(*ObjectKey::Parse(key));
      if (id == expected) continue;
      const auto under_way = pending.find(key);
      ASSERT_NE(under_way, pending.end())
          << key << " holds " << id << " instead of the acknowledged " << expected;
      EXPECT_EQ(id, under_way->second == "-" ? "" : under_way->second) << key;
    }
  }

  void CheckShared() {
    const std::uint64_t value = CounterValue(IdOf(*ObjectKey::Parse(kCounterKey)));
    EXPECT_GE(value, all_.increments.size());
    EXPECT_LE(value, all_.increments.size() + static_cast<std::size_t>(all_.kills));
    if (!all_.increments.empty()) {
      EXPECT_GE(value, *all_.increments.rbegin());
    }
    for (int i = 0; i < 3; ++i) {
      const std::string key = fmt::format("shared/{}", i);
      const std::string id = IdOf(*ObjectKey::Parse(key));
      EXPECT_TRUE(id.empty() || all_.tried[key].contains(id)) << key << " holds " << id;
      EXPECT_LE(all_.creates[key], all_.deletes[key] + all_.kills + 1) << key;
    }
  }

  TempDir folder_;
  std::unique_ptr<FileBucket> bucket_;
  Prng prng_{20'260'101};
  std::uint64_t spawned_ = 0;
  Acknowledged all_;
};

TEST_F(KillTest, NothingAcknowledgedIsLostAndNothingIsTornWhenWritersAreKilled) {
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t i = 0; i < kProcesses; ++i) children.push_back(Spawn());
  while (all_.kills < kKills && !HasFailure()) {
    const auto victim = static_cast<std::size_t>(prng_.Below(children.size()));
    ASSERT_NO_FATAL_FAILURE(RunALittle(children, victim));
    EXPECT_TRUE(children[victim]->Kill()) << children[victim]->journal();
    ++all_.kills;
    Settle(*children[victim]);
    if (all_.kills % 10 == 0) CheckListing();
    children[victim] = Spawn();
  }
  for (const auto& child : children) {
    EXPECT_TRUE(child->Kill());
    ++all_.kills;
    Settle(*child);
  }
  CheckListing();
  CheckShared();
  EXPECT_GT(all_.increments.size(), 100U);
  RecordProperty("kills", all_.kills);
  RecordProperty("acknowledged_writes", all_.writes);
  fmt::print("{} kills, {} acknowledged writes, counter at {}\n", all_.kills, all_.writes,
             CounterValue(IdOf(*ObjectKey::Parse(kCounterKey))));
}

}  // namespace
}  // namespace nstance::test
