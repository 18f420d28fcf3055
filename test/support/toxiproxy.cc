#include "test/support/toxiproxy.h"

#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "test/support/store_peers.h"

namespace nstance::test {
namespace {

Toxic Make(std::string_view type, std::string_view stream, std::string attributes) {
  return {.name = fmt::format("{}-{}", type, stream),
          .type = std::string(type),
          .stream = std::string(stream),
          .attributes = std::move(attributes)};
}

}  // namespace

Toxic Toxic::Latency(Duration delay, std::string_view stream) {
  return Make("latency", stream, fmt::format(R"({{"latency":{}}})", delay.milliseconds()));
}

Toxic Toxic::Timeout(Duration after, std::string_view stream) {
  return Make("timeout", stream, fmt::format(R"({{"timeout":{}}})", after.milliseconds()));
}

Toxic Toxic::ResetPeer(Duration after, std::string_view stream) {
  return Make("reset_peer", stream, fmt::format(R"({{"timeout":{}}})", after.milliseconds()));
}

Toxic Toxic::LimitData(std::size_t bytes, std::string_view stream) {
  return Make("limit_data", stream, fmt::format(R"({{"bytes":{}}})", bytes));
}

Result<std::unique_ptr<Toxiproxy>> Toxiproxy::Start() {
  ASSIGN_OR_RETURN(const std::string program, FindPeer("toxiproxy"));
  std::unique_ptr<Toxiproxy> toxiproxy(new Toxiproxy);
  const int port = FreePort();
  toxiproxy->url_ = fmt::format("http://127.0.0.1:{}", port);
  ASSIGN_OR_RETURN(toxiproxy->process_,
                   BackgroundProcess::Start(
                       {.argv = {program, "-host", "127.0.0.1", "-port", std::to_string(port)}},
                       (toxiproxy->folder_.path() / "output").string()));
  HttpRequest version;
  version.url = toxiproxy->url_ + "/version";
  const bool ready = toxiproxy->client_.SendUntil(
      version,
      [&](const Result<HttpResponse>& answer) {
        return !toxiproxy->process_->Running() || (answer && answer->status == 200);
      },
      Duration::Seconds(30));
  if (ready && toxiproxy->process_->Running()) return toxiproxy;
  return Fail(Unavailable("toxiproxy does not become ready: " + toxiproxy->process_->OutputTail()));
}

Result<HttpResponse> Toxiproxy::Ask(HttpMethod method, const std::string& path, std::string body) {
  HttpRequest request;
  request.method = method;
  request.url = url_ + path;
  request.body = std::move(body);
  if (!request.body.empty()) {
    request.headers = {{.name = "content-type", .value = "application/json"}};
  }
  ASSIGN_OR_RETURN(HttpResponse answer, client_.Send(std::move(request)));
  if (answer.status >= 200 && answer.status < 300) return answer;
  return Fail(Internal(fmt::format("toxiproxy answered {} {}", answer.status, answer.body)));
}

Result<std::string> Toxiproxy::AddProxy(const std::string& name, const std::string& upstream) {
  ASSIGN_OR_RETURN(
      const HttpResponse answer,
      Ask(HttpMethod::kPost, "/proxies",
          fmt::format(R"({{"name":"{}","listen":"127.0.0.1:0","upstream":"{}","enabled":true}})",
                      name, upstream)));
  ASSIGN_OR_RETURN(const json::Value document, json::Parse(answer.body));
  const json::Value* listen = document.Find("listen");
  const std::string* address = listen == nullptr ? nullptr : listen->if_string();
  if (address == nullptr) return Fail(Internal("toxiproxy tells no address"));
  return *address;
}

Status Toxiproxy::AddToxic(const std::string& proxy, const Toxic& toxic) {
  RETURN_IF_ERROR(Ask(HttpMethod::kPost, fmt::format("/proxies/{}/toxics", proxy),
                      fmt::format(R"({{"name":"{}","type":"{}","stream":"{}","attributes":{}}})",
                                  toxic.name, toxic.type, toxic.stream, toxic.attributes)));
  return {};
}

Status Toxiproxy::RemoveToxic(const std::string& proxy, const std::string& toxic) {
  RETURN_IF_ERROR(Ask(HttpMethod::kDelete, fmt::format("/proxies/{}/toxics/{}", proxy, toxic), ""));
  return {};
}

Status Toxiproxy::Cut(const std::string& proxy) {
  RETURN_IF_ERROR(Ask(HttpMethod::kPost, "/proxies/" + proxy, R"({"enabled":false})"));
  return {};
}

Status Toxiproxy::Heal(const std::string& proxy) {
  RETURN_IF_ERROR(Ask(HttpMethod::kPost, "/proxies/" + proxy, R"({"enabled":true})"));
  return {};
}

}  // namespace nstance::test
