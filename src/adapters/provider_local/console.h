// Console: what an instance wrote, in console.log; at the limit the file becomes console.log.1 and
// a new one begins. What the disk does not take is dropped: an instance never waits for its log.
#pragma once

#include <cstddef>
#include <string_view>

#include "adapters/provider_local/files.h"

namespace nstance::provider_local {

class Console final {
 public:
  Console(int folder, std::size_t limit) : folder_(folder), limit_(limit) {}

  void Write(std::string_view bytes);

 private:
  void Open();
  void Rotate();

  int folder_;
  std::size_t limit_;
  std::size_t size_ = 0;
  Descriptor file_;
};

}  // namespace nstance::provider_local
