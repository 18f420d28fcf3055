#include "bench/generator/operator_load.h"

#include <charconv>
#include <utility>

#include <fmt/core.h>

#include "ports/api/methods.h"
#include "ports/rpc_unary.h"

namespace nstance::bench {
namespace {

constexpr const char* kTimeVar = "SENT_NS";

}  // namespace

LoadOperator::LoadOperator(Setup setup) : setup_(std::move(setup)) {}

void LoadOperator::Connect(Done done) {
  connected_ = std::move(done);
  channel_ = setup_.dialer.Dial({.address = setup_.server,
                                 .tls = setup_.tls,
                                 .connect_limit = Duration::Seconds(30),
                                 .ping_after = Duration::Seconds(300)},
                                {.state = [this](RpcChannelState state, const Status& why) {
                                  const bool over = state == RpcChannelState::kReady ||
                                                    state == RpcChannelState::kGone;
                                  if (!over || connected_ == nullptr) return;
                                  Done tell = std::exchange(connected_, nullptr);
                                  tell(state == RpcChannelState::kReady ? Status() : why);
                                }});
  channel_->Connect();
}

void LoadOperator::Upsert(std::int32_t size, Instant at, Done done) {
  upserting_ = true;
  asked_size_ = size;
  api::GroupConfig config{.template_name = "bench", .size = size};
  config.vars[kTimeVar] = fmt::format("{}", (at - Instant()).nanoseconds());
  upsert_ =
      CallUnary(*channel_, api::kUpsertGroup,
                {.message = {.key = setup_.group, .config = std::move(config)},
                 .timeout = Duration::Seconds(60)},
                [this, done = std::move(done)](const Result<api::GroupStatus>& answer) mutable {
                  upserting_ = false;
                  if (answer.has_value()) accepted_size_ = asked_size_;
                  Done tell = std::move(done);
                  tell(answer.has_value() ? Status() : Status(Fail(answer.error())));
                });
}

void LoadOperator::Watch(Histogram& latency) {
  latency_ = &latency;
  watch_ = channel_->Start(api::kWatchGroups.path, {},
                           {.message = [this](const RpcMessage& message) { OnEvent(message); },
                            .end = [this](const RpcEnd&) { ++watches_ended_; }});
  watch_->Send(RpcMessage::Of(api::Empty{}));
}

void LoadOperator::OnEvent(const RpcMessage& message) {
  const auto* event = message.As<api::GroupEvent>();
  if (event == nullptr || !event->group.has_value()) return;
  const auto found = event->group->vars.find(kTimeVar);
  if (found == event->group->vars.end()) return;
  std::int64_t sent = 0;
  const std::string& text = found->second;
  if (std::from_chars(text.data(), text.data() + text.size(), sent).ec != std::errc()) return;
  latency_->Record(setup_.loop.Now() - (Instant() + Duration::Nanoseconds(sent)));
}

void LoadOperator::Check(Done done) {
  list_ = CallUnary(
      *channel_, api::kListGroups, {.timeout = Duration::Seconds(60)},
      [this, done = std::move(done)](const Result<api::ListGroupsResponse>& answer) mutable {
        Done tell = std::move(done);
        if (!answer.has_value()) return tell(Fail(answer.error()));
        for (const api::GroupStatus& group : answer->groups) {
          if (group.key != setup_.group || group.size == accepted_size_) continue;
          return tell(
              Fail(Aborted(fmt::format("{}/{} has size {}, but {} was accepted last", setup_.tenant,
                                       group.key, group.size, accepted_size_))));
        }
        tell({});
      });
}

}  // namespace nstance::bench
