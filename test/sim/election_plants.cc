#include "test/sim/election_plants.h"

#include <array>
#include <utility>

namespace nstance::sim {
namespace {

constexpr std::array<std::pair<Plant, std::string_view>, 7> kNames = {{
    {Plant::kNone, "none"},
    {Plant::kNoEpochCheck, "no-epoch-check"},
    {Plant::kDoubtIsDone, "doubt-is-done"},
    {Plant::kDoubtIsNotDone, "doubt-is-not-done"},
    {Plant::kWallClock, "wall-clock"},
    {Plant::kNoMargin, "no-margin"},
    {Plant::kNoTakeOverRewrite, "no-take-over-rewrite"},
}};

bool IsDoubt(const Result<ObjectVersion>& result) {
  return !result && result.error().outcome == Outcome::kMaybeDone;
}

}  // namespace

std::string_view PlantName(Plant plant) {
  for (const auto& [value, name] : kNames) {
    if (value == plant) return name;
  }
  return "unknown";
}

std::optional<Plant> ParsePlant(std::string_view name) {
  for (const auto& [value, text] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

Pending WatchedStore::Get(const ObjectKey& key, Done<Object> done) {
  return store_.Get(key, [this, key, done = std::move(done)](Result<Object> result) mutable {
    const bool told = result || result.error().code == Code::kNotFound;
    if (told) checkers_.GetAnswered(process_, key.text());
    done(std::move(result));
  });
}

Pending WatchedStore::Put(PutRequest request, Done<ObjectVersion> done) {
  const ObjectKey key = request.key;
  checkers_.PutSent(process_, request);
  return store_.Put(std::move(request), [this, key, done = std::move(done)](
                                            Result<ObjectVersion> result) mutable {
    checkers_.PutAnswered(process_, key.text(), result ? nullptr : &result.error());
    done(std::move(result));
  });
}

Pending WatchedStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return store_.Head(key, std::move(done));
}
Pending WatchedStore::Delete(DeleteRequest request, Done<void> done) {
  return store_.Delete(std::move(request), std::move(done));
}
Pending WatchedStore::List(ListRequest request, Done<ListPage> done) {
  return store_.List(std::move(request), std::move(done));
}
Pending WatchedStore::PutUnconditionally(ObjectKey key, std::string bytes,
                                         Done<ObjectVersion> done) {
  return store_.PutUnconditionally(std::move(key), std::move(bytes), std::move(done));
}

Pending PlantedStore::Get(const ObjectKey& key, Done<Object> done) {
  return store_.Get(key, std::move(done));
}
Pending PlantedStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return store_.Head(key, std::move(done));
}
Pending PlantedStore::Delete(DeleteRequest request, Done<void> done) {
  return store_.Delete(std::move(request), std::move(done));
}
Pending PlantedStore::List(ListRequest request, Done<ListPage> done) {
  return store_.List(std::move(request), std::move(done));
}
Pending PlantedStore::PutUnconditionally(ObjectKey key, std::string bytes,
                                         Done<ObjectVersion> done) {
  return store_.PutUnconditionally(std::move(key), std::move(bytes), std::move(done));
}

Pending PlantedStore::Put(PutRequest request, Done<ObjectVersion> done) {
  const bool journal = request.key == options_.journal_key;
  const auto* expected = std::get_if<IfVersion>(&request.condition);
  if (options_.plant == Plant::kNoTakeOverRewrite && journal && !took_over_ && expected) {
    took_over_ = true;
    return loop_.CallAt(loop_.Now(),
                        [version = expected->version, done = std::move(done)]() mutable {
                          done(std::move(version));
                        });
  }
  const bool rebases = options_.plant == Plant::kNoEpochCheck && journal && took_over_;
  if (journal) took_over_ = true;
  PutRequest kept =
      rebases ? request : PutRequest{.key = request.key, .bytes = {}, .condition = {}};
  return store_.Put(std::move(request),
                    [this, rebases, kept = std::move(kept),
                     done = std::move(done)](Result<ObjectVersion> result) mutable {
                      if (options_.plant == Plant::kDoubtIsDone && IsDoubt(result)) {
                        return done(ObjectVersion{"a guess"});
                      }
                      if (options_.plant == Plant::kDoubtIsNotDone && IsDoubt(result)) {
                        return done(Fail(Unavailable("a guess")));
                      }
                      if (rebases && !result && result.error().code == Code::kAborted) {
                        return Rebase(kept, std::move(done));
                      }
                      done(std::move(result));
                    });
}

void PlantedStore::Rebase(const PutRequest& refused, Done<ObjectVersion> done) {
  step_ = store_.Get(refused.key,
                     [this, refused, done = std::move(done)](Result<Object> found) mutable {
                       if (!found) return done(Fail(Aborted("412")));
                       WriteOnTop(refused, *found, std::move(done));
                     });
}

void PlantedStore::WriteOnTop(const PutRequest& refused, const Object& found,
                              Done<ObjectVersion> done) {
  const Result<Journal> ours = DecodeJournal(refused.bytes, options_.identity);
  Result<Journal> next = DecodeJournal(found.bytes, options_.identity);
  if (!ours || !next || next->write_id == ours->write_id) return done(Fail(Aborted("412")));
  next->epoch = ours->epoch;
  next->seq += 1;
  next->holder = ours->holder;
  next->write_id = ours->write_id;
  step_ = store_.Put(
      {.key = refused.key, .bytes = EncodeJournal(*next), .condition = IfVersion{found.version}},
      std::move(done));
}

}  // namespace nstance::sim
