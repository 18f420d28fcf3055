// The mailbox with a loop that only collects what is posted to it.
#include "adapters/http/mailbox.h"

#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nstance::http {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class CollectingLoop final : public Loop {
 public:
  [[nodiscard]] Instant Now() const override { return {}; }
  [[nodiscard]] Timestamp WallNow() const override { return {}; }
  void Post(Task task) override { posted.push_back(std::move(task)); }
  Pending CallAt(Instant, Task) override { return {}; }
  Pending WatchClock(Task) override { return {}; }

  std::vector<Task> posted;
};

class MailboxTest : public testing::Test {
 public:
  MailboxTest() {
    mailbox.OnMail([this] {
      for (const int value : mailbox.Take()) taken.push_back(value);
    });
  }

  CollectingLoop loop;
  Mailbox<int> mailbox{loop};
  std::vector<int> taken;
};

TEST_F(MailboxTest, TheReaderIsToldOnceAndTakesAllInOrder) {
  for (const int value : {1, 2, 3}) mailbox.Put(value);
  ASSERT_THAT(loop.posted, SizeIs(1));
  loop.posted[0]();
  EXPECT_THAT(taken, ElementsAre(1, 2, 3));
}

TEST_F(MailboxTest, TheReaderIsToldAgainAfterItHasLooked) {
  mailbox.Put(1);
  loop.posted[0]();
  mailbox.Put(2);
  ASSERT_THAT(loop.posted, SizeIs(2));
  loop.posted[1]();
  EXPECT_THAT(taken, ElementsAre(1, 2));
}

TEST_F(MailboxTest, NothingIsPostedOrTakenOnceItIsClosed) {
  mailbox.Put(1);
  mailbox.Close();
  mailbox.Put(2);
  EXPECT_THAT(loop.posted, SizeIs(1));
  loop.posted[0]();
  EXPECT_THAT(taken, testing::IsEmpty());
  mailbox.Put(3);
  EXPECT_THAT(loop.posted, SizeIs(1));
}

TEST_F(MailboxTest, ValuesOfSeveralThreadsAllArrive) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int i = 0; i < 500; ++i) mailbox.Put(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(loop.posted, SizeIs(1));
  loop.posted[0]();
  EXPECT_THAT(taken, SizeIs(2000));
}

}  // namespace
}  // namespace nstance::http
