// Parts of stores and stores that come late, beyond what the contract suite says of them.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "storage/late_store.h"
#include "storage/prefixed_store.h"

namespace nstance {
namespace {

const ObjectKey kKey = *ObjectKey::Parse("ca.crt");

class PartStoreTest : public testing::Test {
 public:
  Result<Object> Get(ObjectStore& store, const ObjectKey& key) {
    std::optional<Result<Object>> answer;
    const Pending call =
        store.Get(key, [&](Result<Object> got) { answer.emplace(std::move(got)); });
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return answer.has_value(); }, Duration::Seconds(10)));
    return answer.value_or(Fail(Internal("no answer")));
  }

  sim::SimScheduler scheduler{1};
  sim::SimBucket bucket{scheduler, {}};
  sim::SimLoop loop{scheduler, Timestamp()};
  sim::SimObjectStore whole{bucket, loop, {.process = "p"}};
};

TEST_F(PartStoreTest, APrefixIsInFrontOfEveryKey) {
  bucket.SetByHand(*ObjectKey::Parse("one/ca.crt"), "mine");
  bucket.SetByHand(kKey, "another's");
  PrefixedStore part(loop, whole, "one/");
  EXPECT_EQ(Get(part, kKey)->bytes, "mine");
  std::optional<ListPage> page;
  const Pending call = part.List({.prefix = "c"}, [&](Result<ListPage> got) { page = *got; });
  ASSERT_TRUE(scheduler.RunUntilTrue([&] { return page.has_value(); }, Duration::Seconds(10)));
  ASSERT_EQ(page->objects.size(), 1U);
  EXPECT_EQ(page->objects[0].key, kKey);
}

TEST_F(PartStoreTest, APrefixEndsWithASlashAndMustMakeKeys) {
  EXPECT_EQ(CheckStorePrefix(""), "");
  EXPECT_EQ(CheckStorePrefix("a/b"), "a/b/");
  EXPECT_EQ(CheckStorePrefix("a/"), "a/");
  for (const std::string bad : {"/", "/a", "a//b", "../a"}) {
    const auto checked = CheckStorePrefix(bad);
    ASSERT_FALSE(checked.has_value()) << bad;
    EXPECT_EQ(checked.error().code, Code::kInvalidArgument) << bad;
  }
}

TEST_F(PartStoreTest, AKeyThatIsTooLongWithThePrefixIsRefused) {
  PrefixedStore part(loop, whole, std::string(900, 'a') + "/");
  const auto key = ObjectKey::Parse(std::string(400, 'b'));
  ASSERT_TRUE(key.has_value());
  const auto got = Get(part, *key);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, Code::kInvalidArgument);
}

TEST_F(PartStoreTest, AStoreThatIsNotThereIsTriedOnceASecond) {
  bucket.SetByHand(kKey, "bytes");
  int tries = 0;
  bool there = false;
  LateStore late(loop, [&]() -> Result<std::unique_ptr<ObjectStore>> {
    ++tries;
    if (!there) return Fail(Unavailable("no such folder"));
    return std::make_unique<sim::SimObjectStore>(bucket, loop,
                                                 sim::SimObjectStore::Options{.process = "late"});
  });
  for (int i = 0; i < 5; ++i) {
    const auto got = Get(late, kKey);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error(), Unavailable("no such folder"));
  }
  EXPECT_EQ(tries, 1);
  scheduler.RunFor(Duration::Seconds(1));
  there = true;
  EXPECT_EQ(Get(late, kKey)->bytes, "bytes");
  EXPECT_EQ(Get(late, kKey)->bytes, "bytes");
  EXPECT_EQ(tries, 2);
}

}  // namespace
}  // namespace nstance
