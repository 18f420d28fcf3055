// The operator identity of this tool: a folder with ca.crt, identity.key and identity.crt.
#pragma once

#include <string>

#include "admin/config_commands.h"
#include "base/name.h"
#include "base/result.h"
#include "base/time.h"
#include "ports/rpc.h"

namespace nstance::admin {

struct OperatorIdentity {
  std::string folder = {};
  TenantId tenant = DefaultTenant();  // The certificate's: no request can name another.
  RpcTls tls = {};
};

// What servers would refuse is refused here, with what to do about it: a missing or malformed file,
// a key that is not the certificate's, a certificate that has expired, is of another cluster or no
// operator's.
[[nodiscard]] Result<OperatorIdentity> ReadIdentity(const std::string& folder, const ReadFile& read,
                                                    Timestamp now);

}  // namespace nstance::admin
