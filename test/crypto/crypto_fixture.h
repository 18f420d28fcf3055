// Builders for the tests of crypto: keys from small numbers, one cluster, one moment.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/input_probe.h"
#include "base/metrics.h"
#include "base/name.h"
#include "base/prng.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/text.h"
#include "base/time.h"
#include "crypto/certificate_authority.h"
#include "crypto/ed25519.h"

namespace nstance::crypto::test {

template <class T>
T Must(Result<T> result) {
  CHECK(result.has_value(), "{}", result.error().ToString());
  return *std::move(result);
}

inline Bytes Hex(std::string_view text) { return Must(HexDecode(text)); }

inline PrivateKey KeyOf(std::uint8_t number) {
  std::array<std::uint8_t, PrivateKey::kSeedSize> seed{};
  seed.fill(number);
  return PrivateKey::FromSeed(seed);
}

// RFC 8032 section 7.1, test 1.
inline PrivateKey RfcKey() {
  const Bytes seed = Hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  return PrivateKey::FromSeed(std::span<const std::uint8_t, 32>(seed));
}

inline Timestamp At(std::string_view text) { return Must(ParseTimestamp(text)); }
inline Timestamp Noon() { return At("2026-01-01T12:00:00Z"); }

inline TenantId Tenant(std::string_view text) { return Must(TenantId::Parse(text)); }
inline ClusterId Cluster() { return Must(ClusterId::Parse("example-cluster")); }
inline constexpr std::string_view kInstance = "knc06bgm7733st2576nx5jht4ecjw";
inline InstanceId Instance() { return Must(ParsePuidv7(kInstance)); }

inline SerialNumber SerialOf(std::uint8_t number) {
  std::array<std::uint8_t, 16> bytes{};
  bytes.fill(number);
  return SerialNumber::FromRandom(bytes);
}

inline IssueTerms Terms(Duration life = Duration::Hours(24), Timestamp issued_at = Noon()) {
  return {.serial = SerialOf(0x11), .issued_at = issued_at, .life = life};
}

inline CertificateAuthority Authority(std::uint8_t key_number = 1) {
  const CaSubject subject = {.common_name = "Nstance CA",
                             .organization = {"Nstance Cluster example-cluster"}};
  PrivateKey key = KeyOf(key_number);
  Certificate certificate =
      Must(IssueCa(subject, key, Terms(kDefaultCaLife, Noon() - Duration::Hours(1))));
  return Must(CertificateAuthority::Make(std::move(certificate), std::move(key)));
}

inline AgentSubject Agent() { return {.tenant = Tenant("prod"), .instance = Instance()}; }
inline OperatorSubject Operator() { return {.tenant = Tenant("prod"), .id = Cluster()}; }

inline Bytes RandomBytes(Prng& prng, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.Below(256));
  return bytes;
}

// Counts what a parser reports, under the interface `test`.
class CountingSource {
 public:
  [[nodiscard]] InputSource source() { return {.interface = "test", .probe = &probe_}; }

  [[nodiscard]] std::uint64_t Bad() const { return Sum("bad_input_total"); }
  [[nodiscard]] std::uint64_t Limits() const { return Sum("limit_hits_total"); }

 private:
  [[nodiscard]] std::uint64_t Sum(const std::string& family) const {
    const metrics::Snapshot snapshot = registry_.Take();
    const auto found = snapshot.find(family);
    double sum = 0;
    if (found != snapshot.end()) {
      for (const metrics::Series& series : found->second.series) sum += series.value;
    }
    return static_cast<std::uint64_t>(sum);
  }

  metrics::Registry registry_;
  InputProbe probe_{registry_};
};

}  // namespace nstance::crypto::test
