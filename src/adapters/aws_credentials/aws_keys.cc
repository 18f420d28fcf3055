#include "adapters/aws_credentials/aws_keys.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "base/text.h"
#include "base/xml.h"

namespace nstance::aws {
namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxErrorCode = 128;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t start = text.find_first_not_of(kBlank);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlank) - start + 1);
}

struct KeyTexts {
  std::string_view access_key;
  std::string_view secret_key;
  std::string_view session_token;
  std::string_view expiration;  // Empty: never.
};

Result<AwsKeys> CheckedKeys(const KeyTexts& texts) {
  const auto visible = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7F'; });
  };
  if (texts.access_key.empty() || texts.secret_key.empty()) {
    return Fail(Unavailable("access key or secret key is missing"));
  }
  if (!visible(texts.access_key) || !visible(texts.secret_key) || !visible(texts.session_token)) {
    return Fail(Unavailable("a key holds other than visible characters"));
  }
  std::optional<Timestamp> expires_at;
  if (!texts.expiration.empty()) {
    const auto parsed = ParseTimestamp(texts.expiration);
    if (!parsed) return Fail(Unavailable("the expiration is not a time"));
    expires_at = *parsed;
  }
  return MakeKeys(texts.access_key, texts.secret_key, texts.session_token, expires_at);
}

std::string_view StringMember(const json::Value& document, std::string_view name) {
  const json::Value* member = document.Find(name);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

}  // namespace

AwsKeys MakeKeys(std::string_view access_key, std::string_view secret_key,
                 std::string_view session_token, std::optional<Timestamp> expires_at) {
  return {.access_key = std::string(access_key),
          .secret_key = crypto::Secret::CopyOf(AsBytes(secret_key)),
          .session_token = crypto::Secret::CopyOf(AsBytes(session_token)),
          .expires_at = expires_at};
}

Result<AwsKeys> ParseMetadataKeys(std::string_view text) {
  const auto document = json::Parse(
      text, {.max_bytes = kMaxAnswerBytes, .max_depth = 4, .source = {.interface = "cloud"}});
  if (!document) return Fail(Unavailable("malformed JSON: " + document.error().message));
  const std::string_view code = StringMember(*document, "Code");
  if (!code.empty() && code != "Success") {
    return Fail(Unavailable(fmt::format("no keys: {}", Quote(code))));
  }
  return CheckedKeys({.access_key = StringMember(*document, "AccessKeyId"),
                      .secret_key = StringMember(*document, "SecretAccessKey"),
                      .session_token = StringMember(*document, "Token"),
                      .expiration = StringMember(*document, "Expiration")});
}

Result<AwsKeys> ParseStsKeys(std::string_view text) {
  const auto root =
      xml::Parse(text, {.max_bytes = kMaxAnswerBytes, .source = {.interface = "cloud"}});
  if (!root) return Fail(Unavailable("malformed XML: " + root.error().message));
  const xml::Element* result = root->name == "AssumeRoleWithWebIdentityResponse"
                                   ? root->Find("AssumeRoleWithWebIdentityResult")
                                   : nullptr;
  const xml::Element* keys = result == nullptr ? nullptr : result->Find("Credentials");
  if (keys == nullptr) return Fail(Unavailable("the answer holds no credentials"));
  if (keys->TextOf("Expiration").empty()) {
    return Fail(Unavailable("the credentials have no expiration"));
  }
  return CheckedKeys({.access_key = keys->TextOf("AccessKeyId"),
                      .secret_key = keys->TextOf("SecretAccessKey"),
                      .session_token = keys->TextOf("SessionToken"),
                      .expiration = keys->TextOf("Expiration")});
}

Result<AwsKeys> ParseSharedCredentials(std::string_view ini, std::string_view profile) {
  KeyTexts texts;
  bool found = false;
  bool inside = false;
  while (!ini.empty()) {
    const std::string_view whole = ini.substr(0, ini.find('\n'));
    ini.remove_prefix(std::min(ini.size(), whole.size() + 1));
    const std::string_view line = Trim(whole);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const std::size_t end = line.find(']');
      if (end == std::string_view::npos) {
        return Fail(FailedPrecondition("a profile name without its closing bracket"));
      }
      inside = Trim(line.substr(1, end - 1)) == profile;
      found = found || inside;
      continue;
    }
    const std::size_t equals = line.find('=');
    if (!inside || equals == std::string_view::npos) continue;
    const std::string_view name = Trim(line.substr(0, equals));
    const std::string_view value = Trim(line.substr(equals + 1));
    if (name == "aws_access_key_id") texts.access_key = value;
    if (name == "aws_secret_access_key") texts.secret_key = value;
    if (name == "aws_session_token") texts.session_token = value;
  }
  if (!found) return Fail(NotFound(fmt::format("there is no profile {}", Quote(profile))));
  Result<AwsKeys> keys = CheckedKeys(texts);
  if (!keys) {
    return Fail(
        FailedPrecondition(fmt::format("profile {}: {}", Quote(profile), keys.error().message)));
  }
  return keys;
}

std::string ParseQueryErrorCode(std::string_view text) {
  const auto root = xml::Parse(text, {.max_bytes = kMaxAnswerBytes});
  if (!root) return {};
  const xml::Element* error = root->name == "Error" ? &*root : root->Find("Error");
  return error == nullptr ? std::string()
                          : std::string(error->TextOf("Code").substr(0, kMaxErrorCode));
}

}  // namespace nstance::aws
