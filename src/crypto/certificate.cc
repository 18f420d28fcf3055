#include "crypto/certificate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "crypto/certificate_oids.h"
#include "crypto/der.h"
#include "crypto/pem.h"

namespace nstance::crypto {
namespace {

using der::View;

constexpr std::array<std::uint8_t, 22> kAgentExtension = {
    0x30, 0x14, 0x06, 0x09, 0x2B, 0x06, 0x01, 0x04, 0x01, 0xBD, 0x84,
    0x3F, 0x01, 0x04, 0x07, 0x13, 0x05, 'a',  'g',  'e',  'n',  't'};
constexpr std::array<std::uint8_t, 25> kOperatorExtension = {
    0x30, 0x17, 0x06, 0x09, 0x2B, 0x06, 0x01, 0x04, 0x01, 0xBD, 0x84, 0x3F, 0x01,
    0x04, 0x0A, 0x13, 0x08, 'o',  'p',  'e',  'r',  'a',  't',  'o',  'r'};

constexpr std::uint8_t kTrue = 0xFF;
constexpr unsigned kKeyCertSignBit = 0x04;
// Real certificates have about ten; the bound keeps the search for doubles cheap.
constexpr std::size_t kMaxExtensions = 32;

Bytes ToBytes(View view) { return Bytes(view.begin(), view.end()); }

SubjectAttribute AttributeOf(View oid) {
  if (oid.size() != 3 || oid[0] != oid::kAttributeArcFirst || oid[1] != oid::kAttributeArcSecond) {
    return SubjectAttribute::kOther;
  }
  switch (oid[2]) {
    case oid::kCommonNameNumber: return SubjectAttribute::kCommonName;
    case oid::kCountryNumber: return SubjectAttribute::kCountry;
    case oid::kLocalityNumber: return SubjectAttribute::kLocality;
    case oid::kProvinceNumber: return SubjectAttribute::kProvince;
    case oid::kStreetNumber: return SubjectAttribute::kStreet;
    case oid::kOrganizationNumber: return SubjectAttribute::kOrganization;
    case oid::kOrganizationalUnitNumber: return SubjectAttribute::kOrganizationalUnit;
    case oid::kPostalCodeNumber: return SubjectAttribute::kPostalCode;
    default: return SubjectAttribute::kOther;
  }
}

Result<SubjectPart> ReadSubjectPart(View content) {
  der::Reader reader(content);
  ASSIGN_OR_RETURN(const der::Element oid, reader.Expect(der::kOid, "subject attribute"));
  ASSIGN_OR_RETURN(const der::Element value, reader.Next("subject value"));
  RETURN_IF_ERROR(reader.ExpectEnd("subject attribute"));
  return SubjectPart{.attribute = AttributeOf(oid.content),
                     .string_tag = value.tag,
                     .value = std::string(AsText(value.content))};
}

// Several values may share one SET, as Go writes two organizations.
Result<std::vector<SubjectPart>> ReadSubject(View name) {
  std::vector<SubjectPart> parts;
  der::Reader sets(name);
  while (!sets.AtEnd()) {
    ASSIGN_OR_RETURN(const der::Element set, sets.Expect(der::kSet, "subject"));
    der::Reader reader(set.content);
    if (reader.AtEnd()) return Fail(InvalidArgument("subject: empty set"));
    while (!reader.AtEnd()) {
      ASSIGN_OR_RETURN(const der::Element pair, reader.Expect(der::kSequence, "subject"));
      ASSIGN_OR_RETURN(SubjectPart part, ReadSubjectPart(pair.content));
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

// Both forms are read for every year; writers choose by RFC 5280.
Result<Timestamp> ReadTime(der::Reader& reader, std::string_view what) {
  ASSIGN_OR_RETURN(const der::Element element, reader.Next(what));
  std::string digits(AsText(element.content));
  const bool short_year = element.tag == der::kUtcTime && digits.size() == 13;
  const bool long_year = element.tag == der::kGeneralizedTime && digits.size() == 15;
  const bool ends = !digits.empty() && digits.back() == 'Z';
  if (!ends || (!short_year && !long_year)) {
    return Fail(InvalidArgument(fmt::format("{}: not a time in whole seconds of UTC", what)));
  }
  digits.pop_back();
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
    return Fail(InvalidArgument(fmt::format("{}: not a time", what)));
  }
  if (short_year) digits.insert(0, digits[0] < '5' ? "20" : "19");
  const std::string_view d = digits;
  return Under(
      ParseTimestamp(fmt::format("{}-{}-{}T{}:{}:{}Z", d.substr(0, 4), d.substr(4, 2),
                                 d.substr(6, 2), d.substr(8, 2), d.substr(10, 2), d.substr(12, 2))),
      what);
}

Status ReadBasicConstraints(View value, CertificateFacts& facts) {
  ASSIGN_OR_RETURN(const auto sequence, der::ReadOnly(value, der::kSequence, "basic constraints"));
  der::Reader reader(sequence.content);
  if (reader.NextIs(der::kBoolean)) {
    ASSIGN_OR_RETURN(const auto ca, reader.Expect(der::kBoolean, "basic constraints"));
    // FALSE is the default and hence left out in DER.
    if (ca.content.size() != 1 || ca.content[0] != kTrue) {
      return Fail(InvalidArgument("basic constraints: boolean is not TRUE"));
    }
    facts.is_ca = true;
  }
  if (!reader.AtEnd()) RETURN_IF_ERROR(der::ReadInteger(reader, "path length"));
  return reader.ExpectEnd("basic constraints");
}

Status ReadKeyUsage(View value, CertificateFacts& facts) {
  ASSIGN_OR_RETURN(const auto bits, der::ReadOnly(value, der::kBitString, "key usage"));
  if (bits.content.size() < 2 || bits.content[0] > 7) {
    return Fail(InvalidArgument("key usage: no bits"));
  }
  facts.may_sign = (bits.content[1] & kKeyCertSignBit) != 0;
  return {};
}

Status ReadExtendedKeyUsage(View value, CertificateFacts& facts) {
  ASSIGN_OR_RETURN(const auto list, der::ReadOnly(value, der::kSequence, "extended key usage"));
  der::Reader reader(list.content);
  while (!reader.AtEnd()) {
    ASSIGN_OR_RETURN(const auto usage, reader.Expect(der::kOid, "extended key usage"));
    if (std::ranges::equal(usage.content, oid::kServerAuth)) facts.server_auth = true;
    if (std::ranges::equal(usage.content, oid::kClientAuth)) facts.client_auth = true;
  }
  return {};
}

Result<std::string> AddressText(View address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.size() != 4 && address.size() != 16) {
    return Fail(InvalidArgument("alternative names: address of neither 4 nor 16 bytes"));
  }
  inet_ntop(address.size() == 4 ? AF_INET : AF_INET6, address.data(), text.data(),
            static_cast<socklen_t>(text.size()));
  return std::string(text.data());
}

Status ReadAlternativeNames(View value, CertificateFacts& facts) {
  ASSIGN_OR_RETURN(const auto list, der::ReadOnly(value, der::kSequence, "alternative names"));
  der::Reader reader(list.content);
  while (!reader.AtEnd()) {
    ASSIGN_OR_RETURN(const auto name, reader.Next("alternative names"));
    const std::string text(AsText(name.content));
    if (name.tag == der::Primitive(2)) facts.names.dns.push_back(text);
    if (name.tag == der::Primitive(6)) facts.names.uri.push_back(text);
    if (name.tag == der::Primitive(7)) {
      ASSIGN_OR_RETURN(std::string address, AddressText(name.content));
      facts.names.ip.push_back(std::move(address));
    }
  }
  return {};
}

Status ReadKnownExtension(View oid, View value, CertificateFacts& facts) {
  if (std::ranges::equal(oid, oid::kBasicConstraints)) return ReadBasicConstraints(value, facts);
  if (std::ranges::equal(oid, oid::kKeyUsage)) return ReadKeyUsage(value, facts);
  if (std::ranges::equal(oid, oid::kExtendedKeyUsage)) return ReadExtendedKeyUsage(value, facts);
  if (std::ranges::equal(oid, oid::kAlternativeName)) return ReadAlternativeNames(value, facts);
  if (std::ranges::equal(oid, oid::kSubjectKeyId)) {
    ASSIGN_OR_RETURN(const auto id, der::ReadOnly(value, der::kOctetString, "subject key id"));
    facts.subject_key_id = ToBytes(id.content);
  }
  return {};
}

Status ReadExtensions(View list, CertificateFacts& facts) {
  std::vector<View> seen;
  der::Reader extensions(list);
  facts.may_sign = true;
  while (!extensions.AtEnd()) {
    if (seen.size() + facts.roles.size() == kMaxExtensions) {
      return Fail(InvalidArgument(fmt::format("more than {} extensions", kMaxExtensions)));
    }
    ASSIGN_OR_RETURN(const auto extension, extensions.Expect(der::kSequence, "extension"));
    der::Reader reader(extension.content);
    ASSIGN_OR_RETURN(const auto oid, reader.Expect(der::kOid, "extension"));
    if (std::ranges::equal(oid.content, oid::kRole)) {
      // Judged as a whole by VerifyPeer, whatever is inside.
      facts.roles.push_back(ToBytes(extension.whole));
      continue;
    }
    for (const View other : seen) {
      if (std::ranges::equal(other, oid.content)) {
        return Fail(InvalidArgument("one extension stands twice"));
      }
    }
    seen.push_back(oid.content);
    if (reader.NextIs(der::kBoolean)) {
      ASSIGN_OR_RETURN(const auto critical, reader.Expect(der::kBoolean, "extension"));
      if (critical.content.size() != 1 || critical.content[0] != kTrue) {
        return Fail(InvalidArgument("extension: critical is not TRUE"));
      }
    }
    ASSIGN_OR_RETURN(const auto value, reader.Expect(der::kOctetString, "extension"));
    RETURN_IF_ERROR(reader.ExpectEnd("extension"));
    RETURN_IF_ERROR(ReadKnownExtension(oid.content, value.content, facts));
  }
  return {};
}

Status ReadVersionAndSerial(der::Reader& reader, CertificateFacts& facts) {
  ASSIGN_OR_RETURN(const auto version, reader.Expect(der::Constructed(0), "version"));
  constexpr std::array<std::uint8_t, 3> kVersion3 = {der::kInteger, 1, 2};
  if (!std::ranges::equal(version.content, kVersion3)) {
    return Fail(InvalidArgument("certificate is not of version 3"));
  }
  ASSIGN_OR_RETURN(const View serial, der::ReadInteger(reader, "serial number"));
  ASSIGN_OR_RETURN(facts.serial, SerialNumber::FromDer(serial));
  return {};
}

Status ReadSubjectKey(der::Reader& reader, CertificateFacts& facts) {
  ASSIGN_OR_RETURN(const auto spki, reader.Expect(der::kSequence, "public key"));
  Result<PublicKey> key = PublicKey::FromSpki(spki.whole);
  if (key.has_value()) {
    facts.public_key = *key;
  } else {
    facts.key_problem = std::move(key).error().message;
  }
  return {};
}

Result<CertificateFacts> ReadSignedPart(View content) {
  CertificateFacts facts;
  der::Reader reader(content);
  RETURN_IF_ERROR(ReadVersionAndSerial(reader, facts));
  RETURN_IF_ERROR(reader.Expect(der::kSequence, "signature algorithm"));
  ASSIGN_OR_RETURN(const auto issuer, reader.Expect(der::kSequence, "issuer"));
  facts.issuer_der = ToBytes(issuer.whole);
  ASSIGN_OR_RETURN(const auto validity, reader.Expect(der::kSequence, "validity"));
  der::Reader times(validity.content);
  ASSIGN_OR_RETURN(facts.not_before, ReadTime(times, "not before"));
  ASSIGN_OR_RETURN(facts.not_after, ReadTime(times, "not after"));
  RETURN_IF_ERROR(times.ExpectEnd("validity"));
  ASSIGN_OR_RETURN(const auto subject, reader.Expect(der::kSequence, "subject"));
  facts.subject_der = ToBytes(subject.whole);
  ASSIGN_OR_RETURN(facts.subject, ReadSubject(subject.content));
  RETURN_IF_ERROR(ReadSubjectKey(reader, facts));
  ASSIGN_OR_RETURN(const auto wrapped, reader.Expect(der::Constructed(3), "extensions"));
  RETURN_IF_ERROR(reader.ExpectEnd("certificate"));
  ASSIGN_OR_RETURN(const auto list, der::ReadOnly(wrapped.content, der::kSequence, "extensions"));
  RETURN_IF_ERROR(ReadExtensions(list.content, facts));
  return facts;
}

Result<CertificateFacts> ReadCertificate(View input) {
  if (input.size() > kMaxCertificateBytes) {
    return Fail(InvalidArgument(
        fmt::format("{} bytes, {} are allowed", input.size(), kMaxCertificateBytes)));
  }
  ASSIGN_OR_RETURN(const auto outer, der::ReadOnly(input, der::kSequence, "certificate"));
  der::Reader reader(outer.content);
  ASSIGN_OR_RETURN(const auto signed_part, reader.Expect(der::kSequence, "certificate"));
  RETURN_IF_ERROR(reader.Expect(der::kSequence, "signature algorithm"));
  RETURN_IF_ERROR(der::ReadWholeBits(reader, "signature"));
  RETURN_IF_ERROR(reader.ExpectEnd("certificate"));
  return ReadSignedPart(signed_part.content);
}

}  // namespace

std::string_view RoleName(Role role) { return role == Role::kAgent ? "agent" : "operator"; }

std::span<const std::uint8_t> RoleExtension(Role role) {
  if (role == Role::kAgent) return kAgentExtension;
  return kOperatorExtension;
}

Result<Certificate> Certificate::FromDer(std::span<const std::uint8_t> der) {
  ASSIGN_OR_RETURN(CertificateFacts facts, Under(ReadCertificate(der), "certificate"));
  return Certificate(ToBytes(der), std::move(facts));
}

Result<Certificate> Certificate::FromPem(std::string_view pem, InputSource source) {
  ASSIGN_OR_RETURN(const Bytes der, ReadPem(pem, kCertificatePem, source));
  Result<Certificate> certificate = FromDer(der);
  if (!certificate.has_value()) source.Bad("certificate");
  return certificate;
}

std::string Certificate::ToPem() const { return WritePem(kCertificatePem, der_); }

std::optional<std::string_view> Certificate::OnlyPart(SubjectAttribute attribute) const {
  std::optional<std::string_view> found;
  for (const SubjectPart& part : facts_.subject) {
    if (part.attribute != attribute) continue;
    if (found.has_value()) return std::nullopt;
    found = part.value;
  }
  return found;
}

Result<std::vector<Certificate>> TrustBundleFromPem(std::string_view pem, InputSource source) {
  ASSIGN_OR_RETURN(const std::vector<Bytes> blocks,
                   ReadPemBundle(pem, kMaxTrustBundleRoots, source));
  std::vector<Certificate> roots;
  for (const Bytes& block : blocks) {
    const std::string context = fmt::format("root {} of the trust bundle", roots.size() + 1);
    Result<Certificate> root = Under(Certificate::FromDer(block), context);
    if (!root.has_value() || !root->facts().is_ca) {
      source.Bad("certificate");
      if (!root.has_value()) return Fail(std::move(root).error());
      return Fail(InvalidArgument(fmt::format("{}: not a CA certificate", context)));
    }
    roots.push_back(*std::move(root));
  }
  return roots;
}

}  // namespace nstance::crypto
