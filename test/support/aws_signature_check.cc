#include "test/support/aws_signature_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/text.h"

namespace nstance::test {
namespace {

std::string Sha256Hex(std::string_view bytes) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return HexEncode(std::span(digest).first(size));
}

std::string Hmac(std::string_view key, std::string_view data) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), AsBytes(data).data(), data.size(),
       digest.data(), &size);
  return std::string(AsText(std::span(digest).first(size)));
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string Decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string Encoded(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (keep_slash && c == '/');
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string CanonicalQuery(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> parts;
  if (query.empty()) return {};
  for (const std::string& part : Split(query, '&')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string value = equals < part.size() ? part.substr(equals + 1) : "";
    parts.emplace_back(Encoded(Decoded(part.substr(0, equals)), false),
                       Encoded(Decoded(value), false));
  }
  std::ranges::sort(parts);
  std::string out;
  for (const auto& [key, value] : parts) out += (out.empty() ? "" : "&") + key + "=" + value;
  return out;
}

// Runs of blanks as one.
std::string Collapsed(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const char plain = c == '\t' ? ' ' : c;
    if (plain != ' ' || !out.ends_with(' ')) out += plain;
  }
  return out;
}

// "Credential=a, SignedHeaders=b, Signature=c".
std::map<std::string, std::string> Fields(std::string_view authorization) {
  std::map<std::string, std::string> fields;
  authorization.remove_prefix(std::min(authorization.size(), authorization.find(' ') + 1));
  for (const std::string& part : Split(authorization, ',')) {
    const std::string_view field = std::string_view(part).substr(part.find_first_not_of(' '));
    const std::size_t equals = field.find('=');
    fields[std::string(field.substr(0, equals))] = field.substr(equals + 1);
  }
  return fields;
}

std::string CheckWhatIsSigned(const RawRequest& request,
                              const std::vector<std::string>& signed_names) {
  if (!std::ranges::is_sorted(signed_names)) return "signed headers are not sorted";
  for (const std::string& line : Split(request.head, '\n')) {
    std::string name = line.substr(0, line.find(':'));
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const bool must = name == "host" || name == "content-type" || name.starts_with("x-amz-");
    if (must && std::ranges::find(signed_names, name) == signed_names.end()) {
      return name + " is not signed";
    }
  }
  for (const std::string& name : signed_names) {
    if (request.Values(name).size() != 1) return name + " is signed but not sent once";
  }
  return {};
}

}  // namespace

std::string CheckAwsSignature(const RawRequest& request, std::string_view secret_key) {
  if (request.head.contains(secret_key)) return "the secret key is in the request";
  auto fields = Fields(request.Value("authorization"));
  const auto scope = Split(fields["Credential"], '/');
  if (scope.size() != 5) return "malformed credential " + fields["Credential"];
  const auto signed_names = Split(fields["SignedHeaders"], ';');
  if (std::string wrong = CheckWhatIsSigned(request, signed_names); !wrong.empty()) return wrong;
  const std::string payload = request.Value("x-amz-content-sha256");
  if (payload != Sha256Hex(request.body)) return "x-amz-content-sha256 is not the body's digest";

  const std::string target = request.Target();
  const std::size_t query_at = std::min(target.find('?'), target.size());
  const std::string query = query_at < target.size() ? target.substr(query_at + 1) : "";
  std::string canonical = request.Method() + "\n" +
                          Encoded(Decoded(target.substr(0, query_at)), true) + "\n" +
                          CanonicalQuery(query) + "\n";
  for (const std::string& name : signed_names) {
    canonical += name + ":" + Collapsed(request.Value(name)) + "\n";
  }
  canonical += "\n" + fields["SignedHeaders"] + "\n" + payload;

  const std::string date = request.Value("x-amz-date");
  if (!date.starts_with(scope[1] + "T")) return "x-amz-date is not of the credential's day";
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}/{}/{}/aws4_request\n{}", date,
                                          scope[1], scope[2], scope[3], Sha256Hex(canonical));
  const std::string key =
      Hmac(Hmac(Hmac(Hmac("AWS4" + std::string(secret_key), scope[1]), scope[2]), scope[3]),
           "aws4_request");
  if (HexEncode(AsBytes(Hmac(key, to_sign))) == fields["Signature"]) return {};
  return "wrong signature; expected one over:\n" + canonical;
}

}  // namespace nstance::test
