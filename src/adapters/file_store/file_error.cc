#include "adapters/file_store/file_error.h"

#include <cerrno>
#include <system_error>

#include <fmt/core.h>

namespace nstance {
namespace {

std::string_view Advice(int error_number) {
  switch (error_number) {
    case ENOSPC: return "; free some space on the disk of the file store";
    case EDQUOT: return "; raise the disk quota of this process's user or free some space";
    case EACCES:
      return "; the user of this process must own the bucket's directory, everything in it, and "
             "the directory of locks beside it";
    case EPERM:
    case EOPNOTSUPP:
      return "; the file store needs a file system with hard links that this process's user may "
             "change";
    case EROFS: return "; the file system is mounted read-only";
    case EMFILE:
    case ENFILE: return "; raise the limit of open files";
    case ENOLCK: return "; the file system has no working locks: use a local one";
    default: return "";
  }
}

}  // namespace

Error FileError(int error_number, std::string_view doing) {
  const std::string what = std::generic_category().message(error_number);
  switch (error_number) {
    case ENAMETOOLONG:
      return InvalidArgument(
          fmt::format("{}: {}; a component of a key has at most 255 bytes here", doing, what));
    case ELOOP:
      return FailedPrecondition(
          fmt::format("{}: a symbolic link is in the way; the file store follows none: move the "
                      "real file there",
                      doing));
    default: return Unavailable(fmt::format("{}: {}{}", doing, what, Advice(error_number)));
  }
}

bool SurelyNotDone(int error_number) {
  switch (error_number) {
    case EACCES:
    case EDQUOT:
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case EMLINK:
    case ENAMETOOLONG:
    case ENOENT:
    case ENOSPC:
    case ENOTDIR:
    case EOPNOTSUPP:
    case EPERM:
    case EROFS:
    case EXDEV: return true;
    default: return false;
  }
}

}  // namespace nstance
