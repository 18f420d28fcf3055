#include "adapters/http/curl_engine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "adapters/http/prepared_request.h"
#include "adapters/http/response_head.h"
#include "base/check.h"
#include "base/text.h"

namespace nstance::http {
namespace {

constexpr const char* kLinkLocal = "the host has a link-local address";

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;

// Null pointer when there are no lines.
TextList MakeList(const std::vector<std::string>& lines) {
  TextList list;
  for (const std::string& line : lines) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    CHECK(longer != nullptr, "out of memory");
    (void)list.release();  // It is the front of the longer list now.
    list.reset(longer);
  }
  return list;
}

std::string IpOf(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* ip =
      address.sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
          : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return inet_ntop(address.sa_family, ip, text.data(), text.size()) == nullptr ? "" : text.data();
}

void InitializeOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl cannot start");
  });
}

}  // namespace

// One socket of libcurl in the loop.
//
// libcurl 7.88 closes a socket that is still connecting without a word, and may open the next one
// under the same number. So the loop is given a duplicate, which is surely open while it is
// watched.
class SocketWatch final {
 public:
  SocketWatch(RealLoop& loop, int duplicate, Interest interest,
              RealLoop::DescriptorCallback callback)
      : duplicate_(duplicate),
        interest_(interest),
        watch_(loop.Watch(duplicate, interest, std::move(callback))) {}
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;
  ~SocketWatch() {
    watch_.reset();
    ::close(duplicate_);
  }

  [[nodiscard]] Interest interest() const { return interest_; }
  void SetInterest(Interest interest) {
    interest_ = interest;
    watch_->SetInterest(interest);
  }

 private:
  int duplicate_;
  Interest interest_;
  std::unique_ptr<DescriptorWatch> watch_;
};

struct Transfer {
  Transfer(CurlEngine& owner, StartCommand start, PreparedRequest prepared)
      : engine(owner),
        id(start.id),
        kind(start.kind),
        request(std::move(start.request)),
        host(prepared.target.Authority()),
        redirects_left(request.max_redirects),
        hop(std::move(prepared)) {}

  CurlEngine& engine;
  const TransferId id;
  const Kind kind;
  const HttpRequest request;
  const std::string host;  // Counted in its lane while it runs.
  Pending deadline;
  Pending nudge;
  bool running = false;
  int redirects_left;

  // Of the present hop.
  PreparedRequest hop;
  bool at_first_host = true;
  bool fresh_connection_only = false;
  TextList headers;
  std::array<char, CURL_ERROR_SIZE> error_text{};
  Easy easy;                   // After the lists and buffers that it points to.
  int sends = 0;               // How often the request was about to leave.
  bool opened_socket = false;  // Not on a kept connection.
  bool refused_address = false;
  bool stale = false;  // The kept connection was unusable; nothing was sent.
  ResponseHead head;
  std::string body;
  std::optional<Error> failure;  // Why one of our callbacks ended it.

  // Of a stream.
  std::size_t unread = 0;  // Handed to the channel and not taken yet.
  bool paused = false;
  Instant last_data;
  Pending idle;

  // The answer leads elsewhere and is not the caller's.
  [[nodiscard]] bool WillFollow() const {
    static constexpr auto kRedirects = std::to_array<int>({301, 302, 303, 307, 308});
    return head.complete() && request.max_redirects > 0 &&
           std::ranges::find(kRedirects, head.answer().status) != kRedirects.end() &&
           head.answer().Header("location") != nullptr;
  }

  [[nodiscard]] Error Explain(Error error) const {
    error.message =
        fmt::format("{} {}: {}", MethodName(request.method), hop.target.Authority(), error.message);
    if (ChangesSomething(request.method) && sends > 0) error.outcome = Outcome::kMaybeDone;
    return error;
  }
};

// What libcurl calls. They only take notes; no transfer is started or removed from here.
struct Callbacks {
  static Transfer* TransferOf(CURL* easy) {
    char* user = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &user);
    return reinterpret_cast<Transfer*>(user);
  }

  static std::size_t OnHeader(char* data, std::size_t one, std::size_t size, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    const bool was_complete = transfer.head.complete();
    if (Status added = transfer.head.Add({data, one * size}); !added.has_value()) {
      transfer.failure = std::move(added).error();
      return 0;
    }
    if (transfer.kind == Kind::kStream && !was_complete && transfer.head.complete() &&
        !transfer.WillFollow()) {
      transfer.deadline.Cancel();
      transfer.engine.WatchIdle(transfer);
      transfer.engine.channel_->to_home.Put(
          {.id = transfer.id, .what = HeadEvent{transfer.head.answer()}});
    }
    return one * size;
  }

  static std::size_t OnBody(char* data, std::size_t one, std::size_t size, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    const std::size_t bytes = one * size;
    const std::size_t limit = transfer.request.max_response_bytes;
    if (transfer.kind == Kind::kStream && !transfer.WillFollow()) {
      if (transfer.unread > 0 && transfer.unread + bytes > limit) {
        transfer.paused = true;
        return CURL_WRITEFUNC_PAUSE;
      }
      transfer.unread += bytes;
      transfer.last_data = transfer.engine.io_.Now();
      transfer.engine.channel_->to_home.Put(
          {.id = transfer.id, .what = DataEvent{std::string(data, bytes)}});
      return bytes;
    }
    if (bytes > limit - transfer.body.size()) {
      transfer.failure = ResourceExhausted(fmt::format("answer above {} bytes", limit));
      return 0;
    }
    transfer.body.append(data, bytes);
    return bytes;
  }

  // Just before a request leaves on a connection that stands.
  // libcurl says what the parameters are. NOLINTNEXTLINE(readability-function-size)
  static int OnSend(void* user, char* peer_ip, char* /*local_ip*/, int peer_port, int local_port) {
    auto& transfer = *static_cast<Transfer*>(user);
    if (transfer.request.addresses == HttpAddresses::kNotLinkLocal && MayBeLinkLocal(peer_ip)) {
      transfer.failure =
          FailedPrecondition(kLinkLocal);  // On a connection kept by another request.
      return CURL_PREREQFUNC_ABORT;
    }
    if (transfer.sends > 0 && ChangesSomething(transfer.request.method)) {
      transfer.failure = Unavailable("connection lost before an answer; not sent a second time");
      return CURL_PREREQFUNC_ABORT;
    }
    if (!transfer.opened_socket && transfer.engine.HasUnaskedInput(local_port, peer_port)) {
      transfer.stale = true;
      return CURL_PREREQFUNC_ABORT;
    }
    ++transfer.sends;
    return CURL_PREREQFUNC_OK;
  }

  static curl_socket_t OnOpenSocket(void* user, curlsocktype /*purpose*/, curl_sockaddr* address) {
    auto& transfer = *static_cast<Transfer*>(user);
    CurlEngine& engine = transfer.engine;
    if (transfer.request.addresses == HttpAddresses::kNotLinkLocal &&
        MayBeLinkLocal(IpOf(address->addr))) {
      transfer.refused_address = true;
      return CURL_SOCKET_BAD;
    }
    const int socket = ::socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                                address->protocol);
    if (socket < 0) return CURL_SOCKET_BAD;
    transfer.opened_socket = true;
    engine.sockets_.insert(socket);
    // The one of this number was closed without a word, and libcurl thinks that it is still
    // watched.
    if (const auto old = engine.watches_.find(socket); old != engine.watches_.end()) {
      const Interest interest = old->second->interest();
      engine.watches_.erase(old);
      if (!engine.Watch(socket, interest)) return OnCloseSocket(&engine, socket), CURL_SOCKET_BAD;
    }
    return socket;
  }

  // Connections outlive transfers, so this one is given the engine.
  static int OnCloseSocket(void* user, curl_socket_t socket) {
    auto& engine = *static_cast<CurlEngine*>(user);
    engine.watches_.erase(socket);
    engine.sockets_.erase(socket);
    return ::close(socket);
  }

  // As above. NOLINTNEXTLINE(readability-function-size)
  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* user, void* /*mine*/) {
    auto& engine = *static_cast<CurlEngine*>(user);
    if (what == CURL_POLL_REMOVE) {
      engine.watches_.erase(socket);
      if (Transfer* transfer = TransferOf(easy); transfer != nullptr) engine.Nudge(*transfer);
      return 0;
    }
    const Interest interest{.readable = (what & CURL_POLL_IN) != 0,
                            .writable = (what & CURL_POLL_OUT) != 0};
    if (const auto at = engine.watches_.find(socket); at != engine.watches_.end()) {
      at->second->SetInterest(interest);
    } else if (!engine.Watch(socket, interest)) {
      Transfer* transfer = TransferOf(easy);
      if (transfer == nullptr) return 0;  // A handle of libcurl's own, which closes connections.
      engine.AbandonSoon(*transfer, ResourceExhausted("no descriptor is left"));
    }
    return 0;
  }

  static int OnTimer(CURLM* /*multi*/, long milliseconds, void* user) {
    auto& engine = *static_cast<CurlEngine*>(user);
    if (milliseconds < 0) {
      engine.timer_.Cancel();
    } else {
      engine.timer_ = engine.io_.CallAfter(Duration::Milliseconds(milliseconds), [&engine] {
        engine.SocketAction(CURL_SOCKET_TIMEOUT, 0);
      });
    }
    return 0;
  }
};

namespace {

// Sets options until one fails.
class Options final {
 public:
  explicit Options(CURL* easy) : easy_(easy) {}

  template <class Value>
  void Set(CURLoption option, Value value) {
    if (code_ == CURLE_OK) code_ = curl_easy_setopt(easy_, option, value);
  }
  void SetText(CURLoption option, const std::string& value) { Set(option, value.c_str()); }
  // The text stays ours and must outlive the handle.
  void SetBlob(CURLoption option, const std::string& value) {
    curl_blob blob{.data = const_cast<char*>(value.data()),  // libcurl only reads it.
                   .len = value.size(),
                   .flags = CURL_BLOB_NOCOPY};
    Set(option, &blob);
  }
  [[nodiscard]] CURLcode code() const { return code_; }

 private:
  CURL* easy_;
  CURLcode code_ = CURLE_OK;
};

void SetProtocol(Options& options, const HttpClientOptions& client) {
  options.Set(CURLOPT_NOSIGNAL, 1L);
  options.Set(CURLOPT_QUICK_EXIT, 1L);  // Giving up does not wait for a slow name server.
  options.Set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  options.Set(CURLOPT_HTTP09_ALLOWED, 0L);
  options.Set(CURLOPT_FOLLOWLOCATION, 0L);
  options.Set(CURLOPT_PATH_AS_IS, 1L);
  options.Set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  options.SetText(CURLOPT_PROXY, client.proxy);  // Empty also switches off the environment's.
  options.Set(CURLOPT_NOPROXY, "");
  options.Set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  options.SetText(CURLOPT_USERAGENT, client.user_agent);
  options.Set(CURLOPT_TCP_KEEPALIVE, 1L);
  options.Set(CURLOPT_MAXAGE_CONN, static_cast<long>(client.max_warm_age.seconds()));
}

void SetTls(Options& options, const HttpClientOptions& client, const Transfer& transfer) {
  options.Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  options.Set(CURLOPT_SSL_VERIFYPEER, 1L);
  options.Set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!client.ca_bundle.empty()) options.SetBlob(CURLOPT_CAINFO_BLOB, client.ca_bundle);
  // The folder of the system's roots vouches besides a bundle, and besides the system's file it
  // only keeps libcurl from remembering what it has parsed.
  if (client.ca_bundle.empty() || client.roots == CertificateRoots::kBundle) {
    options.Set(CURLOPT_CAPATH, static_cast<char*>(nullptr));
  }
  if (!client.client_certificate.empty() && transfer.at_first_host) {
    options.Set(CURLOPT_SSLCERTTYPE, "PEM");
    options.SetBlob(CURLOPT_SSLCERT_BLOB, client.client_certificate);
    options.Set(CURLOPT_SSLKEYTYPE, "PEM");
    options.SetBlob(CURLOPT_SSLKEY_BLOB, client.client_key);
  }
}

void SetMethod(Options& options, const HttpRequest& request) {
  if (SendsBody(request)) {
    options.Set(CURLOPT_POST, 1L);
    options.Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    options.Set(CURLOPT_POSTFIELDS, request.body.data());  // Not copied.
  } else if (request.method == HttpMethod::kHead) {
    options.Set(CURLOPT_NOBODY, 1L);
    return;
  } else {
    options.Set(CURLOPT_HTTPGET, 1L);
  }
  options.SetText(CURLOPT_CUSTOMREQUEST, std::string(MethodName(request.method)));
}

void SetSignature(Options& options, const AwsSignature& signature) {
  options.SetText(CURLOPT_AWS_SIGV4,
                  fmt::format("aws:amz:{}:{}", signature.region, signature.service));
  options.SetText(CURLOPT_USERNAME, signature.access_key);
  options.SetText(CURLOPT_PASSWORD, signature.secret_key);
}

void SetCallbacks(Options& options, Transfer& transfer) {
  options.Set(CURLOPT_PRIVATE, &transfer);
  options.Set(CURLOPT_ERRORBUFFER, transfer.error_text.data());
  options.Set(CURLOPT_HEADERFUNCTION, &Callbacks::OnHeader);
  options.Set(CURLOPT_HEADERDATA, &transfer);
  options.Set(CURLOPT_WRITEFUNCTION, &Callbacks::OnBody);
  options.Set(CURLOPT_WRITEDATA, &transfer);
  options.Set(CURLOPT_PREREQFUNCTION, &Callbacks::OnSend);
  options.Set(CURLOPT_PREREQDATA, &transfer);
  options.Set(CURLOPT_OPENSOCKETFUNCTION, &Callbacks::OnOpenSocket);
  options.Set(CURLOPT_OPENSOCKETDATA, &transfer);
  options.Set(CURLOPT_CLOSESOCKETFUNCTION, &Callbacks::OnCloseSocket);
  options.Set(CURLOPT_CLOSESOCKETDATA, &transfer.engine);
}

// Makes the handle of the present hop.
CURLcode MakeEasy(Transfer& transfer, const HttpClientOptions& client,
                  curl_slist* fixed_addresses) {
  transfer.headers = MakeList(transfer.hop.header_lines);
  transfer.easy.reset(curl_easy_init());
  if (transfer.easy == nullptr) return CURLE_OUT_OF_MEMORY;
  Options options(transfer.easy.get());
  SetProtocol(options, client);
  SetTls(options, client, transfer);
  SetMethod(options, transfer.request);
  if (transfer.request.aws_signature.has_value()) {
    SetSignature(options, *transfer.request.aws_signature);
  }
  SetCallbacks(options, transfer);
  options.Set(CURLOPT_RESOLVE, fixed_addresses);
  options.SetText(CURLOPT_URL, transfer.hop.target.url);
  options.Set(CURLOPT_HTTPHEADER, transfer.headers.get());
  // An address that does not answer may use up half of it, then the next one is tried.
  options.Set(CURLOPT_CONNECTTIMEOUT_MS,
              std::clamp(static_cast<long>(transfer.request.deadline.milliseconds()), 1L,
                         24L * 3600 * 1000));
  options.Set(CURLOPT_FRESH_CONNECT, transfer.fresh_connection_only ? 1L : 0L);
  return options.code();
}

Error FromCurl(CURLcode code, const char* detail) {
  std::string message;
  AppendEscaped(message, *detail != '\0' ? detail : curl_easy_strerror(code));
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS: return PermissionDenied(std::move(message));
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER: return FailedPrecondition(std::move(message));
    case CURLE_OUT_OF_MEMORY:  // It says so also of one header above 100 KiB.
      return ResourceExhausted(std::move(message));
    case CURLE_OPERATION_TIMEDOUT: return DeadlineExceeded(std::move(message));
    default: return Unavailable(std::move(message));
  }
}

int PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return -1;
}

}  // namespace

CurlEngine::CurlEngine(RealLoop& io, std::shared_ptr<Channel> channel, HttpClientOptions options)
    : io_(io),
      channel_(std::move(channel)),
      options_(std::move(options)),
      fixed_addresses_(MakeList(options_.fixed_addresses)) {
  InitializeOnce();
  CHECK(options_.max_in_flight > 0 && options_.max_streams > 0);
  CHECK(options_.max_connections_per_host > 0);
  requests_.limit = options_.max_in_flight;
  requests_.limit_per_host = options_.max_connections_per_host;
  streams_.limit = options_.max_streams;
  streams_.limit_per_host = options_.max_streams;
  multi_ = curl_multi_init();
  CHECK(multi_ != nullptr, "out of memory");
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Callbacks::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Callbacks::OnTimer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  // Zero would mean "as many as you like".
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS,
                    std::max(1L, static_cast<long>(options_.max_warm_connections)));
}

CurlEngine::~CurlEngine() {
  for (const auto& [id, transfer] : transfers_) {
    if (transfer->easy != nullptr) curl_multi_remove_handle(multi_, transfer->easy.get());
  }
  transfers_.clear();
  curl_multi_cleanup(multi_);
}

void CurlEngine::RunCommands() {
  for (Command& command : channel_->to_io.Take()) {
    std::visit([this](auto& what) { On(what); }, command);
  }
}

void CurlEngine::On(StartCommand& start) {
  auto prepared = Prepare(start.request);
  if (prepared.has_value() && start.request.deadline <= Duration()) {
    prepared = Fail(DeadlineExceeded("the deadline had passed before the request"));
  }
  if (!prepared.has_value()) {
    channel_->to_home.Put(FailureOf(start.id, start.kind, std::move(prepared).error()));
    return;
  }
  auto made = std::make_unique<Transfer>(*this, std::move(start), *std::move(prepared));
  Transfer& transfer = *made;
  transfer.deadline = io_.CallAfter(transfer.request.deadline, [this, &transfer] {
    Abandon(transfer, DeadlineExceeded(fmt::format("no answer within {}",
                                                   FormatDuration(transfer.request.deadline))));
  });
  transfers_.emplace(transfer.id, std::move(made));
  Lane& lane = LaneOf(transfer);
  lane.waiting.push_back(transfer.id);
  StartWaiting(lane);
}

void CurlEngine::On(CancelCommand& cancel) {
  const auto at = transfers_.find(cancel.id);
  if (at != transfers_.end()) Remove(*at->second);
}

void CurlEngine::On(TakenCommand& taken) {
  const auto at = transfers_.find(taken.id);
  if (at == transfers_.end()) return;
  Transfer& transfer = *at->second;
  transfer.unread -= taken.bytes;
  if (!transfer.paused || transfer.unread > transfer.request.max_response_bytes / 2) return;
  transfer.paused = false;
  transfer.last_data = io_.Now();
  // May hand over what libcurl kept and pause again.
  const CURLcode code = curl_easy_pause(transfer.easy.get(), CURLPAUSE_CONT);
  if (code != CURLE_OK) Abandon(transfer, FromCurl(code, ""));
}

CurlEngine::Lane& CurlEngine::LaneOf(const Transfer& transfer) {
  return transfer.kind == Kind::kRequest ? requests_ : streams_;
}

void CurlEngine::StartWaiting(Lane& lane) {
  auto next = lane.waiting.begin();
  while (lane.running < lane.limit && next != lane.waiting.end()) {
    Transfer& transfer = *transfers_.at(*next);
    std::size_t& running_there = lane.running_per_host[transfer.host];
    if (running_there >= lane.limit_per_host) {
      ++next;
      continue;
    }
    next = lane.waiting.erase(next);
    ++running_there;
    ++lane.running;
    transfer.running = true;
    Launch(transfer);
  }
}

void CurlEngine::Launch(Transfer& transfer) {
  transfer.head = {};
  transfer.body.clear();
  transfer.opened_socket = false;
  transfer.stale = false;
  const CURLcode code = MakeEasy(transfer, options_, fixed_addresses_.get());
  const bool added =
      code == CURLE_OK && curl_multi_add_handle(multi_, transfer.easy.get()) == CURLM_OK;
  if (added) return;
  AbandonSoon(transfer, Unavailable(fmt::format("libcurl refused: {}", curl_easy_strerror(code))));
}

bool CurlEngine::Watch(curl_socket_t socket, Interest interest) {
  const int duplicate = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return false;
  watches_[socket] =
      std::make_unique<SocketWatch>(io_, duplicate, interest, [this, socket](Readiness ready) {
        SocketAction(socket, (ready.readable ? CURL_CSELECT_IN : 0) |
                                 (ready.writable ? CURL_CSELECT_OUT : 0));
      });
  return true;
}

void CurlEngine::Nudge(Transfer& transfer) {
  if (transfer.sends > 0) return;
  transfer.nudge = io_.CallAfter({}, [&transfer] {
    // Any change of the pause makes libcurl look at the transfer; nothing is received yet.
    curl_easy_pause(transfer.easy.get(), CURLPAUSE_RECV);
    curl_easy_pause(transfer.easy.get(), CURLPAUSE_CONT);
  });
}

void CurlEngine::SocketAction(curl_socket_t socket, int events) {
  int running = 0;
  const CURLMcode code = curl_multi_socket_action(multi_, socket, events, &running);
  CHECK(code == CURLM_OK, "{}", curl_multi_strerror(code));
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode result = message->data.result;
    OnDone(*Callbacks::TransferOf(message->easy_handle), result);
  }
}

void CurlEngine::OnDone(Transfer& transfer, CURLcode code) {
  curl_multi_remove_handle(multi_, transfer.easy.get());
  transfer.easy.reset();
  transfer.nudge.Cancel();
  if (transfer.failure.has_value()) {
    Abandon(transfer, std::move(*transfer.failure));
  } else if (transfer.stale && !transfer.fresh_connection_only) {
    transfer.fresh_connection_only = true;
    Launch(transfer);
  } else if (code != CURLE_OK && transfer.refused_address) {
    Abandon(transfer, FailedPrecondition(kLinkLocal));
  } else if (code != CURLE_OK) {
    Abandon(transfer, FromCurl(code, transfer.error_text.data()));
  } else if (!transfer.head.complete()) {
    Abandon(transfer, Unavailable("malformed answer: no final status"));
  } else if (transfer.WillFollow()) {
    FollowRedirect(transfer);
  } else {
    Succeed(transfer);
  }
}

void CurlEngine::FollowRedirect(Transfer& transfer) {
  if (transfer.redirects_left-- == 0) {
    return Abandon(transfer, FailedPrecondition(fmt::format("redirected more than {} times",
                                                            transfer.request.max_redirects)));
  }
  const Target& from = transfer.hop.target;
  auto to = ResolveRedirect(from, *transfer.head.answer().Header("location"));
  if (!to.has_value()) return Abandon(transfer, std::move(to).error());
  if (from.scheme == "https" && to->scheme == "http") {
    return Abandon(transfer, FailedPrecondition("redirected to plain HTTP"));
  }
  if (!SameHost(from, *to)) {
    if (transfer.request.redirect_scope == HttpRedirectScope::kSameHost) {
      return Abandon(transfer,
                     FailedPrecondition(fmt::format("redirected to {}", Quote(to->Authority()))));
    }
    transfer.hop = transfer.hop.ForOtherHost(*std::move(to));
    transfer.at_first_host = false;
  } else {
    transfer.hop.target = *std::move(to);
  }
  transfer.fresh_connection_only = false;
  Launch(transfer);
}

void CurlEngine::Succeed(Transfer& transfer) {
  Event event{.id = transfer.id, .what = EndEvent{}};
  if (transfer.kind == Kind::kRequest) {
    transfer.head.answer().body = std::move(transfer.body);
    event.what = AnswerEvent{std::move(transfer.head.answer())};
  }
  channel_->to_home.Put(std::move(event));
  Remove(transfer);
}

void CurlEngine::Abandon(Transfer& transfer, Error error) {
  channel_->to_home.Put(FailureOf(transfer.id, transfer.kind, transfer.Explain(std::move(error))));
  Remove(transfer);
}

void CurlEngine::AbandonSoon(Transfer& transfer, Error error) {
  transfer.failure = std::move(error);
  transfer.deadline =
      io_.CallAfter({}, [this, &transfer] { Abandon(transfer, std::move(*transfer.failure)); });
}

void CurlEngine::Remove(Transfer& transfer) {
  if (transfer.easy != nullptr) curl_multi_remove_handle(multi_, transfer.easy.get());
  Lane& lane = LaneOf(transfer);
  if (transfer.running) {
    --lane.running;
    const auto host = lane.running_per_host.find(transfer.host);
    if (--host->second == 0) lane.running_per_host.erase(host);
  } else {
    std::erase(lane.waiting, transfer.id);
  }
  transfers_.erase(transfer.id);
  StartWaiting(lane);
}

void CurlEngine::WatchIdle(Transfer& transfer) {
  if (transfer.request.idle_limit <= Duration()) return;
  transfer.last_data = io_.Now();
  ArmIdle(transfer, transfer.last_data + transfer.request.idle_limit);
}

void CurlEngine::ArmIdle(Transfer& transfer, Instant at) {
  transfer.idle = io_.CallAt(at, [this, &transfer] {
    const Duration limit = transfer.request.idle_limit;
    // While its own reader is slow, the silence is not the peer's.
    const Instant due = (transfer.paused ? io_.Now() : transfer.last_data) + limit;
    if (due > io_.Now()) return ArmIdle(transfer, due);
    Abandon(transfer, DeadlineExceeded(fmt::format("no data within {}", FormatDuration(limit))));
  });
}

bool CurlEngine::HasUnaskedInput(int local_port, int peer_port) const {
  return std::ranges::any_of(sockets_, [&](curl_socket_t socket) {
    sockaddr_storage local{};
    sockaddr_storage peer{};
    socklen_t size = sizeof(local);
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size) != 0) return false;
    size = sizeof(peer);
    if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
    if (PortOf(local) != local_port || PortOf(peer) != peer_port) return false;
    char byte = 0;
    return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;  // A byte, or the end.
  });
}

}  // namespace nstance::http
