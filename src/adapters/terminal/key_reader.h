// KeyReader: the bytes that a terminal sends for keys, as keys. Total: what is not known is
// dropped.
//
// Sequences may come in parts. An escape byte that nothing follows in the same read is the Escape
// key: terminals send their sequences at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ports/terminal.h"

namespace nstance {

// What Ctrl-C sends when the terminal raises no signals.
inline constexpr char kInterruptByte = 0x03;
// What Ctrl-Z sends then.
inline constexpr char kSuspendByte = 0x1A;

class KeyReader final {
 public:
  // The keys of what was read, in order; `interrupted` becomes true when Ctrl-C was among them.
  [[nodiscard]] std::vector<Key> Read(std::string_view bytes, bool& interrupted);

 private:
  std::string rest_;  // Of a sequence that is not complete.
};

}  // namespace nstance
