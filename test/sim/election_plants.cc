#include "test/sim/election_plants.h"

#include <array>
#include <utility>

#include <fmt/format.h>

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
  return store_.Get(key,
                    [&state = StateOf(key), done = std::move(done)](Result<Object> result) mutable {
                      const bool told = result || result.error().code == Code::kNotFound;
                      if (told) state = {};
                      done(std::move(result));
                    });
}

void WatchedStore::Sent(const PutRequest& request) {
  State& state = StateOf(request.key);
  if (state.in_doubt) {
    checkers_.Violated("I09_AnAmbiguousWriteIsReadBackFirst", request.key.text());
  }
  state.under_way = true;
  const bool lease = request.key == checkers_.options().lease_key;
  if (lease && std::holds_alternative<IfAbsent>(request.condition)) {
    checkers_.CreationSent(request);
  }
  if (!lease && !may_write_journal_()) {
    checkers_.Violated("RU4_AnEffectStartsOnlyIfItEndsBeforeTheDeadline", request.key.text());
  }
}

Pending WatchedStore::Put(PutRequest request, Done<ObjectVersion> done) {
  Sent(request);
  State& state = StateOf(request.key);
  return store_.Put(std::move(request),
                    [&state, done = std::move(done)](Result<ObjectVersion> result) mutable {
                      state.under_way = false;
                      state.in_doubt = !result && (result.error().outcome == Outcome::kMaybeDone ||
                                                   result.error().code == Code::kAborted);
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
  if (rebases) return PutOrRebase(std::move(request), std::move(done));
  return store_.Put(std::move(request), [plant = options_.plant, done = std::move(done)](
                                            Result<ObjectVersion> result) mutable {
    if (plant == Plant::kDoubtIsDone && IsDoubt(result)) return done(ObjectVersion{"a guess"});
    if (plant == Plant::kDoubtIsNotDone && IsDoubt(result)) {
      return done(Fail(Unavailable("a guess")));
    }
    done(std::move(result));
  });
}

Pending PlantedStore::PutOrRebase(PutRequest request, Done<ObjectVersion> done) {
  auto rewrite = std::make_shared<Rewrite>(std::move(request), std::move(done));
  rewrite->step = store_.Put(rewrite->request, [this, rewrite](Result<ObjectVersion> result) {
    const bool refused = !result && result.error().code == Code::kAborted;
    if (refused) return Rebase(rewrite);
    rewrite->done(std::move(result));
  });
  return Pending([rewrite] { rewrite->step.Cancel(); });
}

void PlantedStore::Rebase(const std::shared_ptr<Rewrite>& rewrite) {
  rewrite->step = store_.Get(rewrite->request.key, [this, rewrite](Result<Object> found) {
    if (!found) return rewrite->done(Fail(Aborted("412")));
    WriteOnTop(rewrite, *found);
  });
}

void PlantedStore::WriteOnTop(const std::shared_ptr<Rewrite>& rewrite, const Object& found) {
  const Result<Journal> ours = DecodeJournal(rewrite->request.bytes, options_.identity);
  Result<Journal> next = DecodeJournal(found.bytes, options_.identity);
  if (!ours || !next || next->write_id == ours->write_id) {
    return rewrite->done(Fail(Aborted("412")));
  }
  if (!options_.may_write()) return rewrite->done(Fail(Aborted("412")));
  next->epoch = ours->epoch;
  next->seq += 1;
  next->holder = ours->holder;
  for (const Intent& intent : ours->intents) {
    const bool brought = intent.id.starts_with(fmt::format("{}-{}-", ours->epoch, ours->seq));
    if (brought) next->intents.push_back(intent);
  }
  next->write_id = ours->write_id;
  rewrite->step =
      store_.Put({.key = rewrite->request.key,
                  .bytes = EncodeJournal(*next),
                  .condition = IfVersion{found.version}},
                 [rewrite](Result<ObjectVersion> result) { rewrite->done(std::move(result)); });
}

}  // namespace nstance::sim
