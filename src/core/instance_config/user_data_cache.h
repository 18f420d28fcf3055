// UserDataCache: the last good body of each user data URL, so that the next GET can be conditional.
//
// At most 32 URLs are kept (32 MiB); the one that was not used for longest goes first. Without it
// every creation would download the whole body: it saves time, and nothing depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/instance_config/user_data_fetch.h"

namespace nstance {

class UserDataCache final {
 public:
  static constexpr std::size_t kMaxUrls = 32;

  [[nodiscard]] std::optional<KeptUserData> Find(const std::string& url);
  // A body without validators is of no use and forgets the URL.
  void Keep(const std::string& url, KeptUserData kept);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    KeptUserData kept = {};
    std::uint64_t used = 0;
  };

  std::map<std::string, Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace nstance
