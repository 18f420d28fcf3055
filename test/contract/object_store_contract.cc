#include "test/contract/object_store_contract.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "adapters/secure_random/system_random.h"
#include "base/text.h"
#include "storage/settled_put.h"
#include "storage/store_probe.h"

namespace nstance::test {

bool RunLoopUntil(RealLoop& loop, const std::function<bool()>& done) {
  bool held = false;
  const Pending limit = loop.CallAfter(Duration::Seconds(60), [&] { loop.Stop(); });
  Pending next;
  std::function<void()> look = [&] {
    held = done();
    if (held) return loop.Stop();
    next = loop.CallAfter(Duration::Microseconds(200), [&] { look(); });
  };
  next = loop.CallAfter(Duration(), [&] { look(); });
  loop.Run();
  return held;
}

void ObjectStoreContractTest::SetUp() {
  auto world = GetParam().make();
  if (!world) GTEST_SKIP() << world.error().message;
  world_ = *std::move(world);
  SystemRandom random;
  prefix_ = "contract/" + HexEncode(random.Array<8>()) + "/";
}

ObjectKey ObjectStoreContractTest::Key(std::string_view name) const {
  auto key = ObjectKey::Parse(prefix_ + std::string(name));
  EXPECT_TRUE(key) << name;
  return *std::move(key);
}

Result<Object> ObjectStoreContractTest::Get(const ObjectKey& key, std::size_t way) {
  return Await<Object>([&](auto done) { return store(way).Get(key, std::move(done)); });
}

Result<ObjectHead> ObjectStoreContractTest::Head(const ObjectKey& key) {
  return Await<ObjectHead>([&](auto done) { return store().Head(key, std::move(done)); });
}

Result<ObjectVersion> ObjectStoreContractTest::Put(PutRequest request, std::size_t way) {
  return Await<ObjectVersion>(
      [&](auto done) { return store(way).Put(std::move(request), std::move(done)); });
}

Result<ObjectVersion> ObjectStoreContractTest::Create(const ObjectKey& key, std::string bytes) {
  return Put({.key = key, .bytes = std::move(bytes), .condition = IfAbsent{}});
}

Result<ObjectVersion> ObjectStoreContractTest::Overwrite(const ObjectKey& key, std::string bytes) {
  return Await<ObjectVersion>([&](auto done) {
    return store().PutUnconditionally(key, std::move(bytes), std::move(done));
  });
}

Status ObjectStoreContractTest::Delete(const ObjectKey& key, std::optional<ObjectVersion> version) {
  return Await<void>([&](auto done) {
    return store().Delete({.key = key, .version = std::move(version)}, std::move(done));
  });
}

Result<ListPage> ObjectStoreContractTest::List(ListRequest request) {
  return Await<ListPage>(
      [&](auto done) { return store().List(std::move(request), std::move(done)); });
}

std::vector<std::string> ObjectStoreContractTest::ListAll(std::string_view prefix,
                                                          std::size_t page_size) {
  std::vector<std::string> keys;
  std::string token;
  do {
    const auto page = List(
        {.prefix = prefix_ + std::string(prefix), .page_token = token, .page_size = page_size});
    if (!page) return {page.error().ToString()};
    EXPECT_LE(page->objects.size(), page_size);
    for (const ListedObject& object : page->objects) {
      keys.push_back(object.key.text().substr(prefix_.size()));
    }
    token = page->next_page_token;
  } while (!token.empty() && keys.size() < 10'000);
  return keys;
}

std::vector<Result<ObjectVersion>> ObjectStoreContractTest::PutAtOnce(
    std::vector<PutRequest> requests) {
  std::vector<std::optional<Result<ObjectVersion>>> answers(requests.size());
  std::vector<Pending> pendings;
  std::size_t answered = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    pendings.push_back(store(i % ways()).Put(std::move(requests[i]), [&, i](auto result) {
      answers[i] = std::move(result);
      ++answered;
    }));
  }
  EXPECT_TRUE(RunUntil([&] { return answered == answers.size(); }));
  std::vector<Result<ObjectVersion>> results;
  for (auto& answer : answers) {
    results.push_back(answer ? *std::move(answer) : Fail(Internal("no answer")));
  }
  return results;
}

namespace {

constexpr int kWriters = 32;

std::vector<PutRequest> Rivals(const ObjectKey& key, const PutCondition& condition) {
  std::vector<PutRequest> requests;
  for (int i = 0; i < kWriters; ++i) {
    requests.push_back({.key = key, .bytes = fmt::format("writer {}", i), .condition = condition});
  }
  return requests;
}

// The bytes of the one writer who was told that it won. Losers may have been told "conflict" or, by
// stores that answer a lost race with an error, "maybe done".
std::string OnlyWinner(const std::vector<Result<ObjectVersion>>& answers) {
  std::string winner = "nobody";
  int winners = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]) {
      ++winners;
      winner = fmt::format("writer {}", i);
      continue;
    }
    const Error& error = answers[i].error();
    EXPECT_TRUE(error.code == Code::kAborted || error.outcome == Outcome::kMaybeDone)
        << error.ToString();
  }
  EXPECT_EQ(winners, 1);
  return winner;
}

TEST_P(ObjectStoreContractTest, WhatIsNotThereIsNotFound) {
  const auto get = Get(Key("nothing"));
  ASSERT_FALSE(get);
  EXPECT_EQ(get.error().code, Code::kNotFound);
  const auto head = Head(Key("folder/nothing"));
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, Code::kNotFound);
}

TEST_P(ObjectStoreContractTest, AnObjectIsCreatedOnceAndReadBack) {
  const ObjectKey key = Key("once");
  const auto version = Create(key, "first");
  ASSERT_TRUE(version) << version.error().ToString();
  const auto again = Create(key, "second");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAborted);
  EXPECT_EQ(again.error().outcome, Outcome::kNotDone);
  const auto read = Get(key);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->bytes, "first");
  EXPECT_EQ(read->version, *version);
  const auto head = Head(key);
  ASSERT_TRUE(head) << head.error().ToString();
  EXPECT_EQ(head->version, *version);
  EXPECT_EQ(head->size, 5U);
}

TEST_P(ObjectStoreContractTest, AnUpdateFromTheCurrentVersionGivesANewOne) {
  const ObjectKey key = Key("updated");
  const auto first = Create(key, "first");
  ASSERT_TRUE(first) << first.error().ToString();
  const auto second = Put({.key = key, .bytes = "second", .condition = IfVersion{*first}});
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_NE(*second, *first);
  const auto read = Get(key);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->bytes, "second");
  EXPECT_EQ(read->version, *second);
}

TEST_P(ObjectStoreContractTest, AnUpdateFromAStaleVersionIsAConflictAndChangesNothing) {
  const ObjectKey key = Key("stale");
  const auto first = Create(key, "first");
  ASSERT_TRUE(first) << first.error().ToString();
  const auto second = Put({.key = key, .bytes = "second", .condition = IfVersion{*first}});
  ASSERT_TRUE(second) << second.error().ToString();
  const auto third = Put({.key = key, .bytes = "third", .condition = IfVersion{*first}});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kAborted);
  EXPECT_EQ(third.error().outcome, Outcome::kNotDone);
  const auto read = Get(key);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->bytes, "second");
}

TEST_P(ObjectStoreContractTest, AnUpdateOfAMissingKeyIsAConflictAndCreatesNothing) {
  const auto other = Create(Key("other"), "other");
  ASSERT_TRUE(other) << other.error().ToString();
  for (const std::string name : {"missing", "in/a/missing/folder"}) {
    const auto update = Put({.key = Key(name), .bytes = "ghost", .condition = IfVersion{*other}});
    ASSERT_FALSE(update);
    EXPECT_EQ(update.error().code, Code::kAborted) << update.error().ToString();
    const auto read = Get(Key(name));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::kNotFound);
  }
}

TEST_P(ObjectStoreContractTest, AfterADeleteTheKeyCanBeCreatedOnce) {
  const ObjectKey key = Key("again");
  ASSERT_TRUE(Create(key, "first"));
  ASSERT_TRUE(Delete(key));
  EXPECT_FALSE(Get(key));
  EXPECT_TRUE(Create(key, "second"));
  EXPECT_FALSE(Create(key, "third"));
  const auto read = Get(key);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->bytes, "second");
}

TEST_P(ObjectStoreContractTest, DeletingWhatIsNotThereIsSuccess) {
  EXPECT_TRUE(Delete(Key("nothing")));
  EXPECT_TRUE(Delete(Key("no/such/folder/nothing")));
}

TEST_P(ObjectStoreContractTest, AConditionalDeleteSparesAnotherVersion) {
  const ObjectKey key = Key("deleted");
  const auto first = Create(key, "first");
  ASSERT_TRUE(first) << first.error().ToString();
  const auto second = Put({.key = key, .bytes = "second", .condition = IfVersion{*first}});
  ASSERT_TRUE(second) << second.error().ToString();
  const auto refused = Delete(key, *first);
  if (!GetParam().honours_delete_condition) {
    // Known of this store, and reported by the probe: the condition is ignored.
    EXPECT_TRUE(refused);
    EXPECT_FALSE(Get(key));
    return;
  }
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kAborted);
  EXPECT_TRUE(Get(key));
  EXPECT_TRUE(Delete(key, *second));
  const auto gone = Get(key);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::kNotFound);
}

TEST_P(ObjectStoreContractTest, AnUnconditionalPutReplacesWhateverIsThere) {
  const ObjectKey key = Key("repaired");
  const auto first = Overwrite(key, "first");
  ASSERT_TRUE(first) << first.error().ToString();
  const auto second = Overwrite(key, "second");
  ASSERT_TRUE(second) << second.error().ToString();
  const auto read = Get(key);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(read->bytes, "second");
  EXPECT_EQ(read->version, *second);
}

TEST_P(ObjectStoreContractTest, OfConcurrentCreatesOneWins) {
  for (int round = 0; round < 5; ++round) {
    const ObjectKey key = Key(fmt::format("race/{}", round));
    const std::string winner = OnlyWinner(PutAtOnce(Rivals(key, IfAbsent{})));
    const auto read = Get(key);
    ASSERT_TRUE(read) << read.error().ToString();
    EXPECT_EQ(read->bytes, winner);
  }
}

TEST_P(ObjectStoreContractTest, OfConcurrentUpdatesFromOneVersionOneWins) {
  const ObjectKey key = Key("race");
  auto version = Create(key, "start");
  ASSERT_TRUE(version) << version.error().ToString();
  for (int round = 0; round < 5; ++round) {
    auto rivals = Rivals(key, IfVersion{*version});
    for (PutRequest& rival : rivals) rival.bytes += fmt::format(" in round {}", round);
    const std::string winner =
        OnlyWinner(PutAtOnce(std::move(rivals))) + fmt::format(" in round {}", round);
    const auto read = Get(key);
    ASSERT_TRUE(read) << read.error().ToString();
    EXPECT_EQ(read->bytes, winner);
    version = read->version;
  }
}

// Reads a number, writes it plus one under the version read, and begins again when a rival was
// faster.
class Incrementer final {
 public:
  Incrementer(SettledPut::Deps deps, ObjectKey key, std::string name)
      : deps_(deps), key_(std::move(key)), name_(std::move(name)) {}

  void Start(int times) {
    left_ = times;
    Read();
  }
  [[nodiscard]] bool done() const { return left_ == 0; }
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void Read() {
    pending_ = deps_.store.Get(key_, [this](Result<Object> object) {
      if (!object) return GiveUp(object.error());
      Write(*object);
    });
  }
  void Write(const Object& seen) {
    int value = 0;
    std::from_chars(seen.bytes.data(), seen.bytes.data() + seen.bytes.size(), value);
    // Every write has bytes of its own.
    PutRequest put{.key = key_,
                   .bytes = fmt::format("{} {} {}", value + 1, name_, ++tries_),
                   .condition = IfVersion{seen.version}};
    put_ = std::make_unique<SettledPut>(
        deps_,
        SettledPut::Request{.put = std::move(put),
                            .deadline = deps_.loop.Now() + Duration::Seconds(30)},
        [this](Result<ObjectVersion> result) {
          if (!result && result.error().outcome != Outcome::kNotDone) {
            return GiveUp(result.error());
          }
          if (result && --left_ == 0) return;
          Read();
        });
    put_->Start();
  }
  void GiveUp(const Error& error) {
    failure_ = error.ToString();
    left_ = 0;
  }

  SettledPut::Deps deps_;
  ObjectKey key_;
  std::string name_;
  int left_ = 0;
  int tries_ = 0;
  std::string failure_;
  Pending pending_;
  std::unique_ptr<SettledPut> put_;
};

TEST_P(ObjectStoreContractTest, NoUpdateOfSeveralWritersIsLost) {
  const ObjectKey key = Key("counter");
  ASSERT_TRUE(Create(key, "0"));
  Prng jitter(1);
  std::vector<std::unique_ptr<Incrementer>> writers;
  for (std::size_t i = 0; i < 6; ++i) {
    writers.push_back(std::make_unique<Incrementer>(
        SettledPut::Deps{.loop = loop(), .store = store(i % ways()), .jitter = jitter}, key,
        fmt::format("writer {}", i)));
    writers.back()->Start(10);
  }
  ASSERT_TRUE(RunUntil(
      [&] { return std::ranges::all_of(writers, [](const auto& w) { return w->done(); }); }));
  for (const auto& writer : writers) EXPECT_EQ(writer->failure(), "");
  const auto read = Get(key);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_TRUE(read->bytes.starts_with("60 ")) << read->bytes;
}

TEST_P(ObjectStoreContractTest, AReadAfterAWriteSeesIt) {
  const ObjectKey key = Key("fresh");
  auto version = Create(key, "0");
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(version) << version.error().ToString();
    const std::string bytes = fmt::format("write {}", i);
    version = Put({.key = key, .bytes = bytes, .condition = IfVersion{*version}},
                  static_cast<std::size_t>(i) % ways());
    for (std::size_t way = 0; way < ways(); ++way) {
      const auto read = Get(key, way);
      ASSERT_TRUE(read) << read.error().ToString();
      EXPECT_EQ(read->bytes, bytes);
    }
  }
}

TEST_P(ObjectStoreContractTest, BytesAreKeptWhateverTheyAre) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  std::string large(std::size_t{1} * 1024 * 1024, 'x');
  for (std::size_t i = 0; i < large.size(); i += 4'099) large[i] = static_cast<char>(i);
  const std::map<std::string, std::string> contents = {
      {"empty", ""}, {"newline", "\r\n"}, {"every-byte", every_byte}, {"large", large}};
  for (const auto& [name, bytes] : contents) {
    const auto version = Create(Key(name), bytes);
    ASSERT_TRUE(version) << name << ": " << version.error().ToString();
    const auto read = Get(Key(name));
    ASSERT_TRUE(read) << name << ": " << read.error().ToString();
    EXPECT_TRUE(read->bytes == bytes) << name;
    EXPECT_EQ(read->version, *version) << name;
    const auto head = Head(Key(name));
    ASSERT_TRUE(head) << name << ": " << head.error().ToString();
    EXPECT_EQ(head->size, bytes.size()) << name;
  }
}

TEST_P(ObjectStoreContractTest, AnObjectAboveTheLimitIsRefused) {
  const std::string bytes(ObjectStore::kMaxObjectBytes + 1, 'x');
  const auto created = Create(Key("huge"), bytes);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Code::kInvalidArgument);
  EXPECT_EQ(created.error().outcome, Outcome::kNotDone);
  const auto overwritten = Overwrite(Key("huge"), bytes);
  ASSERT_FALSE(overwritten);
  EXPECT_EQ(overwritten.error().code, Code::kInvalidArgument);
  EXPECT_FALSE(Get(Key("huge")));
}

TEST_P(ObjectStoreContractTest, KeysWithOddCharactersAreTold) {
  std::vector<std::string> names = {"plain",
                                    "PLAIN",
                                    "...",
                                    "..a",
                                    "a..",
                                    "-dash",
                                    "~",
                                    "%",
                                    "with%20percent",
                                    "with%2Fslash",
                                    "with%2fslash",
                                    "deep/er/and/deeper/still"};
  for (const char c : std::string("!\"#$&'()*+,-.:;<=>?@[]^_`{|}~")) {
    names.push_back(fmt::format("odd{}character", c));
  }
  for (const std::string& name : names) {
    const auto version = Create(Key(name), "bytes of " + name);
    ASSERT_TRUE(version) << name << ": " << version.error().ToString();
  }
  for (const std::string& name : names) {
    const auto read = Get(Key(name));
    ASSERT_TRUE(read) << name << ": " << read.error().ToString();
    EXPECT_EQ(read->bytes, "bytes of " + name);
  }
  std::ranges::sort(names);
  EXPECT_EQ(ListAll("", 1'000), names);
  for (const std::string& name : names) EXPECT_TRUE(Delete(Key(name))) << name;
  EXPECT_EQ(ListAll("", 1'000), std::vector<std::string>());
}

TEST_P(ObjectStoreContractTest, AListingIsExactAndSortedInPagesOfAnySize) {
  // A folder stands among files at the place of its slash: after `-` and `.`, before digits.
  const std::vector<std::string> names = {"a",       "b-1",  "b.1", "b/1", "b/2",
                                          "b/c/1",   "b/c2", "b0",  "ba",  "c/d/e/f",
                                          "c/d/e/g", "c/d0", "d",   "e/f", "z"};
  ASSERT_TRUE(std::ranges::is_sorted(names));
  for (const std::string& name : names) ASSERT_TRUE(Create(Key(name), "x" + name)) << name;
  for (const std::size_t page_size : {1U, 2U, 3U, 7U, 14U, 15U, 16U, 1'000U}) {
    EXPECT_EQ(ListAll("", page_size), names) << "pages of " << page_size;
  }
  EXPECT_EQ(ListAll("b", 2),
            (std::vector<std::string>{"b-1", "b.1", "b/1", "b/2", "b/c/1", "b/c2", "b0", "ba"}));
  EXPECT_EQ(ListAll("b/", 2), (std::vector<std::string>{"b/1", "b/2", "b/c/1", "b/c2"}));
  EXPECT_EQ(ListAll("b/c", 1), (std::vector<std::string>{"b/c/1", "b/c2"}));
  EXPECT_EQ(ListAll("c/d/e/f", 1), (std::vector<std::string>{"c/d/e/f"}));
  EXPECT_EQ(ListAll("nothing", 1), std::vector<std::string>());
}

TEST_P(ObjectStoreContractTest, AListingTellsSizesAndFollowsDeletes) {
  ASSERT_TRUE(Create(Key("list/a"), "1234"));
  ASSERT_TRUE(Create(Key("list/b"), ""));
  const auto both = List({.prefix = prefix() + "list/"});
  ASSERT_TRUE(both) << both.error().ToString();
  ASSERT_EQ(both->objects.size(), 2U);
  EXPECT_EQ(both->objects[0].size, 4U);
  EXPECT_EQ(both->objects[1].size, 0U);
  ASSERT_TRUE(Delete(Key("list/a")));
  EXPECT_EQ(ListAll("list/", 10), std::vector<std::string>{"list/b"});
}

TEST_P(ObjectStoreContractTest, AListedVersionIsTheOneThatIsRead) {
  const auto version = Create(Key("listed"), "bytes");
  ASSERT_TRUE(version) << version.error().ToString();
  const auto page = List({.prefix = prefix() + "listed"});
  ASSERT_TRUE(page) << page.error().ToString();
  ASSERT_EQ(page->objects.size(), 1U);
  const ObjectVersion& listed = page->objects[0].version;
  EXPECT_TRUE(listed.text.empty() || listed == *version) << listed.text;
}

TEST_P(ObjectStoreContractTest, TheStoreProbeAcceptsItAndLeavesNothingBehind) {
  SystemRandom random;
  Prng jitter(1);
  StoreProbeRunner::Deps deps{.loop = loop(), .endpoints = {}, .random = random, .jitter = jitter};
  for (std::size_t way = 0; way < ways(); ++way) deps.endpoints.emplace_back(store(way));
  const std::string shard = "contract-" + HexEncode(random.Array<8>());
  std::optional<StoreProbeReport> report;
  StoreProbeRunner runner(std::move(deps), shard,
                          [&](StoreProbeReport result) { report = std::move(result); });
  runner.Start();
  ASSERT_TRUE(RunUntil([&] { return report.has_value(); }));
  EXPECT_EQ(report->verdict, ProbeVerdict::kAccepted) << report->message;
  for (const ProbeCheck& check : report->checks) {
    EXPECT_TRUE(check.status == ProbeStatus::kPassed || check.status == ProbeStatus::kReported)
        << check.number << ": " << ProbeStatusName(check.status) << ": " << check.detail;
  }
  EXPECT_EQ(report->conditional_delete, GetParam().honours_delete_condition);
  const auto left = List({.prefix = "probe/" + shard + "/"});
  ASSERT_TRUE(left) << left.error().ToString();
  EXPECT_EQ(left->objects.size(), 0U);
}

TEST_P(ObjectStoreContractTest, TheAnswerNeverComesFromInsideTheCall) {
  int inside = 0;
  int answers = 0;
  bool calling = true;
  const auto note = [&](const auto&) {
    if (calling) ++inside;
    ++answers;
  };
  std::vector<Pending> pendings;
  pendings.push_back(store().Get(Key("a"), note));
  pendings.push_back(store().Head(Key("a"), note));
  pendings.push_back(store().Put({.key = Key("a"), .bytes = "x", .condition = IfAbsent{}}, note));
  pendings.push_back(store().Delete({.key = Key("b"), .version = {}}, note));
  pendings.push_back(store().List({.prefix = prefix()}, note));
  // Refused without any work.
  pendings.push_back(store().Put({.key = Key("c"),
                                  .bytes = std::string(ObjectStore::kMaxObjectBytes + 1, 'x'),
                                  .condition = IfAbsent{}},
                                 note));
  calling = false;
  ASSERT_TRUE(RunUntil([&] { return answers == 6; }));
  EXPECT_EQ(inside, 0);
}

TEST_P(ObjectStoreContractTest, WithoutItsPendingACallbackIsDestroyedAndNeverRuns) {
  bool ran = false;
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  {
    const Pending dropped =
        store().Put({.key = Key("dropped"), .bytes = "x", .condition = IfAbsent{}},
                    [&ran, token = std::move(token)](const auto&) { ran = true; });
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
  // The effect is not cancelled, so the key is left alone; others go on.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Create(Key(fmt::format("after/{}", i)), "x"));
  EXPECT_FALSE(ran);
}

TEST_P(ObjectStoreContractTest, ACallbackMayDropItsOwnPendingAndAskAgain) {
  Pending pending;
  int answers = 0;
  pending = store().Get(Key("a"), [&](const auto&) {
    ++answers;
    pending = store().Head(Key("a"), [&](const auto&) {
      ++answers;
      pending = Pending();
    });
  });
  ASSERT_TRUE(RunUntil([&] { return answers == 2; }));
}

}  // namespace
}  // namespace nstance::test
