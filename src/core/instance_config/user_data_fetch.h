// User data behind a URL: what may be asked, and what an answer means. Sans I/O; the runner is
// server/user_data_fetch.h.
//
//   state   | event                                  | next   | command
//   --------+----------------------------------------+--------+----------------------------------
//   new     | Start, URL not allowed                 | done   | Finish(kFailedPrecondition)
//   new     | Start, a kept body with the digest     | asking | Get(If-None-Match, -Modified-Since)
//   new     | Start, otherwise                       | asking | Get
//   asking  | error                                  | done   | Finish(that error)
//   asking  | 200 with the digest                    | done   | Finish(body, keep it)
//   asking  | 200 with another digest                | done   | Finish(kFailedPrecondition)
//   asking  | 304 after a conditional Get            | done   | Finish(kept body)
//   asking  | 408, 425, 429, 5xx, an unasked 304     | done   | Finish(kUnavailable)
//   asking  | any other status                       | done   | Finish(kFailedPrecondition)
//
// Rules (security.md CF4): https, or http when the configuration gives the digest; 10 s; 1 MiB; at
// most 3 redirects, never to another host; never a link-local address, where clouds hand out
// credentials; a body in a content coding that nobody asked for is refused. Creation waits after
// any failure (hold `userdata-unavailable`): there is no falling back to an old body, which may be
// what an administrator has just withdrawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/time.h"
#include "core/config/config.h"

namespace nstance {

inline constexpr Duration kUserDataFetchTime = Duration::Seconds(10);
inline constexpr int kUserDataRedirects = 3;

// The body of the last 200 of a URL, with what makes the next GET conditional.
struct KeptUserData {
  std::string etag = {};
  std::string last_modified = {};
  std::string body = {};
  friend bool operator==(const KeptUserData&, const KeptUserData&) = default;
};

// Whether such a URL may be fetched at all: for the loader and for the machine. kInvalidArgument
// says what is allowed. Addresses in unusual spellings and names are judged when they are resolved.
[[nodiscard]] Status CheckUserDataUrl(std::string_view url, std::string_view sha256);

class UserDataFetchMachine final {
 public:
  struct Get {
    std::string url = {};
    std::string if_none_match = {};      // Empty: without.
    std::string if_modified_since = {};  // Empty: without.
  };
  struct Finish {
    Result<std::string> body;  // As it came: not decoded.
    // What to keep for the URL from now on; nothing means as before.
    std::optional<KeptUserData> keep = std::nullopt;
  };
  using Command = std::variant<Get, Finish>;

  // What the answer's head and body say; empty strings for headers that are absent.
  struct Answer {
    int status = 0;
    std::string etag = {};
    std::string last_modified = {};
    std::string content_encoding = {};
    std::string body = {};
  };

  // REQUIRES: userdata.effective_source() is kUrl.
  UserDataFetchMachine(config::UserData userdata, std::optional<KeptUserData> kept);

  [[nodiscard]] Command Start();
  [[nodiscard]] Command On(Result<Answer> answer);

 private:
  enum class State : std::uint8_t { kNew, kAsking, kDone };

  [[nodiscard]] Finish Judge(const Answer& answer) const;
  [[nodiscard]] Result<std::string> JudgeBody(const Answer& answer) const;

  config::UserData userdata_;
  std::optional<KeptUserData> kept_;  // Only while it may answer a 304.
  State state_ = State::kNew;
};

}  // namespace nstance
