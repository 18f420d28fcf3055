#include "adapters/gcp_credentials/gcp_credential_fetch.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "adapters/cloud_http/endpoint.h"
#include "adapters/gcp_credentials/service_account.h"
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

namespace nstance::gcp {
namespace {

using cloud::Endpoint;
using cloud::PlainHttp;

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} * 1024;
constexpr Duration kExchangeDeadline = Duration::Seconds(5);
constexpr Duration kMetadataDeadline = Duration::Seconds(2);
constexpr std::int64_t kLongestLife = 86'400;
constexpr std::string_view kMetadataName = "metadata.google.internal";

// The word that OAuth has for what went wrong ("invalid_grant"), for messages.
std::string OauthError(std::string_view body) {
  const auto document = json::Parse(body, {.max_bytes = kMaxAnswerBytes, .max_depth = 8});
  const json::Value* error = document ? document->Find("error") : nullptr;
  const std::string* word = error == nullptr ? nullptr : error->if_string();
  return word == nullptr ? std::string() : " " + Quote(*word);
}

}  // namespace

Result<GcpToken> ParseToken(std::string_view text, Timestamp now) {
  const auto document = json::Parse(
      text, {.max_bytes = kMaxAnswerBytes, .max_depth = 4, .source = {.interface = "cloud"}});
  if (!document) return Fail(Unavailable("malformed JSON: " + document.error().message));
  const json::Value* token = document->Find("access_token");
  const json::Value* life = document->Find("expires_in");
  const std::string* bearer = token == nullptr ? nullptr : token->if_string();
  const std::int64_t* seconds = life == nullptr ? nullptr : life->if_integer();
  if (bearer == nullptr || bearer->empty() || seconds == nullptr) {
    return Fail(Unavailable("access_token or expires_in is missing"));
  }
  const bool visible = std::ranges::all_of(*bearer, [](char c) { return c > ' ' && c < '\x7F'; });
  if (!visible || *seconds <= 0 || *seconds > kLongestLife) {
    return Fail(Unavailable("the token or its life is out of range"));
  }
  return GcpToken{.bearer = crypto::Secret::CopyOf(AsBytes(*bearer)),
                  .expires_at = now + Duration::Seconds(*seconds)};
}

GcpCredentialFetch::Command GcpCredentialFetch::Start() {
  CHECK(state_ == State::kNew);
  if (settings_.key_file.empty()) return AskMetadata();
  state_ = State::kKeyFile;
  return ReadFile{.path = settings_.key_file};
}

GcpCredentialFetch::Command GcpCredentialFetch::On(File event, Timestamp now) {
  CHECK(state_ == State::kKeyFile, "in state {}", static_cast<int>(state_));
  if (!event.bytes) return End(std::move(event.bytes).error());
  Command next = Exchange(*event.bytes, now);
  crypto::Wipe(*event.bytes);
  return next;
}

GcpCredentialFetch::Command GcpCredentialFetch::On(Answer event, Timestamp now) {
  const bool metadata = state_ == State::kMetadata;
  CHECK(metadata || state_ == State::kExchange, "in state {}", static_cast<int>(state_));
  const std::string_view who = metadata ? "metadata server" : "token exchange";
  if (!event.answer) return End(std::move(event.answer).error().Under(who));
  HttpResponse& answer = *event.answer;
  if (answer.status != 200) {
    const std::string message =
        fmt::format("{}: it answered {}{}", who, answer.status, OauthError(answer.body));
    return End(answer.status >= 400 && answer.status < 500 ? PermissionDenied(message)
                                                           : Unavailable(message));
  }
  // Whoever else answers at that address does not know this header.
  const std::string* flavor = answer.Header("metadata-flavor");
  if (metadata && (flavor == nullptr || *flavor != "Google")) {
    return End(Unavailable("metadata server: what answered is not Google's"));
  }
  Result<GcpToken> token = ParseToken(answer.body, now);
  crypto::Wipe(answer.body);
  if (!token) return End(std::move(token).error().Under(who));
  state_ = State::kDone;
  return Finish{.result = *std::move(token)};
}

GcpCredentialFetch::Command GcpCredentialFetch::End(Error error) {
  state_ = State::kDone;
  // Nothing was asked of the service that the token is for.
  error.outcome = Outcome::kNotDone;
  return Finish{.result = Fail(std::move(error).Under("GCP credentials"))};
}

GcpCredentialFetch::Command GcpCredentialFetch::AskMetadata() {
  std::string url = "http://" + settings_.metadata_host;
  if (settings_.metadata_host != kMetadataName) {
    const auto endpoint = Endpoint::Parse(url, PlainHttp::kLoopbackAndLinkLocal);
    if (!endpoint) return End(endpoint.error());
    url = endpoint->Url();
  }
  HttpRequest request;
  request.url = url + "/computeMetadata/v1/instance/service-accounts/default/token?scopes=" +
                cloud::PercentEncode(settings_.scope);
  request.headers = {{.name = "metadata-flavor", .value = "Google"}};
  request.deadline = kMetadataDeadline;
  request.max_response_bytes = kMaxAnswerBytes;
  state_ = State::kMetadata;
  return Send{.request = std::move(request)};
}

GcpCredentialFetch::Command GcpCredentialFetch::Exchange(std::string_view key_file, Timestamp now) {
  const auto account = ParseServiceAccount(key_file);
  if (!account) return End(account.error().Under(settings_.key_file));
  const auto endpoint = Endpoint::Parse(account->token_uri, PlainHttp::kLoopback);
  if (!endpoint) return End(endpoint.error().Under(settings_.key_file));
  const auto assertion = SignAssertion(*account, settings_.scope, now);
  if (!assertion) return End(assertion.error().Under(settings_.key_file));
  HttpRequest request;
  request.method = HttpMethod::kPost;
  request.url = endpoint->Url();
  request.headers = {{.name = "content-type", .value = "application/x-www-form-urlencoded"}};
  request.body =
      "grant_type=" + cloud::PercentEncode("urn:ietf:params:oauth:grant-type:jwt-bearer") +
      "&assertion=" + *assertion;
  request.deadline = kExchangeDeadline;
  request.max_response_bytes = kMaxAnswerBytes;
  state_ = State::kExchange;
  return Send{.request = std::move(request)};
}

}  // namespace nstance::gcp
