// FakeShard: the operator's side of a shard leader for tests of the admin tool: a few groups and
// instances in memory, answers that a test may replace by errors, and streams that it can feed.
//
// Works on any RpcServer. It holds the tool to the contract where that is cheap: a page size above
// the limit, a missing request id and an unknown path are failures of the test.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ports/api/methods.h"
#include "ports/rpc.h"

namespace nstance::admin::test {

class FakeShard final {
 public:
  FakeShard() = default;
  FakeShard(const FakeShard&) = delete;
  FakeShard& operator=(const FakeShard&) = delete;
  // Before the RpcServer.
  ~FakeShard() { streams_.clear(); }

  [[nodiscard]] RpcAcceptor Acceptor() {
    return [this](std::unique_ptr<RpcServerCall> call) { Accept(std::move(call)); };
  }

  // --- What it has ---

  std::map<std::string, api::GroupStatus> groups = {};
  std::map<std::string, api::Instance> instances = {};
  api::ConfigStatusResponse config = {.etag = "abc123", .size = 4711};
  api::PlanResponse plan = {};
  std::optional<api::ExplainResponse> explanation = std::nullopt;
  std::vector<api::Event> backlog = {};
  // Answers to calls of that method's name, instead of what it has.
  std::map<std::string, Error, std::less<>> refuse = {};
  // Runs before each answer, with the method's name.
  std::function<void(const std::string& method)> before = {};

  // --- What was asked ---

  std::map<std::string, int, std::less<>> calls = {};
  std::vector<api::UpsertGroupRequest> upserts = {};
  std::vector<api::DeleteGroupRequest> group_deletes = {};
  std::vector<api::CreateInstanceRequest> creates = {};
  std::vector<api::DeleteInstanceRequest> deletes = {};
  std::vector<api::PlanRequest> plans = {};
  std::vector<api::WatchEventsRequest> watches = {};

  [[nodiscard]] int Calls(std::string_view method) const {
    const auto at = calls.find(method);
    return at == calls.end() ? 0 : at->second;
  }

  // --- Streams ---

  void Emit(const api::Event& event) {
    for (const auto& stream : streams_) {
      if (stream->method == "WatchEvents") stream->call->Send(RpcMessage::Of(event));
    }
  }
  void EmitGroup(const api::GroupStatus& status) {
    groups[status.key] = status;
    for (const auto& stream : streams_) {
      if (stream->method != "WatchGroups") continue;
      stream->call->Send(
          RpcMessage::Of(api::GroupEvent{.type = api::GroupEventType::kUpsert, .group = status}));
    }
  }
  [[nodiscard]] std::size_t streams() const { return streams_.size(); }
  // As a step-down does.
  void DropStreams() { streams_.clear(); }

 private:
  struct Stream {
    std::string method = {};
    std::unique_ptr<RpcServerCall> call = {};
  };

  void Accept(std::unique_ptr<RpcServerCall> call) {
    const std::string_view path = call->info().policy->path;
    auto stream = std::make_shared<Stream>();
    stream->method = std::string(path.substr(path.rfind('/') + 1));
    stream->call = std::move(call);
    ++calls[stream->method];
    if (before) before(stream->method);
    if (const auto refused = refuse.find(stream->method); refused != refuse.end()) {
      stream->call->Finish(Fail(refused->second));
      return;
    }
    streams_.push_back(stream);
    Stream* at = stream.get();
    at->call->Listen({.message = [this, at](const RpcMessage& message) { OnMessage(*at, message); },
                      .cancelled = [this, at](const Error&) { Forget(*at); }});
  }

  void Forget(const Stream& stream) {
    std::erase_if(streams_, [&](const auto& one) { return one.get() == &stream; });
  }

  template <class T>
  void Answer(Stream& stream, Result<T> answer) {
    if (answer) {
      stream.call->Send(RpcMessage::Of(*std::move(answer)));
      stream.call->Finish({});
    } else {
      stream.call->Finish(Fail(answer.error()));
    }
    Forget(stream);
  }

  void OnMessage(Stream& stream, const RpcMessage& message) {
    const std::string& method = stream.method;
    if (method == "WatchEvents") {
      watches.push_back(*message.As<api::WatchEventsRequest>());
      for (const api::Event& event : backlog) stream.call->Send(RpcMessage::Of(event));
      return;
    }
    if (method == "WatchGroups") {
      for (const auto& [key, status] : groups) {
        stream.call->Send(
            RpcMessage::Of(api::GroupEvent{.type = api::GroupEventType::kUpsert, .group = status}));
      }
      return;
    }
    if (method == "GetConfigStatus") return Answer<api::ConfigStatusResponse>(stream, config);
    if (method == "RefreshConfig") {
      return Answer<api::RefreshConfigResponse>(
          stream,
          api::RefreshConfigResponse{.updated = true, .prev_etag = "abc122", .etag = config.etag});
    }
    if (method == "ListGroups") return Answer(stream, ListGroups());
    if (const auto* upsert = message.As<api::UpsertGroupRequest>()) {
      return Answer(stream, Upsert(*upsert));
    }
    if (const auto* remove = message.As<api::DeleteGroupRequest>()) {
      group_deletes.push_back(*remove);
      groups.erase(remove->key);
      return Answer<api::Empty>(stream, api::Empty{});
    }
    OnInstanceMessage(stream, message);
  }

  void OnInstanceMessage(Stream& stream, const RpcMessage& message) {
    if (const auto* request = message.As<api::ListInstancesRequest>()) {
      return Answer(stream, ListInstances(*request));
    }
    if (const auto* request = message.As<api::GetInstanceStatusRequest>()) {
      return Answer(stream, InstanceStatus(request->instance_id));
    }
    if (const auto* request = message.As<api::CreateInstanceRequest>()) {
      return Answer(stream, Create(*request));
    }
    if (const auto* request = message.As<api::DeleteInstanceRequest>()) {
      deletes.push_back(*request);
      return Answer<api::DeleteInstanceResponse>(
          stream, api::DeleteInstanceResponse{.status = request->drain ? "draining" : "deleting"});
    }
    if (const auto* request = message.As<api::PlanRequest>()) {
      plans.push_back(*request);
      if (!request->group.empty() && !request->what_if && !groups.contains(request->group)) {
        return Answer<api::PlanResponse>(stream, Fail(NotFound("the group is unknown")));
      }
      return Answer<api::PlanResponse>(stream, plan);
    }
    if (message.As<api::ExplainRequest>() != nullptr) {
      if (!explanation) {
        return Answer<api::ExplainResponse>(stream, Fail(NotFound("nothing of that name")));
      }
      return Answer<api::ExplainResponse>(stream, *explanation);
    }
    ADD_FAILURE() << "unexpected call of " << stream.method;
  }

  Result<api::ListGroupsResponse> ListGroups() const {
    api::ListGroupsResponse list;
    for (const auto& [key, status] : groups) list.groups.push_back(status);
    return list;
  }

  Result<api::GroupStatus> Upsert(const api::UpsertGroupRequest& request) {
    EXPECT_FALSE(request.request_id.empty());
    upserts.push_back(request);
    api::GroupStatus& status = groups[request.key];
    status.key = request.key;
    status.tenant = "prod";
    if (!request.size_unset) status.size = request.config->size;
    if (!request.config->template_name.empty()) {
      status.template_name = request.config->template_name;
    }
    return status;
  }

  Result<api::ListInstancesResponse> ListInstances(const api::ListInstancesRequest& request) const {
    EXPECT_LE(request.page_size, 1000);
    api::ListInstancesResponse page;
    for (const auto& [id, instance] : instances) {
      if (id <= request.page_token && !request.page_token.empty()) continue;
      if (!request.group.empty() && instance.group != request.group) continue;
      const auto& phases = request.phases;
      if (!phases.empty() && std::ranges::find(phases, instance.phase) == phases.end()) continue;
      if (std::cmp_equal(page.instances.size(), request.page_size)) {
        page.next_page_token = page.instances.back().instance_id;
        break;
      }
      page.instances.push_back(instance);
    }
    return page;
  }

  Result<api::InstanceStatusResponse> InstanceStatus(const std::string& id) const {
    const auto at = instances.find(id);
    if (at == instances.end()) return Fail(NotFound("the instance is unknown"));
    return api::InstanceStatusResponse{
        .instance_id = id, .tenant = "prod", .status = "running", .instance = at->second};
  }

  Result<api::CreateInstanceResponse> Create(const api::CreateInstanceRequest& request) {
    EXPECT_FALSE(request.request_id.empty());
    creates.push_back(request);
    if (!groups.contains(request.config->group)) return Fail(NotFound("the group is unknown"));
    const std::string id =
        request.instance_id.empty() ? "knd06bgm7733st2576nx5jht4ecjw" : request.instance_id;
    instances[id] = {.instance_id = id,
                     .group = request.config->group,
                     .phase = api::InstancePhase::kCreating,
                     .on_demand = true};
    return api::CreateInstanceResponse{.instance_id = id, .status = "pending"};
  }

  std::list<std::shared_ptr<Stream>> streams_;
};

}  // namespace nstance::admin::test
