#include "storage/store_probe.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "base/text.h"

namespace nstance {
namespace {

StoreProbe::Answer FromGet(std::size_t number, Result<Object> result) {
  if (!result) return {.number = number, .error = std::move(result).error()};
  return {.number = number,
          .bytes = std::move(result->bytes),
          .version = std::move(result->version),
          .store_time = result->store_time};
}

StoreProbe::Answer FromPut(std::size_t number, Result<ObjectVersion> result) {
  if (!result) return {.number = number, .error = std::move(result).error()};
  return {.number = number, .version = *std::move(result)};
}

StoreProbe::Answer FromDelete(std::size_t number, Status result) {
  if (!result) return {.number = number, .error = std::move(result).error()};
  return {.number = number};
}

StoreProbe::Answer FromList(std::size_t number, const ObjectKey& key,
                            const Result<ListPage>& result) {
  if (!result) return {.number = number, .error = result.error()};
  return {.number = number,
          .listed =
              std::ranges::find(result->objects, key, &ListedObject::key) != result->objects.end()};
}

}  // namespace

StoreProbeRunner::StoreProbeRunner(Deps deps, std::string shard, Done done)
    : deps_(std::move(deps)),
      machine_({.shard = std::move(shard),
                .random = Base64UrlEncode(deps_.random.Array<16>()),
                .endpoints = deps_.endpoints.size()}),
      done_(std::move(done)) {}

void StoreProbeRunner::Hand(StoreProbe::Answer answer) {
  answer.wall = deps_.loop.WallNow();
  Do(machine_.On(std::move(answer), deps_.loop.Now(), deps_.jitter));
}

void StoreProbeRunner::Do(StoreProbe::Command command) {
  std::visit(Overloaded{
                 [this](StoreProbe::Ask& ask) {
                   pendings_.clear();
                   for (std::size_t i = 0; i < ask.requests.size(); ++i) {
                     pendings_.push_back(Send(i, std::move(ask.requests[i])));
                   }
                 },
                 [this](StoreProbe::Wait& wait) {
                   pendings_.clear();
                   pendings_.push_back(deps_.loop.CallAfter(wait.length, [this] {
                     Do(machine_.On(StoreProbe::Woke{}, deps_.loop.Now()));
                   }));
                 },
                 [](StoreProbe::Nothing&) {},
                 [this](StoreProbe::Finish& finish) {
                   pendings_.clear();
                   Done done = std::move(done_);
                   done(std::move(finish.report));
                 },
             },
             command);
}

Pending StoreProbeRunner::Send(std::size_t number, StoreProbe::Request request) {
  ObjectStore& store = deps_.endpoints.at(request.endpoint);
  switch (request.method) {
    case probe::Method::kCreate:
    case probe::Method::kUpdate: {
      PutCondition condition = IfAbsent{};
      if (request.method == probe::Method::kUpdate) condition = IfVersion{request.version};
      return store.Put({.key = std::move(request.key),
                        .bytes = std::move(request.bytes),
                        .condition = std::move(condition)},
                       [this, number](auto result) { Hand(FromPut(number, std::move(result))); });
    }
    case probe::Method::kGet:
      return store.Get(request.key,
                       [this, number](auto result) { Hand(FromGet(number, std::move(result))); });
    case probe::Method::kDelete:
    case probe::Method::kDeleteVersion: {
      DeleteRequest removal{.key = std::move(request.key), .version = std::nullopt};
      if (request.method == probe::Method::kDeleteVersion) removal.version = request.version;
      return store.Delete(std::move(removal), [this, number](auto result) {
        Hand(FromDelete(number, std::move(result)));
      });
    }
    case probe::Method::kList: {
      ListRequest list{.prefix = request.key.text()};
      return store.List(std::move(list), [this, number, key = std::move(request.key)](auto result) {
        Hand(FromList(number, key, result));
      });
    }
  }
  return {};
}

}  // namespace nstance
