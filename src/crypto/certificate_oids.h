// Object identifiers of certificates as DER content bytes. Internal to crypto.
#pragma once

#include <array>
#include <cstdint>

namespace nstance::crypto::oid {

inline constexpr std::array<std::uint8_t, 3> kEd25519 = {0x2B, 0x65, 0x70};

inline constexpr std::array<std::uint8_t, 3> kKeyUsage = {0x55, 0x1D, 0x0F};
inline constexpr std::array<std::uint8_t, 3> kExtendedKeyUsage = {0x55, 0x1D, 0x25};
inline constexpr std::array<std::uint8_t, 3> kBasicConstraints = {0x55, 0x1D, 0x13};
inline constexpr std::array<std::uint8_t, 3> kSubjectKeyId = {0x55, 0x1D, 0x0E};
inline constexpr std::array<std::uint8_t, 3> kAuthorityKeyId = {0x55, 0x1D, 0x23};
inline constexpr std::array<std::uint8_t, 3> kAlternativeName = {0x55, 0x1D, 0x11};
inline constexpr std::array<std::uint8_t, 9> kRole = {0x2B, 0x06, 0x01, 0x04, 0x01,
                                                      0xBD, 0x84, 0x3F, 0x01};

inline constexpr std::array<std::uint8_t, 8> kServerAuth = {0x2B, 0x06, 0x01, 0x05,
                                                            0x05, 0x07, 0x03, 0x01};
inline constexpr std::array<std::uint8_t, 8> kClientAuth = {0x2B, 0x06, 0x01, 0x05,
                                                            0x05, 0x07, 0x03, 0x02};

// Subject attributes are 2.5.4.<number>: 55 04 <number>.
inline constexpr std::uint8_t kAttributeArcFirst = 0x55;
inline constexpr std::uint8_t kAttributeArcSecond = 0x04;
inline constexpr std::uint8_t kCommonNameNumber = 3;
inline constexpr std::uint8_t kCountryNumber = 6;
inline constexpr std::uint8_t kLocalityNumber = 7;
inline constexpr std::uint8_t kProvinceNumber = 8;
inline constexpr std::uint8_t kStreetNumber = 9;
inline constexpr std::uint8_t kOrganizationNumber = 10;
inline constexpr std::uint8_t kOrganizationalUnitNumber = 11;
inline constexpr std::uint8_t kPostalCodeNumber = 17;

}  // namespace nstance::crypto::oid
