#include "adapters/gcs_store/gcs_answers.h"

#include <charconv>
#include <cstdint>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/cloud_http/http_date.h"
#include "adapters/cloud_http/write_answer.h"
#include "base/json.h"
#include "base/text.h"

namespace nstance::gcs {
namespace {

constexpr std::size_t kMaxErrorBytes = std::size_t{64} * 1024;
constexpr std::size_t kMaxListingBytes = std::size_t{16} * 1024 * 1024;
constexpr std::size_t kMaxReason = 128;

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

// Numbers of 64 bits are strings in this API.
std::string_view StringMember(const json::Value& object, std::string_view name) {
  const json::Value* member = object.Find(name);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

std::string Describe(std::string_view body) {
  const std::string reason = ParseReason(body);
  return reason.empty() ? std::string() : " " + Quote(reason);
}

// The store's own word for a missing bucket; a missing object has the same reason but another text.
bool IsMissingBucket(const HttpResponse& answer) {
  return answer.status == 404 && answer.body.contains("bucket does not exist");
}

// A page for people comes from something in front of the store.
bool IsPage(const HttpResponse& answer) { return answer.body.starts_with('<'); }

// Google limits rates with 429, and in some places with 403 and a reason.
bool IsRateLimit(const HttpResponse& answer) {
  if (answer.status == 429) return true;
  const std::string reason = answer.status == 403 ? ParseReason(answer.body) : std::string();
  return reason == "rateLimitExceeded" || reason == "userRateLimitExceeded";
}

Error ReadFailure(const HttpResponse& answer) {
  if (IsMissingBucket(answer)) return FailedPrecondition("there is no such bucket");
  if (answer.status == 404 && !IsPage(answer)) return NotFound("no such object");
  if (IsRateLimit(answer)) return Unavailable("the store is busy");
  return cloud::ReadError(answer.status, Describe(answer.body));
}

Error WriteFailure(const HttpResponse& answer) {
  if (IsMissingBucket(answer)) return FailedPrecondition("there is no such bucket");
  if (IsRateLimit(answer)) return Unavailable("the store is busy");
  return cloud::WriteError(answer.status, Describe(answer.body));
}

Result<json::Value> ParseDocument(const HttpResponse& answer) {
  RETURN_IF_ERROR(cloud::CheckBodyForm(answer));
  auto document = json::Parse(
      answer.body,
      {.max_bytes = kMaxListingBytes, .max_depth = 16, .source = {.interface = "cloud"}});
  if (!document) return Fail(Unavailable("malformed answer: " + document.error().message));
  if (document->if_object() == nullptr || document->Find("error") != nullptr) {
    return Fail(Unavailable("the answer is not what was asked for"));
  }
  return document;
}

// The MD5 digest that Google tells with the bytes: "crc32c=...,md5=...", in one header or several.
std::string_view ToldMd5(const HttpResponse& answer) {
  for (const HttpHeader& header : answer.headers) {
    if (header.name != "x-goog-hash") continue;
    const std::size_t at = header.value.find("md5=");
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(header.value).substr(at + 4);
    return rest.substr(0, rest.find(','));
  }
  return {};
}

Result<cloud::RawPage::Entry> ParseEntry(const json::Value& item) {
  const std::string_view name = StringMember(item, "name");
  const auto size = ParseNumber(StringMember(item, "size"));
  auto generation = ParseGeneration(StringMember(item, "generation"));
  if (name.empty() || !size) {
    return Fail(Unavailable("an entry of the listing has no name or no size"));
  }
  return cloud::RawPage::Entry{.key = std::string(name),
                               .version = std::move(generation).value_or(ObjectVersion{}),
                               .size = *size};
}

}  // namespace

std::optional<ObjectVersion> ParseGeneration(std::string_view text) {
  const auto number = ParseNumber(text);
  if (!number || *number == 0) return std::nullopt;
  return ObjectVersion{.text = std::string(text)};
}

std::string ParseReason(std::string_view text) {
  const auto document = json::Parse(text, {.max_bytes = kMaxErrorBytes, .max_depth = 16});
  const json::Value* error = document ? document->Find("error") : nullptr;
  const json::Value* errors = error == nullptr ? nullptr : error->Find("errors");
  const json::Array* list = errors == nullptr ? nullptr : errors->if_array();
  if (list == nullptr || list->empty()) return {};
  return std::string(StringMember(list->front(), "reason").substr(0, kMaxReason));
}

Result<Object> ParseGet(const HttpResponse& answer) {
  if (answer.status != 200) return Fail(ReadFailure(answer));
  RETURN_IF_ERROR(cloud::CheckBodyForm(answer));
  const std::string* header = answer.Header("x-goog-generation");
  auto generation = header == nullptr ? std::nullopt : ParseGeneration(*header);
  if (!generation) return Fail(Unavailable("the answer tells no generation"));
  const std::string_view md5 = ToldMd5(answer);
  if (!md5.empty() && md5 != cloud::Md5Base64(answer.body)) {
    return Fail(Unavailable("the bytes do not have the digest that the store told"));
  }
  const std::string* date = answer.Header("date");
  const std::string* modified = answer.Header("last-modified");
  return Object{
      .bytes = answer.body,
      .version = *std::move(generation),
      .store_time = date == nullptr ? std::nullopt : cloud::ParseHttpDate(*date),
      .modified_at = modified == nullptr ? std::nullopt : cloud::ParseHttpDate(*modified)};
}

Result<ObjectHead> ParseHead(const HttpResponse& answer) {
  if (answer.status != 200) return Fail(ReadFailure(answer));
  ASSIGN_OR_RETURN(const json::Value document, ParseDocument(answer));
  auto generation = ParseGeneration(StringMember(document, "generation"));
  const auto size = ParseNumber(StringMember(document, "size"));
  if (!generation || !size) return Fail(Unavailable("the answer tells no generation or no size"));
  return ObjectHead{.version = *std::move(generation), .size = *size};
}

Result<ObjectVersion> ParsePut(const HttpResponse& answer, const Uploaded& uploaded) {
  const bool update =
      uploaded.condition != nullptr && std::holds_alternative<IfVersion>(*uploaded.condition);
  if (answer.status == 404 && update && !IsMissingBucket(answer)) {
    return Fail(Aborted("there is no object to update"));
  }
  if (answer.status != 200) return Fail(WriteFailure(answer));
  auto document = ParseDocument(answer);
  if (!document) return Fail(std::move(document).error().MaybeDone());
  const std::string_view md5 = StringMember(*document, "md5Hash");
  if (!md5.empty() && md5 != uploaded.md5_base64) {
    return Fail(Unavailable("the store has other bytes than were sent").MaybeDone());
  }
  return ParseGeneration(StringMember(*document, "generation")).value_or(ObjectVersion{});
}

Status ParseDelete(const HttpResponse& answer) {
  if (answer.status == 204 || answer.status == 200) return {};
  if (answer.status == 404 && !IsMissingBucket(answer) && !IsPage(answer)) return {};
  return Fail(WriteFailure(answer));
}

Result<cloud::RawPage> ParseList(const HttpResponse& answer) {
  if (answer.status == 404) {
    return Fail(IsPage(answer) ? cloud::ReadError(answer.status, "")
                               : FailedPrecondition("there is no such bucket"));
  }
  if (answer.status != 200) return Fail(ReadFailure(answer));
  ASSIGN_OR_RETURN(const json::Value document, ParseDocument(answer));
  cloud::RawPage page;
  page.next_token = StringMember(document, "nextPageToken");
  const json::Value* items = document.Find("items");
  if (items == nullptr || items->is_null()) return page;
  if (items->if_array() == nullptr) return Fail(Unavailable("the answer is no listing"));
  for (const json::Value& item : *items->if_array()) {
    ASSIGN_OR_RETURN(cloud::RawPage::Entry entry, ParseEntry(item));
    page.entries.push_back(std::move(entry));
  }
  return page;
}

}  // namespace nstance::gcs
