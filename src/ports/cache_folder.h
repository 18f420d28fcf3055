// CacheFolder: small files that this machine keeps for itself (`--cachedir`): the last good
// configuration and groups. Nothing in it is ever the truth: it is read when the truth cannot be.
//
// Guarantees, held by the contract suite:
//   - a file is seen whole, as some Write() left it, also when the process or the machine dies in
//     between
//   - kNotFound is the only error that says there is no such file
//   - names are plain file names; others are refused with kInvalidArgument
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/pending.h"

namespace nstance {

class CacheFolder {
 public:
  static constexpr std::size_t kMaxFileBytes = std::size_t{8} * 1024 * 1024;

  CacheFolder() = default;
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  virtual ~CacheFolder() = default;

  using ReadDone = std::move_only_function<void(Result<std::string> bytes)>;
  using WriteDone = std::move_only_function<void(Status)>;

  // kResourceExhausted for a file above kMaxFileBytes.
  [[nodiscard]] virtual Pending Read(std::string_view name, ReadDone done) = 0;
  // Replaces the file. Writes of one name take effect in the order in which they were asked for;
  // dropping the Pending does not undo one.
  [[nodiscard]] virtual Pending Write(std::string_view name, std::string bytes, WriteDone done) = 0;
};

// Whether `name` may be used: 1 to 100 characters of letters, digits, `.`, `-`, `_`, not starting
// with a dot.
[[nodiscard]] inline Status CheckCacheFileName(std::string_view name) {
  constexpr std::size_t kMaxNameBytes = 100;
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  if (name.empty() || name.size() > kMaxNameBytes || name.starts_with('.') ||
      name.find_first_not_of(kAllowed) != std::string_view::npos) {
    return Fail(InvalidArgument(
        "not the name of a cached file: 1 to 100 characters of letters, digits, '.', '-' and '_', "
        "not starting with '.'"));
  }
  return {};
}

}  // namespace nstance
