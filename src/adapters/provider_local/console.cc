#include "adapters/provider_local/console.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "adapters/provider_local/records.h"

namespace nstance::provider_local {

void Console::Open() {
  auto file = OpenFile(folder_, std::string(kConsoleFile), O_WRONLY | O_CREAT | O_APPEND);
  if (!file) return;
  struct stat about{};
  size_ = ::fstat(file->number(), &about) == 0 ? static_cast<std::size_t>(about.st_size) : 0;
  file_ = *std::move(file);
}

void Console::Rotate() {
  file_ = Descriptor();
  const std::string name(kConsoleFile);
  const std::string old(kOldConsoleFile);
  if (::renameat(folder_, name.c_str(), folder_, old.c_str()) != 0) {
    (void)::unlinkat(folder_, name.c_str(), 0);
  }
  Open();
}

void Console::Write(std::string_view bytes) {
  if (!file_.is_open()) Open();
  while (!bytes.empty() && file_.is_open()) {
    if (size_ >= limit_) Rotate();
    const std::string_view part = bytes.substr(0, std::min(bytes.size(), limit_ - size_));
    if (!WriteAll(file_.number(), part, kConsoleFile)) return;
    size_ += part.size();
    bytes.remove_prefix(part.size());
  }
}

}  // namespace nstance::provider_local
