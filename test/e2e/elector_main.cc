// One server's leadership and nothing else, for failover_test: an elector and, while it leads, a
// journal writer on a real S3 store, with the default timings. Tells on standard output what
// happens, one line per event, each written with one system call; times are those of
// CLOCK_BOOTTIME, which all processes of a machine share:
//
//   <nanoseconds> acquired <term>      the lease is ours
//   <nanoseconds> epoch <epoch>        the journal is ours
//   <nanoseconds> commit <intent id>   "<epoch>-<seq>-<n>" is durable
//   <nanoseconds> lost <why>           the lease is no longer ours
//   <nanoseconds> ended <why>          the journal is no longer ours
//   <nanoseconds> alarm <what>
//   <nanoseconds> stopped -            after SIGTERM: released
//
// While it leads it commits an intent every 100 ms. The first one of an epoch, its marker, stays
// open for ever; the others are closed. Arguments: endpoint, bucket, shard, id, and `new` or
// `used` for what is known of the bucket. The keys come from AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cloud_http/environment.h"
#include "adapters/http/curl_http_client.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/s3_store/s3_store.h"
#include "adapters/secure_random/system_random.h"
#include "base/check.h"
#include "storage/elector.h"
#include "storage/journal_writer.h"

namespace nstance::test {
namespace {

constexpr Duration kBeat = Duration::Milliseconds(100);
constexpr Duration kReleaseLimit = Duration::Seconds(5);
constexpr std::string_view kMarker = "marker";

class Server final {
 public:
  struct Config {
    std::string shard;
    std::string id;
    BucketAge bucket = BucketAge::kUsed;
  };

  Server(RealLoop& loop, ObjectStore& store, Config config)
      : loop_(loop),
        store_(store),
        config_(std::move(config)),
        elector_({.loop = loop, .store = store, .random = random_},
                 ObjectKey::Parse(fmt::format("leader/{}.json", config_.shard)).value(),
                 LeaseMachine({.leader_id = config_.id,
                               .leader_addr = "127.0.0.1:1",
                               .timings = MakeLeaseTimings({}).value(),
                               .bucket = config_.bucket}),
                 {.acquired = [this](std::int64_t term) { Acquired(term); },
                  .lost = [this](LeaseLoss loss) { Lost(loss); },
                  .alarm = [this](LeaseAlarm alarm) { Say("alarm", LeaseAlarmName(alarm)); }}) {}

  void Start() { elector_.Start(); }
  void Stop() {
    DropWriter();
    elector_.Stop(loop_.Now() + kReleaseLimit, [this] {
      Say("stopped", "-");
      loop_.Stop();
    });
  }

 private:
  void Say(std::string_view what, std::string_view detail) const {
    const std::string line =
        fmt::format("{} {} {}\n", loop_.Now().since_zero().nanoseconds(), what, detail);
    CHECK(::write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }

  void DropWriter() {
    beat_ = Pending();
    writer_.reset();
  }

  void Acquired(std::int64_t term) {
    Say("acquired", std::to_string(term));
    writer_ = std::make_unique<JournalWriter>(
        JournalWriter::Deps{.loop = loop_, .store = store_, .random = random_},
        JournalWriter::Options{
            .key = ObjectKey::Parse(fmt::format("journal/{}.json", config_.shard)).value()},
        JournalMachine({.identity = {.cluster = ClusterId::Parse("failover").value(),
                                     .shard = ShardId::Parse(config_.shard).value()},
                        .holder = config_.id + "/" + elector_.machine().incarnation(),
                        .evidence = EpochEvidence::kNone}),
        JournalWriter::Owner{
            .took_over = [this](std::int64_t epoch) { TookOver(epoch); },
            .refused = [this](const Error& why) { Ended(why.message); },
            .lost = [this](JournalLoss loss) { Ended(JournalLossName(loss)); },
            .may_start = [this](Duration bound) { return elector_.MayStart(bound); }});
    writer_->Start();
  }

  void Lost(LeaseLoss loss) {
    Say("lost", LeaseLossName(loss));
    DropWriter();
  }

  void Ended(std::string_view why) {
    Say("ended", why);
    DropWriter();
    elector_.StepDown();
  }

  void TookOver(std::int64_t epoch) {
    Say("epoch", std::to_string(epoch));
    elector_.TakenOver();
    for (const Intent& intent : writer_->journal().intents) {
      if (intent.reason != kMarker) writer_->Close(intent.id);
    }
    Commit(kMarker);
  }

  void Commit(std::string_view reason) {
    Intent intent{.id = {},
                  .kind = IntentKind::kCreate,
                  .instance_id = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value(),
                  .tenant = TenantId::Parse("prod").value(),
                  .group = GroupKey::Parse("workers").value(),
                  .opened_at = loop_.WallNow(),
                  .reason = std::string(reason)};
    const bool stays = reason == kMarker;
    writer_->Open(std::move(intent), [this, stays](const Result<std::string>& id) {
      CHECK(id.has_value(), "{}", id.error().ToString());
      Say("commit", *id);
      if (!stays) writer_->Close(*id);
      beat_ = loop_.CallAfter(kBeat, [this] { Commit("beat"); });
    });
  }

  RealLoop& loop_;
  ObjectStore& store_;
  Config config_;
  SystemRandom random_;
  Elector elector_;
  std::unique_ptr<JournalWriter> writer_;
  Pending beat_;
};

// SIGTERM, as something that the loop can wait for.
int TerminationDescriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0);
  const int descriptor = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(descriptor >= 0);
  return descriptor;
}

}  // namespace
}  // namespace nstance::test

int main(int count, char** arguments) {
  using nstance::test::Server;
  if (count != 6) return 2;
  const int termination = nstance::test::TerminationDescriptor();
  nstance::RealLoop loop;
  nstance::CurlHttpClient http({.io = loop, .home = loop});
  nstance::aws::AwsCredentials credentials(
      {.loop = loop, .http = http, .environment = nstance::cloud::Environment::OfProcess()});
  auto store = nstance::s3::S3Store::Make(
      {.loop = loop, .http = http, .credentials = credentials, .prng = nstance::Prng(1)},
      {.bucket = arguments[2], .endpoint = arguments[1]});
  CHECK(store.has_value(), "{}", store.error().ToString());
  const bool is_new = std::string_view(arguments[5]) == "new";
  Server server(loop, **store,
                {.shard = arguments[3],
                 .id = arguments[4],
                 .bucket = is_new ? nstance::BucketAge::kNew : nstance::BucketAge::kUsed});
  server.Start();
  const auto watch = loop.Watch(termination, {.readable = true}, [&](nstance::Readiness) {
    signalfd_siginfo info{};
    if (::read(termination, &info, sizeof(info)) == sizeof(info)) server.Stop();
  });
  loop.Run();
}
