// The flags that every command takes.
#pragma once

#include <cstdint>
#include <string>

namespace nstance::admin {

enum class Output : std::uint8_t { kTable, kJson };

struct CommonFlags {
  Output output = Output::kTable;
  bool no_color = false;
  bool quiet = false;
  bool debug = false;
  std::string temp_dir = "./temp";  // Where identities are kept.
  friend bool operator==(const CommonFlags&, const CommonFlags&) = default;
};

}  // namespace nstance::admin
