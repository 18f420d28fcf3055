// Certificates for tests: an authority that lives in memory and what it vouches for.
//
// Made with OpenSSL directly, so that what is tested is not tested against itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace nstance::test {

// PEM.
struct TestCertificate {
  std::string certificate;
  std::string key;
};

class TestAuthority final {
 public:
  explicit TestAuthority(const std::string& name = "test authority");
  ~TestAuthority();

  // PEM of the authority's own certificate.
  [[nodiscard]] const std::string& certificate() const { return certificate_; }

  // Valid from an hour ago for a day. `names` are subject alternative names in OpenSSL's form:
  // "DNS:localhost", "IP:127.0.0.1". Good for servers and clients.
  [[nodiscard]] TestCertificate Issue(const std::string& common_name,
                                      const std::vector<std::string>& names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string certificate_;
};

}  // namespace nstance::test
