#include "test/e2e/operator_client.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/core.h>

#include "adapters/rpc_codec/method_table.h"
#include "adapters/secure_random/system_random.h"
#include "base/check.h"
#include "base/text.h"
#include "core/rpc_policy.h"
#include "crypto/registration_token.h"
#include "test/e2e/operator_token.h"
#include "test/e2e/tcp_socket.h"
#include "test/support/loop_runner.h"

namespace nstance::test {
namespace {

constexpr Duration kBetweenTries = Duration::Milliseconds(100);

Result<std::string> ReadObject(const std::string& bucket, const std::string& key) {
  std::ifstream file(std::filesystem::path(bucket) / key, std::ios::binary);
  if (!file) return Fail(NotFound(key + " is not in the bucket yet"));
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::shared_ptr<const crypto::PrivateKey> NewKey() {
  SystemRandom random;
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  random.Fill(seed);
  return std::make_shared<const crypto::PrivateKey>(crypto::PrivateKey::FromSeed(seed));
}

std::vector<RpcMethod> Methods() {
  Result<std::vector<RpcMethod>> methods = rpc_codec::MakeMethodTable(RpcPolicy());
  CHECK(methods.has_value(), "{}", methods.error().message);
  return *std::move(methods);
}

}  // namespace

OperatorClient::OperatorClient(Options options)
    : options_(std::move(options)),
      methods_(Methods()),
      dialer_({.loop = options_.loop, .methods = methods_}),
      key_(NewKey()) {}

OperatorClient::~OperatorClient() = default;

// --- Joining -------------------------------------------------------------------------------------

Result<api::RegisterClientRequest> OperatorClient::JoinRequest() const {
  SystemRandom random;
  ASSIGN_OR_RETURN(const std::string token,
                   SignOperatorToken({.bucket = options_.bucket,
                                      .cluster = options_.cluster.text(),
                                      .encryption_key = options_.encryption_key,
                                      .tenant = options_.tenant.text(),
                                      .now = options_.loop.WallNow().TruncatedToSecond(),
                                      .token_id = Base64UrlEncode(random.Array<16>())}));
  const crypto::Signature proof = crypto::SignJoinProof(*key_, token, options_.cluster);
  return api::RegisterClientRequest{.registration_nonce_jwt = token,
                                    .public_key_pem = key_->public_key().ToPem(),
                                    .proof = std::string(proof.begin(), proof.end())};
}

Status OperatorClient::JoinOnce(Instant end) {
  ASSIGN_OR_RETURN(const std::string bundle, ReadObject(options_.bucket, "ca.crt"));
  ASSIGN_OR_RETURN(auto roots, crypto::TrustBundleFromPem(bundle));
  if (!join_) {
    ASSIGN_OR_RETURN(join_, JoinRequest());
  }
  tls_ = std::make_shared<RpcTlsMaterial>(RpcTlsMaterial{.chain = {}, .key = {}, .roots = roots});
  const std::unique_ptr<RpcChannel> channel = Dial(options_.registration_address);
  RETURN_IF_ERROR(WaitReady(*channel, end));
  std::optional<Result<api::RegisterClientResponse>> answer;
  const Pending call =
      CallUnary(*channel, api::kRegisterOperator, {.message = *join_, .timeout = kPatience},
                [&](Result<api::RegisterClientResponse> got) { answer = std::move(got); });
  Run([&] { return answer.has_value(); }, end);
  if (!answer) return Fail(DeadlineExceeded("registration was not answered"));
  if (!answer->has_value()) return Fail(answer->error());
  ASSIGN_OR_RETURN(crypto::Certificate leaf,
                   crypto::Certificate::FromPem((*answer)->client_certificate_pem));
  std::vector<crypto::Certificate> chain;
  chain.push_back(std::move(leaf));
  tls_ = std::make_shared<RpcTlsMaterial>(
      RpcTlsMaterial{.chain = std::move(chain), .key = key_, .roots = std::move(roots)});
  return {};
}

Status OperatorClient::Join(Duration limit) {
  const Instant end = options_.loop.Now() + limit;
  for (;;) {
    Status joined = JoinOnce(end);
    if (joined.has_value() || options_.loop.Now() >= end) return joined;
    Pause();
  }
}

Status OperatorClient::WriteIdentity(const std::string& folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto write = [&](const char* name, std::string_view text) {
    std::ofstream file(std::filesystem::path(folder) / name, std::ios::binary);
    file << text;
    return static_cast<bool>(file.flush());
  };
  const crypto::Secret key = key_->ToPem();
  if (tls_->chain.empty()) return Fail(FailedPrecondition("not joined"));
  const bool written = write("ca.crt", tls_->roots.front().ToPem()) &&
                       write("identity.key", AsText(key.Reveal())) &&
                       write("identity.crt", tls_->chain.front().ToPem());
  if (!written) return Fail(Unavailable("writing below " + folder));
  return {};
}

// --- Calls ---------------------------------------------------------------------------------------

bool OperatorClient::MayRepeat(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kAborted || error.code == Code::kCancelled;
}

void OperatorClient::Run(const std::function<bool()>& done, Instant end) const {
  static_cast<void>(RunUntil(options_.loop, done, end - options_.loop.Now()));
}

void OperatorClient::Pause() const {
  const Instant end = options_.loop.Now() + kBetweenTries;
  Run([&] { return options_.loop.Now() >= end; }, end);
}

std::unique_ptr<RpcChannel> OperatorClient::Dial(const std::string& address) {
  return dialer_.Dial({.address = {.host = "127.0.0.1", .port = PortOf(address)},
                       .tls = tls_,
                       .connect_limit = kPatience},
                      {});
}

Status OperatorClient::WaitReady(RpcChannel& channel, Instant end) {
  channel.Connect();
  const auto settled = [&] {
    return channel.state() == RpcChannelState::kReady || channel.state() == RpcChannelState::kGone;
  };
  Run(settled, end);
  if (channel.state() == RpcChannelState::kReady) return {};
  return Fail(Unavailable("no connection"));
}

Status OperatorClient::Connect(Instant end) {
  if (channel_ != nullptr && channel_->state() == RpcChannelState::kReady) return {};
  channel_ = Dial(options_.operator_address);
  return WaitReady(*channel_, end);
}

Status OperatorClient::Resize(const std::string& group, int size, Duration limit) {
  const auto answer =
      Call(api::kUpsertGroup, {.key = group, .config = api::GroupConfig{.size = size}}, limit);
  if (!answer.has_value()) return Fail(answer.error());
  if (answer->size != size) {
    return Fail(Internal(fmt::format("asked for {}, the answer says {}", size, answer->size)));
  }
  return {};
}

Result<api::GroupStatus> OperatorClient::Group(const std::string& group, Duration limit) {
  ASSIGN_OR_RETURN(const api::ListGroupsResponse all, Call(api::kListGroups, {}, limit));
  for (const api::GroupStatus& status : all.groups) {
    if (status.key == group) return status;
  }
  return Fail(NotFound(group));
}

// --- Drains --------------------------------------------------------------------------------------

void OperatorClient::AcknowledgeDrains() { Watch(); }

void OperatorClient::Watch() {
  acks_.clear();
  watch_.reset();
  watch_channel_ =
      dialer_.Dial({.address = {.host = "127.0.0.1", .port = PortOf(options_.operator_address)},
                    .tls = tls_,
                    .connect_limit = kPatience},
                   {.state = [this](RpcChannelState state, const Status&) {
                     if (state == RpcChannelState::kGone) return WatchAgain();
                     if (state != RpcChannelState::kReady) return;
                     watch_ = watch_channel_->Start(
                         api::kWatchInstances.path, {},
                         {.message =
                              [this](const RpcMessage& message) {
                                if (const auto* event = message.As<api::InstanceEvent>())
                                  OnEvent(*event);
                              },
                          .end = [this](const RpcEnd&) { WatchAgain(); }});
                     watch_->Send(RpcMessage::Of(api::Empty{}));
                   }});
  watch_channel_->Connect();
}

void OperatorClient::WatchAgain() {
  again_ = options_.loop.CallAfter(kBetweenTries, [this] { Watch(); });
}

void OperatorClient::OnEvent(const api::InstanceEvent& event) {
  if (event.status != "pending_deletion") return;
  const auto [at, fresh] =
      drains_.try_emplace(event.drain_id, Drain{.event = event, .told_at = options_.loop.Now()});
  if (!at->second.acknowledged) Acknowledge(event.drain_id);
}

// One whose answer is lost is told again with the next snapshot.
void OperatorClient::Acknowledge(const std::string& drain_id) {
  acks_[drain_id] = CallUnary(
      *watch_channel_, api::kAcknowledgeDrained,
      {.message = {.instance_id = drains_.at(drain_id).event.instance_id, .drain_id = drain_id},
       .timeout = kPatience},
      [this, drain_id](const Result<api::Empty>& answer) {
        drains_.at(drain_id).acknowledged = answer.has_value();
      });
}

}  // namespace nstance::test
