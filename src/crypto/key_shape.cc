#include "crypto/key_shape.h"

#include "crypto/der.h"

namespace nstance::crypto {
namespace {

Status ReadAlgorithm(der::Reader& reader) {
  ASSIGN_OR_RETURN(const der::Element algorithm, reader.Expect(der::kSequence, "algorithm"));
  der::Reader inside(algorithm.content);
  ASSIGN_OR_RETURN(const der::Element oid, inside.Expect(der::kOid, "algorithm identifier"));
  if (oid.content.empty()) return Fail(InvalidArgument("algorithm identifier is empty"));
  return {};
}

}  // namespace

Status CheckSpkiShape(std::span<const std::uint8_t> der) {
  ASSIGN_OR_RETURN(const der::Element whole, der::ReadOnly(der, der::kSequence, "public key"));
  der::Reader reader(whole.content);
  RETURN_IF_ERROR(ReadAlgorithm(reader));
  ASSIGN_OR_RETURN(const der::Element bits, reader.Expect(der::kBitString, "public key bits"));
  if (bits.content.size() < 2) return Fail(InvalidArgument("public key bits are missing"));
  return reader.ExpectEnd("public key");
}

Status CheckPkcs8Shape(std::span<const std::uint8_t> der) {
  ASSIGN_OR_RETURN(const der::Element whole, der::ReadOnly(der, der::kSequence, "private key"));
  der::Reader reader(whole.content);
  ASSIGN_OR_RETURN(const der::View version, der::ReadInteger(reader, "private key version"));
  if (version.size() != 1 || version[0] > 1) {
    return Fail(InvalidArgument("private key is of an unknown version; 0 or 1"));
  }
  RETURN_IF_ERROR(ReadAlgorithm(reader));
  ASSIGN_OR_RETURN(const der::Element bytes, reader.Expect(der::kOctetString, "private key bytes"));
  if (bytes.content.empty()) return Fail(InvalidArgument("private key bytes are missing"));
  while (!reader.AtEnd()) {
    ASSIGN_OR_RETURN([[maybe_unused]] const der::Element more,
                     reader.Next("private key attributes"));
  }
  return {};
}

}  // namespace nstance::crypto
