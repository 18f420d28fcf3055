#include "adapters/aws_credentials/aws_credential_fetch.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "adapters/cloud_http/endpoint.h"
#include "base/check.h"
#include "base/text.h"

namespace nstance::aws {
namespace {

using cloud::Endpoint;
using cloud::PercentEncode;
using cloud::PlainHttp;

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} * 1024;
constexpr Duration kStsDeadline = Duration::Seconds(5);
constexpr Duration kContainerDeadline = Duration::Seconds(2);
// Outside of the vendor's machines nobody answers, and this is what finding that out costs.
constexpr Duration kMetadataDeadline = Duration::Seconds(1);
constexpr std::string_view kRolePath = "/latest/meta-data/iam/security-credentials/";

// What a header may carry; tokens in files often end with a newline.
std::string_view TrimToken(std::string_view token) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.remove_suffix(1);
  return token;
}

bool IsToken(std::string_view token) {
  return !token.empty() &&
         std::ranges::all_of(token, [](char c) { return c >= ' ' && c < '\x7F'; });
}

bool IsRoleName(std::string_view name) {
  constexpr std::string_view kSigns = "+=,.@-_";
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::ranges::all_of(name, [&](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  kSigns.contains(c);
         });
}

HttpRequest MetadataGet(std::string url, const std::string& token) {
  HttpRequest request;
  request.url = std::move(url);
  request.deadline = kMetadataDeadline;
  request.max_response_bytes = kMaxAnswerBytes;
  if (!token.empty()) {
    request.headers.push_back({.name = "x-aws-ec2-metadata-token", .value = token});
  }
  return request;
}

std::string StsUrl(const AwsSettings& settings) {
  if (!settings.sts_endpoint.empty()) return settings.sts_endpoint;
  if (settings.region.empty()) return "https://sts.amazonaws.com";
  const std::string_view domain =
      settings.region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return fmt::format("https://sts.{}.{}", settings.region, domain);
}

}  // namespace

std::string_view AwsSourceName(AwsSource source) {
  switch (source) {
    case AwsSource::kEnvironment: return "environment";
    case AwsSource::kWebIdentity: return "web identity";
    case AwsSource::kContainer: return "container endpoint";
    case AwsSource::kMetadata: return "instance metadata";
    case AwsSource::kSharedFile: return "shared credentials file";
  }
  return "unknown";
}

AwsCredentialFetch::Command AwsCredentialFetch::Start() {
  CHECK(state_ == State::kNew);
  if (!settings_.access_key.empty() && !settings_.secret_key.empty()) {
    return End(MakeKeys(settings_.access_key, settings_.secret_key, settings_.session_token, {}),
               AwsSource::kEnvironment);
  }
  if (!settings_.web_identity_token_file.empty() && !settings_.role_arn.empty()) {
    return Read(State::kIdentityToken, settings_.web_identity_token_file);
  }
  if (!settings_.container_url.empty()) {
    if (settings_.container_token_file.empty()) return AskContainer(settings_.container_token);
    return Read(State::kContainerToken, settings_.container_token_file);
  }
  if (settings_.metadata_enabled) return AskMetadataToken();
  metadata_failure_ = "switched off";
  return ReadProfile();
}

AwsCredentialFetch::Command AwsCredentialFetch::On(File event) {
  if (state_ == State::kProfile) return OnProfile(std::move(event.bytes));
  const bool identity = state_ == State::kIdentityToken;
  CHECK(identity || state_ == State::kContainerToken, "in state {}", static_cast<int>(state_));
  if (!event.bytes) {
    return End(std::move(event.bytes)
                   .error()
                   .Under(identity ? "web identity token" : "container authorization token"));
  }
  const std::string_view token = TrimToken(*event.bytes);
  if (!IsToken(token)) return End(FailedPrecondition("the token file holds no token"));
  return identity ? AskSts(token) : AskContainer(token);
}

AwsCredentialFetch::Command AwsCredentialFetch::On(Answer event) {
  const bool metadata = state_ == State::kMetadataToken || state_ == State::kMetadataRole;
  if (!event.answer) {
    if (metadata) return GiveWay(event.answer.error().message);
    return End(std::move(event.answer).error());
  }
  switch (state_) {
    case State::kSts: return OnSts(*event.answer);
    case State::kContainer: return OnContainer(*event.answer);
    case State::kMetadataToken: return OnMetadataToken(*event.answer);
    case State::kMetadataRole: return OnMetadataRole(*event.answer);
    case State::kMetadataKeys: return OnMetadataKeys(*event.answer);
    default: CHECK(false, "an answer in state {}", static_cast<int>(state_));
  }
}

AwsCredentialFetch::Command AwsCredentialFetch::Ask(State next, HttpRequest request) {
  state_ = next;
  return Send{.request = std::move(request)};
}

AwsCredentialFetch::Command AwsCredentialFetch::Read(State next, std::string path) {
  state_ = next;
  return ReadFile{.path = std::move(path)};
}

AwsCredentialFetch::Command AwsCredentialFetch::End(Error error) {
  state_ = State::kDone;
  // Nothing was asked of the service that the keys are for.
  error.outcome = Outcome::kNotDone;
  return Finish{.result = Fail(std::move(error).Under("AWS credentials"))};
}

AwsCredentialFetch::Command AwsCredentialFetch::End(Result<AwsKeys> keys, AwsSource source) {
  if (!keys) return End(std::move(keys).error().Under(AwsSourceName(source)));
  state_ = State::kDone;
  return Finish{.result = FoundKeys{.keys = *std::move(keys), .source = source}};
}

AwsCredentialFetch::Command AwsCredentialFetch::AskSts(std::string_view token) {
  const auto endpoint = Endpoint::Parse(StsUrl(settings_), PlainHttp::kLoopback);
  if (!endpoint) return End(endpoint.error());
  HttpRequest request;
  request.method = HttpMethod::kPost;
  request.url = endpoint->Url() + "/";
  request.deadline = kStsDeadline;
  request.max_response_bytes = kMaxAnswerBytes;
  request.headers = {{.name = "content-type", .value = "application/x-www-form-urlencoded"},
                     {.name = "accept", .value = "application/xml"}};
  request.body = fmt::format(
      "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName={}"
      "&WebIdentityToken={}",
      PercentEncode(settings_.role_arn), PercentEncode(settings_.role_session_name),
      PercentEncode(token));
  return Ask(State::kSts, std::move(request));
}

AwsCredentialFetch::Command AwsCredentialFetch::AskContainer(std::string_view token) {
  const std::string_view url = settings_.container_url;
  // The path and query are the container's own affair; whom we talk to is ours.
  const std::size_t authority_at = url.find("://") == std::string_view::npos ? 0 : url.find("://");
  const std::size_t end = std::min(url.find_first_of("/?", authority_at + 3), url.size());
  const auto endpoint = Endpoint::Parse(url.substr(0, end), PlainHttp::kLoopbackAndLinkLocal);
  if (!endpoint) return End(endpoint.error());
  HttpRequest request;
  request.url = settings_.container_url;
  request.deadline = kContainerDeadline;
  request.max_response_bytes = kMaxAnswerBytes;
  if (!token.empty()) {
    request.headers.push_back({.name = "authorization", .value = std::string(token)});
  }
  return Ask(State::kContainer, std::move(request));
}

AwsCredentialFetch::Command AwsCredentialFetch::AskMetadataToken() {
  const auto endpoint =
      Endpoint::Parse(settings_.metadata_endpoint, PlainHttp::kLoopbackAndLinkLocal);
  if (!endpoint) return End(endpoint.error());
  metadata_url_ = endpoint->Url();
  HttpRequest request;
  request.method = HttpMethod::kPut;
  request.url = metadata_url_ + "/latest/api/token";
  request.deadline = kMetadataDeadline;
  request.max_response_bytes = kMaxAnswerBytes;
  request.headers = {{.name = "x-aws-ec2-metadata-token-ttl-seconds", .value = "21600"}};
  return Ask(State::kMetadataToken, std::move(request));
}

AwsCredentialFetch::Command AwsCredentialFetch::AskMetadataRole() {
  return Ask(State::kMetadataRole,
             MetadataGet(metadata_url_ + std::string(kRolePath), metadata_token_));
}

AwsCredentialFetch::Command AwsCredentialFetch::AskMetadataKeys(std::string_view role) {
  return Ask(
      State::kMetadataKeys,
      MetadataGet(metadata_url_ + std::string(kRolePath) + PercentEncode(role), metadata_token_));
}

AwsCredentialFetch::Command AwsCredentialFetch::GiveWay(std::string why) {
  if (fall_back_ == FallBack::kForbidden) {
    return End(Unavailable(std::move(why)).Under(AwsSourceName(AwsSource::kMetadata)));
  }
  metadata_failure_ = std::move(why);
  return ReadProfile();
}

AwsCredentialFetch::Command AwsCredentialFetch::ReadProfile() {
  if (settings_.shared_file.empty()) return OnProfile(Fail(NotFound("there is no home folder")));
  return Read(State::kProfile, settings_.shared_file);
}

AwsCredentialFetch::Command AwsCredentialFetch::OnSts(HttpResponse& answer) {
  if (answer.status != 200) {
    return End(PermissionDenied(fmt::format("web identity: STS answered {} {}", answer.status,
                                            Quote(ParseQueryErrorCode(answer.body)))));
  }
  Result<AwsKeys> keys = ParseStsKeys(answer.body);
  crypto::Wipe(answer.body);
  return End(std::move(keys), AwsSource::kWebIdentity);
}

AwsCredentialFetch::Command AwsCredentialFetch::OnContainer(HttpResponse& answer) {
  if (answer.status != 200) {
    return End(Unavailable(fmt::format("container endpoint: it answered {}", answer.status)));
  }
  Result<AwsKeys> keys = ParseMetadataKeys(answer.body);
  crypto::Wipe(answer.body);
  return End(std::move(keys), AwsSource::kContainer);
}

AwsCredentialFetch::Command AwsCredentialFetch::OnMetadataToken(const HttpResponse& answer) {
  if (answer.status == 200 && IsToken(answer.body)) {
    metadata_token_ = answer.body;
    return AskMetadataRole();
  }
  const bool version_1 = answer.status == 403 || answer.status == 404 || answer.status == 405;
  if (version_1 && settings_.metadata_v1_allowed) return AskMetadataRole();
  return GiveWay(fmt::format("the request for a token was answered {}", answer.status));
}

AwsCredentialFetch::Command AwsCredentialFetch::OnMetadataRole(const HttpResponse& answer) {
  if (answer.status != 200) {
    return GiveWay(fmt::format("the request for a role was answered {}", answer.status));
  }
  const std::string_view role =
      TrimToken(std::string_view(answer.body).substr(0, answer.body.find('\n')));
  if (!IsRoleName(role)) return GiveWay("the answer names no role");
  return AskMetadataKeys(role);
}

AwsCredentialFetch::Command AwsCredentialFetch::OnMetadataKeys(HttpResponse& answer) {
  if (answer.status != 200) {
    return End(Unavailable(fmt::format("instance metadata: it answered {}", answer.status)));
  }
  Result<AwsKeys> keys = ParseMetadataKeys(answer.body);
  crypto::Wipe(answer.body);
  return End(std::move(keys), AwsSource::kMetadata);
}

AwsCredentialFetch::Command AwsCredentialFetch::OnProfile(Result<std::string> bytes) {
  Result<AwsKeys> keys = Fail(NotFound("nothing was read"));
  if (bytes) {
    keys = ParseSharedCredentials(*bytes, settings_.profile);
    crypto::Wipe(*bytes);
  } else {
    keys = Fail(std::move(bytes).error());
  }
  if (keys || keys.error().code != Code::kNotFound) {
    return End(std::move(keys), AwsSource::kSharedFile);
  }
  return End(FailedPrecondition(
      fmt::format("none found: no keys, web identity or container in the environment; instance "
                  "metadata: {}; shared credentials file: {}",
                  metadata_failure_, keys.error().message)));
}

}  // namespace nstance::aws
