// Writes to a file store for ever, at random, and tells on standard output what it does
// (journal.h). The test kills it. Arguments: directory, name, seed.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "adapters/file_store/file_store.h"
#include "adapters/real_loop/real_loop.h"
#include "base/check.h"
#include "base/prng.h"
#include "test/adapters/file_store/journal.h"

namespace nstance::test {
namespace {

class Writer final {
 public:
  Writer(RealLoop& loop, ObjectStore& store, std::string name, std::uint64_t seed)
      : loop_(loop), store_(store), name_(std::move(name)), prng_(seed) {}

  void RunForEver() {
    for (;;) {
      switch (prng_.Below(4)) {
        case 0: Increment(); break;
        case 1: Change(fmt::format("shared/{}", prng_.Below(3))); break;
        default: Change(fmt::format("own/{}/{}", name_, prng_.Below(3))); break;
      }
    }
  }

 private:
  template <class T, class F>
  Result<T> Await(F ask) {
    std::optional<Result<T>> answer;
    const Pending pending = ask([&](Result<T> result) {
      answer = std::move(result);
      loop_.Stop();
    });
    while (!answer) loop_.Run();
    return *std::move(answer);
  }

  void Say(const std::string& line) {
    const std::string text = line + "\n";
    const auto count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count != static_cast<ssize_t>(text.size())) std::_Exit(3);
  }

  // What is there; its id must be whole.
  std::optional<Object> Look(const ObjectKey& key) {
    auto read = Await<Object>([&](auto done) { return store_.Get(key, std::move(done)); });
    if (!read) {
      if (read.error().code != Code::kNotFound) Say("fail " + read.error().ToString());
      return std::nullopt;
    }
    if (ContentId(read->bytes).empty()) Say("torn " + key.text());
    return *std::move(read);
  }

  bool Put(const ObjectKey& key, const std::string& id, const std::optional<Object>& seen) {
    Say(fmt::format("try {} {}", key.text(), id));
    PutRequest request{.key = key,
                       .bytes = MakeContent(id, prng_.Chance(1, 4) ? prng_.Below(100'000) : 10),
                       .condition = IfAbsent{}};
    if (seen) request.condition = IfVersion{seen->version};
    const auto version = Await<ObjectVersion>(
        [&](auto done) { return store_.Put(std::move(request), std::move(done)); });
    return Tell(key, id, seen, version.has_value() ? Status() : Fail(version.error()));
  }

  bool Tell(const ObjectKey& key, const std::string& id, const std::optional<Object>& seen,
            const Status& result) {
    if (result) {
      Say(fmt::format("ack {} {} {}", key.text(), id, seen ? seen->version.text : "-"));
    } else if (result.error().outcome == Outcome::kNotDone) {
      Say(fmt::format("not {} {}", key.text(), id));
      if (result.error().code != Code::kAborted) Say("fail " + result.error().ToString());
    } else {
      Say("fail " + result.error().ToString());
    }
    return result.has_value();
  }

  void Increment() {
    const ObjectKey key = *ObjectKey::Parse(kCounterKey);
    const auto seen = Look(key);
    const std::uint64_t value = (seen ? CounterValue(ContentId(seen->bytes)) : 0) + 1;
    if (Put(key, fmt::format("{}-{}-{}", value, name_, ++writes_), seen)) {
      Say(fmt::format("inc {}", value));
    }
  }

  void Change(const std::string& name) {
    const ObjectKey key = *ObjectKey::Parse(name);
    const auto seen = Look(key);
    if (!seen || prng_.Chance(3, 4)) {
      Put(key, fmt::format("{}-{}", name_, ++writes_), seen);
      return;
    }
    Say(fmt::format("try {} -", key.text()));
    const auto result = Await<void>([&](auto done) {
      return store_.Delete({.key = key, .version = seen->version}, std::move(done));
    });
    // Deleting what is gone already is success too, but replaces nothing.
    Tell(key, "-", seen, result);
  }

  RealLoop& loop_;
  ObjectStore& store_;
  std::string name_;
  Prng prng_;
  std::uint64_t writes_ = 0;
};

}  // namespace
}  // namespace nstance::test

int main(int count, char** arguments) {
  using nstance::FileStore;
  if (count != 4) return 2;
  nstance::RealLoop loop;
  // The sanitizers and a busy machine: no write here is to run into the deadline.
  auto store = FileStore::Open(
      loop, {.directory = arguments[1], .deadline = nstance::Duration::Seconds(60)});
  CHECK(store.has_value(), "{}", store.error().ToString());
  nstance::test::Writer writer(loop, **store, arguments[2],
                               std::strtoull(arguments[3], nullptr, 10));
  writer.RunForEver();
}
