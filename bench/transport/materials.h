// Keys and certificates of the transport benchmark, as PEM files in one folder that all sides read:
// ca.pem, ca.key, server.pem, server.key, agent.pem, agent.key.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "base/result.h"
#include "crypto/certificate_authority.h"
#include "ports/rpc.h"

namespace nstance::bench {

// A benchmark that cannot do its work says why and ends.
template <class T>
[[nodiscard]] T Must(Result<T> result) {
  if (result.has_value()) return std::move(result).value();
  fmt::print(stderr, "{}\n", result.error().message);
  std::_Exit(1);
}
inline void Must(const Status& status) {
  if (status.has_value()) return;
  fmt::print(stderr, "{}\n", status.error().message);
  std::_Exit(1);
}

// A new authority, a server for 127.0.0.1 and one agent.
void WriteMaterials(const std::filesystem::path& folder, Timestamp now);

// Of `<name>.pem` and `<name>.key`, trusting ca.pem.
[[nodiscard]] RpcTls ReadMaterial(const std::filesystem::path& folder, const std::string& name);

// Issues certificates for as many agents as wanted, each an instance of its own.
class AgentIssuer final {
 public:
  AgentIssuer(const std::filesystem::path& folder, Timestamp now);
  [[nodiscard]] RpcTls Issue(std::uint32_t number) const;

 private:
  crypto::CertificateAuthority authority_;
  Timestamp now_;
};

}  // namespace nstance::bench
