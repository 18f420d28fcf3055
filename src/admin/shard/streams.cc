#include "admin/shard/streams.h"

#include <utility>

#include "ports/api/methods.h"
#include "ports/rpc_unary.h"

namespace nstance::admin {
namespace {

constexpr Duration kBetweenQuestions = Duration::Seconds(10);
constexpr Duration kAnswerLimit = Duration::Seconds(10);

}  // namespace

ShardStreams::ShardStreams(Setup setup, ServerAddress server, std::vector<StreamWanted> wanted,
                           StreamsEvents events)
    : setup_(std::move(setup)),
      server_(std::move(server)),
      wanted_(std::move(wanted)),
      events_(std::move(events)) {
  Connect();
}

ShardStreams::~ShardStreams() = default;

void ShardStreams::Connect() {
  setup_.log.Debug("dialling for streams");
  channel_ = setup_.dialer.Dial(
      TargetOf(server_, setup_.identity),
      {.state = [this](RpcChannelState state, const Status& why) { OnState(state, why); }});
  channel_->Connect();
}

void ShardStreams::OnState(RpcChannelState state, const Status& why) {
  LogState(setup_.log, state, why);
  if (state == RpcChannelState::kReady) return Open();
  if (state != RpcChannelState::kGone) return;
  Again(why ? Unavailable("the connection ended")
            : AdviseOnConnection(why.error(), setup_.identity));
}

void ShardStreams::Open() {
  for (const StreamWanted& wanted : wanted_) {
    setup_.log.Debug("opening a stream", {{"method", wanted.path}});
    calls_.push_back(
        channel_->Start(wanted.path, {},
                        {.message =
                             [this, &wanted](const RpcMessage& message) {
                               pause_.Reset();
                               wanted.message(message);
                             },
                         .end = [this, &wanted](const RpcEnd& end) { OnEnd(wanted, end); }}));
    calls_.back()->Send(wanted.request);
  }
  AskLater();
  if (events_.up) events_.up();
}

void ShardStreams::AskLater() {
  next_question_ = setup_.loop.CallAfter(kBetweenQuestions, [this] { Ask(); });
}

void ShardStreams::Ask() {
  question_ = CallUnary(*channel_, api::kGetConfigStatus, {.message = {}, .timeout = kAnswerLimit},
                        [this](const Result<api::ConfigStatusResponse>& answer) {
                          const Code code = answer ? Code::kUnknown : answer.error().code;
                          if (code == Code::kUnavailable) return Again(Error(answer.error()));
                          if (code == Code::kDeadlineExceeded) {
                            return Again(Unavailable("no answer from the server"));
                          }
                          AskLater();
                        });
}

void ShardStreams::OnEnd(const StreamWanted& wanted, const RpcEnd& end) {
  if (!end.status && end.status.error().code == Code::kUnimplemented) {
    setup_.log.Debug("stream not offered", {{"method", wanted.path}});
    if (events_.not_offered) events_.not_offered(wanted.path);
    return;
  }
  Again(end.status ? Unavailable("the server ended the stream")
                   : AdviseOnCall(end.status.error(), setup_.identity));
}

void ShardStreams::Again(const Error& why) {
  next_question_ = {};
  question_ = {};
  // `why` may belong to one of the calls: they go at the end, before their channel.
  const auto channel = std::exchange(channel_, nullptr);
  const auto calls = std::exchange(calls_, {});
  const Duration pause = pause_.Next(setup_.jitter);
  setup_.log.Debug("streams lost", {{"error", why}, {"pause", pause}});
  timer_ = setup_.loop.CallAfter(pause, [this] { Connect(); });
  if (events_.lost) events_.lost(why);
}

}  // namespace nstance::admin
