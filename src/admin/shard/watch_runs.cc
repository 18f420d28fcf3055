// `watch`: the live view on a terminal, else one line (object) per event.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "admin/printable.h"
#include "admin/shard/api_json.h"
#include "admin/shard/instance_pages.h"
#include "admin/shard/run.h"
#include "admin/shard/views.h"
#include "admin/shard/watch_model.h"
#include "admin/shard/watch_screen.h"
#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

constexpr Duration kBetweenLooks = Duration::Seconds(2);
constexpr Duration kWithoutEvents = Duration::Seconds(10);
constexpr Duration kOneLook = Duration::Seconds(15);
constexpr std::int32_t kBacklog = 64;

// Shards that refused us before they told anything: when all have, there is nothing to watch.
class Refusals final {
 public:
  void OnMessage(std::size_t shard) { seen_.insert(shard); }
  void OnLost(std::size_t shard, const Error& why) {
    errors_.erase(shard);
    if (IsRefusal(why) && !seen_.contains(shard)) errors_.emplace(shard, why);
  }
  [[nodiscard]] bool All(const Session& session) const {
    return errors_.size() == session.shards();
  }
  [[nodiscard]] Ending End(const Session& session) const {
    Outcomes outcomes(session);
    for (const auto& [shard, why] : errors_) outcomes.Failed(shard, why);
    return std::move(outcomes).End("");
  }

 private:
  std::set<std::size_t> seen_;
  std::map<std::size_t, Error> errors_;
};

// --- One line per event --------------------------------------------------------------------------

class WatchLinesRun final : public ShardRun {
 public:
  WatchLinesRun(Session& session, Watch command, Done done)
      : session_(session), command_(std::move(command)), tell_(std::move(done)) {}

  void Start() override {
    for (std::size_t shard = 0; shard < session_.shards(); ++shard) {
      streams_.push_back(session_.Streams(
          shard,
          {{.path = api::kWatchEvents.path,
            .request = RpcMessage::Of(
                api::WatchEventsRequest{.group = command_.group, .backlog = kBacklog}),
            .message =
                [this, shard](const RpcMessage& message) {
                  if (const auto* event = message.As<api::Event>()) OnEvent(shard, *event);
                }}},
          {.up = [this, shard] { OnUp(shard); },
           .lost = [this, shard](const Error& why) { OnLost(shard, why); },
           .not_offered = [this, shard](std::string_view) { OnNotOffered(shard); }}));
    }
  }

 private:
  // Told when it has lasted: a server may take the connection and end the stream.
  void OnUp(std::size_t shard) {
    steady_[shard] = session_.loop().CallAfter(Duration::Seconds(1), [this, shard] {
      if (lost_.erase(shard) > 0) session_.Note(session_.name(shard) + ": connected");
    });
  }

  // Told once per loss, not per try.
  void OnLost(std::size_t shard, const Error& why) {
    steady_.erase(shard);
    refusals_.OnLost(shard, why);
    if (refusals_.All(session_)) return tell_(refusals_.End(session_));
    if (!lost_.insert(shard).second) return;
    session_.Note(
        fmt::format("{}: lost: {}; trying again", session_.name(shard), Printable(why.message)));
  }

  void OnNotOffered(std::size_t shard) {
    not_offered_.insert(shard);
    if (not_offered_.size() < session_.shards()) return;
    Outcomes outcomes(session_);
    for (const std::size_t one : not_offered_) {
      outcomes.Failed(one, {.code = Code::kUnimplemented,
                            .message = "the server offers no events: it is older than this tool"});
    }
    tell_(std::move(outcomes).End(""));
  }

  // A stream that begins anew tells its latest events once more.
  void OnEvent(std::size_t shard, const api::Event& event) {
    refusals_.OnMessage(shard);
    const WatchedEvent watched{.shard = shard, .event = event};
    if (std::ranges::find(told_, watched) != told_.end()) return;
    told_.push_back(watched);
    if (told_.size() > std::size_t{2} * kBacklog * session_.shards()) told_.pop_front();
    if (!session_.terminal().Write(Terminal::Stream::kOut, LineOf(shard, event))) {
      tell_({.exit_code = kExitError});
    }
  }

  [[nodiscard]] std::string LineOf(std::size_t shard, const api::Event& event) const {
    if (!session_.json()) {
      return EventLine(session_.name(shard), event, {.now = session_.now()}) + "\n";
    }
    json::Value object = json::Value::Map({});
    SetText(object, "shard", session_.name(shard));
    const json::Value fields = ToJson(event);
    for (const json::Member& member : *fields.if_object()) object.Set(member.key, member.value);
    return json::Write(object) + "\n";
  }

  Session& session_;
  Watch command_;
  Teller tell_;
  Refusals refusals_;
  std::set<std::size_t> lost_;
  std::map<std::size_t, Pending> steady_;
  std::set<std::size_t> not_offered_;
  std::deque<WatchedEvent> told_;
  std::vector<std::unique_ptr<ShardStreams>> streams_;
};

// --- The live view -------------------------------------------------------------------------------

// Looks at one shard: its groups, what holds them, and where that is wanted its instances.
class ShardLook final : public Running {
 public:
  ShardLook(Session& session, WatchModel& model, std::size_t shard,
            std::move_only_function<void()> done)
      : caller_(session.caller(shard)),
        model_(model),
        shard_(shard),
        deadline_(session.loop().Now() + kOneLook),
        done_(std::move(done)) {
    caller_.Call(api::kListGroups, {}, deadline_,
                 [this](const Result<api::ListGroupsResponse>& list) { OnGroups(list); });
  }

 private:
  void OnGroups(const Result<api::ListGroupsResponse>& list) {
    if (!list) return Finish();  // The streams tell that the shard is lost.
    model_.OnGroups(shard_, list->groups);
    caller_.Call(api::kPlan, {.group = model_.setup().group}, deadline_,
                 [this](const Result<api::PlanResponse>& plan) { OnPlan(plan); });
  }

  void OnPlan(const Result<api::PlanResponse>& plan) {
    if (plan) {
      model_.OnHolds(shard_, plan->holds);
    } else if (plan.error().code == Code::kUnimplemented) {
      model_.OnPlanNotOffered(shard_);
    }
    if (model_.view() != WatchView::kInstances) return Finish();
    pages_ = std::make_unique<InstancePages>(
        caller_, deadline_, api::ListInstancesRequest{.group = model_.setup().group},
        [this](const Result<std::vector<api::Instance>>& instances) {
          if (instances) model_.OnInstances(shard_, *instances);
          Finish();
        });
  }

  void Finish() {
    auto done = std::move(done_);
    done();
  }

  ShardCaller& caller_;
  WatchModel& model_;
  std::size_t shard_;
  Instant deadline_;
  std::move_only_function<void()> done_;
  std::unique_ptr<InstancePages> pages_;
};

class WatchScreenRun final : public ShardRun {
 public:
  WatchScreenRun(Session& session, const Watch& command, Done done)
      : session_(session), model_(SetupOf(session, command)), tell_(std::move(done)) {}

  void Start() override {
    session_.BeSilentAboutRetries();
    session_.OnScreenOpened();
    screen_ = session_.terminal().OpenScreen(
        {.key = [this](Key key) { OnKey(key); }, .resized = [this](ScreenSize) { Draw(); }});
    places_.resize(session_.shards());
    for (std::size_t shard = 0; shard < session_.shards(); ++shard) Listen(shard);
    Tick();
  }

 private:
  struct Place {
    std::unique_ptr<ShardStreams> streams = {};
    std::unique_ptr<ShardLook> look = {};
    bool live = false;
    bool looking = false;
    bool wanted = false;
    Instant last_look = {};
    Instant looks_until = {};  // How long the looks so far last, at kBetweenLooks each.
    Pending next = {};
  };

  static WatchModel::Setup SetupOf(const Session& session, const Watch& command) {
    WatchModel::Setup setup{
        .tenant = session.identity().tenant.text(), .group = command.group, .view = command.view};
    for (std::size_t i = 0; i < session.shards(); ++i) setup.shards.push_back(session.name(i));
    return setup;
  }

  void Listen(std::size_t shard) {
    const auto on_event = [this, shard](const RpcMessage& message) {
      if (const auto* event = message.As<api::Event>()) OnEvent(shard, *event);
    };
    const auto on_group = [this, shard](const RpcMessage& message) {
      if (const auto* event = message.As<api::GroupEvent>()) {
        refusals_.OnMessage(shard);
        model_.OnGroup(shard, *event);
        DrawSoon();
      }
    };
    places_[shard].streams = session_.Streams(
        shard,
        {{.path = api::kWatchGroups.path,
          .request = RpcMessage::Of(api::Empty{}),
          .message = on_group},
         {.path = api::kWatchEvents.path,
          .request = RpcMessage::Of(
              api::WatchEventsRequest{.group = model_.setup().group, .backlog = kBacklog}),
          .message = on_event}},
        {.up = [this, shard] { OnUp(shard); },
         .lost = [this, shard](const Error& why) { OnLost(shard, why); },
         .not_offered = [this, shard](std::string_view) { model_.OnEventsNotOffered(shard); }});
  }

  void OnUp(std::size_t shard) {
    places_[shard].live = true;
    model_.OnUp(shard, session_.now());
    Want(shard);
    DrawSoon();
  }

  void OnLost(std::size_t shard, const Error& why) {
    refusals_.OnLost(shard, why);
    if (refusals_.All(session_)) return tell_(refusals_.End(session_));
    places_[shard].live = false;
    model_.OnLost(shard, why, session_.now());
    DrawSoon();
  }

  void OnEvent(std::size_t shard, const api::Event& event) {
    if (!model_.OnEvent(shard, event)) return;
    Want(shard);
    DrawSoon();
  }

  // --- Looking: after events every 2 s, two at once after a rest, so that what heals within a
  // second is seen; without events every 10 s ---

  void Want(std::size_t shard) {
    places_[shard].wanted = true;
    Schedule(shard);
  }

  void Schedule(std::size_t shard) {
    Place& place = places_[shard];
    if (place.looking || !place.live) return;
    const Instant at =
        place.wanted ? place.looks_until - kBetweenLooks : place.last_look + kWithoutEvents;
    place.next = session_.loop().CallAt(at, [this, shard] { LookAt(shard); });
  }

  void LookAt(std::size_t shard) {
    Place& place = places_[shard];
    place.looking = true;
    place.wanted = false;
    place.last_look = session_.loop().Now();
    place.looks_until = std::max(place.looks_until, place.last_look) + kBetweenLooks;
    place.look = std::make_unique<ShardLook>(session_, model_, shard, [this, shard] {
      places_[shard].looking = false;
      Schedule(shard);
      DrawSoon();
    });
  }

  // --- Drawing: after changes, at most ten times a second, and once a second ---

  void Tick() {
    Draw();
    tick_ = session_.loop().CallAfter(Duration::Seconds(1), [this] { Tick(); });
  }

  void DrawSoon() {
    if (draw_soon_) return;
    draw_soon_ = true;
    draw_ = session_.loop().CallAfter(Duration::Milliseconds(100), [this] { Draw(); });
  }

  void Draw() {
    draw_soon_ = false;
    drawn_ = DrawWatch(
        model_,
        {.size = session_.terminal().size(), .now = session_.now(), .paint = session_.paint()});
    // Each line is erased before it is written: afterwards the cursor stands on the last cell of a
    // full one and would take it along.
    std::string out = "\x1b[H";
    for (std::size_t i = 0; i < drawn_.lines.size(); ++i) {
      out += (i == 0 ? "" : "\r\n");
      out += "\x1b[K" + drawn_.lines[i];
    }
    if (!session_.terminal().Write(Terminal::Stream::kOut, out)) tell_({.exit_code = kExitError});
  }

  void OnKey(const Key& key) {
    const auto reaction = model_.OnKey(key, drawn_.page, drawn_.rows);
    if (reaction == WatchModel::Reaction::kQuit) return tell_({});
    if (reaction == WatchModel::Reaction::kViewChanged) {
      for (std::size_t shard = 0; shard < places_.size(); ++shard) {
        // Somebody waits for it: what the new view shows is fetched at once, if 2 s have passed.
        Want(shard);
      }
    }
    Draw();
  }

  Session& session_;
  WatchModel model_;
  Teller tell_;
  Refusals refusals_;
  Screen drawn_;
  bool draw_soon_ = false;
  Pending tick_;
  Pending draw_;
  std::vector<Place> places_;
  Pending screen_;
};

}  // namespace

RunPtr MakeRun(Session& session, const Watch& command, Done done) {
  const bool screen = !session.json() && session.terminal().IsTerminal(Terminal::Stream::kOut) &&
                      session.terminal().IsTerminal(Terminal::Stream::kIn);
  if (screen) return std::make_unique<WatchScreenRun>(session, command, std::move(done));
  return std::make_unique<WatchLinesRun>(session, command, std::move(done));
}

}  // namespace nstance::admin
