#include "storage/certificate_issuer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/fault_point.h"
#include "base/json.h"
#include "base/metric_families.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "core/object_layout.h"
#include "core/stored_object.h"
#include "crypto/checksum.h"

namespace nstance {
namespace {

// Between this server's clock and the store's: beyond it one of them is wrong, and nobody knows
// which (faults.md 4.8).
constexpr Duration kMaxClockDifference = Duration::Hours(1);

struct Named {
  TenantId tenant;
  std::string id;
  std::string_view certificate;
};

Named NameOf(const crypto::ClientSubject& subject) {
  return std::visit(Overloaded{[](const crypto::AgentSubject& agent) {
                                 return Named{agent.tenant, agent.instance.text(), "agent"};
                               },
                               [](const crypto::OperatorSubject& who) {
                                 return Named{
                                     who.tenant,
                                     std::visit([](const auto& id) { return id.text(); }, who.id),
                                     "operator"};
                               }},
                    subject);
}

// {"batch_size","certificates":[{"certificate_name","serial_number","expires_at"}],"instance_id",
//  "issued_at","tenant","epoch","write_id","checksum"}
std::string EncodeLog(const CertificateOrder& order, std::int64_t epoch,
                      std::string_view write_id) {
  const Named name = NameOf(order.subject);
  std::string certificate = "{\"certificate_name\":";
  json::AppendString(certificate, name.certificate);
  AppendText(certificate, "serial_number", order.serial.decimal());
  AppendTime(certificate, "expires_at", order.issued_at + order.life);
  std::string out = "{\"batch_size\":1,\"certificates\":[" + certificate + "}]";
  AppendText(out, "instance_id", name.id);
  AppendTime(out, "issued_at", order.issued_at);
  AppendText(out, "tenant", name.tenant.text());
  AppendInteger(out, "epoch", epoch);
  AppendText(out, "write_id", write_id);
  out += '}';
  return crypto::AppendChecksum(out);
}

bool Holds(std::string_view bytes, const std::string& serial) {
  const Result<json::Value> entry = json::Parse(bytes);
  if (!entry.has_value()) return false;
  const json::Value* list = entry->Find("certificates");
  if (list == nullptr || list->if_array() == nullptr) return false;
  return std::ranges::any_of(*list->if_array(), [&](const json::Value& one) {
    const json::Value* number = one.Find("serial_number");
    return number != nullptr && number->if_string() != nullptr && *number->if_string() == serial;
  });
}

const metrics::Family& Issued() {
  static const metrics::Family kFamily = {.name = "certificates_issued_total",
                                          .help = "Certificates that were signed and logged.",
                                          .labels = {"kind"},
                                          .buckets = {}};
  return kFamily;
}

}  // namespace

void CertificateIssuer::Declare(metrics::Snapshot& page) {
  nstance::Declare(page, Issued(), metrics::Kind::kCounter);
}

CertificateIssuer::CertificateIssuer(Deps deps, Options options, ClusterIdentityRef identity)
    : deps_(deps), options_(std::move(options)), identity_(std::move(identity)) {}

CertificateIssuer::~CertificateIssuer() = default;

Status CertificateIssuer::CheckClock(Timestamp now) const {
  if (const std::optional<Timestamp> store_now = deps_.leader.store_now()) {
    const Duration ahead = now - *store_now;
    if (ahead > kMaxClockDifference || ahead < Duration() - kMaxClockDifference) {
      return Fail(Unavailable("no certificate is signed: by this server's clock it is " +
                              FormatTimestamp(now) + ", by the store's " +
                              FormatTimestamp(*store_now)));
    }
  }
  const crypto::CertificateFacts& facts = ca().facts();
  if (now >= facts.not_before && now < facts.not_after) return {};
  return Fail(Unavailable("no certificate can be signed: by this server's clock it is " +
                          FormatTimestamp(now) + ", and the CA is valid from " +
                          FormatTimestamp(facts.not_before) + " to " +
                          FormatTimestamp(facts.not_after)));
}

Duration CertificateIssuer::Clamp(Duration life, Timestamp issued_at) const {
  return std::min(life, ca().facts().not_after - issued_at);
}

crypto::SerialNumber CertificateIssuer::NewSerial() {
  std::array<std::uint8_t, 16> random{};
  deps_.random.Fill(random);
  return crypto::SerialNumber::FromRandom(random);
}

void CertificateIssuer::Issue(CertificateOrder order, Done done) {
  const std::uint64_t number = next_++;
  Job& job = jobs_.try_emplace(number, Job{.order = std::move(order), .done = std::move(done)})
                 .first->second;
  job.log_at = job.order.issued_at;
  job.call = deps_.loop.CallAfter({}, [this, number] { WriteLog(number); });
}

void CertificateIssuer::WriteLog(std::uint64_t number) {
  if (!deps_.leader.may_start(deps_.leader.store_timeout)) {
    return Finish(number, Fail(Unavailable("the lease is about to end")));
  }
  Job& job = jobs_.at(number);
  std::array<std::uint8_t, 16> random{};
  deps_.random.Fill(random);
  const Named name = NameOf(job.order.subject);
  job.put = std::make_unique<SettledPut>(
      SettledPut::Deps{deps_.loop, deps_.store, deps_.jitter},
      SettledPut::Request{
          .put = {.key = CertificateLogKey(
                      options_.shard,
                      {.tenant = name.tenant, .at = job.log_at, .subject = name.id}),
                  .bytes = EncodeLog(job.order, deps_.leader.epoch, Base64UrlEncode(random)),
                  .condition = IfAbsent{}},
          .deadline = deps_.loop.Now() + options_.settle_limit},
      [this, number](const Result<ObjectVersion>& version) { OnLogged(number, version); });
  AtStep(job.order.log_step);
  job.put->Start();
}

void CertificateIssuer::OnLogged(std::uint64_t number, const Result<ObjectVersion>& version) {
  if (version.has_value() || Planted(Plant::kCertificateBeforeLog)) return Sign(number);
  if (version.error().code == Code::kAborted) return ReadLog(number);
  Finish(number,
         Fail(Unavailable("the certificate log cannot be written: " + version.error().message)));
}

// Another entry of that millisecond: ours from an earlier try, or another certificate's.
void CertificateIssuer::ReadLog(std::uint64_t number) {
  Job& job = jobs_.at(number);
  const Named name = NameOf(job.order.subject);
  job.call = deps_.store.Get(
      CertificateLogKey(options_.shard,
                        {.tenant = name.tenant, .at = job.log_at, .subject = name.id}),
      [this, number](const Result<Object>& object) {
        Job& at = jobs_.at(number);
        if (!object.has_value()) {
          return Finish(number, Fail(Unavailable("the certificate log cannot be read: " +
                                                 object.error().message)));
        }
        if (Holds(object->bytes, at.order.serial.decimal())) return Sign(number);
        at.log_at = at.log_at + Duration::Milliseconds(1);
        WriteLog(number);
      });
}

// The epoch is asked for directly before: a leader that was replaced signs nothing (R6, F12).
void CertificateIssuer::Sign(std::uint64_t number) {
  if (!deps_.leader.may_start({}) && !Planted(Plant::kSignsAfterLoss)) {
    return Finish(number, Fail(Unavailable("this server no longer leads")));
  }
  const CertificateOrder& order = jobs_.at(number).order;
  AtStep(order.sign_step);
  Result<crypto::Certificate> certificate = identity_->authority->IssueClient(
      order.subject, order.key,
      {.serial = order.serial, .issued_at = order.issued_at, .life = order.life});
  if (!certificate.has_value()) return Finish(number, Fail(std::move(certificate).error()));
  if (deps_.metrics != nullptr) {
    const std::array labels = {NameOf(order.subject).certificate};
    deps_.metrics->Counter(Issued(), labels).Add();
  }
  Finish(number, certificate->ToPem());
}

void CertificateIssuer::Finish(std::uint64_t number, Result<std::string> pem) {
  Done done = std::move(jobs_.at(number).done);
  // What called this is the job's own: it goes in a turn of its own.
  auto job = std::make_shared<Job>(std::move(jobs_.at(number)));
  jobs_.erase(number);
  deps_.loop.Post([job] {});
  done(std::move(pem));
}

}  // namespace nstance
