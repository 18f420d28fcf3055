#include "adapters/s3_store/s3_store.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/cloud_http/endpoint.h"
#include "adapters/cloud_http/list_position.h"
#include "adapters/cloud_http/write_answer.h"
#include "adapters/s3_store/s3_answers.h"
#include "base/text.h"

namespace nstance::s3 {
namespace {

constexpr std::size_t kMaxPage = 1'000;
constexpr std::size_t kMaxListBytes = std::size_t{16} * 1024 * 1024;
constexpr std::size_t kMaxSmallAnswer = std::size_t{64} * 1024;

HttpRequest Request(HttpMethod method, std::string url) {
  HttpRequest request;
  request.method = method;
  request.url = std::move(url);
  request.max_response_bytes = kMaxSmallAnswer;
  return request;
}

// A version that no store tells would match nothing, or everything.
Result<HttpHeader> IfMatch(const ObjectVersion& version) {
  const std::string quoted = "\"" + version.text + "\"";
  if (ParseTag(&quoted) != version) {
    return Fail(
        InvalidArgument(fmt::format("{} is not the version of an object", Quote(version.text))));
  }
  return HttpHeader{.name = "if-match", .value = quoted};
}

Result<HttpHeader> ConditionHeader(const PutCondition& condition) {
  if (const auto* same = std::get_if<IfVersion>(&condition)) return IfMatch(same->version);
  return HttpHeader{.name = "if-none-match", .value = "*"};
}

}  // namespace

Result<std::unique_ptr<S3Store>> S3Store::Make(Deps deps, const S3Options& options) {
  ASSIGN_OR_RETURN(S3Address address, S3Address::Make(options));
  return std::unique_ptr<S3Store>(new S3Store(deps, options, std::move(address)));
}

S3Store::S3Store(Deps deps, const S3Options& options, S3Address address)
    : deps_(deps),
      address_(std::move(address)),
      deadline_(options.deadline),
      conditional_delete_(options.conditional_delete),
      authorizer_(deps.credentials, address_.region(), "s3") {}

Pending S3Store::Call(HttpRequest request, Answered answered) {
  const auto repeat =
      ChangesSomething(request.method) ? cloud::Repeat::kNever : cloud::Repeat::kRead;
  return cloud::RunCloudCall(
      {.loop = deps_.loop, .http = deps_.http, .authorizer = authorizer_},
      {.request = std::move(request),
       .repeat = repeat,
       .deadline = deps_.loop.Now() + deadline_,
       .prng = deps_.prng.Fork()},
      [this, answered = std::move(answered)](Result<HttpResponse> answer) mutable {
        time_.Tell(answer);
        answered(std::move(answer));
      });
}

template <class T>
Pending S3Store::Refuse(Error error, Done<T> done) {
  return deps_.loop.CallAfter({}, [error = std::move(error), done = std::move(done)]() mutable {
    done(Fail(std::move(error)));
  });
}

Pending S3Store::Get(const ObjectKey& key, Done<Object> done) {
  HttpRequest request = Request(HttpMethod::kGet, address_.ObjectUrl(key));
  request.max_response_bytes = kMaxObjectBytes;
  return Call(std::move(request),
              [key, done = std::move(done)](const Result<HttpResponse>& answer) mutable {
                done(Under(cloud::Translate(answer, ParseGet), "reading " + key.text()));
              });
}

Pending S3Store::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return Call(Request(HttpMethod::kHead, address_.ObjectUrl(key)),
              [key, done = std::move(done)](Result<HttpResponse> answer) mutable {
                done(Under(cloud::Translate(answer, ParseHead), "looking at " + key.text()));
              });
}

Pending S3Store::Put(PutRequest request, Done<ObjectVersion> done) {
  return Write({.key = std::move(request.key),
                .bytes = std::move(request.bytes),
                .condition = std::move(request.condition)},
               std::move(done));
}

Pending S3Store::PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) {
  return Write({.key = std::move(key), .bytes = std::move(bytes), .condition = std::nullopt},
               std::move(done));
}

Pending S3Store::Write(Upload upload, Done<ObjectVersion> done) {
  const std::string doing = "writing " + upload.key.text();
  if (upload.bytes.size() > kMaxObjectBytes) {
    return Refuse(
        InvalidArgument(fmt::format("{} bytes; at most {}", upload.bytes.size(), kMaxObjectBytes))
            .Under(doing),
        std::move(done));
  }
  HttpRequest request = Request(HttpMethod::kPut, address_.ObjectUrl(upload.key));
  request.headers = {
      {.name = "content-type", .value = std::string(cloud::ContentTypeOf(upload.key.text()))},
      {.name = "content-md5", .value = cloud::Md5Base64(upload.bytes)}};
  if (upload.condition) {
    auto header = ConditionHeader(*upload.condition);
    if (!header) return Refuse(std::move(header).error().Under(doing), std::move(done));
    request.headers.push_back(*std::move(header));
  }
  request.body = std::move(upload.bytes);
  return Call(std::move(request), [doing, condition = std::move(upload.condition),
                                   done = std::move(done)](Result<HttpResponse> answer) mutable {
    if (!answer) {
      return done(Fail(cloud::WriteTransportError(std::move(answer).error()).Under(doing)));
    }
    done(Under(ParsePut(*answer, condition ? &*condition : nullptr), doing));
  });
}

Pending S3Store::Delete(DeleteRequest request, Done<void> done) {
  const std::string doing = "deleting " + request.key.text();
  HttpRequest http = Request(HttpMethod::kDelete, address_.ObjectUrl(request.key));
  if (request.version && conditional_delete_ == ConditionalDelete::kIfMatch) {
    auto header = IfMatch(*request.version);
    if (!header) return Refuse(std::move(header).error().Under(doing), std::move(done));
    http.headers.push_back(*std::move(header));
  }
  return Call(std::move(http),
              [doing, done = std::move(done)](const Result<HttpResponse>& answer) mutable {
                Status status = answer ? ParseDelete(*answer)
                                       : Status(Fail(cloud::WriteTransportError(answer.error())));
                done(Under(std::move(status), doing));
              });
}

Pending S3Store::List(ListRequest request, Done<ListPage> done) {
  auto position = cloud::ListPosition::FromToken(request.page_token);
  if (!position) return Refuse(std::move(position).error().Under("listing"), std::move(done));
  request.page_size = std::clamp(request.page_size, std::size_t{1}, kMaxPage);
  std::string query = fmt::format("list-type=2&max-keys={}&prefix={}", request.page_size,
                                  cloud::PercentEncode(request.prefix));
  if (!position->store_token.empty()) {
    query += "&continuation-token=" + cloud::PercentEncode(position->store_token);
  }
  HttpRequest http = Request(HttpMethod::kGet, address_.BucketUrl(query));
  http.max_response_bytes = kMaxListBytes;
  return Call(std::move(http), [request = std::move(request), position = *std::move(position),
                                done = std::move(done)](Result<HttpResponse> answer) mutable {
    const auto check = [&](const HttpResponse& said) -> Result<ListPage> {
      ASSIGN_OR_RETURN(cloud::RawPage raw, ParseList(said));
      return CheckPage(std::move(raw), request, position);
    };
    Result<ListPage> page = cloud::Translate(answer, check);
    done(Under(std::move(page), "listing " + request.prefix));
  });
}

}  // namespace nstance::s3
