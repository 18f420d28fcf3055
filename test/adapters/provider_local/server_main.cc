// A server that is nothing but its provider, for the tests that kill it. Arguments:
//   ROOT STARTS at STEP create|delete ID    does that one thing, and dies at the step
//   ROOT STARTS stop STEP create|delete ID  the same, and stands still at the step (SIGSTOP)
//   ROOT STARTS loop SEED ID...             creates and deletes at random for ever, a line for each
//                                           answer on standard output
// Every ID has the same request in every process.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "adapters/provider_local/local_provider.h"
#include "adapters/real_loop/real_loop.h"
#include "base/check.h"
#include "base/prng.h"
#include "test/adapters/provider_local/kill_request.h"

namespace nstance::test {
namespace {

class Server final {
 public:
  // A signal that the server sends itself when it first comes to a step.
  struct Fate {
    std::string step;
    int signal = SIGKILL;
  };
  Server(std::string root, std::string starts, Fate fate)
      : starts_(std::move(starts)), fate_(std::move(fate)) {
    LocalProvider::Options options = KillOptions(std::move(root));
    options.step = [this](std::string_view step) {
      // To this thread, which does not go on before the signal has struck.
      if (step == fate_.step && !met_.test_and_set()) (void)::raise(fate_.signal);
    };
    auto provider = LocalProvider::Open(loop_, std::move(options));
    CHECK(provider.has_value(), "{}", provider.error().ToString());
    provider_ = *std::move(provider);
  }

  std::string Create(const InstanceId& id) {
    return Await<ProviderInstance>([&](auto done) {
      return provider_->Create(Call(), KillRequest(id, starts_), std::move(done));
    });
  }
  std::string Delete(const InstanceId& id) {
    return Await<ProviderDeleted>(
        [&](auto done) { return provider_->Delete(Call(), {.instance_id = id}, std::move(done)); });
  }

 private:
  ProviderCall Call() { return {.epoch = 1, .deadline = loop_.Now() + Duration::Seconds(60)}; }
  // What was answered, in words.
  template <class T, class F>
  std::string Await(F ask) {
    std::optional<ProviderResult<T>> answer;
    const Pending pending = ask([&](ProviderResult<T> result) {
      answer = std::move(result);
      loop_.Stop();
    });
    while (!answer) loop_.Run();
    return *answer ? "ok" : answer->error().error.ToString();
  }

  std::string starts_;
  Fate fate_;
  std::atomic_flag met_;
  RealLoop loop_;
  std::unique_ptr<LocalProvider> provider_;
};

void Say(const std::string& line) {
  const auto count = ::write(STDOUT_FILENO, line.data(), line.size());
  if (count != static_cast<ssize_t>(line.size())) std::_Exit(3);
}

[[noreturn]] void RunForEver(Server& server, std::uint64_t seed,
                             const std::vector<InstanceId>& ids) {
  Prng prng(seed);
  for (;;) {
    const InstanceId& id = ids.at(static_cast<std::size_t>(prng.Below(ids.size())));
    const bool create = prng.Chance(3, 5);
    const std::string answer = create ? server.Create(id) : server.Delete(id);
    Say(fmt::format("{} {} {}\n", create ? "create" : "delete", id.text(), answer));
  }
}

}  // namespace
}  // namespace nstance::test

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 5) return 2;
  if (words[2] == "at" || words[2] == "stop") {
    nstance::test::Server server(
        words[0], words[1], {.step = words[3], .signal = words[2] == "stop" ? SIGSTOP : SIGKILL});
    const auto id = nstance::ParsePuidv7(words[5]);
    CHECK(id.has_value(), "{}", words[5]);
    nstance::test::Say((words[4] == "create" ? server.Create(*id) : server.Delete(*id)) + "\n");
    return 0;
  }
  std::vector<nstance::InstanceId> ids;
  for (std::size_t i = 4; i < words.size(); ++i) ids.push_back(*nstance::ParsePuidv7(words[i]));
  nstance::test::Server server(words[0], words[1], {});
  nstance::test::RunForEver(server, std::strtoull(words[3].c_str(), nullptr, 10), ids);
}
