#include "adapters/cloud_http/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/core.h>

namespace nstance::cloud {
namespace {

std::optional<std::string> ProcessVariable(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets any.
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

Result<std::string> ReadOpenFile(int file, const std::string& path) {
  struct stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    return Fail(FailedPrecondition(fmt::format("{} is not a regular file", path)));
  }
  std::string bytes;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Fail(Unavailable(fmt::format("cannot read {}: error {}", path, errno)));
    }
    if (got == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
    if (bytes.size() > Environment::kMaxFileBytes) {
      return Fail(ResourceExhausted(
          fmt::format("{} is larger than {} bytes", path, Environment::kMaxFileBytes)));
    }
  }
}

Result<std::string> ReadProcessFile(const std::string& path) {
  // Without O_NONBLOCK a pipe without a writer would hold the loop up.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) return Fail(NotFound(fmt::format("{} does not exist", path)));
  if (file < 0) {
    return Fail(FailedPrecondition(fmt::format("cannot open {}: error {}", path, errno)));
  }
  Result<std::string> bytes = ReadOpenFile(file, path);
  ::close(file);
  return bytes;
}

}  // namespace

Environment Environment::OfProcess() {
  return {.variable = ProcessVariable, .read_file = ReadProcessFile};
}

std::string Environment::Get(const std::string& name, std::string_view otherwise) const {
  return variable(name).value_or(std::string(otherwise));
}

bool Environment::IsTrue(const std::string& name) const {
  std::string value = Get(name);
  std::ranges::transform(value, value.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return value == "true" || value == "1";
}

}  // namespace nstance::cloud
