#include "bench/generator/join.h"

#include <utility>

#include "base/text.h"
#include "crypto/registration_token.h"
#include "ports/api/methods.h"
#include "ports/rpc_unary.h"

namespace nstance::bench {
namespace {

std::shared_ptr<const crypto::PrivateKey> NewKey(SecureRandom& random) {
  const auto seed = random.Array<crypto::PrivateKey::kSeedSize>();
  return std::make_shared<const crypto::PrivateKey>(crypto::PrivateKey::FromSeed(seed));
}

}  // namespace

Join::Join(const JoinDeps& deps, RpcDialer& dialer, crypto::Role role, const TokenLine& line,
           Done done)
    : deps_(deps),
      role_(role),
      token_(line.token),
      done_(std::move(done)),
      key_(NewKey(deps.random)),
      channel_(dialer.Dial(
          {.address = deps.registration,
           .tls = std::make_shared<const RpcTlsMaterial>(RpcTlsMaterial{.roots = deps.roots}),
           .connect_limit = Duration::Seconds(30)},
          {.state = [this](RpcChannelState state, const Status& why) { OnState(state, why); }})) {
  channel_->Connect();
}

void Join::OnState(RpcChannelState state, const Status& why) {
  if (state == RpcChannelState::kReady) return Ask();
  // After the answer nobody cares; before it, the call has been told first.
  if (state == RpcChannelState::kGone && done_ != nullptr) {
    Finish(Fail(why.has_value() ? Unavailable("the connection is gone") : why.error()));
  }
}

void Join::Ask() {
  api::RegisterClientRequest request{.registration_nonce_jwt = token_,
                                     .public_key_pem = key_->public_key().ToPem()};
  const crypto::Signature proof = crypto::SignJoinProof(*key_, token_, deps_.cluster);
  request.proof = AsText(proof);
  const auto& method = role_ == crypto::Role::kAgent ? api::kRegisterAgent : api::kRegisterOperator;
  call_ = CallUnary(*channel_, method,
                    {.message = std::move(request),
                     .timeout = Duration::Seconds(60),
                     .metadata = {{.name = "nstance-features", .value = "renew,rebind"}}},
                    [this](Result<api::RegisterClientResponse> answer) {
                      if (!answer.has_value()) return Finish(Fail(answer.error()));
                      Finish(Material(answer->client_certificate_pem));
                    });
}

void Join::Finish(Result<RpcTls> identity) {
  Done done = std::exchange(done_, nullptr);
  done(std::move(identity));
}

Result<RpcTls> Join::Material(const std::string& certificate) const {
  ASSIGN_OR_RETURN(crypto::Certificate leaf, crypto::Certificate::FromPem(certificate));
  if (leaf.facts().public_key != key_->public_key()) {
    return Fail(FailedPrecondition("the certificate is for another key"));
  }
  return std::make_shared<const RpcTlsMaterial>(
      RpcTlsMaterial{.chain = {std::move(leaf)}, .key = key_, .roots = deps_.roots});
}

}  // namespace nstance::bench
