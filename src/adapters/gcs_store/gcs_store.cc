#include "adapters/gcs_store/gcs_store.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "adapters/cloud_http/answer_check.h"
#include "adapters/cloud_http/endpoint.h"
#include "adapters/cloud_http/list_position.h"
#include "adapters/cloud_http/write_answer.h"
#include "adapters/gcs_store/gcs_answers.h"
#include "base/text.h"

namespace nstance::gcs {
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

// A version that the store never tells would match nothing, or what is absent.
Result<std::string> Generation(const ObjectVersion& version) {
  if (ParseGeneration(version.text) != version) {
    return Fail(
        InvalidArgument(fmt::format("{} is not the version of an object", Quote(version.text))));
  }
  return version.text;
}

Result<std::string> Generation(const PutCondition& condition) {
  if (const auto* same = std::get_if<IfVersion>(&condition)) return Generation(same->version);
  return "0";
}

std::unique_ptr<cloud::RequestAuthorizer> MakeAuthorizer(const GcsStore::Deps& deps,
                                                         const GcsOptions& options) {
  if (options.endpoint.empty()) return std::make_unique<gcp::GcpAuthorizer>(deps.credentials);
  return std::make_unique<gcp::NoAuthorizer>(deps.loop);
}

}  // namespace

Result<std::unique_ptr<GcsStore>> GcsStore::Make(Deps deps, const GcsOptions& options) {
  ASSIGN_OR_RETURN(GcsAddress address, GcsAddress::Make(options));
  return std::unique_ptr<GcsStore>(new GcsStore(deps, options, std::move(address)));
}

GcsStore::GcsStore(Deps deps, const GcsOptions& options, GcsAddress address)
    : deps_(deps),
      address_(std::move(address)),
      deadline_(options.deadline),
      authorizer_(MakeAuthorizer(deps, options)) {}

Pending GcsStore::Call(HttpRequest request, Answered answered) {
  const auto repeat =
      ChangesSomething(request.method) ? cloud::Repeat::kNever : cloud::Repeat::kRead;
  return cloud::RunCloudCall(
      {.loop = deps_.loop, .http = deps_.http, .authorizer = *authorizer_},
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
Pending GcsStore::Refuse(Error error, Done<T> done) {
  return deps_.loop.CallAfter({}, [error = std::move(error), done = std::move(done)]() mutable {
    done(Fail(std::move(error)));
  });
}

Pending GcsStore::Get(const ObjectKey& key, Done<Object> done) {
  HttpRequest request = Request(HttpMethod::kGet, address_.MediaUrl(key));
  request.max_response_bytes = kMaxObjectBytes;
  return Call(std::move(request),
              [key, done = std::move(done)](const Result<HttpResponse>& answer) mutable {
                done(Under(cloud::Translate(answer, ParseGet), "reading " + key.text()));
              });
}

Pending GcsStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  return Call(Request(HttpMethod::kGet, address_.MetadataUrl(key)),
              [key, done = std::move(done)](Result<HttpResponse> answer) mutable {
                done(Under(cloud::Translate(answer, ParseHead), "looking at " + key.text()));
              });
}

Pending GcsStore::Put(PutRequest request, Done<ObjectVersion> done) {
  return Write({.key = std::move(request.key),
                .bytes = std::move(request.bytes),
                .condition = std::move(request.condition)},
               std::move(done));
}

Pending GcsStore::PutUnconditionally(ObjectKey key, std::string bytes, Done<ObjectVersion> done) {
  return Write({.key = std::move(key), .bytes = std::move(bytes), .condition = std::nullopt},
               std::move(done));
}

Pending GcsStore::Write(Upload upload, Done<ObjectVersion> done) {
  const std::string doing = "writing " + upload.key.text();
  if (upload.bytes.size() > kMaxObjectBytes) {
    return Refuse(
        InvalidArgument(fmt::format("{} bytes; at most {}", upload.bytes.size(), kMaxObjectBytes))
            .Under(doing),
        std::move(done));
  }
  std::optional<std::string> generation;
  if (upload.condition) {
    auto checked = Generation(*upload.condition);
    if (!checked) return Refuse(std::move(checked).error().Under(doing), std::move(done));
    generation = *std::move(checked);
  }
  HttpRequest request = Request(HttpMethod::kPost, address_.UploadUrl(upload.key, generation));
  request.headers = {
      {.name = "content-type", .value = std::string(cloud::ContentTypeOf(upload.key.text()))}};
  std::string md5 = cloud::Md5Base64(upload.bytes);
  request.body = std::move(upload.bytes);
  return Call(
      std::move(request), [doing, md5 = std::move(md5), condition = std::move(upload.condition),
                           done = std::move(done)](Result<HttpResponse> answer) mutable {
        if (!answer) {
          return done(Fail(cloud::WriteTransportError(std::move(answer).error()).Under(doing)));
        }
        done(Under(
            ParsePut(*answer, {.md5_base64 = md5, .condition = condition ? &*condition : nullptr}),
            doing));
      });
}

Pending GcsStore::Delete(DeleteRequest request, Done<void> done) {
  const std::string doing = "deleting " + request.key.text();
  std::optional<std::string> generation;
  if (request.version) {
    auto checked = Generation(*request.version);
    if (!checked) return Refuse(std::move(checked).error().Under(doing), std::move(done));
    generation = *std::move(checked);
  }
  return Call(Request(HttpMethod::kDelete, address_.DeleteUrl(request.key, generation)),
              [doing, done = std::move(done)](const Result<HttpResponse>& answer) mutable {
                Status status = answer ? ParseDelete(*answer)
                                       : Status(Fail(cloud::WriteTransportError(answer.error())));
                done(Under(std::move(status), doing));
              });
}

Pending GcsStore::List(ListRequest request, Done<ListPage> done) {
  auto position = cloud::ListPosition::FromToken(request.page_token);
  if (!position) return Refuse(std::move(position).error().Under("listing"), std::move(done));
  request.page_size = std::clamp(request.page_size, std::size_t{1}, kMaxPage);
  std::string query =
      fmt::format("fields=nextPageToken,items(name,size,generation)&maxResults={}&prefix={}",
                  request.page_size, cloud::PercentEncode(request.prefix));
  if (!position->store_token.empty()) {
    query += "&pageToken=" + cloud::PercentEncode(position->store_token);
  }
  HttpRequest http = Request(HttpMethod::kGet, address_.ListUrl(query));
  http.max_response_bytes = kMaxListBytes;
  return Call(std::move(http),
              [request = std::move(request), position = *std::move(position),
               done = std::move(done)](const Result<HttpResponse>& answer) mutable {
                const auto check = [&](const HttpResponse& said) -> Result<ListPage> {
                  ASSIGN_OR_RETURN(cloud::RawPage raw, ParseList(said));
                  return CheckPage(std::move(raw), request, position);
                };
                done(Under(cloud::Translate(answer, check), "listing " + request.prefix));
              });
}

}  // namespace nstance::gcs
