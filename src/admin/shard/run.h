// ShardRun: one command under way, from its first call to its ending; and who makes which.
#pragma once

#include <memory>
#include <string>

#include "admin/shard/fan.h"
#include "admin/shard/session.h"
#include "admin/shard_command.h"
#include "base/json.h"

namespace nstance::admin {

class ShardRun : public Running {
 public:
  // Call once. The ending comes later, never from inside, and may destroy the run.
  virtual void Start() = 0;
  // What somebody who ends the command now should know; empty: nothing.
  [[nodiscard]] virtual std::string StopNote() const { return ""; }
};

using RunPtr = std::unique_ptr<ShardRun>;

[[nodiscard]] RunPtr MakeRun(Session& session, const ConfigStatus& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const ConfigRefresh& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const GroupList& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const GroupShow& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const GroupChange& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const InstanceList& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const InstanceShow& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const InstanceCreate& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const InstanceDelete& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const ShowPlan& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const Why& command, Done done);
[[nodiscard]] RunPtr MakeRun(Session& session, const Watch& command, Done done);

inline constexpr const char* kChangeGoesOn =
    "Stopped waiting; the change goes on. `nstance-admin plan` and `nstance-admin why` tell how.";

// {"shards": [...]} with one object per answer, which begins with its shard.
template <class T, class Fill>
[[nodiscard]] json::Value ShardsJson(const Session& session, const ShardAnswers<T>& answers,
                                     Fill fill) {
  json::Array shards;
  for (const auto& [server, answer] : answers) {
    if (!answer) continue;
    json::Value object = json::Value::Map({});
    object.Set("shard", json::Value::String(session.name(server)));
    fill(object, *answer);
    shards.push_back(std::move(object));
  }
  json::Value document = json::Value::Map({});
  document.Set("shards", json::Value::List(std::move(shards)));
  return document;
}

// The same call to every shard, and a function that prints the answers.
template <class Request, class Response>
class OneCallRun final : public ShardRun {
 public:
  using Print = std::move_only_function<Ending(Session& session, ShardAnswers<Response> answers)>;
  struct Parts {
    api::Method<Request, Response> method = {};
    Request request = {};
    Print print = {};
  };
  OneCallRun(Session& session, Parts parts, Done done)
      : session_(session), parts_(std::move(parts)), done_(std::move(done)) {}

  void Start() override {
    fan_ = AskAll(session_, parts_.method, parts_.request, [this](ShardAnswers<Response> answers) {
      auto done = std::move(done_);
      done(parts_.print(session_, std::move(answers)));
    });
  }

 private:
  Session& session_;
  Parts parts_;
  Done done_;
  std::unique_ptr<Running> fan_;
};

}  // namespace nstance::admin
