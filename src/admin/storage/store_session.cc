#include "admin/storage/store_session.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "storage/settled_put.h"

namespace nstance::admin {
namespace {

constexpr std::size_t kAtOnce = 16;

// Reads of several objects that run beside each other.
struct Readings {
  const std::vector<ObjectKey>& keys;
  const StoreSession::Take& take;
  std::size_t next = 0;
  std::size_t outstanding = 0;
  std::optional<Error> failed = std::nullopt;
  std::vector<Pending> calls = {};
};

void ReadNext(const StorageDeps& deps, Readings& readings, std::size_t place) {
  if (readings.next == readings.keys.size() || readings.failed) return;
  const ObjectKey& key = readings.keys[readings.next++];
  ++readings.outstanding;
  readings.calls[place] = deps.store.Get(key, [&, place](const Result<Object>& object) {
    if (object.has_value()) {
      readings.take(key, *object);
    } else if (object.error().code != Code::kNotFound && !readings.failed) {
      readings.failed = object.error().Under(key.text());
    }
    // In a turn of its own: this call's Pending is replaced there. Counted down there too, so that
    // nothing refers to the readings once they are over.
    deps.loop.Post([&, place] {
      --readings.outstanding;
      ReadNext(deps, readings, place);
      if (readings.outstanding == 0) deps.turns.Stop();
    });
  });
}

// An error of the store itself, not of an object.
Error WithHint(Error error) {
  if (error.code == Code::kUnavailable || error.code == Code::kPermissionDenied ||
      error.code == Code::kFailedPrecondition || error.code == Code::kDeadlineExceeded ||
      error.code == Code::kUnauthenticated) {
    error.message +=
        "; check --storage-provider, --storage-bucket, and that you may read and write there";
  }
  return error;
}

template <class T>
Result<T> WithHint(Result<T> result) {
  if (result.has_value()) return result;
  return Fail(WithHint(std::move(result).error()));
}

}  // namespace

ObjectKey KnownKey(std::string_view text) {
  Result<ObjectKey> key = ObjectKey::Parse(text);
  CHECK(key.has_value(), "{}", text);
  return *std::move(key);
}

StoreSession::StoreSession(const StorageDeps& deps)
    : deps_(deps),
      jitter_(std::bit_cast<std::uint64_t>(deps.random.Array<sizeof(std::uint64_t)>())) {}

Result<Object> StoreSession::Get(const ObjectKey& key) {
  return WithHint(Await<Object>(deps_.turns, [&](ObjectStore::Done<Object> done) {
    return deps_.store.Get(key, std::move(done));
  }));
}

Result<std::vector<ObjectKey>> StoreSession::List(const std::string& prefix) {
  std::vector<ObjectKey> keys;
  std::string token;
  do {
    ASSIGN_OR_RETURN(
        ListPage page, WithHint(Await<ListPage>(deps_.turns, [&](ObjectStore::Done<ListPage> done) {
          return deps_.store.List({.prefix = prefix, .page_token = token}, std::move(done));
        })));
    for (ListedObject& object : page.objects) keys.push_back(std::move(object.key));
    if (keys.size() > kMaxListed) {
      return Fail(ResourceExhausted(
          fmt::format("more than {} objects below {}", kMaxListed, Quote(prefix))));
    }
    token = std::move(page.next_page_token);
  } while (!token.empty());
  return keys;
}

Result<ObjectVersion> StoreSession::Put(PutRequest request) {
  std::unique_ptr<SettledPut> put;
  return WithHint(Await<ObjectVersion>(deps_.turns, [&](SettledPut::Done done) {
    put = std::make_unique<SettledPut>(
        SettledPut::Deps{deps_.loop, deps_.store, jitter_},
        SettledPut::Request{.put = std::move(request), .deadline = deps_.loop.Now() + kSettleLimit},
        std::move(done));
    put->Start();
    return Pending();
  }));
}

Status StoreSession::GetAll(const std::vector<ObjectKey>& keys, const Take& take) {
  if (keys.empty()) return {};
  Readings readings{.keys = keys, .take = take};
  readings.calls.resize(std::min(kAtOnce, keys.size()));
  for (std::size_t place = 0; place < readings.calls.size(); ++place) {
    ReadNext(deps_, readings, place);
  }
  deps_.turns.Run();
  if (readings.failed) return Fail(WithHint(*std::move(readings.failed)));
  return {};
}

std::string StoreSession::NewWriteId() { return Base64UrlEncode(deps_.random.Array<16>()); }

}  // namespace nstance::admin
