#include "agent/agent.h"

#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "base/version.h"
#include "crypto/registration_token.h"

namespace nstance::agent {
namespace {

constexpr Duration kStopLimit = Duration::Milliseconds(1'500);

std::uint64_t SeedOf(SecureRandom& random) {
  const auto bytes = random.Array<8>();
  std::uint64_t seed = 0;
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

}  // namespace

Agent::Agent(const Deps& deps, Settings settings, Exit exit)
    : deps_(deps),
      settings_(std::move(settings)),
      exit_(std::move(exit)),
      jitter_(SeedOf(deps_.random)),
      store_(deps_.identity, deps_.random),
      started_at_(deps_.loop.WallNow()) {}

Agent::~Agent() = default;

void Agent::EndWith(int code) {
  end_ = deps_.loop.CallAfter({}, [this, code] {
    if (Exit exit = std::exchange(exit_, nullptr)) exit(code);
  });
}

// --- Start --------------------------------------------------------------------------------------

void Agent::Start() {
  deps_.log.Info("starting", {{"version", Version()}});
  for (const std::string& name : settings_.unused) {
    deps_.log.Warning("has no effect in this build", {{"variable", name}});
  }
  for (const std::string& name : settings_.unknown) {
    deps_.log.Warning("is no variable of the agent", {{"variable", name}});
  }
  Begin();
}

void Agent::Begin() {
  auto roots = store_.ReadRoots();
  if (!roots) {
    deps_.log.Error("cannot start", {{"error", roots.error()}});
    return EndWith(kExitUnusable);
  }
  roots_ = *std::move(roots);
  const auto loaded = store_.LoadIdentity();
  if (!loaded) {
    deps_.log.Error("cannot start", {{"error", loaded.error()}});
    return EndWith(kExitUnusable);
  }
  std::string no_certificate = "there is no identity.crt";
  if (loaded->certificate_pem) {
    const auto own = ReadOwnCertificate(*loaded->certificate_pem, {.key = loaded->key->public_key(),
                                                                   .instance = settings_.instance});
    if (own && deps_.loop.WallNow() < own->validity().not_after) {
      if (const Status removed = store_.RemoveNonce(); !removed) {
        deps_.log.Warning("a used nonce could not be removed", {{"error", removed.error()}});
      }
      return Serve(loaded->key, *own);
    }
    no_certificate =
        own ? fmt::format("identity.crt expired at {}", FormatTimestamp(own->validity().not_after))
            : "identity.crt: " + own.error().message;
  }
  Join(*loaded, no_certificate);
}

void Agent::Join(const IdentityStore::Loaded& loaded, const std::string& no_certificate) {
  const auto nonce = store_.ReadNonce();
  const auto give_up = [&](std::string_view why) {
    deps_.log.Error("cannot register", {{"error", fmt::format("{}, and {}", no_certificate, why)}});
    EndWith(kExitCannotJoin);
  };
  if (!nonce) return give_up(nonce.error().message);
  if (!*nonce) return give_up(fmt::format("{} is missing", store_.PathOf(IdentityStore::kNonce)));
  const auto claims = crypto::ReadUnverifiedToken(**nonce, crypto::TokenKind::kAgent);
  if (!claims) return give_up("nonce.jwt: " + claims.error().message);
  if (settings_.instance && settings_.instance->text() != claims->subject) {
    return give_up(fmt::format("nonce.jwt is for instance {}, NSTANCE_INSTANCE_ID says {}",
                               claims->subject, settings_.instance->text()));
  }
  if (const Status kept = store_.AddConfigHash(claims->config_hash); !kept) {
    deps_.log.Warning("the configuration's hash could not be kept", {{"error", kept.error()}});
  }
  deps_.log.Info("registering", {{"instance", claims->subject},
                                 {"token_id", claims->token_id},
                                 {"expires_at", claims->expires_at}});
  registrar_ = std::make_unique<Registrar>(
      Registrar::Deps{.loop = deps_.loop,
                      .dialer = deps_.dialer,
                      .store = store_,
                      .jitter = jitter_,
                      .log = deps_.log.For("registration")},
      Registrar::Job{.server = settings_.registration,
                     .nonce = **nonce,
                     .claims = *claims,
                     .key = loaded.key,
                     .names = Names()},
      [this, key = loaded.key](Result<OwnCertificate> own) { Joined(key, std::move(own)); });
  registrar_->Start();
}

void Agent::Joined(const PrivateKeyPtr& key, Result<OwnCertificate> own) {
  if (!own) {
    deps_.log.Error("the nonce has expired; this instance cannot register any more",
                    {{"error", own.error()}});
    return EndWith(kExitCannotJoin);
  }
  deps_.log.Info("registered",
                 {{"instance", own->instance}, {"expires_at", own->validity().not_after}});
  const std::unique_ptr<Registrar> done = std::move(registrar_);
  Serve(key, *own);
}

HostNames Agent::Names() const {
  HostNames names = deps_.host.Names();
  if (!settings_.hostname.empty()) names.hostname = settings_.hostname;
  if (!settings_.ipv4.empty()) names.ipv4 = settings_.ipv4;
  if (!settings_.ipv6.empty()) names.ipv6 = settings_.ipv6;
  if (!names.hostname.empty() && !IsHostname(names.hostname)) {
    // The server would refuse the whole registration for it.
    deps_.log.Warning("the host's name is no host name and is not told",
                      {{"hostname", names.hostname}});
    names.hostname.clear();
  }
  return names;
}

// --- Service ------------------------------------------------------------------------------------

void Agent::Serve(const PrivateKeyPtr& key, const OwnCertificate& own) {
  present_.emplace(Present{.key = key, .certificate = own.certificate});
  MakeParts(own);
  deps_.log.Info("serving", {{"instance", own.instance},
                             {"certificate_expires_at", own.validity().not_after},
                             {"renewal_at", renewer_->machine().due()}});
  reporter_->Start();
  renewer_->Start();
  link_->Start();
}

void Agent::MakeParts(const OwnCertificate& own) {
  renewer_ = std::make_unique<Renewer>(
      Renewer::Deps{
          .loop = deps_.loop, .store = store_, .jitter = jitter_, .log = deps_.log.For("renewal")},
      own,
      Renewer::Owner{.channel = [this] { return link_ == nullptr ? nullptr : link_->ready(); },
                     .renewed =
                         [this](PrivateKeyPtr key, const crypto::Certificate& certificate) {
                           present_.emplace(
                               Present{.key = std::move(key), .certificate = certificate});
                           link_->Renewed();
                         }});
  reporter_ = std::make_unique<Reporter>(
      Reporter::Deps{.loop = deps_.loop,
                     .host = deps_.host,
                     .store = store_,
                     .received = deps_.received,
                     .jitter = jitter_,
                     .log = deps_.log.For("report")},
      Reporter::Facts{.instance_id = own.instance.text(),
                      .interval = settings_.report_interval,
                      .interface = settings_.metrics_interface,
                      .ebpf = settings_.ebpf,
                      .started_at = started_at_},
      [this](api::HealthReportRequest report) { return link_->SendReport(std::move(report)); });
  link_ = std::make_unique<Link>(
      Link::Deps{.loop = deps_.loop,
                 .dialer = deps_.dialer,
                 .jitter = jitter_,
                 .log = deps_.log.For("link")},
      settings_.agent,
      Link::Owner{.tls = [this] { return Material(); },
                  .expired = [this] { return renewer_->machine().Expired(deps_.loop.WallNow()); },
                  .connected = [this] { renewer_->Reconnected(); },
                  .health_opened =
                      [this] {
                        reporter_->StreamOpened();
                        Settle();
                      },
                  .health_closed = [this] { reporter_->StreamClosed(); },
                  .health_drained = [this] { reporter_->StreamDrained(); },
                  .key_request = [this](const api::KeyGenerationRequest& r) { OnKeyRequest(r); },
                  .file = [this](const api::FileTransfer& file) { OnFile(file); }});
}

void Agent::Settle() {
  if (!deps_.settled) return;
  settling_ = deps_.loop.CallAfter(kSettledAfter, [this] {
    if (link_->health_open()) deps_.settled();
  });
}

RpcTls Agent::Material() {
  RefreshRoots();
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain = {present_->certificate};
  material->key = present_->key;
  material->roots = roots_;
  return material;
}

void Agent::RefreshRoots() {
  auto roots = store_.ReadRoots();
  if (!roots) {
    deps_.log.Error("ca.crt cannot be used; the roots read before stay in force",
                    {{"error", roots.error()}});
    return;
  }
  if (*roots == roots_) return;
  deps_.log.Info("ca.crt has changed", {{"roots", roots->size()}});
  roots_ = *std::move(roots);
}

void Agent::OnKeyRequest(const api::KeyGenerationRequest& request) {
  if (!request.key_names.empty() && !std::exchange(told_keys_, true)) {
    deps_.log.Warning("the server asks for keys, which this build does not make",
                      {{"keys", request.key_names.size()}});
  }
  if (request.rebind.empty()) return;
  deps_.log.Info("the server asks for a new certificate", {{"claim", request.rebind}});
  renewer_->Rebind();
}

void Agent::OnFile(const api::FileTransfer& file) {
  if (std::exchange(told_files_, true)) return;
  deps_.log.Warning("the server sends files, which this build does not write",
                    {{"file", file.filename}, {"bytes", file.content.size()}});
}

// --- Looking in, and the end --------------------------------------------------------------------

std::string Agent::NotReady() const {
  if (stopping_) return "stopping\n";
  if (!present_) {
    return registrar_ == nullptr
               ? std::string("not registered\n")
               : fmt::format("not registered: {}\n", registrar_->last_error().message);
  }
  std::string reasons;
  const Renewal& renewal = renewer_->machine();
  if (renewal.Expired(deps_.loop.WallNow())) {
    reasons += fmt::format("the certificate expired at {}\n",
                           FormatTimestamp(renewal.validity().not_after));
  }
  if (link_->health_open()) return reasons;
  const std::string problem = link_->Problem();
  reasons += problem.empty() ? "the health stream is not open\n"
                             : fmt::format("not connected: {}\n", problem);
  return reasons;
}

HttpAnswer Agent::Page(const HttpQuestion& question) const {
  if (question.path == "/healthz") return {.status = 200, .body = "ok\n"};
  if (question.path != "/readyz") {
    return {.status = 404, .body = "not found: there are /healthz and /readyz\n"};
  }
  std::string reasons = NotReady();
  if (reasons.empty()) return {.status = 200, .body = "ok\n"};
  return {.status = 503, .body = std::move(reasons)};
}

void Agent::Stop() {
  if (std::exchange(stopping_, true)) return;
  deps_.log.Info("stopping");
  settling_.Cancel();
  registrar_.reset();
  reporter_.reset();
  if (renewer_ != nullptr) renewer_->Stop();
  if (link_ == nullptr) return EndWith(kExitStopped);
  link_->Stop(deps_.loop.Now() + kStopLimit, [this] { EndWith(kExitStopped); });
}

}  // namespace nstance::agent
