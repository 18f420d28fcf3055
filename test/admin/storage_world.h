// A bucket, a machine and an administrator's command on them, in simulated time. The command can be
// made to die at any change that it makes, to the store or to the disk: before it, or after it and
// before it hears of it. From then on nothing that it does has an effect.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/storage/store_session.h"
#include "sim/seeded_random.h"
#include "sim/sim_loop.h"
#include "sim/sim_object_store.h"
#include "test/server/server_world.h"

namespace nstance::admin::test {

using nstance::test::QuietSink;
using nstance::test::World;
using nstance::test::WorldStart;

// How long the command lives, in changes.
struct Life {
  enum class Death : std::uint8_t { kBefore, kAfter };
  std::optional<int> die_at = std::nullopt;
  Death death = Death::kBefore;
  int changes = 0;
  bool dead = false;

  // Whether the next change happens, and whether whoever makes it hears of it.
  struct Fate {
    bool happens = true;
    bool is_heard = true;
  };
  Fate Change() {
    if (dead) return {.happens = false, .is_heard = false};
    if (++changes != die_at) return {};
    dead = true;
    return {.happens = death == Death::kAfter, .is_heard = false};
  }
};

class MortalStore final : public ObjectStore {
 public:
  MortalStore(Loop& loop, ObjectStore& store, Life& life)
      : loop_(loop), store_(store), life_(life) {}

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override {
    return life_.dead ? Nothing(std::move(done)) : store_.Get(key, std::move(done));
  }
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override {
    return life_.dead ? Nothing(std::move(done)) : store_.Head(key, std::move(done));
  }
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override {
    return life_.dead ? Nothing(std::move(done)) : store_.List(std::move(request), std::move(done));
  }
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override {
    return Write<ObjectVersion>(std::move(done), [&](Done<ObjectVersion> heard) {
      return store_.Put(std::move(request), std::move(heard));
    });
  }
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override {
    return Write<void>(std::move(done), [&](Done<void> heard) {
      return store_.Delete(std::move(request), std::move(heard));
    });
  }
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override {
    return Write<ObjectVersion>(std::move(done), [&](Done<ObjectVersion> heard) {
      return store_.PutUnconditionally(std::move(key), std::move(bytes), std::move(heard));
    });
  }

 private:
  template <class T>
  Pending Nothing(Done<T> done) {
    return loop_.CallAfter(Duration::Milliseconds(1), [done = std::move(done)]() mutable {
      done(Fail(Unavailable("dead").MaybeDone()));
    });
  }
  template <class T, class Start>
  Pending Write(Done<T> done, Start start) {
    const Life::Fate fate = life_.Change();
    if (!fate.happens) return Nothing(std::move(done));
    if (fate.is_heard) return start(std::move(done));
    return start([done = std::move(done)](Result<T>) mutable {
      done(Fail(Unavailable("dead").MaybeDone()));
    });
  }

  Loop& loop_;
  ObjectStore& store_;
  Life& life_;
};

// All files of the machine, by path.
using Files = std::map<std::string, std::string, std::less<>>;

class MortalFiles final : public AgentFiles {
 public:
  MortalFiles(Files& files, std::string folder, Life& life)
      : files_(files), folder_(std::move(folder)), life_(life) {}

  [[nodiscard]] std::string PathOf(std::string_view name) const override {
    return folder_ + "/" + std::string(name);
  }
  [[nodiscard]] Result<std::optional<std::string>> Read(std::string_view name) override {
    const auto at = files_.find(PathOf(name));
    if (at == files_.end()) return std::nullopt;
    return at->second;
  }
  [[nodiscard]] Status Replace(std::string_view name, std::string_view bytes) override {
    return Change([&] { files_.insert_or_assign(PathOf(name), std::string(bytes)); });
  }
  [[nodiscard]] Status Move(std::string_view from, std::string_view to) override {
    return Change([&] {
      files_.insert_or_assign(PathOf(to), files_.at(PathOf(from)));
      files_.erase(PathOf(from));
    });
  }
  [[nodiscard]] Status Remove(std::string_view name) override {
    return Change([&] { files_.erase(PathOf(name)); });
  }
  [[nodiscard]] Result<std::map<std::string, Timestamp>> List() override {
    return std::map<std::string, Timestamp>{};
  }

 private:
  Status Change(const std::function<void()>& change) {
    const Life::Fate fate = life_.Change();
    if (fate.happens) change();
    if (!fate.is_heard) return Fail(Unavailable("dead"));
    return {};
  }

  Files& files_;
  std::string folder_;
  Life& life_;
};

class FakeMachine final : public LocalMachine {
 public:
  FakeMachine(Files& files, Life& life) : files_(files), life_(life) {}

  [[nodiscard]] Result<std::unique_ptr<AgentFiles>> OpenFolder(const std::string& path) override {
    return std::make_unique<MortalFiles>(files_, path, life_);
  }
  [[nodiscard]] Status MakeFolder(const std::string& path) override {
    folders.push_back(path);
    return {};
  }
  [[nodiscard]] Status CreateFile(const std::string& path, std::string_view bytes) override {
    if (files_.contains(path)) return Fail(AlreadyExists(path));
    const Life::Fate fate = life_.Change();
    if (fate.happens) files_.emplace(path, bytes);
    if (!fate.is_heard) return Fail(Unavailable("dead"));
    return {};
  }
  [[nodiscard]] bool Exists(const std::string& path) override { return files_.contains(path); }
  [[nodiscard]] Result<std::string> ReadFile(const std::string& path,
                                             std::size_t /*max_bytes*/) override {
    const auto at = files_.find(path);
    if (at == files_.end()) return Fail(NotFound(path + ": No such file or directory"));
    return at->second;
  }
  [[nodiscard]] std::string AbsolutePath(const std::string& path) override {
    return path.starts_with('/') ? path : "/home/me/" + path;
  }
  [[nodiscard]] std::string ProgramFolder() override { return "/usr/bin"; }
  [[nodiscard]] std::string Architecture() override { return "amd64"; }
  [[nodiscard]] Result<std::vector<std::uint16_t>> FreePorts(std::size_t count) override {
    std::vector<std::uint16_t> ports;
    while (ports.size() < count) ports.push_back(next_port_++);
    return ports;
  }

  std::vector<std::string> folders;

 private:
  Files& files_;
  Life& life_;
  std::uint16_t next_port_ = 4001;
};

// A key that is there, or not.
class FakeKeySource final : public KeySource {
 public:
  FakeKeySource(Loop& loop, std::string description, std::optional<std::string> value)
      : loop_(loop), description_(std::move(description)), value_(std::move(value)) {}
  [[nodiscard]] Pending Load(Done done) override {
    return loop_.CallAfter({}, [this, done = std::move(done)]() mutable {
      if (!value_) return done(Fail(FailedPrecondition(description_ + ": it is not set")));
      done(Under(crypto::EncryptionKey::Parse(AsBytes(*value_)), description_));
    });
  }
  [[nodiscard]] std::string Description() const override { return description_; }

 private:
  Loop& loop_;
  std::string description_;
  std::optional<std::string> value_;
};

class SimTurns final : public Turns {
 public:
  explicit SimTurns(sim::SimScheduler& scheduler) : scheduler_(scheduler) {}
  void Run() override {
    stopped_ = false;
    while (!stopped_ && scheduler_.Step()) {
    }
  }
  void Stop() override { stopped_ = true; }

 private:
  sim::SimScheduler& scheduler_;
  bool stopped_ = false;
};

// One process of nstance-admin on a world.
class AdminProcess final {
 public:
  AdminProcess(World& world, Files& files, const std::map<std::string, std::string>& variables,
               Life life = {})
      : life_(life),
        files_(files),
        variables_(variables),
        loop_(world.scheduler, WorldStart()),
        inner_(world.bucket, loop_, {.process = "admin"}),
        store_(loop_, inner_, life_),
        random_(world.scheduler.prng().Next()),
        machine_(files, life_),
        turns_(world.scheduler),
        deps_{.loop = loop_,
              .turns = turns_,
              .store = store_,
              .random = random_,
              .machine = machine_,
              .key_source = [this](const config::EncryptionKey& key) { return Source(key); },
              .log = log::Logger(sink_, "admin"),
              .note = [this](std::string_view text) { notes += std::string(text) + "\n"; }} {}

  [[nodiscard]] const StorageDeps& deps() const { return deps_; }
  [[nodiscard]] const Life& life() const { return life_; }
  [[nodiscard]] sim::SimLoop& loop() { return loop_; }
  [[nodiscard]] sim::SimObjectStore& store() { return inner_; }
  [[nodiscard]] FakeMachine& machine() { return machine_; }

  std::string notes;

 private:
  Result<std::unique_ptr<KeySource>> Source(const config::EncryptionKey& key) {
    std::optional<std::string> value;
    if (key.provider == config::KeyProvider::kEnv) {
      if (variables_.contains(key.source)) value = variables_.at(key.source);
      return std::make_unique<FakeKeySource>(
          loop_, "encryption key in environment variable " + key.source, value);
    }
    if (files_.contains(key.source)) value = files_.find(key.source)->second;
    return std::make_unique<FakeKeySource>(loop_, "encryption key in file " + key.source, value);
  }

  Life life_;
  Files& files_;
  const std::map<std::string, std::string>& variables_;
  sim::SimLoop loop_;
  sim::SimObjectStore inner_;
  MortalStore store_;
  sim::SeededRandom random_;
  FakeMachine machine_;
  SimTurns turns_;
  QuietSink sink_;
  StorageDeps deps_;
};

}  // namespace nstance::admin::test
