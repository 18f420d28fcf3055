// Environment: variables and small files, as one value, so that tests bring their own.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nstance::cloud {

struct Environment {
  // Larger files are refused: what is read here are tokens, keys and profiles.
  static constexpr std::size_t kMaxFileBytes = std::size_t{256} * 1024;

  // The value of a variable; empty values count as unset.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  // All of a file. kNotFound when there is none. Reads on the calling thread: such files are small
  // and local.
  std::function<Result<std::string>(const std::string& path)> read_file;

  // That of this process.
  [[nodiscard]] static Environment OfProcess();

  // The value of a variable, or `otherwise`.
  [[nodiscard]] std::string Get(const std::string& name, std::string_view otherwise = "") const;
  // Whether a variable says "true" (in any case) or "1".
  [[nodiscard]] bool IsTrue(const std::string& name) const;
};

}  // namespace nstance::cloud
