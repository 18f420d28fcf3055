#include "adapters/s3_store/s3_answers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/cloud_http/http_date.h"
#include "adapters/cloud_http/write_answer.h"
#include "base/text.h"
#include "base/xml.h"

namespace nstance::s3 {
namespace {

constexpr std::size_t kMaxTag = 256;
constexpr std::size_t kMaxErrorBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxErrorText = 128;
// A thousand keys of 1,024 characters, each of them escaped as "&#x10FFFF;".
constexpr std::size_t kMaxListingBytes = std::size_t{16} * 1024 * 1024;

std::string Describe(const S3Error& error) {
  std::string text;
  if (!error.code.empty()) text += " " + Quote(error.code);
  if (!error.request_id.empty()) text += " (request " + Quote(error.request_id) + ")";
  return text;
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

// The store wants fewer requests. Other 503 may come from anywhere behind it.
bool IsRateLimit(int status, const S3Error& error) {
  return status == 503 && error.code.starts_with("SlowDown");
}

Error MissingBucket(const S3Error& error) {
  return FailedPrecondition("there is no such bucket" + Describe(error));
}

// "...-2": the tag of an upload in parts.
bool IsTagOfParts(std::string_view tag) {
  const std::size_t hyphen = tag.rfind('-');
  return hyphen != std::string_view::npos && ParseNumber(tag.substr(hyphen + 1)).has_value();
}

Result<ObjectVersion> RequireTag(const HttpResponse& answer) {
  std::optional<ObjectVersion> tag = ParseTag(answer.Header("etag"));
  if (!tag) return Fail(Unavailable("the answer has no usable tag"));
  return *std::move(tag);
}

Result<cloud::RawPage::Entry> ParseEntry(const xml::Element& contents) {
  const xml::Element* key = contents.Find("Key");
  const auto size = ParseNumber(contents.TextOf("Size"));
  if (key == nullptr || key->text.empty() || !size) {
    return Fail(Unavailable("an entry of the listing has no key or no size"));
  }
  const std::string tag(contents.TextOf("ETag"));
  return cloud::RawPage::Entry{
      .key = key->text, .version = ParseTag(&tag).value_or(ObjectVersion{}), .size = *size};
}

}  // namespace

std::optional<ObjectVersion> ParseTag(const std::string* header) {
  if (header == nullptr) return std::nullopt;
  std::string_view tag = *header;
  if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') {
    tag = tag.substr(1, tag.size() - 2);
  }
  const bool characters = std::ranges::all_of(
      tag, [](char c) { return c > ' ' && c < '\x7F' && c != '"' && c != '\\'; });
  // A weak tag has kept its quotes in the middle.
  if (tag.empty() || tag.size() > kMaxTag || !characters) return std::nullopt;
  return ObjectVersion{.text = std::string(tag)};
}

S3Error ParseError(std::string_view text) {
  const auto root = xml::Parse(text, {.max_bytes = kMaxErrorBytes});
  if (!root || root->name != "Error") return {};
  return {.code = std::string(root->TextOf("Code").substr(0, kMaxErrorText)),
          .request_id = std::string(root->TextOf("RequestId").substr(0, kMaxErrorText))};
}

Result<Object> ParseGet(const HttpResponse& answer) {
  if (answer.status != 200) {
    const S3Error error = ParseError(answer.body);
    if (answer.status == 404 && error.code == "NoSuchKey") return Fail(NotFound("no such object"));
    if (answer.status == 404 && error.code == "NoSuchBucket") return Fail(MissingBucket(error));
    return Fail(cloud::ReadError(answer.status, Describe(error)));
  }
  RETURN_IF_ERROR(cloud::CheckBodyForm(answer));
  ASSIGN_OR_RETURN(ObjectVersion version, RequireTag(answer));
  const std::string* date = answer.Header("date");
  const std::string* modified = answer.Header("last-modified");
  return Object{
      .bytes = answer.body,
      .version = std::move(version),
      .store_time = date == nullptr ? std::nullopt : cloud::ParseHttpDate(*date),
      .modified_at = modified == nullptr ? std::nullopt : cloud::ParseHttpDate(*modified)};
}

Result<ObjectHead> ParseHead(const HttpResponse& answer) {
  if (answer.status == 404) return Fail(NotFound("no such object"));
  if (answer.status != 200) return Fail(cloud::ReadError(answer.status, ""));
  RETURN_IF_ERROR(cloud::CheckBodyForm(answer));
  ASSIGN_OR_RETURN(ObjectVersion version, RequireTag(answer));
  const std::string* length = answer.Header("content-length");
  const auto size = length == nullptr ? std::nullopt : ParseNumber(*length);
  if (!size) return Fail(Unavailable("the answer tells no size"));
  return ObjectHead{.version = std::move(version), .size = *size};
}

Result<ObjectVersion> ParsePut(const HttpResponse& answer, const PutCondition* condition) {
  const S3Error error = ParseError(answer.body);
  if (answer.status != 200) {
    if (error.code == "NoSuchBucket") return Fail(MissingBucket(error));
    const bool update = condition != nullptr && std::holds_alternative<IfVersion>(*condition);
    if (answer.status == 404 && update) {
      return Fail(Aborted("there is no object to update" + Describe(error)));
    }
    if (IsRateLimit(answer.status, error)) return Fail(Unavailable("the store is busy"));
    return Fail(cloud::WriteError(answer.status, Describe(error)));
  }
  if (!error.code.empty()) {
    return Fail(Unavailable("the store answered 200 with an error" + Describe(error)).MaybeDone());
  }
  std::optional<ObjectVersion> tag = ParseTag(answer.Header("etag"));
  if (!tag || IsTagOfParts(tag->text)) return ObjectVersion{};
  return *std::move(tag);
}

Status ParseDelete(const HttpResponse& answer) {
  if (answer.status == 204) return {};
  const S3Error error = ParseError(answer.body);
  if (answer.status == 200 && error.code.empty()) return {};
  if (answer.status == 404 && error.code == "NoSuchKey") return {};
  if (error.code == "NoSuchBucket") return Fail(MissingBucket(error));
  if (IsRateLimit(answer.status, error)) return Fail(Unavailable("the store is busy"));
  return Fail(cloud::WriteError(answer.status, Describe(error)));
}

Result<cloud::RawPage> ParseListing(std::string_view text, InputSource source) {
  auto root = xml::Parse(text, {.max_bytes = kMaxListingBytes, .max_depth = 8, .source = source});
  if (!root) return Fail(Unavailable("malformed listing: " + root.error().message));
  if (root->name == "Error") {
    return Fail(Unavailable("the store answered 200 with an error" + Describe(ParseError(text))));
  }
  if (root->name != "ListBucketResult") return Fail(Unavailable("the answer is no listing"));
  cloud::RawPage page;
  for (const xml::Element& child : root->children) {
    if (child.name != "Contents") continue;
    ASSIGN_OR_RETURN(cloud::RawPage::Entry entry, ParseEntry(child));
    page.entries.push_back(std::move(entry));
  }
  const std::string_view count = root->TextOf("KeyCount");
  if (!count.empty() && ParseNumber(count) != page.entries.size()) {
    return Fail(Unavailable("the listing does not have as many keys as it says"));
  }
  const std::string_view truncated = root->TextOf("IsTruncated");
  if (truncated == "false") return page;
  page.next_token = root->TextOf("NextContinuationToken");
  if (truncated != "true" || page.next_token.empty()) {
    return Fail(Unavailable("the listing does not tell how it goes on"));
  }
  return page;
}

Result<cloud::RawPage> ParseList(const HttpResponse& answer) {
  if (answer.status != 200) {
    const S3Error error = ParseError(answer.body);
    if (error.code == "NoSuchBucket") return Fail(MissingBucket(error));
    return Fail(cloud::ReadError(answer.status, Describe(error)));
  }
  RETURN_IF_ERROR(cloud::CheckBodyForm(answer));
  return ParseListing(answer.body, {.interface = "cloud"});
}

}  // namespace nstance::s3
