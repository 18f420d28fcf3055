#include "sim/sim_object_store.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"

namespace nstance::sim {
namespace {

constexpr std::size_t kRevisionsKept = 8;
constexpr std::uint64_t kTenThousand = 10'000;

bool IsWrite(SimMethod method) {
  return method == SimMethod::kPut || method == SimMethod::kPutUnconditionally ||
         method == SimMethod::kDelete;
}

// The answers that a caller of each kind waits for.
Result<ObjectVersion> AnswerTo(Result<ObjectVersion> done, const ObjectVersion* /*tag*/) {
  return done;
}
Status AnswerTo(Result<ObjectVersion> done, const void* /*tag*/) {
  if (!done) return Fail(std::move(done).error());
  return {};
}

}  // namespace

std::string KeyClass(std::string_view key) { return std::string(key.substr(0, key.find('/'))); }

SimBucket::SimBucket(SimScheduler& scheduler, Options options)
    : scheduler_(scheduler),
      loop_(scheduler, Timestamp()),
      prng_(scheduler.prng().Fork()),
      options_(options) {}

const Object* SimBucket::Find(const ObjectKey& key) const {
  const auto at = objects_.find(key.text());
  return at == objects_.end() ? nullptr : AsOf(at->second, Instant::Never());
}

std::vector<ObjectKey> SimBucket::Keys() const {
  std::vector<ObjectKey> keys;
  for (const auto& [text, entry] : objects_) {
    if (AsOf(entry, Instant::Never()) != nullptr) keys.push_back(entry.key);
  }
  return keys;
}

void SimBucket::SetByHand(const ObjectKey& key, std::string bytes) {
  Apply({.process = {}, .method = SimMethod::kPut, .key = key, .bytes = std::move(bytes)});
}

void SimBucket::EraseByHand(const ObjectKey& key) {
  Apply({.process = {}, .method = SimMethod::kDelete, .key = key});
}

std::uint64_t SimBucket::Count(SimMethod method, std::string_view key_class) const {
  std::uint64_t sum = 0;
  for (const auto& [counter, count] : counts_) {
    if (std::get<0>(counter) == method && std::get<1>(counter) == key_class) sum += count;
  }
  return sum;
}

void SimBucket::Note(SimRequest request) {
  ++counts_[{request.method, KeyClass(request.key), request.result}];
  if (options_.log == Options::Log::kRequests) requests_.push_back(std::move(request));
}

void SimBucket::Later(Instant at, Task task) {
  const std::uint64_t number = next_later_++;
  later_[number] = loop_.CallAt(at, [this, number, task = std::move(task)]() mutable {
    const auto self = later_.extract(number);
    task();
  });
}

SimBucket::Entry& SimBucket::EntryOf(const ObjectKey& key) {
  return objects_.try_emplace(key.text(), Entry{.key = key, .revisions = {}}).first->second;
}

const Object* SimBucket::AsOf(const Entry& entry, Instant at) {
  const Revision* found = nullptr;
  for (const Revision& revision : entry.revisions) {
    if (revision.since <= at) found = &revision;
  }
  if (found == nullptr && entry.trimmed) found = &entry.revisions.front();
  return found == nullptr || !found->object ? nullptr : &*found->object;
}

void SimBucket::Arrive(Write write, WriteDone done) {
  const SimPersonality& manners = options_.personality;
  const bool rivals_meet = manners.judges_before_it_writes || manners.rival_gets_conflict ||
                           manners.lost_race_gets_error;
  if (!rivals_meet || write.method == SimMethod::kDelete) return done(Judge(std::move(write)));
  Entry& entry = EntryOf(write.key);
  if (manners.rival_gets_conflict && entry.in_flight > 0) {
    return done(Fail(Refuse(write, "409: another write is under way")));
  }
  const bool held = Holds(write);
  ++entry.in_flight;
  Later(scheduler_.now() + prng_.UpTo(Duration::Milliseconds(5)),
        [this, held, write = std::move(write), done = std::move(done)]() mutable {
          --EntryOf(write.key).in_flight;
          const bool holds = Holds(write);
          if (held && !holds && options_.personality.judges_before_it_writes) {
            return done(Apply(std::move(write)));
          }
          if (held && !holds && options_.personality.lost_race_gets_error) {
            (void)Refuse(write, "");
            return done(Fail(Unavailable("500: internal error").MaybeDone()));
          }
          done(Judge(std::move(write)));
        });
}

bool SimBucket::Holds(const Write& write) const {
  const SimPersonality& lies = options_.personality;
  const Object* present = Find(write.key);
  if (write.method == SimMethod::kDelete) {
    return !write.version || present == nullptr || lies.ignores_delete_condition ||
           present->version == *write.version;
  }
  if (!write.condition || lies.ignores_conditions) return true;
  if (lies.ignores_conditions_of_rewrites) {
    const auto at = objects_.find(write.key.text());
    if (at != objects_.end() && !at->second.revisions.empty()) return true;
  }
  const auto* update = std::get_if<IfVersion>(&*write.condition);
  if (update == nullptr) return present == nullptr;
  if (lies.refuses_all_updates) return false;
  if (present == nullptr) return lies.writes_on_missing_key;
  return present->version == update->version;
}

Error SimBucket::Refuse(const Write& write, std::string_view why) {
  Note({.at = scheduler_.now(),
        .process = write.process,
        .method = write.method,
        .key = write.key.text(),
        .result = SimResult::kRefused});
  return Aborted(std::string(why));
}

Result<ObjectVersion> SimBucket::Judge(Write write) {
  if (!Holds(write)) return Fail(Refuse(write, "412: the condition is not met"));
  return Apply(std::move(write));
}

ObjectVersion SimBucket::Apply(Write write) {
  const Instant now = scheduler_.now();
  if (!write.process.empty()) {
    Note({.at = now,
          .process = write.process,
          .method = write.method,
          .key = write.key.text(),
          .result = SimResult::kDone});
  }
  Entry& entry = EntryOf(write.key);
  const Object* present = Find(write.key);
  std::optional<Object> before;  // A copy, since the revision may be trimmed.
  if (observer_ && present != nullptr) before = *present;
  Revision next{.since = now, .object = std::nullopt};
  if (write.method != SimMethod::kDelete) {
    next.object =
        Object{.bytes = std::move(write.bytes), .version = {fmt::format("v{}", ++versions_)}};
    if (options_.wall_start) next.object->modified_at = *options_.wall_start + now.since_zero();
  } else if (present == nullptr) {
    return {};
  }
  entry.revisions.push_back(std::move(next));
  if (entry.revisions.size() > kRevisionsKept) {
    entry.revisions.pop_front();
    entry.trimmed = true;
  }
  const Object* after = Find(write.key);
  if (observer_) {
    observer_({.at = now,
               .process = write.process,
               .method = write.method,
               .key = write.key,
               .before = before ? &*before : nullptr,
               .after = after});
  }
  if (after == nullptr || options_.personality.tells_no_version) return {};
  return after->version;
}

Result<Object> SimBucket::Read(const ObjectKey& key, Duration staleness) const {
  const auto at = objects_.find(key.text());
  const Duration age = std::max(staleness, options_.personality.reads_lag);
  const Object* found = at == objects_.end() ? nullptr : AsOf(at->second, scheduler_.now() - age);
  if (found == nullptr) return Fail(NotFound(fmt::format("no object {}", key.text())));
  if (found->bytes.size() > ObjectStore::kMaxObjectBytes) {
    return Fail(ResourceExhausted(fmt::format("object {} is too large", key.text())));
  }
  Object object = *found;
  object.store_time = Time();
  return object;
}

std::optional<Timestamp> SimBucket::Time() const {
  if (!options_.wall_start) return std::nullopt;
  return *options_.wall_start + scheduler_.now().since_zero();
}

ListPage SimBucket::List(const ListRequest& request, Duration staleness) const {
  const Instant as_of = scheduler_.now() - std::max(staleness, options_.personality.listings_lag);
  ListPage page;
  const std::string& from = std::max(request.prefix, request.page_token);
  for (auto at = objects_.lower_bound(from); at != objects_.end(); ++at) {
    if (!at->first.starts_with(request.prefix)) break;
    if (at->first == request.page_token) continue;
    const Object* object = AsOf(at->second, as_of);
    if (object == nullptr) continue;
    if (page.objects.size() == std::max<std::size_t>(request.page_size, 1)) {
      page.next_page_token = page.objects.back().key.text();
      break;
    }
    page.objects.push_back(
        {.key = at->second.key, .version = object->version, .size = object->bytes.size()});
  }
  return page;
}

struct SimObjectStore::Wire {
  Loop* loop = nullptr;  // Null: the process is gone.
  SimLink link;
  TimeTold time_told;
};

template <class T>
struct SimObjectStore::Call : std::enable_shared_from_this<Call<T>> {
  explicit Call(Done<T> then) : done(std::move(then)) {}

  Done<T> done;
  Instant deadline;
  Pending timer = {};

  void Finish(Result<T> result) {
    if (Done<T> now = std::exchange(done, nullptr)) now(std::move(result));
  }

  // Sends the answer on its way back, if anybody still waits for it.
  void Answer(const std::shared_ptr<Wire>& wire, const Fate& fate, const SimBucket& bucket,
              Result<T> result) {
    if (wire->loop == nullptr || wire->link.answers_lost || !done) return;
    if (wire->loop->Now() + fate.back >= deadline) return;  // The deadline passes first.
    timer = wire->loop->CallAfter(fate.back,
                                  [call = this->shared_from_this(), wire, time = bucket.Time(),
                                   result = std::move(result)]() mutable {
                                    if (time && wire->time_told) wire->time_told(*time);
                                    call->Finish(std::move(result));
                                  });
  }
};

SimObjectStore::SimObjectStore(SimBucket& bucket, Loop& loop, Options options)
    : bucket_(bucket),
      loop_(loop),
      options_(std::move(options)),
      prng_(bucket.scheduler_.prng().Fork()),
      wire_(std::make_shared<Wire>()) {
  wire_->loop = &loop;
  if (options_.process.empty()) options_.process = "process";
}

SimObjectStore::~SimObjectStore() { wire_->loop = nullptr; }

SimLink& SimObjectStore::link() { return wire_->link; }

Pending SimObjectStore::WatchTime(TimeTold told) {
  wire_->time_told = std::move(told);
  return Pending([wire = wire_] { wire->time_told = nullptr; });
}

const SimLink& SimObjectStore::link() const { return wire_->link; }

bool SimObjectStore::Chance(std::uint32_t in_ten_thousand) {
  // Nothing is drawn for what is switched off: a run without faults costs no chance.
  return in_ten_thousand > 0 && prng_.Chance(in_ten_thousand, kTenThousand);
}

SimFate SimObjectStore::DrawKind(SimMethod method) {
  const SimStoreFaults& faults = options_.faults;
  if (wire_->link.requests_lost || Chance(faults.request_lost)) return SimFate::kRequestLost;
  if (Chance(faults.error_not_done)) return SimFate::kErrorNotDone;
  if (Chance(faults.answer_lost)) return SimFate::kAnswerLost;
  if (!IsWrite(method)) {
    const bool lists = method == SimMethod::kList;
    return Chance(lists ? faults.stale_listing : faults.stale_read) ? SimFate::kStale
                                                                    : SimFate::kNormal;
  }
  if (Chance(faults.error_maybe_done)) return SimFate::kErrorMaybeDone;
  if (Chance(faults.applied_late)) return SimFate::kLate;
  if (Chance(faults.delivered_twice)) return SimFate::kTwice;
  return SimFate::kNormal;
}

SimObjectStore::Fate SimObjectStore::Draw(SimMethod method, const std::string& key) {
  const SimStoreFaults& faults = options_.faults;
  CHECK(faults.latency_min <= faults.latency_max, "latency range");
  Fate fate;
  fate.kind = DrawKind(method);
  if (options_.decide) {
    SimVerdict verdict = options_.decide(method, key, fate.kind);
    fate.kind = verdict.fate;
    fate.at_answer = std::move(verdict.at_answer);
    fate.late = verdict.late;
    if (wire_->link.requests_lost) fate.kind = SimFate::kRequestLost;
  }
  const Duration latency = faults.latency_min + prng_.UpTo(faults.latency_max - faults.latency_min);
  fate.out = prng_.UpTo(latency);
  fate.back = latency - fate.out;
  if (fate.kind == SimFate::kStale) fate.staleness = prng_.UpTo(faults.stale_by);
  return fate;
}

namespace {

// `done`, or what is to happen instead of it.
template <class T>
ObjectStore::Done<T> OrInstead(ObjectStore::Done<T> done, std::function<void()> instead) {
  if (!instead) return done;
  return [instead = std::move(instead)](const Result<T>& /*answer*/) { instead(); };
}

}  // namespace

template <class T>
Pending SimObjectStore::Begin(const std::shared_ptr<Call<T>>& call, Error timeout) {
  call->deadline = loop_.Now() + options_.deadline;
  call->timer = loop_.CallAt(call->deadline, [call, timeout = std::move(timeout)]() mutable {
    call->Finish(Fail(std::move(timeout)));
  });
  return Pending([call] {
    const Done<T> dropped = std::exchange(call->done, nullptr);
    call->timer.Cancel();
  });
}

template <class T>
Pending SimObjectStore::RefuseAtOnce(Done<T> done, Error error) {
  return loop_.CallAfter(Duration(), [done = std::move(done), error = std::move(error)]() mutable {
    done(Fail(std::move(error)));
  });
}

template <class T>
Pending SimObjectStore::SendRead(SimRequest request, Done<T> done,
                                 std::function<Result<T>(Duration)> look) {
  bucket_.Tell({.process = request.process, .method = request.method, .key = request.key});
  Fate fate = Draw(request.method, request.key);
  auto call = std::make_shared<Call<T>>(OrInstead(std::move(done), std::move(fate.at_answer)));
  Pending pending = Begin<T>(call, DeadlineExceeded("the store did not answer in time"));
  const Instant now = bucket_.scheduler_.now();  // The world's, not the process's.
  request.at = now;
  if (fate.kind == SimFate::kRequestLost) {
    request.result = SimResult::kLost;
    bucket_.Note(std::move(request));
    return pending;
  }
  bucket_.Later(now + fate.out, [call, fate, look = std::move(look), wire = wire_,
                                 request = std::move(request), &bucket = bucket_]() mutable {
    Result<T> result = fate.kind == SimFate::kErrorNotDone ? Fail(Unavailable("503: slow down"))
                                                           : look(fate.staleness);
    request.result = result                                   ? SimResult::kDone
                     : result.error().code == Code::kNotFound ? SimResult::kNotFound
                                                              : SimResult::kFailed;
    bucket.Note(std::move(request));
    if (fate.kind != SimFate::kAnswerLost) {
      call->Answer(wire, fate, bucket, std::move(result));
    }
  });
  return pending;
}

template <class T>
Pending SimObjectStore::SendWrite(SimBucket::Write write, Done<T> done) {
  bucket_.Tell({.process = write.process, .method = write.method, .key = write.key.text()});
  if (bucket_.call_observer_) {
    done = [&bucket = bucket_, process = write.process, method = write.method,
            key = write.key.text(), done = std::move(done)](Result<T> answer) mutable {
      bucket.Tell(
          {.moment = SimCall::Moment::kAnswered,
           .process = process,
           .method = method,
           .key = key,
           .maybe_done = !answer.has_value() && answer.error().outcome == Outcome::kMaybeDone});
      done(std::move(answer));
    };
  }
  Fate fate = Draw(write.method, write.key.text());
  auto call = std::make_shared<Call<T>>(OrInstead(std::move(done), std::move(fate.at_answer)));
  Pending pending =
      Begin<T>(call, DeadlineExceeded("the store did not answer in time").MaybeDone());
  Carry(std::move(write), fate,
        [call, fate, wire = wire_, &bucket = bucket_](Result<ObjectVersion> result) {
          call->Answer(wire, fate, bucket,
                       AnswerTo(std::move(result), static_cast<const T*>(nullptr)));
        });
  return pending;
}

void SimObjectStore::Carry(SimBucket::Write write, const Fate& fate, SimBucket::WriteDone answer) {
  SimBucket& bucket = bucket_;
  const Instant now = bucket.scheduler_.now();  // The world's, not the process's.
  SimRequest request{.at = now,
                     .process = write.process,
                     .method = write.method,
                     .key = write.key.text(),
                     .result = SimResult::kFailed};
  const auto unheard = [](const Result<ObjectVersion>&) {};
  switch (fate.kind) {
    case SimFate::kRequestLost:
      request.result = SimResult::kLost;
      return bucket.Note(std::move(request));
    case SimFate::kErrorNotDone:
      bucket.Note(std::move(request));
      return bucket.Later(now + fate.out, [answer = std::move(answer)]() mutable {
        answer(Fail(Unavailable("503: slow down")));
      });
    case SimFate::kErrorMaybeDone: {
      const bool applied = prng_.Chance(1, 2);
      if (!applied) bucket.Note(std::move(request));
      return bucket.Later(now + fate.out, [&bucket, applied, write = std::move(write), unheard,
                                           answer = std::move(answer)]() mutable {
        if (applied) bucket.Arrive(std::move(write), unheard);
        answer(Fail(Unavailable("500: internal error").MaybeDone()));
      });
    }
    case SimFate::kAnswerLost:
    case SimFate::kLate: {
      const SimStoreFaults& faults = options_.faults;
      const Duration drawn = faults.late_min + prng_.UpTo(faults.late_max - faults.late_min);
      const Duration late = fate.late.value_or(drawn);
      const bool is_late = fate.kind == SimFate::kLate;
      if (is_late) ++bucket.late_writes_;
      return bucket.Later(now + (is_late ? late : fate.out),
                          [&bucket, is_late, write = std::move(write), unheard]() mutable {
                            if (is_late) --bucket.late_writes_;
                            bucket.Arrive(std::move(write), unheard);
                          });
    }
    case SimFate::kTwice:
      bucket.Later(now + fate.out, [&bucket, write, unheard]() mutable {
        bucket.Arrive(std::move(write), unheard);
      });
      break;
    default: break;
  }
  const Duration again = fate.kind == SimFate::kTwice
                             ? Duration::Milliseconds(10) + prng_.UpTo(Duration::Milliseconds(50))
                             : Duration();
  bucket.Later(now + fate.out + again,
               [&bucket, write = std::move(write), answer = std::move(answer)]() mutable {
                 bucket.Arrive(std::move(write), std::move(answer));
               });
}

Pending SimObjectStore::Get(const ObjectKey& key, Done<Object> done) {
  SimRequest request{.at = {},
                     .process = options_.process,
                     .method = SimMethod::kGet,
                     .key = key.text(),
                     .result = {}};
  return SendRead<Object>(std::move(request), std::move(done),
                          [&bucket = bucket_, key](Duration age) { return bucket.Read(key, age); });
}

Pending SimObjectStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  SimRequest request{.at = {},
                     .process = options_.process,
                     .method = SimMethod::kHead,
                     .key = key.text(),
                     .result = {}};
  return SendRead<ObjectHead>(std::move(request), std::move(done),
                              [&bucket = bucket_, key](Duration age) -> Result<ObjectHead> {
                                ASSIGN_OR_RETURN(const Object object, bucket.Read(key, age));
                                return ObjectHead{.version = object.version,
                                                  .size = object.bytes.size()};
                              });
}

Pending SimObjectStore::List(ListRequest request, Done<ListPage> done) {
  if (Chance(options_.faults.short_page)) {
    request.page_size = 1 + prng_.Below(std::max<std::size_t>(request.page_size, 1));
  }
  SimRequest sent{.at = {},
                  .process = options_.process,
                  .method = SimMethod::kList,
                  .key = request.prefix,
                  .result = {}};
  return SendRead<ListPage>(
      std::move(sent), std::move(done),
      [&bucket = bucket_, request = std::move(request)](Duration age) -> Result<ListPage> {
        return bucket.List(request, age);
      });
}

Pending SimObjectStore::Put(PutRequest request, Done<ObjectVersion> done) {
  if (request.bytes.size() > kMaxObjectBytes) {
    return RefuseAtOnce(std::move(done), InvalidArgument("the object is above 8 MiB"));
  }
  return SendWrite<ObjectVersion>({.process = options_.process,
                                   .method = SimMethod::kPut,
                                   .key = std::move(request.key),
                                   .bytes = std::move(request.bytes),
                                   .condition = std::move(request.condition)},
                                  std::move(done));
}

Pending SimObjectStore::PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) {
  if (bytes.size() > kMaxObjectBytes) {
    return RefuseAtOnce(std::move(done), InvalidArgument("the object is above 8 MiB"));
  }
  return SendWrite<ObjectVersion>({.process = options_.process,
                                   .method = SimMethod::kPutUnconditionally,
                                   .key = std::move(key),
                                   .bytes = std::move(bytes)},
                                  std::move(done));
}

Pending SimObjectStore::Delete(DeleteRequest request, Done<void> done) {
  return SendWrite<void>({.process = options_.process,
                          .method = SimMethod::kDelete,
                          .key = std::move(request.key),
                          .version = std::move(request.version)},
                         std::move(done));
}

}  // namespace nstance::sim
