// Files of the local provider: descriptors that close themselves, reads with a limit, writes that
// are on disk when they return, and the removal of whole trees. Names are relative to an open
// folder, and no symbolic link is followed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace nstance::provider_local {

class Descriptor final {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  // It is somebody else's to close from here on.
  [[nodiscard]] int Release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// What a failed system call means: no space or quota is kResourceExhausted, missing rights and
// read-only disks kPermissionDenied, a symbolic link or another kind of file in the way
// kFailedPrecondition, a missing file or process kNotFound, everything else kUnavailable. `doing`
// says what was tried.
[[nodiscard]] Error SystemError(int error_number, std::string_view doing);

[[nodiscard]] Result<Descriptor> OpenFolder(int parent, const std::string& name);
[[nodiscard]] Result<Descriptor> OpenFile(int parent, const std::string& name, int flags);
// kDataLoss above `limit` bytes.
[[nodiscard]] Result<std::string> ReadFile(int folder, const std::string& name, std::size_t limit);
// A file that is not there yet.
[[nodiscard]] Status WriteNewFile(int folder, const std::string& name, std::string_view bytes,
                                  mode_t mode);
// In one step, and whole; of several writers, one a process, one wins and the others are told
// kAlreadyExists.
[[nodiscard]] Status PlaceFile(int folder, const std::string& name, std::string_view bytes,
                               mode_t mode);
// In one step, whatever was there. One writer at a time.
[[nodiscard]] Status ReplaceFile(int folder, const std::string& name, std::string_view bytes,
                                 mode_t mode);
[[nodiscard]] Status MakeFolder(int parent, const std::string& name, mode_t mode);
[[nodiscard]] Status SyncFolder(int folder, std::string_view what);
[[nodiscard]] Status WriteAll(int file, std::string_view bytes, std::string_view what);

// The names in a folder, in no order.
[[nodiscard]] Result<std::vector<std::string>> NamesIn(int folder);

// Removes a folder with everything in it, however deep: descriptors and stack stay bounded, rights
// that the tree's owner took away are given back first. What is not there is success.
[[nodiscard]] Status RemoveTree(int parent, const std::string& name);

}  // namespace nstance::provider_local
