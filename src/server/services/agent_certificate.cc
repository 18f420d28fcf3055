#include "server/services/agent_certificate.h"

#include <utility>

namespace nstance {

void IssueAgentCertificate(ServiceContext& context, const InstanceRecord& record,
                           std::string_view action, CertificateDone done) {
  const Result<crypto::PublicKey> key = crypto::PublicKey::FromPem(record.public_key_pem);
  const Result<crypto::SerialNumber> serial = crypto::SerialNumber::FromDecimal(record.cert_serial);
  if (!key.has_value() || !serial.has_value() || !record.cert_issued_at ||
      !record.cert_expires_at) {
    return done(Fail(Internal("the record holds no certificate that could be made again")));
  }
  const Timestamp expires = *record.cert_expires_at;
  context.issuer.Issue(
      {.subject = crypto::AgentSubject{.tenant = record.tenant, .instance = record.instance_id},
       .key = *key,
       .serial = *serial,
       .issued_at = *record.cert_issued_at,
       .life = expires - *record.cert_issued_at,
       .log_step = action == "join" ? Step::kR7 : Step::kW4,
       .sign_step = action == "join" ? Step::kR6 : Step::kW5},
      [&context, expires, id = record.instance_id, action = std::string(action),
       done = std::move(done)](Result<std::string> pem) {
        if (!pem.has_value()) return done(Fail(std::move(pem).error()));
        context.log.Info(
            "certificate issued",
            {{"actor", id}, {"action", action}, {"role", "agent"}, {"expires_at", expires}});
        done(IssuedCertificate{.pem = std::move(pem).value(), .expires_at = expires});
      });
}

}  // namespace nstance
