#include "adapters/key_source/local_key_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include <fmt/core.h>

#include "base/text.h"
#include "crypto/secret.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 4'096;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

// Answers on the loop, never from inside Load().
Pending Answer(Loop& loop, Result<crypto::EncryptionKey> key, KeySource::Done done) {
  return loop.CallAt(loop.Now(), [key = std::move(key), done = std::move(done)]() mutable {
    done(std::move(key));
  });
}

std::string ErrnoText(int error) {
  std::array<char, 256> buffer{};
  return strerror_r(error, buffer.data(), buffer.size());
}

Status CheckFile(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) return Fail(Unavailable(ErrnoText(errno)));
  if (!S_ISREG(status.st_mode)) return Fail(FailedPrecondition("it is not a regular file"));
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return Fail(FailedPrecondition(
        fmt::format("it belongs to user {}; chown it to the user of this process", status.st_uid)));
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Fail(FailedPrecondition(
        fmt::format("others than its owner may use it (mode {:04o}); chmod it to 0600 or 0400",
                    status.st_mode & 07777U)));
  }
  if (status.st_size > static_cast<off_t>(kMaxKeyFileBytes)) {
    return Fail(FailedPrecondition(
        fmt::format("it has {} bytes; at most {} are allowed", status.st_size, kMaxKeyFileBytes)));
  }
  return {};
}

// Without following a symbolic link, and without waiting for the writer of a pipe.
Result<crypto::EncryptionKey> ReadKeyFile(const std::string& path) {
  const Descriptor file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (file.number() < 0) {
    if (errno == ELOOP)
      return Fail(FailedPrecondition("it is a symbolic link; name the file itself"));
    if (errno == ENOENT) return Fail(FailedPrecondition("it does not exist"));
    return Fail(FailedPrecondition(ErrnoText(errno)));
  }
  RETURN_IF_ERROR(CheckFile(file.number()));
  crypto::Secret buffer(kMaxKeyFileBytes + 1);
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    const auto free = buffer.MutableBytes().subspan(filled);
    const ssize_t count = read(file.number(), free.data(), free.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(Unavailable(ErrnoText(errno)));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  return crypto::EncryptionKey::Parse(buffer.Reveal().first(filled));
}

Result<crypto::EncryptionKey> ReadKeyVariable(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return Fail(FailedPrecondition("it is not set"));
  return crypto::EncryptionKey::Parse(AsBytes(value));
}

}  // namespace

Pending EnvironmentKeySource::Load(Done done) {
  return Answer(loop_, Under(ReadKeyVariable(variable_), Description()), std::move(done));
}

std::string EnvironmentKeySource::Description() const {
  return fmt::format("encryption key in environment variable {}", variable_);
}

Pending FileKeySource::Load(Done done) {
  return Answer(loop_, Under(ReadKeyFile(path_), Description()), std::move(done));
}

std::string FileKeySource::Description() const {
  return fmt::format("encryption key in file {}", path_);
}

}  // namespace nstance
