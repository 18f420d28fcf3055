#include "adapters/http_server/watched_http_server.h"

#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "adapters/real_loop/real_loop.h"

namespace nstance {

// What both threads know. The home loop's tasks hold it weakly: once the server is gone they find
// nothing.
class WatchedHttpServer::State final : public std::enable_shared_from_this<State> {
 public:
  State(Loop& home, Options options)
      : home_(home),
        options_(std::move(options)),
        server_(std::make_unique<LoopHttpServer>(
            io_, LoopHttpServer::Options{.limits = options_.limits})) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (thread_.joinable()) {
      io_.Stop();
      thread_.join();
    }
    server_.reset();
  }

  // The thread starts when the listener is there: until then the server is ours alone.
  [[nodiscard]] Result<std::uint16_t> Listen(const std::string& host, std::uint16_t port,
                                             HttpPage page) {
    page_ = std::move(page);
    ASSIGN_OR_RETURN(
        const std::uint16_t bound,
        server_->Listen(host, port, [this](const HttpQuestion& question, HttpReply reply) {
          OnQuestion(question, std::move(reply));
        }));
    Beat();
    thread_ = std::thread([this] { io_.Run(); });
    return bound;
  }

 private:
  // --- On the home loop ---

  void Beat() {
    beat_at_.store(home_.Now().since_zero().nanoseconds(), std::memory_order_relaxed);
    beating_ = home_.CallAfter(options_.beat, [this] { Beat(); });
  }

  // What is left of a question on the home loop. Without an answer it goes on the thread, too.
  class Ticket final {
   public:
    Ticket(std::weak_ptr<State> state, std::uint64_t number)
        : state_(std::move(state)), number_(number) {}
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    Ticket(Ticket&& other) noexcept
        : state_(std::exchange(other.state_, {})), number_(other.number_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (const auto state = state_.lock()) state->Send(number_, std::nullopt);
    }

    void Answer(HttpAnswer answer) {
      const auto state = std::exchange(state_, {}).lock();
      if (state != nullptr) state->Send(number_, std::move(answer));
    }

   private:
    std::weak_ptr<State> state_;
    std::uint64_t number_;
  };

  void AskPage(const HttpQuestion& question, std::uint64_t number) {
    page_(question, [ticket = Ticket(weak_from_this(), number)](HttpAnswer answer) mutable {
      ticket.Answer(std::move(answer));
    });
  }

  void Send(std::uint64_t number, std::optional<HttpAnswer> answer) {
    io_.Post([this, number, answer = std::move(answer)]() mutable {
      const auto at = waiting_.find(number);
      if (at == waiting_.end()) return;
      HttpReply reply = std::move(at->second);
      waiting_.erase(at);
      if (answer) reply(*std::move(answer));
    });
  }

  // --- On the thread ---

  void OnQuestion(const HttpQuestion& question, HttpReply reply) {
    if (question.path == options_.alive_path) return reply(Alive());
    const std::uint64_t number = next_++;
    waiting_.emplace(number, std::move(reply));
    home_.Post([weak = weak_from_this(), question, number] {
      if (const auto state = weak.lock()) state->AskPage(question, number);
    });
  }

  [[nodiscard]] HttpAnswer Alive() const {
    const Duration since =
        io_.Now().since_zero() - Duration::Nanoseconds(beat_at_.load(std::memory_order_relaxed));
    if (since < options_.watchdog) return {.body = "ok\n"};
    return {.status = 503,
            .body = fmt::format("the loop has not turned for {} s\n", since.seconds())};
  }

  Loop& home_;
  const Options options_;
  HttpPage page_;
  Pending beating_;
  std::atomic<std::int64_t> beat_at_ = 0;
  RealLoop io_;
  std::map<std::uint64_t, HttpReply> waiting_;
  std::uint64_t next_ = 1;
  std::unique_ptr<LoopHttpServer> server_;
  std::thread thread_;
};

WatchedHttpServer::WatchedHttpServer(Loop& home, Options options)
    : state_(std::make_shared<State>(home, std::move(options))) {}
WatchedHttpServer::~WatchedHttpServer() = default;

Result<std::uint16_t> WatchedHttpServer::Listen(const std::string& host, std::uint16_t port,
                                                HttpPage page) {
  return state_->Listen(host, port, std::move(page));
}

Status WatchedHttpServer::UseTls(const RpcTlsMaterial& /*material*/) {
  return Fail(FailedPrecondition("these pages are in the clear"));
}

}  // namespace nstance
