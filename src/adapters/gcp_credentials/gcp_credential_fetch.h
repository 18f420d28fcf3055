// GcpCredentialFetch: gets one access token. The machine (docs/decisions/003); GcpCredentials runs
// it.
//
//   state    | event                        | next     | command
//   ---------+------------------------------+----------+---------------------------
//   new      | Start; a key file is named   | key_file | ReadFile
//   new      | Start; otherwise             | metadata | Send
//   key_file | a usable key                 | exchange | Send
//   exchange | answer                       | done     | Finish(token or error)
//   metadata | answer                       | done     | Finish(token or error)
//   any      | an error, an unusable file   | done     | Finish(error)
//
// Any other event in a state is our own mistake, and a CHECK.
//
// The exchange goes over HTTPS (or to loopback), metadata to a link-local or loopback address, or
// to metadata.google.internal. Redirects are not followed. No message shows a token or a key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/time.h"
#include "crypto/secret.h"
#include "ports/http.h"

namespace nstance::gcp {

struct GcpToken {
  crypto::Secret bearer;
  std::optional<Timestamp> expires_at;
};

struct GcpSettings {
  std::string key_file = {};  // GOOGLE_APPLICATION_CREDENTIALS; empty: the metadata server.
  // GCE_METADATA_HOST, "host" or "host:port"; or the fixed address.
  std::string metadata_host = "169.254.169.254";
  std::string scope = "https://www.googleapis.com/auth/cloud-platform";
};

class GcpCredentialFetch final {
 public:
  struct ReadFile {
    std::string path;
  };
  struct Send {
    HttpRequest request;
  };
  struct Finish {
    Result<GcpToken> result;
  };
  using Command = std::variant<ReadFile, Send, Finish>;

  explicit GcpCredentialFetch(GcpSettings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Command Start();
  struct File {
    Result<std::string> bytes;
  };
  [[nodiscard]] Command On(File event, Timestamp now);
  struct Answer {
    Result<HttpResponse> answer;
  };
  [[nodiscard]] Command On(Answer event, Timestamp now);

 private:
  enum class State : std::uint8_t { kNew, kKeyFile, kExchange, kMetadata, kDone };

  Command End(Error error);
  Command AskMetadata();
  Command Exchange(std::string_view key_file, Timestamp now);

  GcpSettings settings_;
  State state_ = State::kNew;
};

// The answer of the token endpoint and of the metadata server. Total; errors never show it.
[[nodiscard]] Result<GcpToken> ParseToken(std::string_view json, Timestamp now);

}  // namespace nstance::gcp
