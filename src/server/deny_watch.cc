#include "server/deny_watch.h"

#include <algorithm>

#include <fmt/core.h>

namespace nstance {

DenyWatch::DenyWatch(Deps deps, Options options, Owner owner)
    : deps_(std::move(deps)), options_(std::move(options)), owner_(std::move(owner)) {}

void DenyWatch::Start() {
  good_at_ = deps_.loop.Now();
  Look();
}

void DenyWatch::Look() {
  timer_ = deps_.loop.CallAfter(options_.interval, [this] { Look(); });
  call_ = deps_.store.Head(options_.key, [this](const Result<ObjectHead>& head) { OnHead(head); });
}

void DenyWatch::OnHead(const Result<ObjectHead>& head) {
  if (head && version_ == head->version) return Good();
  if (!head && head.error().code != Code::kNotFound) return Bad(head.error());
  if (!head && version_) return Bad(NotFound("the deny list has vanished"));
  if (!head) return TakeNone();
  call_ = deps_.store.Get(options_.key, [this](const Result<Object>& object) { OnObject(object); });
}

void DenyWatch::OnObject(const Result<Object>& object) {
  if (!object) return Bad(object.error());
  const Result<DenyList> list =
      DecodeDenyList(object->bytes, {.interface = "deny-list", .probe = deps_.probe});
  if (!list) return Bad(list.error());
  Take(*list, object->version);
}

// There has never been a list: nobody is denied.
void DenyWatch::TakeNone() {
  const bool first = !std::exchange(known_, true);
  Good();
  if (first) owner_.first_known();
}

void DenyWatch::Take(const DenyList& list, ObjectVersion version) {
  const std::vector<DenyEntry> added = NewlyDenied(set_, list);
  // An old version may have been read. What is no longer listed is let go only when the next look
  // shows the same version.
  const Timestamp now = deps_.loop.WallNow();
  const std::vector<DenyEntry> missing = NewlyDenied(DenySet(list), list_);
  confirmed_ = std::ranges::all_of(
      missing, [now](const DenyEntry& entry) { return entry.expires_at <= now; });
  next_ = list;
  list_ = list;
  if (!confirmed_) std::ranges::copy(missing, std::back_inserter(list_.entries));
  set_ = DenySet(list_);
  version_ = std::move(version);
  const bool first = !std::exchange(known_, true);
  MarkGood();
  if (!added.empty()) {
    deps_.log.Info("identities denied", {{"entries", added.size()}, {"listed", set_.size()}});
    owner_.denied(added);
  }
  if (first) owner_.first_known();
}

void DenyWatch::MarkGood() {
  good_at_ = deps_.loop.Now();
  alarmed_ = false;
}

void DenyWatch::Good() {
  MarkGood();
  if (confirmed_) return;
  confirmed_ = true;
  list_ = next_;
  set_ = DenySet(list_);
}

void DenyWatch::Bad(const Error& error) {
  deps_.log.Warning("deny list not read; the last one holds", {{"error", error}});
  if (alarmed_ || deps_.loop.Now() - good_at_ < options_.alarm_after) return;
  alarmed_ = true;
  owner_.alarm(Unavailable(fmt::format("the deny list could not be read for {}: {}",
                                       FormatDuration(options_.alarm_after), error.message)));
}

}  // namespace nstance
