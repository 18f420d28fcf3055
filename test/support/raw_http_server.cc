#include "test/support/raw_http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/check.h"

namespace nstance::test {
namespace {

constexpr int kMinute = 60'000;
// A write that has waited this long counts as stalled.
constexpr int kStallMilliseconds = 100;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

std::string_view Trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::string Word(std::string_view head, int index) {
  for (; index > 0; --index) head.remove_prefix(std::min(head.size(), head.find(' ') + 1));
  return std::string(head.substr(0, head.find(' ')));
}

struct ContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, ContextDeleter>;

template <class T, class Read>
T* FromPem(const std::string& pem, Read read) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  T* object = read(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  CHECK(object != nullptr);
  return object;
}

Context MakeContext(const RawHttpServer::TlsOptions& options) {
  Context context(SSL_CTX_new(TLS_server_method()));
  CHECK(context != nullptr);
  X509* certificate = FromPem<X509>(options.certificate, PEM_read_bio_X509);
  EVP_PKEY* key = FromPem<EVP_PKEY>(options.key, PEM_read_bio_PrivateKey);
  CHECK(SSL_CTX_use_certificate(context.get(), certificate) == 1);
  CHECK(SSL_CTX_use_PrivateKey(context.get(), key) == 1);
  X509_free(certificate);
  EVP_PKEY_free(key);
  if (!options.client_authority.empty()) {
    X509* authority = FromPem<X509>(options.client_authority, PEM_read_bio_X509);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority);
    X509_free(authority);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

// OpenSSL writes to sockets without asking for no signal.
void BlockPipeSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

std::string RawRequest::Method() const { return Word(head, 0); }
std::string RawRequest::Target() const { return Word(head, 1); }

std::vector<std::string> RawRequest::Values(std::string_view name) const {
  std::vector<std::string> values;
  std::string_view rest = head;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(std::min(rest.size(), line.size() + 2));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && SameName(line.substr(0, colon), name)) {
      values.emplace_back(Trim(line.substr(colon + 1)));
    }
  }
  return values;
}

std::string RawRequest::Value(std::string_view name) const {
  const auto values = Values(name);
  return values.size() == 1 ? values.front() : std::string();
}

struct RawHttpServer::State {
  Script script;
  Context context;
  int listener = -1;
  int stop = -1;
  int port = 0;
  std::thread acceptor;

  mutable std::mutex mutex;  // Guards everything below.
  std::condition_variable changed;
  bool gate_open = false;
  bool stopping = false;
  bool listening = true;
  std::vector<std::thread> threads;
  std::vector<RawRequest> requests;
  int accepted = 0;
  int open = 0;
  int most_open = 0;
  std::size_t bytes_written = 0;
  int stalled = 0;
};

struct RawConnection::Tls {
  SSL* ssl = nullptr;
};

RawConnection::RawConnection(RawHttpServer& server, int number, int descriptor)
    : server_(server), number_(number), descriptor_(descriptor) {}

RawConnection::~RawConnection() {
  if (tls_ != nullptr) {
    SSL_shutdown(tls_->ssl);
    SSL_free(tls_->ssl);
  }
  if (descriptor_ >= 0) close(descriptor_);
}

bool RawConnection::Wait(short events, int milliseconds) const {
  std::array<pollfd, 2> waits = {{{.fd = descriptor_, .events = events, .revents = 0},
                                  {.fd = server_.state_->stop, .events = POLLIN, .revents = 0}}};
  const int ready = poll(waits.data(), waits.size(), milliseconds);
  return ready > 0 && waits[1].revents == 0;
}

bool RawConnection::Handshake() {
  if (server_.state_->context == nullptr) return true;
  tls_ = std::make_unique<Tls>();
  tls_->ssl = SSL_new(server_.state_->context.get());
  SSL_set_fd(tls_->ssl, descriptor_);
  while (true) {
    const int result = SSL_accept(tls_->ssl);
    if (result == 1) return true;
    const int error = SSL_get_error(tls_->ssl, result);
    ERR_clear_error();
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return false;
    if (!Wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, kMinute)) return false;
  }
}

std::size_t RawConnection::ReadSome(char* buffer, std::size_t size) {
  while (descriptor_ >= 0) {
    if (tls_ != nullptr) {
      std::size_t got = 0;
      const int result = SSL_read_ex(tls_->ssl, buffer, size, &got);
      if (result == 1) return got;
      const int error = SSL_get_error(tls_->ssl, result);
      ERR_clear_error();
      if (error != SSL_ERROR_WANT_READ) return 0;
    } else {
      const ssize_t got = recv(descriptor_, buffer, size, 0);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EAGAIN && errno != EINTR) return 0;
    }
    if (!Wait(POLLIN, kMinute)) return 0;
  }
  return 0;
}

std::optional<RawRequest> RawConnection::ReadHead() {
  std::array<char, 65536> buffer;
  std::size_t end = 0;
  while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
    const std::size_t got = ReadSome(buffer.data(), buffer.size());
    if (got == 0) return std::nullopt;
    unread_.append(buffer.data(), got);
  }
  RawRequest request{.connection = number_, .head = unread_.substr(0, end + 4), .body = {}};
  unread_.erase(0, end + 4);
  return request;
}

std::optional<RawRequest> RawConnection::ReadRequest() {
  auto request = ReadHead();
  if (!request.has_value()) return std::nullopt;
  if (SameName(request->Value("expect"), "100-continue")) Write("HTTP/1.1 100 Continue\r\n\r\n");
  const std::string length_text = request->Value("content-length");
  std::size_t length = 0;
  std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
  std::array<char, 65536> buffer;
  while (unread_.size() < length) {
    const std::size_t got = ReadSome(buffer.data(), buffer.size());
    if (got == 0) return std::nullopt;
    unread_.append(buffer.data(), got);
  }
  request->body = unread_.substr(0, length);
  unread_.erase(0, length);
  const std::scoped_lock lock(server_.state_->mutex);
  server_.state_->requests.push_back(*request);
  return request;
}

bool RawConnection::Write(std::string_view bytes) {
  RawHttpServer::State& state = *server_.state_;
  while (!bytes.empty()) {
    if (descriptor_ < 0) return false;
    std::size_t sent = 0;
    if (tls_ != nullptr) {
      const int result = SSL_write_ex(tls_->ssl, bytes.data(), bytes.size(), &sent);
      const int error = SSL_get_error(tls_->ssl, result);
      ERR_clear_error();
      if (result != 1 && error != SSL_ERROR_WANT_WRITE) return false;
    } else {
      const ssize_t result = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (result < 0 && errno != EAGAIN && errno != EINTR) return false;
      sent = result < 0 ? 0 : static_cast<std::size_t>(result);
    }
    bytes.remove_prefix(sent);
    {
      const std::scoped_lock lock(state.mutex);
      state.bytes_written += sent;
      if (state.stopping) return false;
    }
    if (sent > 0 || Wait(POLLOUT, kStallMilliseconds)) continue;
    {
      const std::scoped_lock lock(state.mutex);
      ++state.stalled;
    }
    const bool ready = Wait(POLLOUT, kMinute);
    const std::scoped_lock lock(state.mutex);
    --state.stalled;
    if (!ready) return false;
  }
  return true;
}

void RawConnection::WaitForClose() {
  std::array<char, 65536> buffer;
  while (ReadSome(buffer.data(), buffer.size()) > 0) {
  }
}

bool RawConnection::HeardWithin(int milliseconds) const { return Wait(POLLIN, milliseconds); }

void RawConnection::WaitForGate() {
  RawHttpServer::State& state = *server_.state_;
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.gate_open || state.stopping; });
}

void RawConnection::Reset() {
  if (tls_ != nullptr) SSL_set_quiet_shutdown(tls_->ssl, 1);  // The descriptor is gone by then.
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(std::exchange(descriptor_, -1));
}

RawHttpServer::RawHttpServer(Script script) : RawHttpServer(std::move(script), Options{}) {}

RawHttpServer::RawHttpServer(Script script, Options options) : state_(std::make_unique<State>()) {
  state_->script = std::move(script);
  if (options.tls.has_value()) state_->context = MakeContext(*options.tls);
  state_->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  state_->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  CHECK(state_->stop >= 0 && state_->listener >= 0, "errno {}", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  CHECK(bind(state_->listener, reinterpret_cast<sockaddr*>(&address), size) == 0, "errno {}",
        errno);
  CHECK(listen(state_->listener, 256) == 0, "errno {}", errno);
  CHECK(getsockname(state_->listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  state_->port = ntohs(address.sin_port);
  state_->acceptor = std::thread([this] { Accept(); });
}

RawHttpServer::~RawHttpServer() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  const std::uint64_t one = 1;
  CHECK(write(state_->stop, &one, sizeof(one)) == sizeof(one), "errno {}", errno);
  state_->acceptor.join();
  for (std::thread& thread : state_->threads) thread.join();
  if (state_->listener >= 0) close(state_->listener);
  close(state_->stop);
}

void RawHttpServer::Accept() {
  BlockPipeSignal();
  while (true) {
    std::array<pollfd, 2> waits = {{{.fd = state_->listener, .events = POLLIN, .revents = 0},
                                    {.fd = state_->stop, .events = POLLIN, .revents = 0}}};
    poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) return;
    const std::scoped_lock lock(state_->mutex);
    if (!state_->listening) {
      close(std::exchange(state_->listener, -1));  // From here on poll passes over it.
      state_->changed.notify_all();
      continue;
    }
    const int descriptor =
        accept4(state_->listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) continue;
    const int number = state_->accepted++;
    state_->most_open = std::max(state_->most_open, ++state_->open);
    state_->threads.emplace_back([this, number, descriptor] {
      {
        RawConnection connection(*this, number, descriptor);
        if (connection.Handshake()) state_->script(connection);
      }
      const std::scoped_lock closed(state_->mutex);
      --state_->open;
    });
  }
}

int RawHttpServer::port() const { return state_->port; }

std::string RawHttpServer::Url(std::string_view path) const {
  return fmt::format("{}://127.0.0.1:{}{}", state_->context == nullptr ? "http" : "https",
                     state_->port, path);
}

void RawHttpServer::OpenGate() {
  const std::scoped_lock lock(state_->mutex);
  state_->gate_open = true;
  state_->changed.notify_all();
}

void RawHttpServer::StopListening() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->listening = false;
  }
  // Wakes the acceptor, which closes the listener.
  const int knock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(state_->port));
  (void)connect(knock, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->listener < 0; });
  close(knock);
}

std::vector<RawRequest> RawHttpServer::requests() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->requests;
}

int RawHttpServer::accepted() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->accepted;
}

int RawHttpServer::open() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->open;
}

int RawHttpServer::most_open() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->most_open;
}

std::size_t RawHttpServer::bytes_written() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->bytes_written;
}

bool RawHttpServer::stalled() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->stalled > 0;
}

std::string Answer(int status, std::string_view body, std::string_view headers) {
  return fmt::format("HTTP/1.1 {} Said\r\n{}Content-Length: {}\r\n\r\n{}", status, headers,
                     body.size(), body);
}

RawHttpServer::Script AnswerAll(std::string bytes) {
  return [bytes = std::move(bytes)](RawConnection& connection) {
    while (connection.ReadRequest().has_value()) {
      if (!connection.Write(bytes)) return;
    }
  };
}

}  // namespace nstance::test
