#include "core/config/config.h"

#include <fmt/core.h>

#include "core/config/words.h"

namespace nstance::config {

std::string FormatAddress(const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", address.host, brackets ? "]" : "",
                     address.port);
}

UserDataSource UserData::effective_source() const {
  return FromWord<UserDataSource>(source.value_or("inline")).value_or(UserDataSource::kInline);
}

UserDataEncoding UserData::effective_encoding() const {
  return FromWord<UserDataEncoding>(encoding.value_or("plain")).value_or(UserDataEncoding::kPlain);
}

Expiry Overlay(const Expiry& server, const ExpiryLayer& group) {
  return {.eligible_age = group.eligible_age.value_or(server.eligible_age),
          .forced_age = group.forced_age.value_or(server.forced_age),
          .ondemand_age = group.ondemand_age.value_or(server.ondemand_age)};
}

}  // namespace nstance::config
