#include "crypto/certificate_authority.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "base/overloaded.h"
#include "crypto/certificate_oids.h"
#include "crypto/certificate_writer.h"
#include "crypto/clock_skew.h"

namespace nstance::crypto {
namespace {

constexpr std::size_t kMaxAlternativeNames = 100;
constexpr std::size_t kMaxValues = 16;
constexpr std::size_t kMaxValueBytes = 256;
constexpr std::size_t kMaxUriBytes = 2'048;
constexpr std::size_t kMaxHostBytes = 253;
constexpr std::size_t kMaxLabelBytes = 63;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::unexpected<Error> Refuse(std::string message) {
  return Fail(InvalidArgument(std::move(message)));
}

bool IsHostName(std::string_view name) {
  if (name.size() > kMaxHostBytes) return false;
  if (name.starts_with("*.")) name.remove_prefix(2);
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    const bool characters = std::ranges::all_of(
        label, [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_'; });
    if (label.empty() || label.size() > kMaxLabelBytes || !characters) return false;
    if (label.front() == '-' || label.back() == '-') return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

// scheme ":" rest, printable ASCII without blanks.
bool IsUri(std::string_view uri) {
  const std::size_t colon = uri.find(':');
  if (uri.size() > kMaxUriBytes || colon == std::string_view::npos || colon == 0) return false;
  const std::string_view scheme = uri.substr(0, colon);
  const bool scheme_right = std::ranges::all_of(
      scheme, [](char c) { return IsLetterOrDigit(c) || c == '+' || c == '-' || c == '.'; });
  const bool starts_with_letter = IsLetterOrDigit(scheme.front()) && scheme.front() > '9';
  const bool printable = std::ranges::all_of(uri, [](char c) { return c > 0x20 && c < 0x7F; });
  return scheme_right && starts_with_letter && printable && colon + 1 < uri.size();
}

Result<std::vector<std::string>> CheckedValues(const std::vector<std::string>& values,
                                               std::string_view what) {
  std::vector<std::string> kept;
  for (const std::string& value : values) {
    if (IsBlank(value)) continue;
    if (value.size() > kMaxValueBytes || !IsValidUtf8(value) ||
        std::ranges::any_of(value, IsControl)) {
      return Refuse(fmt::format("{} {} is not 1 to {} bytes of UTF-8 without control characters",
                                what, Quote(value), kMaxValueBytes));
    }
    kept.push_back(value);
  }
  if (kept.size() > kMaxValues) {
    return Refuse(fmt::format("{} has {} values, {} are allowed", what, kept.size(), kMaxValues));
  }
  return kept;
}

Result<AlternativeNames> CheckedNames(const AlternativeNames& names) {
  AlternativeNames kept;
  for (const std::string& dns : names.dns) {
    if (IsBlank(dns)) continue;
    if (!IsHostName(dns)) return Refuse(fmt::format("dns {} is not a host name", Quote(dns)));
    kept.dns.push_back(dns);
  }
  for (const std::string& ip : names.ip) {
    if (IsBlank(ip)) continue;
    if (AddressBytes(ip).empty()) return Refuse(fmt::format("ip {} is not an address", Quote(ip)));
    kept.ip.push_back(ip);
  }
  for (const std::string& uri : names.uri) {
    if (IsBlank(uri)) continue;
    if (!IsUri(uri)) return Refuse(fmt::format("uri {} is not a URI with a scheme", Quote(uri)));
    kept.uri.push_back(uri);
  }
  const std::size_t count = kept.dns.size() + kept.ip.size() + kept.uri.size();
  if (count > kMaxAlternativeNames) {
    return Refuse(fmt::format("{} alternative names, {} are allowed", count, kMaxAlternativeNames));
  }
  return kept;
}

// The names of formats.md 4.1: the fixed ones first, then the given hosts, each once.
Result<AlternativeNames> ServerNames(const std::vector<std::string>& hosts) {
  AlternativeNames names = {
      .dns = {"nstance-server", "localhost"}, .ip = {"127.0.0.1", "::1"}, .uri = {}};
  std::vector<Bytes> addresses = {AddressBytes("127.0.0.1"), AddressBytes("::1")};
  for (const std::string& host : hosts) {
    const Bytes address = AddressBytes(host);
    const bool unspecified =
        !address.empty() && std::ranges::all_of(address, [](std::uint8_t b) { return b == 0; });
    if (unspecified) continue;
    if (address.empty()) {
      if (std::ranges::find(names.dns, host) == names.dns.end()) names.dns.push_back(host);
    } else if (std::ranges::find(addresses, address) == addresses.end()) {
      names.ip.push_back(host);
      addresses.push_back(address);
    }
  }
  return CheckedNames(names);
}

std::string OperatorIdText(const std::variant<ClusterId, Puidv7>& id) {
  return std::visit([](const auto& value) { return value.text(); }, id);
}

std::vector<SubjectGroup> ClientName(const ClientSubject& subject) {
  return std::visit(Overloaded{[](const AgentSubject& agent) {
                                 std::vector<std::string> unit;
                                 if (agent.pool == PoolState::kUnclaimed) unit.emplace_back("pool");
                                 return std::vector<SubjectGroup>{
                                     {oid::kOrganizationNumber, {agent.tenant.text()}},
                                     {oid::kOrganizationalUnitNumber, std::move(unit)},
                                     {oid::kCommonNameNumber, {agent.instance.text()}}};
                               },
                               [](const OperatorSubject& op) {
                                 return std::vector<SubjectGroup>{
                                     {oid::kOrganizationNumber, {op.tenant.text()}},
                                     {oid::kCommonNameNumber, {OperatorIdText(op.id)}}};
                               }},
                    subject);
}

// Peers would refuse what these two refuse; better to say so to whoever asked.
Status CheckOperatorId(const ClientSubject& subject) {
  const auto* op = std::get_if<OperatorSubject>(&subject);
  if (op == nullptr) return {};
  const auto* id = std::get_if<Puidv7>(&op->id);
  if (id != nullptr && id->prefix() != "opr") {
    return Refuse(fmt::format("operator id {} does not start with opr", Quote(id->text())));
  }
  return {};
}

Status CheckPeerLife(const IssueTerms& terms) {
  if (terms.life > kMaxPeerLife) {
    return Refuse(fmt::format("life {} is above {}", FormatDuration(terms.life),
                              FormatDuration(kMaxPeerLife)));
  }
  return {};
}

Status SetTimes(const IssueTerms& terms, CertificateParts& parts) {
  if (terms.life < Duration::Seconds(1)) {
    return Refuse(fmt::format("life {} is not positive", FormatDuration(terms.life)));
  }
  const Timestamp issued_at = terms.issued_at.TruncatedToSecond();
  parts.serial = terms.serial;
  parts.not_before = issued_at - kNotBeforeMargin;
  parts.not_after = (issued_at + terms.life).TruncatedToSecond();
  return {};
}

struct IssuerView {
  const Certificate& certificate;
  const PrivateKey& key;
};

// notBefore may be before the issuer's: the margin would otherwise keep a new CA from issuing.
Result<Certificate> Issue(const IssuerView& issuer, const PublicKey& key, const IssueTerms& terms,
                          CertificateParts parts) {
  RETURN_IF_ERROR(SetTimes(terms, parts));
  const CertificateFacts& ca = issuer.certificate.facts();
  if (parts.not_after > ca.not_after) {
    return Fail(FailedPrecondition(
        fmt::format("certificate would end at {}, after the CA's end at {}",
                    FormatTimestamp(parts.not_after), FormatTimestamp(ca.not_after))));
  }
  if (terms.issued_at + kClockSkew < ca.not_before) {
    return Fail(FailedPrecondition(fmt::format("issue time {} is before the CA's start at {}",
                                               FormatTimestamp(terms.issued_at),
                                               FormatTimestamp(ca.not_before))));
  }
  const Bytes key_id =
      ca.subject_key_id.empty() ? SubjectKeyIdOf(issuer.key.public_key()) : ca.subject_key_id;
  parts.issuer_der = ca.subject_der;
  parts.issuer_key_id = key_id;
  return Certificate::FromDer(WriteCertificate(parts, key, issuer.key));
}

}  // namespace

Result<Certificate> IssueCa(const CaSubject& subject, const PrivateKey& key,
                            const IssueTerms& terms) {
  ASSIGN_OR_RETURN(auto organization, CheckedValues(subject.organization, "organization"));
  ASSIGN_OR_RETURN(auto common_name, CheckedValues({subject.common_name}, "cn"));
  if (common_name.empty()) return Refuse("cn of a CA is empty");
  CertificateParts parts;
  parts.shape = CertificateShape::kCa;
  RETURN_IF_ERROR(SetTimes(terms, parts));
  parts.serial = SerialNumber::One();
  parts.subject = {{oid::kCountryNumber, {"US"}},
                   {oid::kOrganizationNumber, std::move(organization)},
                   {oid::kCommonNameNumber, std::move(common_name)}};
  return Certificate::FromDer(WriteCertificate(parts, key.public_key(), key));
}

Result<CertificateAuthority> CertificateAuthority::Make(Certificate certificate, PrivateKey key) {
  const CertificateFacts& facts = certificate.facts();
  if (facts.public_key != key.public_key()) {
    return Fail(FailedPrecondition("ca.key does not belong to ca.crt"));
  }
  if (!facts.is_ca || !facts.may_sign) {
    return Refuse("ca.crt is not the certificate of a CA that may sign certificates");
  }
  return CertificateAuthority(std::move(certificate), std::move(key));
}

Result<Certificate> CertificateAuthority::IssueClient(const ClientSubject& subject,
                                                      const PublicKey& key,
                                                      const IssueTerms& terms) const {
  RETURN_IF_ERROR(CheckPeerLife(terms));
  RETURN_IF_ERROR(CheckOperatorId(subject));
  CertificateParts parts;
  parts.shape = CertificateShape::kClient;
  parts.subject = ClientName(subject);
  parts.role_extension =
      RoleExtension(std::holds_alternative<AgentSubject>(subject) ? Role::kAgent : Role::kOperator);
  return Issue({certificate_, key_}, key, terms, std::move(parts));
}

Result<Certificate> CertificateAuthority::IssueServer(const ServerSubject& subject,
                                                      const PublicKey& key,
                                                      const IssueTerms& terms) const {
  RETURN_IF_ERROR(CheckPeerLife(terms));
  CertificateParts parts;
  parts.shape = CertificateShape::kServer;
  parts.subject = {{oid::kOrganizationNumber, {"Nstance Server"}},
                   {oid::kCommonNameNumber, {"nstance-server"}}};
  ASSIGN_OR_RETURN(parts.names, ServerNames(subject.hosts));
  return Issue({certificate_, key_}, key, terms, std::move(parts));
}

Result<Certificate> CertificateAuthority::IssueFile(const FileSubject& subject,
                                                    const PublicKey& key,
                                                    const IssueTerms& terms) const {
  ASSIGN_OR_RETURN(auto country, CheckedValues(subject.country, "country"));
  ASSIGN_OR_RETURN(auto organization, CheckedValues(subject.organization, "organization"));
  ASSIGN_OR_RETURN(auto locality, CheckedValues(subject.locality, "locality"));
  ASSIGN_OR_RETURN(auto province, CheckedValues(subject.province, "province"));
  ASSIGN_OR_RETURN(auto street, CheckedValues(subject.street, "street"));
  ASSIGN_OR_RETURN(auto postal_code, CheckedValues(subject.postal_code, "postal_code"));
  ASSIGN_OR_RETURN(auto common_name, CheckedValues({subject.common_name}, "cn"));
  if (common_name.empty()) return Refuse("cn of a certificate is empty");
  CertificateParts parts;
  parts.shape = subject.kind == FileCertificateKind::kServer ? CertificateShape::kServer
                                                             : CertificateShape::kClient;
  parts.subject = {{oid::kCountryNumber, std::move(country)},
                   {oid::kProvinceNumber, std::move(province)},
                   {oid::kLocalityNumber, std::move(locality)},
                   {oid::kStreetNumber, std::move(street)},
                   {oid::kPostalCodeNumber, std::move(postal_code)},
                   {oid::kOrganizationNumber, std::move(organization)},
                   {oid::kCommonNameNumber, std::move(common_name)}};
  ASSIGN_OR_RETURN(parts.names, CheckedNames(subject.names));
  return Issue({certificate_, key_}, key, terms, std::move(parts));
}

}  // namespace nstance::crypto
