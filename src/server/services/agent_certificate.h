// The certificate that an instance's record tells of, logged and signed: the last step of both a
// registration and a renewal, and the same for both, so that what is asked again is given again,
// byte for byte.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "core/instance_record.h"
#include "server/services/service_context.h"

namespace nstance {

struct IssuedCertificate {
  std::string pem = {};
  Timestamp expires_at = {};
};

// `action` is the word of the log line: "join", "renew". `done` is called once, never from inside.
// Errors: those of CertificateIssuer; kInternal when the record tells of none.
using CertificateDone = std::function<void(Result<IssuedCertificate>)>;
void IssueAgentCertificate(ServiceContext& context, const InstanceRecord& record,
                           std::string_view action, CertificateDone done);

}  // namespace nstance
