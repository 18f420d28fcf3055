// CurlEngine: the transfers of one client, on the loop of the sockets.
//
// Takes commands from the channel, runs them through one libcurl multi handle and puts events back.
// Everything but the constructor runs on io. No code of a caller runs inside libcurl: events wait
// in the channel, so a callback may do anything.
//
// A transfer:
//   waiting  -> running   when its lane and host have room
//   running  -> running   redirected, or its kept connection turned out to be unusable before
//   sending any      -> gone      answered, failed, past its deadline, or cancelled
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <curl/curl.h>

#include "adapters/http/channel.h"
#include "adapters/http/curl_http_client.h"

namespace nstance::http {

struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using TextList = std::unique_ptr<curl_slist, ListDeleter>;

struct Transfer;
class SocketWatch;

class CurlEngine final {
 public:
  CurlEngine(RealLoop& io, std::shared_ptr<Channel> channel, HttpClientOptions options);
  CurlEngine(const CurlEngine&) = delete;
  CurlEngine& operator=(const CurlEngine&) = delete;
  ~CurlEngine();

  void RunCommands();

 private:
  friend struct Callbacks;

  // What may run at once, and what waits for a place.
  struct Lane {
    std::size_t limit = 0;
    std::size_t limit_per_host = 0;
    std::size_t running = 0;
    std::map<std::string, std::size_t> running_per_host;
    std::deque<TransferId> waiting;
  };

  void On(StartCommand& start);
  void On(CancelCommand& cancel);
  void On(TakenCommand& taken);

  [[nodiscard]] Lane& LaneOf(const Transfer& transfer);
  void StartWaiting(Lane& lane);
  // Hands the transfer to libcurl.
  void Launch(Transfer& transfer);
  void OnDone(Transfer& transfer, CURLcode code);
  void FollowRedirect(Transfer& transfer);
  // Each puts the last event, if any, and destroys the transfer.
  void Succeed(Transfer& transfer);
  void Abandon(Transfer& transfer, Error error);
  // The same from where a transfer cannot be destroyed.
  void AbandonSoon(Transfer& transfer, Error error);
  void Remove(Transfer& transfer);
  void WatchIdle(Transfer& transfer);
  void ArmIdle(Transfer& transfer, Instant at);

  // False when there is no descriptor left.
  [[nodiscard]] bool Watch(curl_socket_t socket, Interest interest);
  // libcurl 7.88 gives up on an address and then forgets to begin with the next one until some
  // timer fires. Called when a socket goes before anything was sent.
  void Nudge(Transfer& transfer);
  void SocketAction(curl_socket_t socket, int events);
  // Whether the peer has said something on the kept connection that nobody asked for.
  [[nodiscard]] bool HasUnaskedInput(int local_port, int peer_port) const;

  RealLoop& io_;
  const std::shared_ptr<Channel> channel_;
  const HttpClientOptions options_;
  Lane requests_;
  Lane streams_;
  const TextList fixed_addresses_;
  std::map<TransferId, std::unique_ptr<Transfer>> transfers_;
  std::set<curl_socket_t> sockets_;  // Those to peers; a few may have been closed behind our back.
  std::map<curl_socket_t, std::unique_ptr<SocketWatch>> watches_;
  Pending timer_;
  CURLM* multi_ = nullptr;
};

}  // namespace nstance::http
