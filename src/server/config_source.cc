#include "server/config_source.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "core/config/load.h"
#include "core/instance_config/template_check.h"

namespace nstance {
namespace {

// Whether the store has positively said something about the object, so that asking again now would
// give the same.
bool SaysSomething(Code code) {
  return code == Code::kNotFound || code == Code::kResourceExhausted;
}

Error Invalid(const std::vector<config::Problem>& errors, std::size_t left_off,
              const ObjectKey& key) {
  const std::size_t more = errors.size() - 1 + left_off;
  std::string text = config::Format(errors.front(), key.text());
  if (more > 0) text += fmt::format(" (and {} more)", more);
  return FailedPrecondition(std::move(text));
}

}  // namespace

std::string_view ConfigCacheName(config::Layout layout) {
  return layout == config::Layout::kNstance ? "config.jsonc" : "config.nstance-v2.jsonc";
}

ConfigSource::ConfigSource(Deps deps, Options options, Owner owner)
    : deps_(std::move(deps)), options_(std::move(options)), owner_(std::move(owner)) {
  CHECK(!options_.places.empty(), "a configuration is somewhere");
}

// ---- loading ------------------------------------------------------------------------------------

void ConfigSource::Start() { MaybeBegin(); }

void ConfigSource::LoadNow(Done done) {
  asked_.push_back(std::move(done));
  MaybeBegin();
}

void ConfigSource::Refresh(Done done) {
  refreshes_.push_back(std::move(done));
  if (refresh_armed_) return;
  refresh_armed_ = true;
  refresh_ = deps_.loop.CallAt(std::max(deps_.loop.Now(), refresh_allowed_at_), [this] {
    refresh_armed_ = false;
    refresh_allowed_at_ = deps_.loop.Now() + options_.refresh_gap;
    std::ranges::move(refreshes_, std::back_inserter(asked_));
    refreshes_.clear();
    MaybeBegin();
  });
}

// Those who ask while a load is under way are answered by the next one: its read may be older than
// what they want to see.
void ConfigSource::MaybeBegin() {
  if (loading_) return;
  loading_ = true;
  retry_ = Pending();
  answers_ = std::exchange(asked_, {});
  ReadPlace(place_.value_or(0));
}

void ConfigSource::ReadPlace(std::size_t place) {
  AtStep(Step::kK1);
  load_ = deps_.store.Get(options_.places[place].key, [this, place](Result<Object> object) {
    OnRead(place, std::move(object));
  });
}

void ConfigSource::OnRead(std::size_t place, Result<Object> object) {
  if (object) return FinishLoad(Found{.object = *std::move(object), .place = place});
  const ObjectKey& key = options_.places[place].key;
  if (object.error().code != Code::kNotFound) {
    return FinishLoad(Fail(std::move(object).error().Under(key.text())));
  }
  if (!place_ && place + 1 < options_.places.size()) return ReadPlace(place + 1);
  const ObjectKey& expected = options_.places[place_.value_or(0)].key;
  FinishLoad(
      Fail(NotFound(fmt::format("{}: no such object; upload the configuration", expected.text()))));
}

void ConfigSource::FinishLoad(Result<Found> found) {
  loading_ = false;
  std::vector<Done> answers = std::exchange(answers_, {});
  if (!found) {
    FailLoad(found.error(), std::move(answers));
  } else if (Result<ConfigRef> config = Check(*found, ConfigOrigin::kStorage); !config) {
    FailLoad(config.error(), std::move(answers));
  } else {
    place_ = found->place;
    if (current_ == nullptr || current_->etag != (*config)->etag) KeepCopy(*found);
    Succeed(*std::move(config), std::move(answers));
  }
  if (!asked_.empty()) MaybeBegin();
}

Result<ConfigRef> ConfigSource::Check(const Found& found, ConfigOrigin origin) const {
  const Place& place = options_.places[found.place];
  AtStep(Step::kK3);
  config::LoadResult loaded = LoadChecked(
      found.object.bytes,
      {.layout = place.layout, .source = {.interface = "config", .probe = deps_.probe}});
  if (Planted(Plant::kInvalidConfigApplied)) {
    loaded = config::Load(found.object.bytes, {.layout = place.layout});
  }
  if (!loaded.config) return Fail(Invalid(loaded.errors, loaded.errors_left_off, place.key));
  if (Status fits = config::CheckIdentity(*loaded.config, options_.shard, cluster_);
      !fits && !Planted(Plant::kInvalidConfigApplied)) {
    return Fail(FailedPrecondition(std::move(fits).error().message).Under(place.key.text()));
  }
  return std::make_shared<const ConfigSnapshot>(
      ConfigSnapshot{.config = *std::move(loaded.config),
                     .origin = origin,
                     .layout = place.layout,
                     .etag = found.object.version.text,
                     .size = found.object.bytes.size(),
                     .modified_at = found.object.modified_at,
                     .warnings = std::move(loaded.warnings)});
}

void ConfigSource::Succeed(ConfigRef config, std::vector<Done> answers) {
  retry_ = Pending();
  copy_read_ = Pending();
  copy_tried_ = true;
  back_off_.Reset();
  AtStep(Step::kK2);
  const std::string before = current_ != nullptr ? current_->etag : std::string();
  const bool same =
      current_ != nullptr && current_->origin == ConfigOrigin::kStorage && before == config->etag;
  if (!same) {
    AtStep(Step::kK5);
    current_ = std::move(config);
    deps_.log.Info("configuration loaded", {{"etag", current_->etag},
                                            {"bytes", current_->size},
                                            {"warnings", current_->warnings.size()}});
  }
  SetStatus({.standing = ConfigStanding::kCurrent});
  const ConfigRef in_force = current_;
  if (!same) owner_.loaded(in_force);
  for (Done& done : answers) done(Reload{.config = in_force, .prev_etag = before});
}

void ConfigSource::FailLoad(const Error& error, std::vector<Done> answers) {
  const bool invalid = error.code == Code::kFailedPrecondition || SaysSomething(error.code);
  Error told = error;
  told.code = invalid ? Code::kFailedPrecondition : Code::kUnavailable;
  told.outcome = Outcome::kNotDone;
  if (status_.last_error != told) deps_.log.Warning("configuration not loaded", {{"error", told}});
  const ConfigStanding standing = invalid ? ConfigStanding::kInvalid : ConfigStanding::kUnreachable;
  SetStatus({.standing = current_ != nullptr ? standing : ConfigStanding::kNone,
             .last_error = told,
             .pending = status_.pending});
  if (!copy_tried_) {
    copy_tried_ = true;
    ReadCopy(0);
  } else {
    RetryLater();
  }
  for (Done& done : answers) done(Fail(told));
}

// Only until a configuration has come from storage; afterwards somebody asks.
void ConfigSource::RetryLater() {
  if (current_ != nullptr && current_->origin == ConfigOrigin::kStorage) return;
  const Duration wait =
      current_ != nullptr ? back_off_.Next(deps_.jitter) : options_.retry_without_any;
  retry_ = deps_.loop.CallAfter(wait, [this] { MaybeBegin(); });
}

void ConfigSource::SetStatus(ConfigStatus status) {
  if (status == status_) return;
  status_ = std::move(status);
  owner_.status_changed();
}

// ---- the copy on disk ---------------------------------------------------------------------------

void ConfigSource::ReadCopy(std::size_t place) {
  copy_read_ = deps_.cache.Read(
      ConfigCacheName(options_.places[place].layout),
      [this, place](Result<std::string> bytes) { OnCopy(place, std::move(bytes)); });
}

void ConfigSource::OnCopy(std::size_t place, Result<std::string> bytes) {
  Result<ConfigRef> config = Fail(NotFound("no cached copy"));
  if (bytes) {
    Found found{.object = {.bytes = *std::move(bytes), .version = {}}, .place = place};
    config = Check(found, ConfigOrigin::kCachedCopy);
  } else {
    config = Fail(std::move(bytes).error());
  }
  if (!config && place + 1 < options_.places.size()) return ReadCopy(place + 1);
  if (config) {
    current_ = *std::move(config);
    deps_.log.Warning("configuration taken from the cached copy", {{"bytes", current_->size}});
    // A failed load brought us here; what it found now stands against something.
    const bool invalid = status_.last_error->code == Code::kFailedPrecondition;
    SetStatus({.standing = invalid ? ConfigStanding::kInvalid : ConfigStanding::kUnreachable,
               .last_error = status_.last_error,
               .pending = status_.pending});
    owner_.loaded(current_);
  } else if (config.error().code != Code::kNotFound) {
    deps_.log.Warning("cached configuration not usable", {{"error", config.error()}});
  }
  if (!loading_) RetryLater();
}

void ConfigSource::KeepCopy(const Found& found) {
  AtStep(Step::kK6);
  copy_write_ = deps_.cache.Write(ConfigCacheName(options_.places[found.place].layout),
                                  found.object.bytes, [this](const Status& status) {
                                    if (status) return;
                                    deps_.log.Warning("configuration not kept in the cache folder",
                                                      {{"error", status.error()}});
                                  });
}

// ---- comparing ----------------------------------------------------------------------------------

void ConfigSource::StartComparing() {
  if (std::exchange(comparing_, true)) return;
  CompareLater();
}

void ConfigSource::StopComparing() {
  comparing_ = false;
  compare_ = Pending();
  ConfigStatus status = status_;
  status.pending = false;
  SetStatus(std::move(status));
}

void ConfigSource::CompareLater() {
  compare_ = deps_.loop.CallAfter(options_.compare_interval, [this] { Compare(); });
}

void ConfigSource::Compare() {
  if (!place_) return CompareLater();
  AtStep(Step::kK2);
  compare_ = deps_.store.Head(options_.places[*place_].key,
                              [this](const Result<ObjectHead>& head) { OnCompared(head); });
}

void ConfigSource::OnCompared(const Result<ObjectHead>& head) {
  CompareLater();
  if (!head && head.error().code != Code::kNotFound) return;
  ConfigStatus status = status_;
  status.pending = !head || head->version.text != current_->etag;
  SetStatus(std::move(status));
}

}  // namespace nstance
