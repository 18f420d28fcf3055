#include "sim/world/operator_node.h"

#include <utility>

#include "base/overloaded.h"
#include "base/text.h"
#include "crypto/registration_token.h"

namespace nstance::sim {
namespace {

constexpr int kMostTries = 6;
constexpr Duration kCallLimit = Duration::Seconds(10);

// Whether asking again may help.
bool MayPass(const Status& status) {
  if (status.has_value()) return false;
  switch (status.error().code) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kAborted:
    case Code::kCancelled:
    case Code::kUnknown: return true;
    default: return false;
  }
}

}  // namespace

OperatorNode::OperatorNode(const WorldParts& parts, TenantId tenant, ClusterIdentityRef identity,
                           Told told)
    : parts_(parts),
      tenant_(std::move(tenant)),
      identity_(std::move(identity)),
      told_(std::move(told)),
      name_("operator-" + tenant_.text()),
      prng_(parts.prng.Fork()),
      random_(parts.prng.Next()),
      loop_(parts.scheduler, WorldStart()),
      dialer_(parts.network, loop_, {.process = name_}),
      a_{.shard = ShardA()},
      b_{.shard = ShardB()} {
  TakeToken();
  join_again_ = loop_.CallAfter(Duration::Seconds(1), [this] { Join(); });
}

// --- Joining -------------------------------------------------------------------------------------

// A key of its own, and the token that an administrator gave out for it.
void OperatorNode::TakeToken() {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  random_.Fill(seed);
  key_ = std::make_shared<const crypto::PrivateKey>(crypto::PrivateKey::FromSeed(seed));
  std::array<std::uint8_t, 16> id{};
  random_.Fill(id);
  const Timestamp now = loop_.WallNow();
  token_ = crypto::SignRegistrationToken({.subject = SimCluster().text(),
                                          .expires_at = now + Duration::Hours(2),
                                          .not_before = now - crypto::kTokenBackdate,
                                          .issued_at = now - crypto::kTokenBackdate,
                                          .token_id = Base64UrlEncode(id),
                                          .kind = crypto::TokenKind::kOperator,
                                          .config_hash = {},
                                          .cluster = SimCluster().text(),
                                          .shard = {},
                                          .group = {},
                                          .tenant = tenant_},
                                         *identity_->nonce_key);
}

void OperatorNode::JoinAgainIfRefused() {
  if (tls_ == nullptr) return;
  const crypto::CertificateFacts& facts = tls_->chain.front().facts();
  const Timestamp now = loop_.WallNow();
  if (facts.not_before <= now && now < facts.not_after) return;
  for (Line* line : {&a_, &b_}) {
    line->calls.clear();
    line->again = {};
    line->watch.reset();
    line->channel.reset();
  }
  tls_.reset();
  join_again_ = {};
  TakeToken();
  Join();
}

void OperatorNode::Join() {
  auto material = std::make_shared<RpcTlsMaterial>();
  material->roots = identity_->roots;
  joining_ = dialer_.Dial(
      {.address = {.host = LeaderAddress(ShardA()), .port = kRegistrationPort}, .tls = material},
      {.state = [this](RpcChannelState state, const Status&) {
        if (state == RpcChannelState::kGone) {
          join_again_ = loop_.CallAfter(Duration::Seconds(2), [this] { Join(); });
        }
        if (state != RpcChannelState::kReady) return;
        const crypto::Signature proof = crypto::SignJoinProof(*key_, token_, SimCluster());
        join_call_ = CallUnary(
            *joining_, api::kRegisterOperator,
            {.message = {.registration_nonce_jwt = token_,
                         .public_key_pem = key_->public_key().ToPem(),
                         .proof = std::string(proof.begin(), proof.end())},
             .timeout = kCallLimit},
            [this](const Result<api::RegisterClientResponse>& answer) { OnJoined(answer); });
      }});
  joining_->Connect();
}

void OperatorNode::OnJoined(const Result<api::RegisterClientResponse>& answer) {
  if (!answer.has_value()) {
    joining_->Close();
    return;
  }
  told_.certificate(name_, answer->client_certificate_pem);
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain = {crypto::Certificate::FromPem(answer->client_certificate_pem).value()};
  material->key = key_;
  material->roots = identity_->roots;
  tls_ = material;
  join_again_ = loop_.CallAfter({}, [this] {
    joining_.reset();
    Dial(a_);
    Dial(b_);
  });
}

// --- Connections ---------------------------------------------------------------------------------

void OperatorNode::Dial(Line& line) {
  line.channel = dialer_.Dial(
      {.address = {.host = LeaderAddress(line.shard), .port = kOperatorPort}, .tls = tls_},
      {.state = [this, &line](RpcChannelState state, const Status&) { OnState(line, state); }});
  line.channel->Connect();
}

void OperatorNode::OnState(Line& line, RpcChannelState state) {
  if (state == RpcChannelState::kReady) {
    line.watch = line.channel->Start(api::kWatchInstances.path, {},
                                     {.message = [this, &line](const RpcMessage& message) {
                                       OnEvent(line, *message.As<api::InstanceEvent>());
                                     }});
    line.watch->Send(RpcMessage::Of(api::Empty{}));
  }
  if (state == RpcChannelState::kGone) {
    line.again = loop_.CallAfter(Duration::Seconds(1) + prng_.UpTo(Duration::Seconds(2)),
                                 [this, &line] { Dial(line); });
  }
}

// --- Drains --------------------------------------------------------------------------------------

void OperatorNode::OnEvent(Line& line, const api::InstanceEvent& event) {
  told_.event(tenant_, line.shard, event);
  if (event.status != "pending_deletion") return;
  switch (mood_) {
    case Mood::kPrompt: return Acknowledge(line, event, Duration::Seconds(1));
    case Mood::kSlow: return Acknowledge(line, event, prng_.UpTo(Duration::Minutes(2)));
    case Mood::kTwice:
      Acknowledge(line, event, Duration::Seconds(1));
      return Acknowledge(line, event, Duration::Seconds(3));
    case Mood::kConfused: {
      // Of another drain: refused, and nothing is deleted for it.
      api::InstanceEvent other = event;
      other.drain_id += "0";
      return Acknowledge(line, other, Duration::Seconds(1));
    }
    case Mood::kNever: return;
  }
}

void OperatorNode::Acknowledge(Line& line, const api::InstanceEvent& event, Duration after) {
  Later(line, after, [this, &line, id = event.instance_id, drain = event.drain_id] {
    Send(line, api::DrainAckRequest{.instance_id = id, .drain_id = drain}, 0);
  });
}

// --- Calls ---------------------------------------------------------------------------------------

void OperatorNode::Later(Line& line, Duration after, Task task) {
  const std::uint64_t number = next_call_++;
  line.calls[number] = loop_.CallAfter(after, [&line, number, task = std::move(task)]() mutable {
    const auto self = line.calls.extract(number);
    task();
  });
}

void OperatorNode::Ask(const ShardId& shard, OperatorAnswer::Request request) {
  Line& line = LineTo(shard);
  Later(line, {}, [this, &line, request = std::move(request)]() mutable {
    Send(line, std::move(request), 0);
  });
}

void OperatorNode::Rest() {
  a_.calls.clear();
  b_.calls.clear();
}

template <class Request, class Response>
void OperatorNode::Call(Line& line, const api::Method<Request, Response>& method,
                        const Request& request, int tries) {
  const std::uint64_t number = next_call_++;
  const Instant sent = parts_.scheduler.now();
  line.calls[number] =
      CallUnary(*line.channel, method, {.message = request, .timeout = kCallLimit},
                [this, &line, number, tries, sent, request](const Result<Response>& answer) {
                  const auto self = line.calls.extract(number);
                  OperatorAnswer told{
                      .tenant = tenant_, .shard = line.shard, .request = request, .sent = sent};
                  if (!answer.has_value()) told.status = Fail(answer.error());
                  if constexpr (std::is_same_v<Response, api::CreateInstanceResponse>) {
                    if (answer.has_value()) told.instance_id = answer->instance_id;
                  }
                  OnAnswer(line, std::move(told), tries);
                });
}

void OperatorNode::Send(Line& line, OperatorAnswer::Request request, int tries) {
  if (line.channel == nullptr || line.channel->state() != RpcChannelState::kReady) {
    return Later(line, Duration::Seconds(1), [this, &line, request = std::move(request), tries] {
      Send(line, request, tries);
    });
  }
  std::visit(
      Overloaded{
          [&](const api::UpsertGroupRequest& m) { Call(line, api::kUpsertGroup, m, tries); },
          [&](const api::DeleteGroupRequest& m) { Call(line, api::kDeleteGroup, m, tries); },
          [&](const api::CreateInstanceRequest& m) { Call(line, api::kCreateInstance, m, tries); },
          [&](const api::DeleteInstanceRequest& m) { Call(line, api::kDeleteInstance, m, tries); },
          [&](const api::DrainAckRequest& m) { Call(line, api::kAcknowledgeDrained, m, tries); }},
      request);
}

void OperatorNode::OnAnswer(Line& line, OperatorAnswer answer, int tries) {
  told_.answered(answer);
  if (!MayPass(answer.status) || tries >= kMostTries) return;
  Later(line, Duration::Seconds(1) + prng_.UpTo(Duration::Seconds(4)),
        [this, &line, request = std::move(answer.request), tries] {
          Send(line, request, tries + 1);
        });
}

// Asked for until it is done: a file that nobody has read is not in force.
void OperatorNode::RefreshConfig(const ShardId& shard) {
  Line& line = LineTo(shard);
  const auto again = [this, &line] {
    Later(line, Duration::Seconds(2), [this, &line] { RefreshConfig(line.shard); });
  };
  if (line.channel == nullptr || line.channel->state() != RpcChannelState::kReady) return again();
  const std::uint64_t number = next_call_++;
  line.calls[number] =
      CallUnary(*line.channel, api::kRefreshConfig, {.timeout = kCallLimit},
                [&line, number, again](const Result<api::RefreshConfigResponse>& answer) {
                  const auto self = line.calls.extract(number);
                  if (!answer.has_value()) again();
                });
}

}  // namespace nstance::sim
