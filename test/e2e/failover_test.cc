// Fail-over with nothing simulated: three processes (elector_main) with the default timings on a
// real S3 server, each behind a proxy of its own. The leader is stopped, killed, told to end or
// cut off; another one must act, which is to make an intent durable under a new epoch, and the old
// one must change nothing any more. The test reads the journal all the time, past the proxies.
//
// By default one or two rounds of each kind and no assertion about time but a generous limit.
//
//   NSTANCE_FAILOVER_ROUNDS=20 build/dev/test/e2e/failover_test
//
// runs twenty of each (25 minutes; with --gtest_filter each kind may run beside the others) and
// requires that the new leader acts within 10 s at the median.
#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cloud_http/environment.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/s3_store/s3_store.h"
#include "base/prng.h"
#include "core/journal.h"
#include "test/e2e/candidate_process.h"
#include "test/support/store_peers.h"
#include "test/support/temp_dir.h"
#include "test/support/toxiproxy.h"

namespace nstance::test {
namespace {

constexpr std::size_t kCandidates = 3;
constexpr Duration kPatience = Duration::Seconds(90);
constexpr Duration kBound = Duration::Seconds(10);  // At the median of many.
constexpr int kManyRounds = 20;
constexpr Duration kLateness = Duration::Seconds(15);

enum class Fault : std::uint8_t {
  kStopped,     // SIGSTOP, and later SIGCONT.
  kKilled,      // SIGKILL.
  kTerminated,  // SIGTERM: the lease is released.
  kCut,         // Connections are closed and refused.
  kSilent,      // Connections stay and carry nothing.
  kLate,        // SIGSTOP with a write under way, which arrives when another one leads.
};

struct Kind {
  Fault fault;
  const char* name;
};
constexpr std::array kKinds = {
    Kind{.fault = Fault::kStopped, .name = "stopped"},
    Kind{.fault = Fault::kKilled, .name = "killed"},
    Kind{.fault = Fault::kTerminated, .name = "terminated"},
    Kind{.fault = Fault::kCut, .name = "cut"},
    Kind{.fault = Fault::kSilent, .name = "silent"},
    Kind{.fault = Fault::kLate, .name = "late"},
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

int Rounds(Fault fault) {
  const bool slow_or_plain = fault == Fault::kLate || fault == Fault::kTerminated;
  const std::string text =
      cloud::Environment::OfProcess().Get("NSTANCE_FAILOVER_ROUNDS", slow_or_plain ? "1" : "2");
  int rounds = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounds);
  return std::max(rounds, 1);
}

// The test's own way to the store, and everything that it has seen in the journal.
class JournalWatch final {
 public:
  JournalWatch(RealLoop& loop, const RunningStore& running, const std::string& shard)
      : loop_(loop),
        identity_{.cluster = ClusterId::Parse("failover").value(),
                  .shard = ShardId::Parse(shard).value()},
        key_(ObjectKey::Parse(fmt::format("journal/{}.json", shard)).value()),
        http_({.io = loop, .home = loop}),
        credentials_({.loop = loop, .http = http_, .environment = cloud::Environment::OfProcess()},
                     Keys()),
        store_(s3::S3Store::Make(
                   {.loop = loop, .http = http_, .credentials = credentials_, .prng = Prng(1)},
                   {.bucket = std::string(RunningStore::kBucket),
                    .region = "us-east-1",
                    .endpoint = running.endpoint(),
                    .deadline = kPatience})
                   .value()) {
    Look();
  }

  [[nodiscard]] const std::optional<Journal>& last() const { return last_; }
  [[nodiscard]] int looks() const { return looks_; }

 private:
  static aws::AwsSettings Keys() {
    aws::AwsSettings settings;
    settings.access_key = RunningStore::kAccessKey;
    settings.secret_key = RunningStore::kSecretKey;
    return settings;
  }
  void Look() {
    pending_ = store_->Get(key_, [this](const Result<Object>& object) {
      ++looks_;
      if (object) Judge(DecodeJournal(object->bytes, identity_));
      pending_ = loop_.CallAfter(Duration::Milliseconds(20), [this] { Look(); });
    });
  }
  // I-1, I-2, I-7, as far as somebody who looks from time to time can see.
  void Judge(Result<Journal> journal) {
    ASSERT_TRUE(journal) << journal.error().ToString();
    if (last_) {
      EXPECT_GE(journal->epoch, last_->epoch) << "an older leader's write landed";
      EXPECT_GE(journal->seq, last_->seq) << "a write was taken back";
      if (journal->seq == last_->seq) {
        EXPECT_EQ(journal->write_id, last_->write_id) << "two writes of one number";
      }
      if (journal->epoch == last_->epoch) {
        EXPECT_EQ(journal->holder, last_->holder) << "two holders of one epoch";
      }
    }
    last_ = *std::move(journal);
  }

  RealLoop& loop_;
  JournalIdentity identity_;
  ObjectKey key_;
  CurlHttpClient http_;
  aws::AwsCredentials credentials_;
  std::unique_ptr<s3::S3Store> store_;
  std::optional<Journal> last_;
  int looks_ = 0;
  Pending pending_;
};

class FailoverTest : public testing::TestWithParam<Kind> {
 public:
  void SetUp() override {
    auto store = SharedStore(StorePeer::kMinio);
    if (!store && store.error().code == Code::kNotFound) GTEST_SKIP() << store.error().message;
    ASSERT_TRUE(store) << store.error().ToString();
    auto proxies = Toxiproxy::Start();
    if (!proxies && proxies.error().code == Code::kNotFound) {
      GTEST_SKIP() << proxies.error().message;
    }
    ASSERT_TRUE(proxies) << proxies.error().ToString();
    toxiproxy = *std::move(proxies);
    const std::string shard = GetParam().name;
    for (std::size_t i = 0; i < kCandidates; ++i) {
      const std::string id = fmt::format("s{}", i);
      const auto address = toxiproxy->AddProxy(id, fmt::format("127.0.0.1:{}", (*store)->port()));
      ASSERT_TRUE(address) << address.error().ToString();
      candidates.push_back(std::make_unique<CandidateProcess>(
          CandidateProcess::Config{.endpoint = "http://" + *address,
                                   .shard = shard,
                                   .id = id,
                                   .proxy = id,
                                   .output_file = (folder.path() / id).string()}));
    }
    watch = std::make_unique<JournalWatch>(loop, **store, shard);
    for (const auto& candidate : candidates) candidate->Start("new");
  }
  void TearDown() override {
    if (!HasFailure()) return;
    for (const auto& candidate : candidates) {
      fmt::print("{}:\n{}\n", candidate->config().id, candidate->OutputTail());
    }
  }

  // Looks every 20 ms: times are taken from what the processes tell, not from when it is read.
  [[nodiscard]] bool Wait(const std::function<bool()>& condition) {
    const Instant end = loop.Now() + kPatience;
    while (!condition()) {
      const Instant next = loop.Now() + Duration::Milliseconds(20);
      if (next > end) return false;
      const Pending timer = loop.CallAt(next, [this] { loop.Stop(); });
      loop.Run();
    }
    return true;
  }

  // The last commit of all, and whose it is.
  struct Act {
    CandidateProcess* by = nullptr;
    Told commit;
  };
  [[nodiscard]] Act LastCommit() {
    Act last;
    for (const auto& candidate : candidates) {
      for (const Told& told : candidate->Listen()) {
        if (told.what == "commit" && told.seq > last.commit.seq) last = {candidate.get(), told};
      }
    }
    return last;
  }
  // The first commit of an epoch above this one.
  [[nodiscard]] Act FirstCommitAbove(std::int64_t epoch) {
    Act first;
    for (const auto& candidate : candidates) {
      for (const Told& told : candidate->Listen()) {
        const bool counts = told.what == "commit" && told.epoch > epoch;
        if (counts && (first.by == nullptr || told.seq < first.commit.seq)) {
          first = {candidate.get(), told};
        }
      }
    }
    return first;
  }
  // Lets the leader go on for so many commits, which is as good a clock as any.
  [[nodiscard]] Act AfterCommits(std::int64_t count) {
    const std::int64_t enough = LastCommit().commit.seq + count;
    return Wait([&] { return LastCommit().commit.seq >= enough; }) ? LastCommit() : Act{};
  }

  void Strike(const CandidateProcess& leader) {
    const std::string& proxy = leader.config().proxy;
    switch (GetParam().fault) {
      case Fault::kStopped: return leader.Signal(SIGSTOP);
      case Fault::kKilled: return leader.Signal(SIGKILL);
      case Fault::kTerminated: return leader.Signal(SIGTERM);
      case Fault::kCut: ASSERT_TRUE(toxiproxy->Cut(proxy)); return;
      case Fault::kSilent:
        ASSERT_TRUE(toxiproxy->AddToxic(proxy, Silence("upstream")));
        ASSERT_TRUE(toxiproxy->AddToxic(proxy, Silence("downstream")));
        return;
      case Fault::kLate:
        ASSERT_TRUE(toxiproxy->AddToxic(proxy, Toxic::Latency(kLateness, "upstream")));
        // The leader commits all the time. When it has told of none for a while, one is under way;
        // a stopped process does not give up on it.
        ASSERT_TRUE(Wait(
            [&] { return loop.Now() - LastCommit().commit.at > Duration::Milliseconds(500); }));
        return leader.Signal(SIGSTOP);
    }
  }
  static Toxic Silence(const char* stream) {
    Toxic toxic = Toxic::Timeout(Duration(), stream);
    toxic.name = stream;
    return toxic;
  }

  // The old leader comes back, and must find out without having changed anything.
  void Relent(CandidateProcess& old, std::size_t told_before, Instant struck) {
    const std::string& proxy = old.config().proxy;
    const auto knows = [&] {
      return old.HasTold("lost", told_before) || old.HasTold("ended", told_before);
    };
    switch (GetParam().fault) {
      case Fault::kStopped:
        old.Signal(SIGCONT);
        ASSERT_TRUE(Wait(knows)) << "the resumed leader does not know that it is none";
        return;
      case Fault::kKilled: ASSERT_TRUE(Wait([&] { return !old.Running(); })); return;
      case Fault::kTerminated:
        ASSERT_TRUE(Wait([&] { return !old.Running(); }));
        ASSERT_TRUE(old.HasTold("stopped", told_before));
        return;
      case Fault::kCut:
        ASSERT_TRUE(Wait(knows));
        ASSERT_TRUE(toxiproxy->Heal(proxy));
        return;
      case Fault::kSilent:
        ASSERT_TRUE(Wait(knows));
        ASSERT_TRUE(toxiproxy->RemoveToxic(proxy, "upstream"));
        ASSERT_TRUE(toxiproxy->RemoveToxic(proxy, "downstream"));
        return;
      case Fault::kLate:
        ASSERT_TRUE(Wait([&] { return loop.Now() > struck + kLateness + Duration::Seconds(1); }));
        old.Signal(SIGCONT);
        ASSERT_TRUE(Wait(knows)) << "the resumed leader does not know that it is none";
        ASSERT_TRUE(toxiproxy->RemoveToxic(proxy, Toxic::Latency(kLateness, "upstream").name));
        return;
    }
  }

  // One leader falls; the time until the next one acts.
  void Round(std::vector<Duration>& times) {
    // At any phase of renewal and polling, and when every follower has long seen the leader.
    const Act before = AfterCommits(25 + static_cast<std::int64_t>(prng.Below(20)));
    ASSERT_NE(before.by, nullptr) << "nobody leads";
    const std::size_t told_before = before.by->Listen().size();
    const Instant struck = loop.Now();
    ASSERT_NO_FATAL_FAILURE(Strike(*before.by));
    Act next;
    ASSERT_TRUE(Wait([&] {
      next = FirstCommitAbove(before.commit.epoch);
      return next.by != nullptr;
    })) << "nobody has taken over";
    EXPECT_NE(next.by, before.by);
    times.push_back(next.commit.at - struck);
    ASSERT_NO_FATAL_FAILURE(Relent(*before.by, told_before, struck));
    ASSERT_NE(AfterCommits(5).by, nullptr) << "the new leader has stopped";
    // A process that has missed deadlines holds back, longer each time; a new one does not.
    before.by->Start("used");
  }

  // Everything that was told durable, by whomever, in the order of the journal.
  void CheckHistory() {
    std::map<std::int64_t, std::pair<std::int64_t, std::string>> by_seq;  // Epoch, holder.
    std::map<std::int64_t, std::string> by_epoch;
    for (const auto& candidate : candidates) {
      for (const Told& told : candidate->Listen()) {
        if (told.what != "commit") continue;
        const std::string& id = candidate->config().id;
        EXPECT_TRUE(by_seq.emplace(told.seq, std::pair(told.epoch, id)).second)
            << "two commits were told of write " << told.seq;
        EXPECT_EQ(by_epoch.emplace(told.epoch, id).first->second, id) << told.epoch;
      }
    }
    std::int64_t epoch = 0;
    for (const auto& [seq, commit] : by_seq) {
      EXPECT_GE(commit.first, epoch) << "write " << seq << " of an older epoch came later";
      epoch = commit.first;
    }
    CheckMarkers(epoch);
  }
  // The journal itself: one marker of each epoch that acted, in order, and nothing of old leaders
  // after it.
  void CheckMarkers(std::int64_t last_epoch) const {
    ASSERT_TRUE(watch->last());
    const Journal& journal = *watch->last();
    EXPECT_EQ(journal.epoch, last_epoch);
    std::int64_t epoch = 0;
    for (const Intent& intent : journal.intents) {
      EXPECT_TRUE(intent.epoch > epoch || intent.epoch == journal.epoch) << intent.id;
      EXPECT_TRUE(intent.reason == "marker" || intent.epoch == journal.epoch) << intent.id;
      epoch = intent.epoch;
    }
  }

  RealLoop loop;
  TempDir folder;
  std::unique_ptr<Toxiproxy> toxiproxy;
  std::unique_ptr<JournalWatch> watch;
  std::vector<std::unique_ptr<CandidateProcess>> candidates;
  Prng prng{static_cast<std::uint64_t>(GetParam().fault) + 1};
};

std::string Text(Duration length) {
  return fmt::format("{:.2f}", static_cast<double>(length.nanoseconds()) / 1e9);
}

TEST_P(FailoverTest, AnotherOneActsAndTheOldLeaderChangesNothing) {
  const int rounds = Rounds(GetParam().fault);
  std::vector<Duration> times;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(Round(times)) << "round " << round;
  }
  CheckHistory();
  std::ranges::sort(times);
  const Duration median = times[times.size() / 2];
  fmt::print(
      "{}: {} rounds, seconds until the next leader acts: least {}, median {}, most {}; "
      "{} looks at the journal, seq {}\n",
      GetParam().name, rounds, Text(times.front()), Text(median), Text(times.back()),
      watch->looks(), watch->last()->seq);
  if (rounds >= kManyRounds) {
    EXPECT_LE(median, kBound);
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, FailoverTest, testing::ValuesIn(kKinds),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace nstance::test
