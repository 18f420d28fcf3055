#include "adapters/s3_store/s3_store.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/cloud_http/endpoint.h"
#include "adapters/cloud_http/learned_put_runner.h"
#include "adapters/cloud_http/list_position.h"
#include "adapters/cloud_http/write_answer.h"
#include "adapters/s3_store/s3_answers.h"
#include "base/overloaded.h"

namespace nstance::s3 {
namespace {

constexpr std::size_t kMaxPage = 1'000;
constexpr std::size_t kMaxListBytes = std::size_t{16} * 1024 * 1024;
constexpr std::size_t kMaxSmallAnswer = std::size_t{64} * 1024;

std::string Quoted(const ObjectVersion& version) { return "\"" + version.text + "\""; }

HttpRequest Request(HttpMethod method, std::string url) {
  HttpRequest request;
  request.method = method;
  request.url = std::move(url);
  request.max_response_bytes = kMaxSmallAnswer;
  return request;
}

HttpHeader ConditionHeader(const PutCondition& condition) {
  return std::visit(
      Overloaded{
          [](const IfAbsent&) { return HttpHeader{.name = "if-none-match", .value = "*"}; },
          [](const IfVersion& same) {
            return HttpHeader{.name = "if-match", .value = Quoted(same.version)};
          },
      },
      condition);
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

Pending S3Store::Call(HttpRequest request, Instant deadline, Answered answered) {
  const auto repeat =
      ChangesSomething(request.method) ? cloud::Repeat::kNever : cloud::Repeat::kRead;
  return cloud::RunCloudCall({.loop = deps_.loop, .http = deps_.http, .authorizer = authorizer_},
                             {.request = std::move(request),
                              .repeat = repeat,
                              .deadline = deadline,
                              .prng = deps_.prng.Fork()},
                             std::move(answered));
}

template <class T>
Pending S3Store::Refuse(Error error, Done<T> done) {
  return deps_.loop.CallAfter({}, [error = std::move(error), done = std::move(done)]() mutable {
    done(Fail(std::move(error)));
  });
}

Pending S3Store::Get(const ObjectKey& key, Done<Object> done) {
  return GetBy(key, deps_.loop.Now() + deadline_, std::move(done));
}

Pending S3Store::GetBy(const ObjectKey& key, Instant deadline, Done<Object> done) {
  HttpRequest request = Request(HttpMethod::kGet, address_.ObjectUrl(key));
  request.max_response_bytes = kMaxObjectBytes;
  return Call(std::move(request), deadline,
              [key, done = std::move(done)](Result<HttpResponse> answer) mutable {
                done(Under(cloud::Translate(answer, ParseGet), "reading " + key.text()));
              });
}

Pending S3Store::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return Call(Request(HttpMethod::kHead, address_.ObjectUrl(key)), deps_.loop.Now() + deadline_,
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
  if (upload.bytes.size() > kMaxObjectBytes) {
    return Refuse(InvalidArgument(fmt::format("writing {}: {} bytes; at most {}", upload.key.text(),
                                              upload.bytes.size(), kMaxObjectBytes)),
                  std::move(done));
  }
  HttpRequest request = Request(HttpMethod::kPut, address_.ObjectUrl(upload.key));
  request.headers = {
      {.name = "content-type", .value = std::string(cloud::ContentTypeOf(upload.key.text()))},
      {.name = "content-md5", .value = cloud::Md5Base64(upload.bytes)}};
  if (upload.condition) request.headers.push_back(ConditionHeader(*upload.condition));
  request.body = upload.bytes;
  const Instant deadline = deps_.loop.Now() + deadline_;
  cloud::LearnedPutRunner::Calls calls{
      .write =
          [this, request = std::move(request), deadline,
           condition = std::move(upload.condition)](auto written) mutable {
            return Call(
                std::move(request), deadline,
                [condition = std::move(condition),
                 written = std::move(written)](Result<HttpResponse> answer) mutable {
                  if (!answer) {
                    return written(Fail(cloud::WriteTransportError(std::move(answer).error())));
                  }
                  written(ParsePut(*answer, condition ? &*condition : nullptr));
                });
          },
      .read = [this, key = upload.key,
               deadline](auto read) { return GetBy(key, deadline, std::move(read)); }};
  return cloud::RunLearnedPut(
      std::move(calls), std::move(upload.bytes),
      [key = std::move(upload.key), done = std::move(done)](Result<ObjectVersion> version) mutable {
        done(Under(std::move(version), "writing " + key.text()));
      });
}

Pending S3Store::Delete(DeleteRequest request, Done<void> done) {
  HttpRequest http = Request(HttpMethod::kDelete, address_.ObjectUrl(request.key));
  if (request.version && conditional_delete_ == ConditionalDelete::kIfMatch) {
    http.headers.push_back({.name = "if-match", .value = Quoted(*request.version)});
  }
  return Call(
      std::move(http), deps_.loop.Now() + deadline_,
      [key = std::move(request.key), done = std::move(done)](Result<HttpResponse> answer) mutable {
        Status status = answer
                            ? ParseDelete(*answer)
                            : Status(Fail(cloud::WriteTransportError(std::move(answer).error())));
        done(Under(std::move(status), "deleting " + key.text()));
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
  return Call(std::move(http), deps_.loop.Now() + deadline_,
              [request = std::move(request), position = *std::move(position),
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
