#include "server/user_data_fetch.h"

#include <utility>
#include <variant>

#include "base/overloaded.h"
#include "core/instance_config/user_data.h"

namespace nstance {
namespace {

HttpRequest RequestOf(const UserDataFetchMachine::Get& get) {
  HttpRequest request{.method = HttpMethod::kGet,
                      .url = get.url,
                      .headers = {{.name = "accept-encoding", .value = "identity"}},
                      .deadline = kUserDataFetchTime,
                      .max_response_bytes = kMaxUserDataBytes,
                      .max_redirects = kUserDataRedirects,
                      .redirect_scope = HttpRedirectScope::kSameHost,
                      .addresses = HttpAddresses::kNotLinkLocal};
  if (!get.if_none_match.empty()) {
    request.headers.push_back({.name = "if-none-match", .value = get.if_none_match});
  }
  if (!get.if_modified_since.empty()) {
    request.headers.push_back({.name = "if-modified-since", .value = get.if_modified_since});
  }
  return request;
}

Result<UserDataFetchMachine::Answer> AnswerOf(Result<HttpResponse> response) {
  if (!response) return Fail(std::move(response).error());
  const auto header = [&](std::string_view name) {
    const std::string* const value = response->Header(name);
    return value != nullptr ? *value : std::string();
  };
  return UserDataFetchMachine::Answer{.status = response->status,
                                      .etag = header("etag"),
                                      .last_modified = header("last-modified"),
                                      .content_encoding = header("content-encoding"),
                                      .body = std::move(response->body)};
}

}  // namespace

UserDataFetch::UserDataFetch(Deps deps, config::UserData userdata, Done done)
    : deps_(deps),
      url_(userdata.content),
      machine_(std::move(userdata), deps.cache.Find(url_)),
      done_(std::move(done)) {}

void UserDataFetch::Do(UserDataFetchMachine::Command command) {
  std::visit(Overloaded{
                 [this](UserDataFetchMachine::Get& get) {
                   pending_ = deps_.http.Send(RequestOf(get), [this](auto response) {
                     Do(machine_.On(AnswerOf(std::move(response))));
                   });
                 },
                 [this](UserDataFetchMachine::Finish& finish) {
                   pending_ = Pending();
                   if (finish.keep) deps_.cache.Keep(url_, *std::move(finish.keep));
                   Done done = std::move(done_);
                   done(Under(std::move(finish.body), "user data"));
                 },
             },
             command);
}

}  // namespace nstance
