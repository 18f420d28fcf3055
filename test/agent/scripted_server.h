// ScriptedServer: the server's side of the agent contract, enough to hold an agent to it.
//
// It knows one instance. It checks tokens, proofs and generations as the real one must (J5, N2, N3
// of the security rules) and remembers what it saw, so a test can ask: was a second key shown for
// one nonce, was a renewal asked for that looks like a clone? It can be told to refuse, to act and
// lose the answer, and to be another server after a fail-over: what is durable lives in `Record`.
//
// Works on any RpcServer: simulated, or on sockets.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "crypto/certificate_authority.h"
#include "crypto/registration_token.h"
#include "ports/api/methods.h"
#include "ports/rpc.h"
#include "test/crypto/crypto_fixture.h"

namespace nstance::agent::test {

// What all servers of the cluster share.
class Cluster final {
 public:
  explicit Cluster(Timestamp now, std::uint8_t number = 1) : now_(now), number_(number) {
    crypto::PrivateKey key = crypto::test::KeyOf(number);
    crypto::Certificate root = crypto::test::Must(
        crypto::IssueCa({.organization = {"Nstance Cluster example-cluster"}}, key,
                        {.issued_at = now - Duration::Hours(1), .life = crypto::kDefaultCaLife}));
    authority_ =
        crypto::test::Must(crypto::CertificateAuthority::Make(std::move(root), std::move(key)));
  }

  [[nodiscard]] std::string RootPem() const { return authority_->certificate().ToPem(); }
  [[nodiscard]] const crypto::CertificateAuthority& authority() const { return *authority_; }

  // A token of the instance, as a nonce.jwt has it.
  [[nodiscard]] std::string Nonce(Duration life = Duration::Minutes(10)) const {
    return crypto::SignRegistrationToken({.subject = std::string(crypto::test::kInstance),
                                          .expires_at = now_ + life,
                                          .not_before = now_ - crypto::kTokenBackdate,
                                          .issued_at = now_ - crypto::kTokenBackdate,
                                          .token_id = "AAECAwQFBgcICQoLDA0ODw",
                                          .kind = crypto::TokenKind::kAgent,
                                          .config_hash = "sha256:aa",
                                          .cluster = "example-cluster",
                                          .shard = "dc1-zone-a",
                                          .group = "workers",
                                          .tenant = crypto::test::Tenant("prod")},
                                         NonceKey());
  }
  [[nodiscard]] static crypto::PrivateKey NonceKey() { return crypto::test::KeyOf(77); }

  [[nodiscard]] crypto::SerialNumber NextSerial() {
    std::array<std::uint8_t, 16> bytes{};
    bytes.fill(number_);
    bytes[14] = static_cast<std::uint8_t>(++serial_ >> 8U);
    bytes[15] = static_cast<std::uint8_t>(serial_);
    return crypto::SerialNumber::FromRandom(bytes);
  }

  // What a server of this cluster shows.
  [[nodiscard]] RpcTls ServerTls(const std::string& host, Timestamp issued_at) {
    auto key = std::make_shared<const crypto::PrivateKey>(crypto::test::KeyOf(50));
    auto leaf = crypto::test::Must(authority_->IssueServer(
        {.hosts = {host}}, key->public_key(),
        {.serial = NextSerial(), .issued_at = issued_at, .life = Duration::Days(365)}));
    return Wrap(std::move(leaf), std::move(key));
  }
  [[nodiscard]] RpcTls Wrap(crypto::Certificate leaf,
                            std::shared_ptr<const crypto::PrivateKey> key) const {
    auto material = std::make_shared<RpcTlsMaterial>();
    material->chain.push_back(std::move(leaf));
    material->key = std::move(key);
    material->roots.push_back(authority_->certificate());
    return material;
  }

 private:
  Timestamp now_;
  std::uint8_t number_;
  std::uint16_t serial_ = 0;
  std::optional<crypto::CertificateAuthority> authority_;
};

// The durable record of the instance.
struct Record {
  std::string key_pem = {};
  std::string certificate_pem = {};
  std::string serial = {};
  int generation = 0;
  bool nonce_reuse = false;     // A second key for the nonce.
  bool identity_clone = false;  // A renewal that N3 forbids.
};

struct Script {
  Duration certificate_life = Duration::Hours(24);
  // Acts and drops the call unanswered, so many times.
  int lose_registrations = 0;
  int lose_renewals = 0;
  // Answers every call of that path with it.
  std::map<std::string, Error, std::less<>> refuse = {};
  // Instead of the certificate.
  std::optional<std::string> answer_instead = std::nullopt;
};

class ScriptedServer final {
 public:
  ScriptedServer(Cluster& cluster, Record& record, std::function<Timestamp()> now)
      : cluster_(cluster), record_(record), now_(std::move(now)) {}
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  // Before the RpcServer.
  ~ScriptedServer() { Drop(); }

  [[nodiscard]] RpcAcceptor Acceptor() {
    return [this](std::unique_ptr<RpcServerCall> call) { Accept(std::move(call)); };
  }

  Script script = {};
  // What was seen.
  std::map<std::string, int, std::less<>> calls = {};
  std::set<std::string> features = {};
  std::set<std::string> registered_keys = {};
  std::vector<api::RegisterClientRequest> registrations = {};
  std::vector<api::HealthReportRequest> reports = {};
  int half_closes = 0;

  // Streams of that path that are open, and those of connections that show this serial.
  [[nodiscard]] int Open(std::string_view path) const {
    int count = 0;
    for (const auto& stream : streams_) count += stream->path == path ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::set<std::string> SerialsOfStreams() const {
    std::set<std::string> serials;
    for (const auto& stream : streams_) serials.insert(stream->serial);
    return serials;
  }
  [[nodiscard]] bool AllOpen() const {
    return Open(api::kSubmitHealthReport.path) == 1 && Open(api::kReceiveKeyRequests.path) == 1 &&
           Open(api::kReceiveFiles.path) == 1;
  }
  // Ends every open stream of the path with the status.
  void End(std::string_view path, const Status& status) {
    for (auto at = streams_.begin(); at != streams_.end();) {
      const auto stream = *at++;
      if (stream->path != path) continue;
      stream->call->Finish(status, {});
      Forget(*stream);
    }
  }
  void SendKeyRequest(api::KeyGenerationRequest request) {
    for (const auto& stream : streams_) {
      if (stream->path == api::kReceiveKeyRequests.path) {
        stream->call->Send(RpcMessage::Of(request));
      }
    }
  }
  void SendFile(const api::FileTransfer& file) {
    for (const auto& stream : streams_) {
      if (stream->path == api::kReceiveFiles.path) stream->call->Send(RpcMessage::Of(file));
    }
  }
  // Everything open ends with UNAVAILABLE, as a step-down does.
  void Drop() { streams_.clear(); }

 private:
  struct Stream {
    std::string path;
    std::string serial;
    std::unique_ptr<RpcServerCall> call;
  };

  void Accept(std::unique_ptr<RpcServerCall> call) {
    const std::string path(call->info().policy->path);
    ++calls[path];
    const std::string* announced = FindMetadata(call->info().metadata, "nstance-features");
    features.insert(announced == nullptr ? "" : *announced);
    if (const auto refused = script.refuse.find(path); refused != script.refuse.end()) {
      call->Finish(Fail(refused->second), {});
      return;
    }
    auto stream = std::make_shared<Stream>(Stream{.path = path, .serial = "", .call = nullptr});
    const auto& identity = call->info().peer.identity;
    if (identity) stream->serial = identity->serial;
    stream->call = std::move(call);
    streams_.push_back(stream);
    Stream* at = stream.get();
    at->call->Listen({.message = [this, at](RpcMessage message) { OnMessage(*at, message); },
                      .half_close = [this, at] { OnHalfClose(*at); },
                      .cancelled = [this, at](const Error&) { Forget(*at); }});
  }

  void OnMessage(Stream& stream, const RpcMessage& message) {
    if (const auto* report = message.As<api::HealthReportRequest>()) reports.push_back(*report);
    if (const auto* join = message.As<api::RegisterClientRequest>()) {
      return Answer(stream, Register(*join), &Script::lose_registrations, [](std::string pem) {
        return api::RegisterClientResponse{std::move(pem), {}};
      });
    }
    if (const auto* renew = message.As<api::RenewCertificateRequest>()) {
      return Answer(stream, Renew(stream, *renew), &Script::lose_renewals, [](std::string pem) {
        return api::RenewCertificateResponse{std::move(pem), {}};
      });
    }
  }

  void OnHalfClose(Stream& stream) {
    if (stream.path != api::kSubmitHealthReport.path) return;
    ++half_closes;
    stream.call->Send(RpcMessage::Of(api::Empty{}));
    stream.call->Finish({}, {});
    Forget(stream);
  }

  template <class Make>
  void Answer(Stream& stream, const Result<std::string>& pem, int Script::* lose, Make make) {
    if (pem && script.*lose > 0) {
      --(script.*lose);
      return Forget(stream);
    }
    if (pem) {
      stream.call->Send(RpcMessage::Of(make(script.answer_instead.value_or(*pem))));
      stream.call->Finish({}, {});
    } else {
      stream.call->Finish(Fail(pem.error()), {});
    }
    Forget(stream);
  }

  Result<std::string> Register(const api::RegisterClientRequest& request) {
    registrations.push_back(request);
    registered_keys.insert(request.public_key_pem);
    const std::vector<crypto::PublicKey> keys = {Cluster::NonceKey().public_key()};
    ASSIGN_OR_RETURN(
        const auto claims,
        crypto::VerifyRegistrationToken(
            request.registration_nonce_jwt,
            {.keys = keys, .now = now_(), .kind = crypto::TokenKind::kAgent, .source = {}}));
    ASSIGN_OR_RETURN(const auto key, crypto::PublicKey::FromPem(request.public_key_pem));
    RETURN_IF_ERROR(crypto::VerifyJoinProof(key, request.registration_nonce_jwt,
                                            crypto::test::Cluster(), AsBytes(request.proof)));
    if (!record_.key_pem.empty() && record_.key_pem != request.public_key_pem) {
      record_.nonce_reuse = true;
      return Fail(Unauthenticated("registration refused"));
    }
    if (record_.key_pem.empty()) Issue(key);
    return record_.certificate_pem;
  }

  Result<std::string> Renew(const Stream& stream, const api::RenewCertificateRequest& request) {
    ASSIGN_OR_RETURN(const auto key, crypto::PublicKey::FromPem(request.public_key_pem));
    if (stream.serial == record_.serial) {
      Issue(key);
      return record_.certificate_pem;
    }
    if (request.public_key_pem == record_.key_pem) return record_.certificate_pem;
    record_.identity_clone = true;
    return Fail(Unauthenticated("the identity is blocked"));
  }

  void Issue(const crypto::PublicKey& key) {
    const crypto::Certificate certificate = crypto::test::Must(cluster_.authority().IssueClient(
        crypto::test::Agent(), key,
        {.serial = cluster_.NextSerial(), .issued_at = now_(), .life = script.certificate_life}));
    record_.key_pem = key.ToPem();
    record_.certificate_pem = certificate.ToPem();
    record_.serial = certificate.facts().serial.decimal();
    ++record_.generation;
  }

  void Forget(const Stream& stream) {
    streams_.remove_if([&](const auto& other) { return other.get() == &stream; });
  }

  Cluster& cluster_;
  Record& record_;
  std::function<Timestamp()> now_;
  std::list<std::shared_ptr<Stream>> streams_;
};

}  // namespace nstance::agent::test
