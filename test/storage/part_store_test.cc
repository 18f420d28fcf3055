// Parts of stores and stores that come late, beyond what the contract suite says of them.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/puidv7.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "storage/late_store.h"
#include "storage/nstance_v2_store.h"
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

// --- The names of another layout -----------------------------------------------------------------

class OtherLayoutTest : public PartStoreTest {
 public:
  // All pages of a listing: the keys, in the order in which they came.
  std::vector<std::string> List(const std::string& prefix, std::size_t page_size) {
    std::vector<std::string> keys;
    std::string token;
    do {
      std::optional<Result<ListPage>> page;
      const Pending call =
          named.List({.prefix = prefix, .page_token = token, .page_size = page_size},
                     [&](Result<ListPage> got) { page.emplace(std::move(got)); });
      EXPECT_TRUE(scheduler.RunUntilTrue([&] { return page.has_value(); }, Duration::Minutes(1)));
      EXPECT_LE((*page)->objects.size(), page_size);
      for (const ListedObject& object : (*page)->objects) keys.push_back(object.key.text());
      token = (*page)->next_page_token;
    } while (!token.empty());
    EXPECT_TRUE(std::ranges::is_sorted(keys)) << prefix;
    return keys;
  }
  void Set(const std::string& key) { bucket.SetByHand(*ObjectKey::Parse(key), key); }

  NstanceV2Store named{loop, whole, NstanceV2Names({.shard = *ShardId::Parse("a")})};
};

TEST_F(OtherLayoutTest, ListingsShowOurNamesInTheirOrderWhateverThePages) {
  Puidv7Generator ids;
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) {
    // Kinds that sort otherwise than times.
    const Puidv7 id = ids.Next(i % 2 == 0 ? "wrk" : "abc", Timestamp::FromUnix(1'700'000'000 + i),
                               Puidv7Generator::Entropy{});
    const std::string tenant = i % 3 == 0 ? "prod" : "dev";
    Set("shard/a/instance/" + tenant + "." + id.StorageKey() + ".json");
    records.push_back("instance/a/" + tenant + "." + id.text() + ".json");
  }
  Set("shard/a/instance/garbage");
  records.emplace_back("instance/a/garbage");
  Set("shard/b/instance/prod.01970a1c-e31e-7422-9cd5-e9651d11cc97-knc.json");
  Set("shard/a/config.jsonc");
  Set("shard/b/config.jsonc");
  Set("cluster/operator/prod.0.json");
  Set("cluster/leader.json");
  Set("elsewhere/x");
  std::ranges::sort(records);
  for (const std::size_t page_size : {std::size_t{1}, std::size_t{7}, std::size_t{1'000}}) {
    EXPECT_EQ(List("instance/a/", page_size), records);
    EXPECT_EQ(List("config/", page_size),
              (std::vector<std::string>{"config/a.jsonc", "config/b.jsonc"}));
    EXPECT_EQ(List("operator/", page_size), std::vector<std::string>{"operator/prod.0.json"});
    EXPECT_EQ(List("leader/", page_size), std::vector<std::string>{"leader/cluster.json"});
    EXPECT_EQ(List("", page_size).size(), records.size() + 5);
  }
  const auto prod = List("instance/a/prod.", 5);
  EXPECT_EQ(prod.size(), 14U);
}

TEST_F(OtherLayoutTest, AListingWhoseRestWasDroppedGoesOnBehindTheLastKey) {
  for (int i = 0; i < 6; ++i) Set("shard/s" + std::to_string(i) + "/config.jsonc");
  const auto page = [&](const std::string& token) {
    std::optional<ListPage> got;
    const Pending call = named.List({.prefix = "config/", .page_token = token, .page_size = 2},
                                    [&](Result<ListPage> answer) { got = *std::move(answer); });
    EXPECT_TRUE(scheduler.RunUntilTrue([&] { return got.has_value(); }, Duration::Minutes(1)));
    return *got;
  };
  const ListPage first = page("");
  for (int i = 0; i < 10; ++i) (void)page("");  // Others begin and never end.
  const ListPage second = page(first.next_page_token);
  ASSERT_EQ(second.objects.size(), 2U);
  EXPECT_EQ(second.objects[0].key.text(), "config/s2.jsonc");
}

TEST_F(OtherLayoutTest, ADroppedListingAnswersNobody) {
  Set("shard/a/config.jsonc");
  bool told = false;
  {
    const Pending call = named.List({.prefix = "config/"}, [&](const auto&) { told = true; });
  }
  scheduler.RunFor(Duration::Minutes(1));
  EXPECT_FALSE(told);
}

// --- A store that comes late ---------------------------------------------------------------------

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
