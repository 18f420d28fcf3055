// CertificateAuthority: issues the certificates of a cluster.
//
// Everything in a certificate comes from a typed request of our own; of what a peer sends, only the
// public key goes in. Issuing is deterministic: the same subject, terms and authority give the same
// bytes, so a certificate whose answer was lost is made again from its record (serial and issue
// time).
//
// Common to all: X.509 v3, signed with Ed25519; subject in the order C, ST, L, street, postal code,
// O, OU, CN, values as PrintableString when all their characters allow it, else UTF8String
// (as Go writes them); critical key usage and basic constraints; subject key id = first 20 bytes of
// the SHA-256 of the key; authority key id = that of the issuer; notBefore = issue time - 5 min, so
// that a client with a slow clock can use it at once; notAfter = issue time + life; whole seconds.
//
// What is refused, as kInvalidArgument unless told otherwise:
//   - a life that is not positive; for clients and servers one above 8,760 h, which no peer would
//     accept
//   - kFailedPrecondition: a life that ends after the authority's own, or an issue time before it
//   - names that are malformed, see each request
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"
#include "crypto/certificate.h"
#include "crypto/ed25519.h"
#include "crypto/serial_number.h"

namespace nstance::crypto {

inline constexpr Duration kNotBeforeMargin = Duration::Minutes(5);
// Longest life of a client or server certificate; Go servers issue operator certificates of a year.
inline constexpr Duration kMaxPeerLife = Duration::Hours(8'760);
inline constexpr Duration kDefaultCaLife = Duration::Hours(87'600);

// What every certificate needs besides its subject.
struct IssueTerms {
  SerialNumber serial = SerialNumber::One();
  Timestamp issued_at;  // The fraction of the second is dropped.
  Duration life;
};

struct AgentSubject {
  TenantId tenant;
  InstanceId instance;
  PoolState pool = PoolState::kNone;
};

struct OperatorSubject {
  TenantId tenant;
  // The cluster's id, or an id with prefix `opr` for operators made by the admin tool.
  std::variant<ClusterId, Puidv7> id;
};

using ClientSubject = std::variant<AgentSubject, OperatorSubject>;

// SANs of a gRPC or election server, on top of the fixed nstance-server, localhost, 127.0.0.1 and
// ::1. Each host is an address or a DNS name; blanks, the unspecified addresses and repetitions are
// left out.
struct ServerSubject {
  std::vector<std::string> hosts;
};

enum class FileCertificateKind : std::uint8_t { kClient, kServer };

// A certificate that an agent writes to a file for a workload. Values are rendered; blanks are
// dropped. Limits: 100 alternative names, 16 values per subject attribute, 256 bytes each; no
// control characters. `dns` are host names, a first label `*` allowed; `ip` must parse; `uri` needs
// a scheme.
struct FileSubject {
  FileCertificateKind kind = FileCertificateKind::kClient;
  std::string common_name;
  std::vector<std::string> organization;
  std::vector<std::string> country;
  std::vector<std::string> province;
  std::vector<std::string> locality;
  std::vector<std::string> street;
  std::vector<std::string> postal_code;
  AlternativeNames names;
};

struct CaSubject {
  std::string common_name = "Nstance CA";
  std::vector<std::string> organization;  // Default of the caller: "Nstance Cluster <cluster-id>".
};

// A self-signed root for `key`: C=US, serial 1, path length 1.
[[nodiscard]] Result<Certificate> IssueCa(const CaSubject& subject, const PrivateKey& key,
                                          const IssueTerms& terms);

class CertificateAuthority final {
 public:
  // kFailedPrecondition "ca.key does not belong to ca.crt" when they differ; kInvalidArgument when
  // the certificate is not one of a CA that may sign.
  [[nodiscard]] static Result<CertificateAuthority> Make(Certificate certificate, PrivateKey key);

  [[nodiscard]] const Certificate& certificate() const { return certificate_; }

  // EKU clientAuth, the role extension, no SAN.
  [[nodiscard]] Result<Certificate> IssueClient(const ClientSubject& subject, const PublicKey& key,
                                                const IssueTerms& terms) const;
  // O=Nstance Server, CN=nstance-server, EKU serverAuth.
  [[nodiscard]] Result<Certificate> IssueServer(const ServerSubject& subject, const PublicKey& key,
                                                const IssueTerms& terms) const;
  // EKU by kind, no role.
  [[nodiscard]] Result<Certificate> IssueFile(const FileSubject& subject, const PublicKey& key,
                                              const IssueTerms& terms) const;

 private:
  CertificateAuthority(Certificate certificate, PrivateKey key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  Certificate certificate_;
  PrivateKey key_;
};

}  // namespace nstance::crypto
