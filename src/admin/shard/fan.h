// Fan: asks several shards beside each other and tells all answers at once, in their order.
//
//   fan_ = AskAll(session, api::kListGroups, {}, [this](auto answers) { OnGroups(answers); });
//
// A chain of several calls per shard is a sequence of fans: each asks the shards that are left.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "admin/shard/session.h"
#include "ports/api/methods.h"

namespace nstance::admin {

// Something under way; destroying it stops it.
class Running {
 public:
  Running() = default;
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  virtual ~Running() = default;
};

template <class T>
class Fan final : public Running {
 public:
  using Told = std::move_only_function<void(Result<T> answer)>;
  // Begins the call or calls to one shard; what it returns is kept until the answer.
  using Ask = std::function<std::shared_ptr<Running>(std::size_t server, Told told)>;
  using All = std::move_only_function<void(ShardAnswers<T> answers)>;

  // Call Start() once; `done` may destroy the fan.
  Fan(std::vector<std::size_t> servers, Ask ask, All done)
      : servers_(std::move(servers)), ask_(std::move(ask)), done_(std::move(done)) {}

  // REQUIRES: at least one server.
  void Start() {
    answers_.resize(servers_.size());
    chains_.resize(servers_.size());
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      chains_[i] =
          ask_(servers_[i], [this, i](Result<T> answer) { OnAnswer(i, std::move(answer)); });
    }
  }

 private:
  void OnAnswer(std::size_t i, Result<T> answer) {
    answers_[i] = std::move(answer);
    if (++answered_ < servers_.size()) return;
    ShardAnswers<T> all;
    for (std::size_t k = 0; k < servers_.size(); ++k) {
      all.push_back({.server = servers_[k], .answer = *std::move(answers_[k])});
    }
    auto tell = std::move(done_);
    tell(std::move(all));
  }

  std::vector<std::size_t> servers_;
  Ask ask_;
  All done_;
  std::size_t answered_ = 0;
  std::vector<std::optional<Result<T>>> answers_;
  std::vector<std::shared_ptr<Running>> chains_;
};

// Numbers of all shards of the session.
[[nodiscard]] inline std::vector<std::size_t> AllShards(const Session& session) {
  std::vector<std::size_t> all(session.shards());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

// One call to each of those shards; `request_of` makes the request.
template <class Request, class Response>
[[nodiscard]] std::unique_ptr<Running> AskSome(
    Session& session, std::vector<std::size_t> servers,
    const api::Method<Request, Response>& method,
    std::pair<std::function<std::type_identity_t<Request>(std::size_t server)>,
              std::move_only_function<void(ShardAnswers<std::type_identity_t<Response>>)>>
        what) {
  auto fan = std::make_unique<Fan<Response>>(
      std::move(servers),
      [&session, method, request_of = std::move(what.first)](std::size_t server, auto told) {
        session.caller(server).Call(method, request_of(server), session.Deadline(server),
                                    std::move(told));
        return std::shared_ptr<Running>();
      },
      std::move(what.second));
  fan->Start();
  return fan;
}

// The same call to every shard.
template <class Request, class Response>
[[nodiscard]] std::unique_ptr<Running> AskAll(
    Session& session, const api::Method<Request, Response>& method,
    const std::type_identity_t<Request>& request,
    std::move_only_function<void(ShardAnswers<std::type_identity_t<Response>>)> done) {
  return AskSome(session, AllShards(session), method,
                 {[request](std::size_t) { return request; }, std::move(done)});
}

}  // namespace nstance::admin
