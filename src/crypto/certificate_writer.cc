#include "crypto/certificate_writer.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/core.h>

#include "base/check.h"
#include "crypto/certificate_oids.h"
#include "crypto/der.h"
#include "crypto/digest.h"

namespace nstance::crypto {
namespace {

using der::View;

constexpr std::size_t kKeyIdSize = 20;
// From 2050 on times have four digits for the year (RFC 5280, 4.1.2.5).
constexpr int kFirstGeneralizedYear = 2050;
constexpr int kFirstUtcYear = 1950;

void Append(Bytes& out, View bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

// The characters that Go writes as PrintableString: those of X.680 without exceptions.
bool IsPrintable(std::string_view text) {
  constexpr std::string_view kPunctuation = " '()+,-./:=?";
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kPunctuation.contains(c);
  });
}

Bytes EncodeName(const std::vector<SubjectGroup>& subject) {
  Bytes sets;
  for (const SubjectGroup& group : subject) {
    const std::array<std::uint8_t, 3> oid = {oid::kAttributeArcFirst, oid::kAttributeArcSecond,
                                             group.attribute_number};
    std::vector<Bytes> pairs;
    for (const std::string& value : group.values) {
      const std::uint8_t tag = IsPrintable(value) ? der::kPrintableString : der::kUtf8String;
      pairs.push_back(der::Encode(der::kSequence,
                                  {der::Encode(der::kOid, oid), der::Encode(tag, AsBytes(value))}));
    }
    if (pairs.empty()) continue;
    std::ranges::sort(pairs);  // DER orders the elements of a SET OF.
    Bytes content;
    for (const Bytes& pair : pairs) Append(content, pair);
    Append(sets, der::Encode(der::kSet, content));
  }
  return der::Encode(der::kSequence, sets);
}

Bytes EncodeTime(Timestamp at) {
  const CivilTime t = ToCivil(at);
  const std::string rest =
      fmt::format("{:02}{:02}{:02}{:02}{:02}Z", t.month, t.day, t.hour, t.minute, t.second);
  if (t.year >= kFirstUtcYear && t.year < kFirstGeneralizedYear) {
    return der::Encode(der::kUtcTime, AsBytes(fmt::format("{:02}{}", t.year % 100, rest)));
  }
  return der::Encode(der::kGeneralizedTime, AsBytes(fmt::format("{:04}{}", t.year, rest)));
}

enum class Criticality : std::uint8_t { kCritical, kNotCritical };

Bytes EncodeExtension(View oid, Criticality criticality, View value) {
  constexpr std::array<std::uint8_t, 3> kCritical = {der::kBoolean, 1, 0xFF};
  const View critical = criticality == Criticality::kCritical ? View(kCritical) : View();
  return der::Encode(der::kSequence, {der::Encode(der::kOid, oid), critical,
                                      der::Encode(der::kOctetString, value)});
}

Bytes EncodeAlternativeNames(const AlternativeNames& names) {
  Bytes list;
  for (const auto& dns : names.dns) Append(list, der::Encode(der::Primitive(2), AsBytes(dns)));
  for (const auto& ip : names.ip) Append(list, der::Encode(der::Primitive(7), AddressBytes(ip)));
  for (const auto& uri : names.uri) Append(list, der::Encode(der::Primitive(6), AsBytes(uri)));
  return der::Encode(der::kSequence, list);
}

Bytes KeyUsageValue(CertificateShape shape) {
  constexpr std::array<std::uint8_t, 2> kDigitalSignature = {0x07, 0x80};
  constexpr std::array<std::uint8_t, 2> kAndCertSign = {0x02, 0x84};
  return der::Encode(der::kBitString,
                     View(shape == CertificateShape::kCa ? kAndCertSign : kDigitalSignature));
}

Bytes ExtendedKeyUsageValue(CertificateShape shape) {
  const Bytes server = der::Encode(der::kOid, oid::kServerAuth);
  const Bytes client = der::Encode(der::kOid, oid::kClientAuth);
  switch (shape) {
    case CertificateShape::kServer: return der::Encode(der::kSequence, server);
    case CertificateShape::kClient: return der::Encode(der::kSequence, client);
    case CertificateShape::kCa: break;
  }
  return der::Encode(der::kSequence, {server, client});
}

Bytes BasicConstraintsValue(CertificateShape shape) {
  constexpr std::array<std::uint8_t, 6> kCaWithPathLengthOne = {der::kBoolean, 1, 0xFF,
                                                                der::kInteger, 1, 1};
  return der::Encode(der::kSequence,
                     shape == CertificateShape::kCa ? View(kCaWithPathLengthOne) : View());
}

// In the order in which Go writes them.
Bytes EncodeExtensions(const CertificateParts& parts, const PublicKey& key) {
  using enum Criticality;
  Bytes list = EncodeExtension(oid::kKeyUsage, kCritical, KeyUsageValue(parts.shape));
  Append(list,
         EncodeExtension(oid::kExtendedKeyUsage, kNotCritical, ExtendedKeyUsageValue(parts.shape)));
  Append(list,
         EncodeExtension(oid::kBasicConstraints, kCritical, BasicConstraintsValue(parts.shape)));
  Append(list, EncodeExtension(oid::kSubjectKeyId, kNotCritical,
                               der::Encode(der::kOctetString, SubjectKeyIdOf(key))));
  if (!parts.issuer_key_id.empty()) {
    const Bytes key_id = der::Encode(der::Primitive(0), parts.issuer_key_id);
    Append(list, EncodeExtension(oid::kAuthorityKeyId, kNotCritical,
                                 der::Encode(der::kSequence, key_id)));
  }
  if (parts.names != AlternativeNames{}) {
    Append(list, EncodeExtension(oid::kAlternativeName, kNotCritical,
                                 EncodeAlternativeNames(parts.names)));
  }
  Append(list, parts.role_extension);
  return der::Encode(der::Constructed(3), der::Encode(der::kSequence, list));
}

}  // namespace

Bytes SubjectKeyIdOf(const PublicKey& key) {
  const Sha256Digest digest = Sha256(key.raw());
  return Bytes(digest.begin(), digest.begin() + kKeyIdSize);
}

Bytes WriteCertificate(const CertificateParts& parts, const PublicKey& key,
                       const PrivateKey& signer) {
  constexpr std::array<std::uint8_t, 5> kVersion3 = {der::Constructed(0), 3, der::kInteger, 1, 2};
  const Bytes algorithm = der::Encode(der::kSequence, der::Encode(der::kOid, oid::kEd25519));
  const Bytes subject = EncodeName(parts.subject);
  const Bytes validity =
      der::Encode(der::kSequence, {EncodeTime(parts.not_before), EncodeTime(parts.not_after)});
  const Bytes signed_part = der::Encode(
      der::kSequence, {kVersion3, der::Encode(der::kInteger, parts.serial.der_content()), algorithm,
                       parts.issuer_der.empty() ? View(subject) : parts.issuer_der, validity,
                       subject, key.ToSpki(), EncodeExtensions(parts, key)});
  return der::Encode(der::kSequence,
                     {signed_part, algorithm, der::EncodeWholeBits(signer.Sign(signed_part))});
}

Bytes AddressBytes(const std::string& text) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  std::array<std::uint8_t, 16> address{};
  if (text.contains('\0')) return {};
  if (inet_pton(AF_INET, text.c_str(), address.data()) == 1) {
    return Bytes(address.begin(), address.begin() + 4);
  }
  if (inet_pton(AF_INET6, text.c_str(), address.data()) != 1) return {};
  const bool mapped = std::ranges::equal(View(address).first(kMapped.size()), kMapped);
  return Bytes(address.begin() + (mapped ? kMapped.size() : 0), address.end());
}

}  // namespace nstance::crypto
