// AwsCredentialFetch: finds access keys once. The machine (docs/decisions/003); AwsCredentials runs
// it.
//
//   state           | event                              | next            | command
//   ----------------+------------------------------------+-----------------+-----------------------
//   new             | Start; keys in the environment     | done            | Finish(keys)
//   new             | Start; web identity is set         | identity_token  | ReadFile
//   new             | Start; container with a token file | container_token | ReadFile
//   new             | Start; container                   | container       | Send
//   new             | Start; metadata is enabled         | metadata_token  | Send
//   new             | Start; otherwise                   | profile         | ReadFile
//   identity_token  | file                               | sts             | Send
//   container_token | file                               | container       | Send
//   sts, container  | answer                             | done            | Finish(keys or error)
//   metadata_token  | token                              | metadata_role   | Send
//   metadata_token  | refused, version 1 is allowed      | metadata_role   | Send
//   metadata_role   | name of a role                     | metadata_keys   | Send
//   metadata_keys   | answer                             | done            | Finish(keys or error)
//   metadata_token, | any other answer or error,         | profile         | ReadFile
//     metadata_role |   fall-back allowed                |                 |
//   profile         | file                               | done            | Finish(keys or error)
//   any             | a file that cannot be read, a bad  | done            | Finish(error)
//                   | setting, an answer without keys    |                 |
//
// Any other event in a state is our own mistake, and a CHECK.
//
// What is set is used: a web identity or a container that does not answer is an error and never
// leads to the next source, or the process would act as somebody else. Only metadata, which nobody
// sets, gives way to the shared file, and not any more once it has given keys.
//
// Every host must use HTTPS, be loopback, or (container, metadata) be link-local. Redirects are not
// followed. No message shows a token or a key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "adapters/aws_credentials/aws_keys.h"
#include "adapters/aws_credentials/aws_settings.h"
#include "ports/http.h"

namespace nstance::aws {

// Where keys came from.
enum class AwsSource : std::uint8_t {
  kEnvironment,
  kWebIdentity,
  kContainer,
  kMetadata,
  kSharedFile,
};
[[nodiscard]] std::string_view AwsSourceName(AwsSource source);

struct FoundKeys {
  AwsKeys keys;
  AwsSource source = AwsSource::kEnvironment;
};

class AwsCredentialFetch final {
 public:
  enum class FallBack : std::uint8_t { kAllowed, kForbidden };

  struct ReadFile {
    std::string path;
  };
  struct Send {
    HttpRequest request;
  };
  struct Finish {
    Result<FoundKeys> result;
  };
  using Command = std::variant<ReadFile, Send, Finish>;

  AwsCredentialFetch(AwsSettings settings, FallBack fall_back)
      : settings_(std::move(settings)), fall_back_(fall_back) {}

  [[nodiscard]] Command Start();
  struct File {
    Result<std::string> bytes;
  };
  [[nodiscard]] Command On(File event);
  struct Answer {
    Result<HttpResponse> answer;
  };
  [[nodiscard]] Command On(Answer event);

 private:
  enum class State : std::uint8_t {
    kNew,
    kIdentityToken,
    kSts,
    kContainerToken,
    kContainer,
    kMetadataToken,
    kMetadataRole,
    kMetadataKeys,
    kProfile,
    kDone,
  };

  Command Ask(State next, HttpRequest request);
  Command Read(State next, std::string path);
  Command End(Error error);
  Command End(Result<AwsKeys> keys, AwsSource source);

  Command AskSts(std::string_view token);
  Command AskContainer(std::string_view token);
  Command AskMetadataToken();
  Command AskMetadataRole();
  Command AskMetadataKeys(std::string_view role);
  // Metadata has nothing for us.
  Command GiveWay(std::string why);
  Command ReadProfile();

  Command OnSts(HttpResponse& answer);
  Command OnContainer(HttpResponse& answer);
  Command OnMetadataToken(const HttpResponse& answer);
  Command OnMetadataRole(const HttpResponse& answer);
  Command OnMetadataKeys(HttpResponse& answer);
  Command OnProfile(Result<std::string> bytes);

  AwsSettings settings_;
  FallBack fall_back_;
  std::string metadata_url_;
  std::string metadata_token_;  // Empty: version 1.
  std::string metadata_failure_;
  State state_ = State::kNew;
};

}  // namespace nstance::aws
