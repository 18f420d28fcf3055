#include "adapters/http/curl_http_client.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "adapters/http/channel.h"
#include "adapters/http/curl_engine.h"

namespace nstance {
namespace http {

// The callers' side: their callbacks, which live and die on home.
class HomeSide final {
 public:
  HomeSide(std::shared_ptr<Channel> channel, const HttpClientOptions& options)
      : channel_(std::move(channel)),
        max_requests_(options.max_in_flight + options.max_waiting),
        max_streams_(options.max_streams + options.max_waiting) {}

  TransferId AddRequest(HttpRequest request, HttpClient::Done done) {
    const bool full = requests_.size() >= max_requests_;
    requests_.emplace(next_id_, std::move(done));
    return Begin({.id = next_id_++, .kind = Kind::kRequest, .request = std::move(request)}, full);
  }

  TransferId AddStream(HttpRequest request, HttpStreamEvents events) {
    const bool full = streams_.size() >= max_streams_;
    streams_.emplace(next_id_, std::move(events));
    return Begin({.id = next_id_++, .kind = Kind::kStream, .request = std::move(request)}, full);
  }

  void Cancel(TransferId id) {
    // Out of the map before they are destroyed: a callback may own other Pendings.
    const auto request = requests_.extract(id);
    const auto stream = streams_.extract(id);
    if (request.empty() && stream.empty() && running_ != id) return;
    if (running_ == id) running_ = 0;
    channel_->to_io.Put(CancelCommand{id});
  }

  void Deliver() {
    for (Event& event : channel_->to_home.Take()) {
      if (closed_) return;
      std::visit([&](auto& what) { On(event.id, what); }, event.what);
    }
  }

  void Close() {
    closed_ = true;
    const auto requests = std::exchange(requests_, {});
    const auto streams = std::exchange(streams_, {});
  }

 private:
  TransferId Begin(StartCommand start, bool full) {
    const TransferId id = start.id;
    if (full) {
      channel_->to_home.Put(
          FailureOf(id, start.kind, ResourceExhausted("too many HTTP requests are waiting")));
    } else {
      channel_->to_io.Put(std::move(start));
    }
    return id;
  }

  void On(TransferId id, AnswerEvent& event) {
    auto node = requests_.extract(id);
    if (!node.empty() && node.mapped()) node.mapped()(std::move(event.answer));
  }

  void On(TransferId id, HeadEvent& event) {
    WithStream(id, [&](HttpStreamEvents& events) {
      if (events.head) events.head(std::move(event.head));
    });
  }

  void On(TransferId id, DataEvent& event) {
    const std::size_t bytes = event.data.size();
    WithStream(id, [&](HttpStreamEvents& events) {
      if (events.data) events.data(std::move(event.data));
    });
    if (!closed_ && streams_.contains(id)) channel_->to_io.Put(TakenCommand{id, bytes});
  }

  void On(TransferId id, EndEvent& event) {
    auto node = streams_.extract(id);
    if (!node.empty() && node.mapped().end) node.mapped().end(std::move(event.end));
  }

  // The callbacks of a stream are out of the map while one runs, so that it may cancel its own
  // stream without being destroyed under its feet.
  template <class Call>
  void WithStream(TransferId id, Call call) {
    auto node = streams_.extract(id);
    if (node.empty()) return;
    running_ = id;
    call(node.mapped());
    if (std::exchange(running_, 0) == id && !closed_) streams_.insert(std::move(node));
  }

  std::shared_ptr<Channel> channel_;
  const std::size_t max_requests_;
  const std::size_t max_streams_;
  TransferId next_id_ = 1;
  TransferId running_ = 0;  // The stream whose callback runs; 0 once it was cancelled from there.
  bool closed_ = false;
  std::unordered_map<TransferId, HttpClient::Done> requests_;
  std::unordered_map<TransferId, HttpStreamEvents> streams_;
};

namespace {

Pending CancelOnEnd(const std::shared_ptr<HomeSide>& home, TransferId id) {
  return Pending([weak = std::weak_ptr(home), id] {
    if (const auto side = weak.lock()) side->Cancel(id);
  });
}

// A task that calls a method of something that may be gone by then.
template <class T>
std::function<void()> IfAlive(const std::shared_ptr<T>& object, void (T::*method)()) {
  return [weak = std::weak_ptr(object), method] {
    if (const auto alive = weak.lock()) (alive.get()->*method)();
  };
}

}  // namespace
}  // namespace http

CurlHttpClient::CurlHttpClient(Deps deps)
    : io_(deps.io),
      one_loop_(static_cast<Loop*>(&deps.io) == &deps.home),
      channel_(std::make_shared<http::Channel>(deps.io, deps.home)),
      home_(std::make_shared<http::HomeSide>(channel_, deps.options)),
      engine_(std::make_shared<http::CurlEngine>(deps.io, channel_, std::move(deps.options))) {
  channel_->to_home.OnMail(http::IfAlive(home_, &http::HomeSide::Deliver));
  channel_->to_io.OnMail(http::IfAlive(engine_, &http::CurlEngine::RunCommands));
}

CurlHttpClient::~CurlHttpClient() {
  channel_->to_home.Close();
  channel_->to_io.Close();
  home_->Close();
  // The engine ends on the loop that it lives on: with the task that holds it.
  if (!one_loop_) io_.Post([engine = std::move(engine_)] {});
}

Pending CurlHttpClient::Send(HttpRequest request, Done done) {
  const auto id = home_->AddRequest(std::move(request), std::move(done));
  return http::CancelOnEnd(home_, id);
}

Pending CurlHttpClient::Stream(HttpRequest request, HttpStreamEvents events) {
  const auto id = home_->AddStream(std::move(request), std::move(events));
  return http::CancelOnEnd(home_, id);
}

}  // namespace nstance
