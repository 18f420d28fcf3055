#include "crypto/registration_token.h"

#include <array>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/json.h"
#include "base/puidv7.h"
#include "base/text.h"
#include "crypto/clock_skew.h"
#include "crypto/digest.h"

namespace nstance::crypto {
namespace {

constexpr std::string_view kHeader = R"({"alg":"EdDSA","typ":"JWT"})";
constexpr std::string_view kIssuer = "nstance-server";
// Claims are flat; what nests deeper is not ours.
constexpr int kMaxJsonDepth = 8;
// Seconds of 9999-12-31T23:59:59Z, the last moment that a Timestamp holds.
constexpr std::int64_t kLastSecond = 253'402'300'799;

std::unexpected<Error> Refuse(std::string reason) {
  return Fail(Unauthenticated(std::move(reason)));
}

// Any error of a parser below, as the one code that a bad token has.
template <class T>
Result<T> AsBadToken(Result<T> result, std::string_view what) {
  if (result.has_value()) return result;
  return Refuse(fmt::format("{}: {}", what, result.error().message));
}

struct Segments {
  std::string_view header;
  std::string_view claims;
  std::string_view signature;
};

Result<Segments> Split(std::string_view token) {
  const std::size_t first = token.find('.');
  const std::size_t last = token.rfind('.');
  if (first == std::string_view::npos || first == last ||
      token.substr(first + 1, last - first - 1).contains('.')) {
    return Refuse("token does not have three segments");
  }
  return Segments{.header = token.substr(0, first),
                  .claims = token.substr(first + 1, last - first - 1),
                  .signature = token.substr(last + 1)};
}

Result<json::Value> ParseObject(const Bytes& bytes, std::string_view what) {
  json::ParseOptions options;
  options.max_bytes = kMaxTokenBytes;
  options.max_depth = kMaxJsonDepth;
  ASSIGN_OR_RETURN(json::Value value, AsBadToken(json::Parse(AsText(bytes), options), what));
  if (value.if_object() == nullptr) return Refuse(fmt::format("{} are no JSON object", what));
  return value;
}

// Exactly `alg` and `typ`: whatever else a header could ask for is refused, not followed.
Status CheckHeader(const Bytes& bytes) {
  ASSIGN_OR_RETURN(const json::Value header, ParseObject(bytes, "header members"));
  const json::Value* algorithm = header.Find("alg");
  const json::Value* type = header.Find("typ");
  if (algorithm == nullptr || *algorithm != json::Value::String("EdDSA")) {
    return Refuse("alg of the header is not EdDSA");
  }
  if (type == nullptr || *type != json::Value::String("JWT")) {
    return Refuse("typ of the header is not JWT");
  }
  if (header.if_object()->size() != 2) return Refuse("header has members besides alg and typ");
  return {};
}

// Reads members of the claims; the first thing that is wrong stays.
class ClaimReader final {
 public:
  explicit ClaimReader(const json::Value& claims) : claims_(claims) {}

  Timestamp Time(std::string_view name) {
    const json::Value* value = claims_.Find(name);
    const std::int64_t* seconds = value == nullptr ? nullptr : value->if_integer();
    if (seconds == nullptr || *seconds < 0 || *seconds > kLastSecond) {
      Wrong(fmt::format("claim {} is not a time in whole seconds", name));
      return {};
    }
    return Timestamp::FromUnix(*seconds);
  }

  std::string Required(std::string_view name) {
    std::string text = Optional(name);
    if (text.empty()) Wrong(fmt::format("claim {} is missing or empty", name));
    return text;
  }

  std::string Optional(std::string_view name) {
    const json::Value* value = claims_.Find(name);
    if (value == nullptr) return {};
    if (const std::string* text = value->if_string()) return *text;
    Wrong(fmt::format("claim {} is not a string", name));
    return {};
  }

  bool Flag(std::string_view name) {
    const json::Value* value = claims_.Find(name);
    if (value == nullptr) return false;
    if (const bool* flag = value->if_bool()) return *flag;
    Wrong(fmt::format("claim {} is not a boolean", name));
    return false;
  }

  void Wrong(std::string reason) {
    if (!reason_.has_value()) reason_ = std::move(reason);
  }

  [[nodiscard]] Status Finish() const {
    if (reason_.has_value()) return Refuse(*reason_);
    return {};
  }

 private:
  const json::Value& claims_;
  std::optional<std::string> reason_;
};

Status CheckSubject(const RegistrationClaims& claims) {
  if (claims.kind == TokenKind::kAgent) {
    RETURN_IF_ERROR(AsBadToken(ParsePuidv7(claims.subject), "claim sub"));
  } else {
    RETURN_IF_ERROR(AsBadToken(ClusterId::Parse(claims.subject), "claim sub"));
  }
  return {};
}

Status CheckNames(const RegistrationClaims& claims) {
  RETURN_IF_ERROR(AsBadToken(ClusterId::Parse(claims.cluster), "claim cluster_id"));
  if (!claims.shard.empty()) {
    RETURN_IF_ERROR(AsBadToken(ShardId::Parse(claims.shard), "claim shard"));
  }
  if (!claims.group.empty()) {
    RETURN_IF_ERROR(AsBadToken(GroupKey::Parse(claims.group), "claim group"));
  }
  return {};
}

Result<RegistrationClaims> ReadClaims(const json::Value& value, TokenKind expected) {
  ClaimReader reader(value);
  RegistrationClaims claims;
  claims.subject = reader.Required("sub");
  claims.expires_at = reader.Time("exp");
  claims.not_before = reader.Time("nbf");
  claims.issued_at = reader.Time("iat");
  claims.token_id = reader.Optional("jti");
  claims.kind = expected;
  if (reader.Required("kind") != TokenKindName(expected)) {
    reader.Wrong(fmt::format("claim kind is not {}", TokenKindName(expected)));
  }
  claims.config_hash = reader.Optional("config_hash");
  claims.cluster = reader.Required("cluster_id");
  claims.shard = reader.Optional("shard");
  claims.group = reader.Optional("group");
  claims.on_demand = reader.Flag("on_demand");
  const std::string tenant = reader.Required("tenant");
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(claims.tenant, AsBadToken(TenantId::Parse(tenant), "claim tenant"));
  RETURN_IF_ERROR(CheckSubject(claims));
  RETURN_IF_ERROR(CheckNames(claims));
  return claims;
}

Status CheckTimes(const RegistrationClaims& claims, Timestamp now) {
  if (now >= claims.expires_at + kClockSkew) {
    return Refuse(fmt::format("token ended at {}", FormatTimestamp(claims.expires_at)));
  }
  if (claims.not_before > now + kClockSkew || claims.issued_at > now + kClockSkew) {
    return Refuse("token is from the future");
  }
  if (claims.expires_at - claims.issued_at > kMaxTokenLife) {
    return Refuse(fmt::format("token has a life of {}, {} are allowed",
                              FormatDuration(claims.expires_at - claims.issued_at),
                              FormatDuration(kMaxTokenLife)));
  }
  return {};
}

bool VerifiesWithAny(std::span<const PublicKey> keys, std::string_view message,
                     const Bytes& signature) {
  for (const PublicKey& key : keys) {
    if (key.Verify(AsBytes(message), signature)) return true;
  }
  return false;
}

// A refusal with the fixed word under which it is counted.
struct Refusal {
  std::string_view reason;
  Error error;
};

std::expected<RegistrationClaims, Refusal> Verify(std::string_view token,
                                                  const TokenExpectation& expectation) {
  const auto refusal = [](std::string_view reason, Error error) {
    return std::unexpected(Refusal{reason, std::move(error)});
  };
  const Result<Segments> segments = Split(token);
  if (!segments.has_value()) return refusal("token-shape", segments.error());
  const Result<Bytes> header = AsBadToken(Base64UrlDecode(segments->header), "header");
  if (!header.has_value()) return refusal("token-shape", header.error());
  const Result<Bytes> payload = AsBadToken(Base64UrlDecode(segments->claims), "claims");
  if (!payload.has_value()) return refusal("token-shape", payload.error());
  const Result<Bytes> signature = AsBadToken(Base64UrlDecode(segments->signature), "signature");
  if (!signature.has_value()) return refusal("token-shape", signature.error());

  if (const Status good = CheckHeader(*header); !good.has_value()) {
    return refusal("token-header", good.error());
  }
  const std::string_view message =
      token.substr(0, segments->header.size() + 1 + segments->claims.size());
  if (!VerifiesWithAny(expectation.keys, message, *signature)) {
    return refusal("token-signature", Unauthenticated("signature is not by one of our keys"));
  }
  const Result<json::Value> object = ParseObject(*payload, "claims");
  if (!object.has_value()) return refusal("token-claims", object.error());
  Result<RegistrationClaims> claims = ReadClaims(*object, expectation.kind);
  if (!claims.has_value()) return refusal("token-claims", claims.error());
  if (const Status good = CheckTimes(*claims, expectation.now); !good.has_value()) {
    return refusal("token-time", good.error());
  }
  return *std::move(claims);
}

void AppendText(std::string& out, std::string_view name, std::string_view value) {
  out += fmt::format(",\"{}\":", name);
  json::AppendString(out, value);
}

std::string WriteClaims(const RegistrationClaims& claims) {
  std::string out = fmt::format("{{\"iss\":\"{}\"", kIssuer);
  AppendText(out, "sub", claims.subject);
  out += fmt::format(",\"exp\":{},\"nbf\":{},\"iat\":{}", claims.expires_at.unix_seconds(),
                     claims.not_before.unix_seconds(), claims.issued_at.unix_seconds());
  AppendText(out, "jti", claims.token_id);
  AppendText(out, "kind", TokenKindName(claims.kind));
  AppendText(out, "config_hash", claims.config_hash);
  AppendText(out, "cluster_id", claims.cluster);
  AppendText(out, "shard", claims.shard);
  AppendText(out, "group", claims.group);
  out += fmt::format(",\"on_demand\":{}", claims.on_demand);
  AppendText(out, "tenant", claims.tenant.text());
  return out + "}";
}

Bytes JoinMessage(const PublicKey& key, std::string_view token, const ClusterId& cluster) {
  std::string message("nstance-join-v1\0", 16);
  message += AsText(Sha256(AsBytes(token)));
  message += cluster.text();
  message += '\0';
  message += AsText(key.ToSpki());
  const auto bytes = AsBytes(message);
  return Bytes(bytes.begin(), bytes.end());
}

}  // namespace

std::string_view TokenKindName(TokenKind kind) {
  return kind == TokenKind::kAgent ? "agent" : "operator";
}

std::string SignRegistrationToken(const RegistrationClaims& claims, const PrivateKey& key) {
  std::string token = Base64UrlEncode(AsBytes(kHeader));
  token += '.';
  token += Base64UrlEncode(AsBytes(WriteClaims(claims)));
  const Signature signature = key.Sign(AsBytes(token));
  token += '.';
  token += Base64UrlEncode(signature);
  return token;
}

Result<RegistrationClaims> VerifyRegistrationToken(std::string_view token,
                                                   const TokenExpectation& expectation) {
  if (token.size() > kMaxTokenBytes) {
    expectation.source.Limit("token-bytes");
    return Fail(ResourceExhausted(
        fmt::format("token has {} bytes, {} are allowed", token.size(), kMaxTokenBytes)));
  }
  auto claims = Verify(token, expectation);
  if (!claims.has_value()) {
    expectation.source.Bad(claims.error().reason);
    return Fail(std::move(claims).error().error);
  }
  return *std::move(claims);
}

Result<RegistrationClaims> ReadUnverifiedToken(std::string_view token, TokenKind kind) {
  if (token.size() > kMaxTokenBytes) {
    return Fail(ResourceExhausted(fmt::format("token is above {} bytes", kMaxTokenBytes)));
  }
  ASSIGN_OR_RETURN(const Segments segments, Split(token));
  ASSIGN_OR_RETURN(const Bytes header, AsBadToken(Base64UrlDecode(segments.header), "header"));
  RETURN_IF_ERROR(CheckHeader(header));
  ASSIGN_OR_RETURN(const Bytes payload, AsBadToken(Base64UrlDecode(segments.claims), "claims"));
  ASSIGN_OR_RETURN(const json::Value claims, ParseObject(payload, "claims"));
  return ReadClaims(claims, kind);
}

std::string TokenSha256Hex(std::string_view token) { return Sha256Hex(AsBytes(token)); }

Signature SignJoinProof(const PrivateKey& key, std::string_view token, const ClusterId& cluster) {
  return key.Sign(JoinMessage(key.public_key(), token, cluster));
}

Status VerifyJoinProof(const PublicKey& key, std::string_view token, const ClusterId& cluster,
                       std::span<const std::uint8_t> proof) {
  if (key.Verify(JoinMessage(key, token, cluster), proof)) return {};
  return Refuse("proof of possession is not a signature by the key over this token");
}

}  // namespace nstance::crypto
