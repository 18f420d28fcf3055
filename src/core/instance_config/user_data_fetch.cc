#include "core/instance_config/user_data_fetch.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/check.h"
#include "base/text.h"
#include "core/instance_config/user_data.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxUrlBytes = 2'048;
constexpr std::size_t kMaxValidatorBytes = 1'024;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsVisibleAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

// 169.254.0.0/16 and fe80::/10 in their usual spelling.
bool IsLinkLocal(std::string_view host) {
  if (host.starts_with("169.254.") || host.starts_with("[::ffff:169.254.")) return true;
  constexpr std::array<std::string_view, 4> kPrefixes = {"[fe8", "[fe9", "[fea", "[feb"};
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return host.starts_with(prefix); });
}

// What is sent back as it came must be something that a header can hold.
std::string Validator(std::string_view text) {
  const bool sound = text.size() <= kMaxValidatorBytes &&
                     std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; });
  return sound ? std::string(text) : std::string();
}

bool IsPassing(int status) {
  return status == 304 || status == 408 || status == 425 || status == 429 ||
         (status >= 500 && status <= 599);
}

Error UnexpectedStatus(int status) {
  std::string message =
      fmt::format("the server answered {}; 200 or, to a conditional request, 304", status);
  if (IsPassing(status)) return Unavailable(std::move(message));
  return FailedPrecondition(std::move(message));
}

}  // namespace

Status CheckUserDataUrl(std::string_view url, std::string_view sha256) {
  constexpr std::string_view kAllowed = "https://host/..., or http://host/... with sha256";
  const auto refuse = [&](std::string_view what) {
    return Fail(InvalidArgument(fmt::format("the URL {}; {}", what, kAllowed)));
  };
  if (url.size() > kMaxUrlBytes)
    return refuse(fmt::format("is longer than {} bytes", kMaxUrlBytes));
  if (!IsVisibleAscii(url)) return refuse("has characters that must be percent-encoded");
  const std::string lower = Lower(url);
  const bool is_secure = lower.starts_with("https://");
  if (!is_secure && !lower.starts_with("http://")) return refuse("has another scheme");
  if (!is_secure && sha256.empty()) return refuse("is plain http without sha256");
  const std::size_t start = lower.find("//") + 2;
  const std::string_view host =
      std::string_view(lower).substr(start, lower.find_first_of("/?#", start) - start);
  if (host.empty() || host.front() == ':') return refuse("names no host");
  if (host.contains('@')) return refuse("holds a user name");
  if (url.contains('#')) return refuse("has a fragment");
  if (IsLinkLocal(host)) return refuse("is link-local");
  return {};
}

UserDataFetchMachine::UserDataFetchMachine(config::UserData userdata,
                                           std::optional<KeptUserData> kept)
    : userdata_(std::move(userdata)), kept_(std::move(kept)) {
  const bool useful = kept_ && (!kept_->etag.empty() || !kept_->last_modified.empty()) &&
                      CheckUserDataDigest(userdata_.sha256, kept_->body);
  if (!useful) kept_.reset();
}

UserDataFetchMachine::Command UserDataFetchMachine::Start() {
  CHECK(state_ == State::kNew, "started twice");
  Status allowed = CheckUserDataUrl(userdata_.content, userdata_.sha256);
  if (!allowed) {
    state_ = State::kDone;
    Error error = std::move(allowed).error();
    error.code = Code::kFailedPrecondition;
    return Finish{.body = Fail(std::move(error))};
  }
  state_ = State::kAsking;
  return Get{.url = userdata_.content,
             .if_none_match = kept_ ? kept_->etag : "",
             .if_modified_since = kept_ ? kept_->last_modified : ""};
}

UserDataFetchMachine::Command UserDataFetchMachine::On(Result<Answer> answer) {
  CHECK(state_ == State::kAsking, "an answer that nobody asked for");
  state_ = State::kDone;
  if (!answer) return Finish{.body = Fail(std::move(answer).error())};
  return Judge(*answer);
}

UserDataFetchMachine::Finish UserDataFetchMachine::Judge(const Answer& answer) const {
  if (answer.status == 304 && kept_) return {.body = kept_->body};
  Result<std::string> body = JudgeBody(answer);
  if (!body) return {.body = std::move(body)};
  KeptUserData keep{.etag = Validator(answer.etag),
                    .last_modified = Validator(answer.last_modified),
                    .body = *body};
  return {.body = std::move(body), .keep = std::move(keep)};
}

Result<std::string> UserDataFetchMachine::JudgeBody(const Answer& answer) const {
  if (answer.status != 200) return Fail(UnexpectedStatus(answer.status));
  const std::string coding = Lower(answer.content_encoding);
  const bool wants_gzip = userdata_.effective_encoding() == config::UserDataEncoding::kGzip;
  if (!coding.empty() && coding != "identity" && !(wants_gzip && coding == "gzip")) {
    return Fail(FailedPrecondition(
        fmt::format("the body came in content coding {}; none was asked for", Quote(coding))));
  }
  if (answer.body.size() > kMaxUserDataBytes) {
    return Fail(ResourceExhausted(
        fmt::format("the body has {} bytes; at most {}", answer.body.size(), kMaxUserDataBytes)));
  }
  RETURN_IF_ERROR(CheckUserDataDigest(userdata_.sha256, answer.body));
  return answer.body;
}

}  // namespace nstance
