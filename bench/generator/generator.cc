#include "bench/generator/generator.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/core.h>

namespace nstance::bench {
namespace {

// "word n n n"; numbers that are missing are 0. False when one is not a number.
bool Split(std::string_view line, std::string& word, std::array<std::uint64_t, 3>& numbers) {
  std::size_t at = line.find(' ');
  word = line.substr(0, at);
  for (std::uint64_t& number : numbers) {
    if (at == std::string_view::npos) return true;
    line.remove_prefix(at + 1);
    at = line.find(' ');
    const std::string_view text = line.substr(0, at);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
  }
  return at == std::string_view::npos;
}

json::Value Number(std::uint64_t value) {
  return json::Value::Integer(static_cast<std::int64_t>(value));
}

}  // namespace

Generator::Generator(Setup setup, Answer answer)
    : setup_(std::move(setup)), answer_(std::move(answer)), chance_(setup_.seed) {
  joins_.resize(setup_.agent_tokens.size());
}

RpcDialer& Generator::NextDialer() {
  return *setup_.dialers[next_dialer_++ % setup_.dialers.size()];
}

void Generator::Obey(std::string_view line) {
  std::string word;
  std::array<std::uint64_t, 3> n{};
  const bool readable = Split(line, word, n);
  Begin(word);
  if (readable && word == "join" && n[0] > 0 && n[1] > 0) return Join(n[0], n[1]);
  if (readable && word == "connect" && n[0] > 0) return Connect(n[0]);
  if (readable && word == "report" && n[0] > 0 && n[1] > 0) return Report(n[0], n[1], n[2]);
  if (readable && word == "settle") return Settle(n[0]);
  if (readable && word == "operators" && n[0] > 0) return Operators(n[0]);
  if (readable && word == "upsert" && n[0] > 0) return Upsert(n[0]);
  if (readable && word == "watch" && n[0] > 0 && n[1] > 0) return Watch(n[0], n[1]);
  work_.error = "not a command; see bench/generator/generator.h";
  AnswerNow();
}

void Generator::Begin(std::string command) {
  work_ = {};
  work_.command = std::move(command);
  work_.start = setup_.loop.Now();
  behind_ = {};
}

void Generator::Ended(const Status& status) {
  if (status.has_value()) {
    ++work_.good;
  } else {
    ++work_.bad;
    if (work_.error.empty()) work_.error = status.error().message;
  }
  AnswerWhenOver();
}

void Generator::AnswerWhenOver() {
  if (work_.all_begun && work_.good + work_.bad == work_.begun) AnswerNow();
}

void Generator::AnswerNow() {
  if (schedule_ != nullptr) behind_ = schedule_->behind();
  json::Value line = json::Value::Map({});
  line.Set("command", json::Value::String(work_.command));
  line.Set("error", json::Value::String(work_.error));
  line.Set("begun", Number(work_.begun));
  line.Set("good", Number(work_.good));
  line.Set("bad", Number(work_.bad));
  line.Set("seconds",
           json::Value::Double(
               static_cast<double>((setup_.loop.Now() - work_.start).nanoseconds()) / 1e9));
  line.Set("behind_us", json::Value::Integer(behind_.nanoseconds() / 1'000));
  line.Set("latency", work_.latency.ToJson());
  line.Set("agents", Number(agents_.size()));
  line.Set("up", Number(tally_.up));
  line.Set("lost", Number(tally_.lost));
  line.Set("failed_connects", Number(tally_.failed_connects));
  line.Set("refused", Number(tally_.refused));
  line.Set("patches", Number(tally_.patches));
  line.Set("last_loss", json::Value::String(tally_.last_loss));
  answer_(line);
}

// --- Agents --------------------------------------------------------------------------------------

void Generator::Join(std::uint64_t count, std::uint64_t rate) {
  const std::size_t first = next_token_;
  if (count > setup_.agent_tokens.size() - first) {
    work_.error = fmt::format("only {} tokens are left", setup_.agent_tokens.size() - first);
    return AnswerNow();
  }
  next_token_ += count;
  work_.begun = count;
  schedule_ = std::make_unique<OpenLoop>(
      setup_.loop, OpenLoop::Plan{.per_second = rate, .total = count},
      [this, first](std::uint64_t number, Instant due) { JoinOne(first + number, due); },
      [this] {
        work_.all_begun = true;
        AnswerWhenOver();
      });
}

void Generator::JoinOne(std::size_t index, Instant due) {
  joins_[index] = std::make_unique<bench::Join>(
      setup_.join, NextDialer(), crypto::Role::kAgent, setup_.agent_tokens[index],
      [this, index, due](Result<RpcTls> identity) {
        work_.latency.Record(setup_.loop.Now() - due);
        const Status status = identity.has_value() ? Status() : Status(Fail(identity.error()));
        if (identity.has_value()) {
          agents_.push_back(std::make_unique<LoadAgent>(
              LoadAgent::Setup{.loop = setup_.loop,
                               .dialer = NextDialer(),
                               .chance = chance_,
                               .tally = tally_,
                               .server = setup_.agent,
                               .instance_id = setup_.agent_tokens[index].instance_id,
                               .tls = *std::move(identity)}));
        }
        const std::unique_ptr<bench::Join> over = std::move(joins_[index]);
        Ended(status);
      });
}

void Generator::Connect(std::uint64_t rate) {
  const std::size_t first = std::exchange(connected_, agents_.size());
  work_.begun = agents_.size() - first;
  schedule_ = std::make_unique<OpenLoop>(
      setup_.loop, OpenLoop::Plan{.per_second = rate, .total = work_.begun},
      [this, first](std::uint64_t number, Instant due) {
        LoadAgent& agent = *agents_[first + number];
        agent.Connect([this, due, told = false]() mutable {
          if (std::exchange(told, true)) return;
          work_.latency.Record(setup_.loop.Now() - due);
          Ended({});
        });
      },
      [this] {
        work_.all_begun = true;
        AnswerWhenOver();
      });
}

void Generator::Report(std::uint64_t rate, std::uint64_t seconds, std::uint64_t every) {
  if (agents_.empty()) {
    work_.error = "no agent has joined";
    return AnswerNow();
  }
  schedule_ = std::make_unique<OpenLoop>(
      setup_.loop, OpenLoop::Plan{.per_second = rate, .total = rate * seconds},
      [this, every](std::uint64_t number, Instant due) {
        LoadAgent& agent = *agents_[number % agents_.size()];
        ++work_.begun;
        if (!agent.Report()) {
          return Ended(Fail(Unavailable("an agent was not connected, or its queue was full")));
        }
        const bool timed = every > 0 && number % every == 0 && agent.Probe([this, due] {
          work_.latency.Record(setup_.loop.Now() - due);
        });
        static_cast<void>(timed);
        ++work_.good;
      },
      [this] {
        work_.all_begun = true;
        // What is under way arrives; a probe that does not is missing in the count.
        timer_ = setup_.loop.CallAfter(Duration::Milliseconds(500), [this] { AnswerNow(); });
      });
}

void Generator::Settle(std::uint64_t seconds) {
  timer_ = setup_.loop.CallAfter(Duration::Seconds(static_cast<std::int64_t>(seconds)),
                                 [this] { AnswerNow(); });
}

// --- Operators -----------------------------------------------------------------------------------

void Generator::Operators(std::uint64_t per_tenant) {
  operator_joins_.resize(setup_.operator_tokens.size());
  work_.begun = setup_.operator_tokens.size() * per_tenant;
  work_.all_begun = true;
  if (work_.begun == 0) return AnswerNow();
  for (std::size_t i = 0; i < setup_.operator_tokens.size(); ++i) {
    operator_joins_[i] = std::make_unique<bench::Join>(
        setup_.join, NextDialer(), crypto::Role::kOperator, setup_.operator_tokens[i],
        [this, i, per_tenant](const Result<RpcTls>& identity) {
          const std::unique_ptr<bench::Join> over = std::move(operator_joins_[i]);
          if (identity.has_value()) return OpenOperators(i, per_tenant, *identity);
          for (std::uint64_t n = 0; n < per_tenant; ++n) Ended(Fail(identity.error()));
        });
  }
}

void Generator::OpenOperators(std::size_t token, std::uint64_t per_tenant, const RpcTls& identity) {
  for (std::uint64_t n = 0; n < per_tenant; ++n) {
    operators_.push_back(std::make_unique<LoadOperator>(
        LoadOperator::Setup{.loop = setup_.loop,
                            .dialer = NextDialer(),
                            .server = setup_.operators,
                            .tenant = setup_.operator_tokens[token].tenant,
                            .group = fmt::format("g{}", n),
                            .tls = identity}));
    operators_.back()->Connect([this](const Status& status) { Ended(status); });
  }
}

void Generator::Upsert(std::uint64_t seconds) {
  schedule_.reset();
  until_ = setup_.loop.Now() + Duration::Seconds(static_cast<std::int64_t>(seconds));
  if (operators_.empty()) {
    work_.error = "no operator has joined";
    return AnswerNow();
  }
  for (const auto& one : operators_) UpsertNext(*one);
}

void Generator::UpsertNext(LoadOperator& one) {
  if (setup_.loop.Now() >= until_) {
    if (std::ranges::none_of(operators_, [](const auto& other) { return other->upserting(); })) {
      CheckSizes();
    }
    return;
  }
  ++work_.begun;
  const Instant begun = setup_.loop.Now();
  one.Upsert(static_cast<std::int32_t>(chance_.Below(1'000)), begun,
             [this, &one, begun](const Status& status) {
               work_.latency.Record(setup_.loop.Now() - begun);
               Ended(status);
               UpsertNext(one);
             });
}

// Each group has one writer: its size must be what that one was told last.
void Generator::CheckSizes() {
  timer_ = setup_.loop.CallAfter({}, [this] {
    auto left = std::make_shared<std::size_t>(operators_.size());
    for (const auto& one : operators_) {
      one->Check([this, left](const Status& status) {
        if (!status.has_value() && work_.error.empty()) work_.error = status.error().message;
        if (--*left == 0) AnswerNow();
      });
    }
  });
}

void Generator::Watch(std::uint64_t rate, std::uint64_t seconds) {
  std::vector<LoadOperator*> writers;
  watch_latency_ = {};
  for (const auto& one : operators_) {
    one->Watch(watch_latency_);
    if (one->setup().group == "g0") writers.push_back(one.get());
  }
  if (writers.empty()) {
    work_.error = "no operator has joined";
    return AnswerNow();
  }
  schedule_ = std::make_unique<OpenLoop>(
      setup_.loop, OpenLoop::Plan{.per_second = rate, .total = rate * seconds},
      [this, writers](std::uint64_t number, Instant due) {
        LoadOperator& one = *writers[number % writers.size()];
        ++work_.begun;
        if (one.upserting()) return Ended(Fail(Unavailable("the former upsert is not answered")));
        one.Upsert(static_cast<std::int32_t>(chance_.Below(1'000)), due,
                   [this](const Status& status) { Ended(status); });
      },
      [this] {
        timer_ = setup_.loop.CallAfter(Duration::Seconds(2), [this] {
          work_.latency = watch_latency_;
          AnswerNow();
        });
      });
}

}  // namespace nstance::bench
