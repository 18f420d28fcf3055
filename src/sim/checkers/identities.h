// Identities: every certificate that stored state has ever stood for, by serial.
//
// A record (of an instance, of an operator) names the key and the serial of its present generation.
// A certificate that somebody was given belongs to one of them, or to nothing.
#pragma once

#include <map>
#include <string>

#include "crypto/certificate.h"
#include "sim/sim_object_store.h"
#include "sim/world/truth.h"

namespace nstance::sim {

struct KnownIdentity {
  crypto::Role role = crypto::Role::kAgent;
  std::string tenant;
  std::string name;  // The CN.
  std::string public_key_pem;
};

class Identities {
 public:
  // Of every change; truth is the new one.
  void OnChange(const SimChange& change, const Truth& truth);
  // Null: nothing that was ever stored has this serial.
  [[nodiscard]] const KnownIdentity* Find(const std::string& serial) const;

 private:
  std::map<std::string, KnownIdentity> by_serial_;
};

}  // namespace nstance::sim
