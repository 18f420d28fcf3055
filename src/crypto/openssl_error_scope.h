// OpensslErrorScope: leaves OpenSSL's per-thread error queue as it was found.
//
// A refused certificate or key leaves entries in that queue, and a TLS connection that looks at the
// queue next would take them for its own failure. Internal to crypto.
#pragma once

namespace nstance::crypto {

class OpensslErrorScope final {
 public:
  OpensslErrorScope();
  OpensslErrorScope(const OpensslErrorScope&) = delete;
  OpensslErrorScope& operator=(const OpensslErrorScope&) = delete;
  ~OpensslErrorScope();
};

}  // namespace nstance::crypto
