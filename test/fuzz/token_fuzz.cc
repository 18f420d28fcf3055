// Registration tokens: any bytes are refused or are a token that we signed. The bytes are tried as
// a token, as claims below the right header, and as "header, newline, claims"; the last two are
// signed with the right key, so that the checks behind the signature are reached.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "crypto/registration_token.h"

namespace nstance::crypto {
namespace {

const PrivateKey& SigningKey() {
  static const PrivateKey key = [] {
    std::array<std::uint8_t, PrivateKey::kSeedSize> seed{};
    seed.fill(1);
    return PrivateKey::FromSeed(seed);
  }();
  return key;
}

std::string Signed(std::string_view header, std::string_view claims) {
  std::string token = Base64UrlEncode(AsBytes(header)) + "." + Base64UrlEncode(AsBytes(claims));
  const Signature signature = SigningKey().Sign(AsBytes(token));
  return token + "." + Base64UrlEncode(signature);
}

void CheckToken(const std::string& token, TokenKind kind) {
  const std::array<PublicKey, 1> keys = {SigningKey().public_key()};
  const TokenExpectation expectation = {
      .keys = keys, .now = Timestamp::FromUnix(1'767'225'700), .kind = kind, .source = {}};
  const Result<RegistrationClaims> claims = VerifyRegistrationToken(token, expectation);
  if (!claims.has_value()) {
    CHECK(claims.error().code == Code::kUnauthenticated ||
          claims.error().code == Code::kResourceExhausted);
    CHECK(!claims.error().message.empty());
    return;
  }
  CHECK(claims->kind == kind);
  CHECK(!claims->subject.empty() && !claims->cluster.empty());
  CHECK(claims->expires_at - claims->issued_at <= kMaxTokenLife);
  // What was accepted can be signed again, and says the same.
  const std::string again = SignRegistrationToken(*claims, SigningKey());
  const Result<RegistrationClaims> read = VerifyRegistrationToken(again, expectation);
  if (again.size() <= kMaxTokenBytes) CHECK(read.has_value() && *read == *claims);
}

void Check(std::string_view text) {
  constexpr std::string_view kHeader = R"({"alg":"EdDSA","typ":"JWT"})";
  const std::size_t newline = text.find('\n');
  for (const TokenKind kind : {TokenKind::kAgent, TokenKind::kOperator}) {
    CheckToken(std::string(text), kind);
    CheckToken(Signed(kHeader, text), kind);
    if (newline != std::string_view::npos) {
      CheckToken(Signed(text.substr(0, newline), text.substr(newline + 1)), kind);
    }
  }
}

}  // namespace
}  // namespace nstance::crypto

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::crypto::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
