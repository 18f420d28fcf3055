// FileError: what a failed system call means to a store's caller, and what can be done about it.
#pragma once

#include <string_view>

#include "base/error.h"

namespace nstance {

// `doing` says what was tried ("writing config/a.jsonc"). The outcome is kNotDone; a caller who
// cannot exclude the effect adds MaybeDone().
//   - a name that is too long     kInvalidArgument
//   - a symbolic link in the way  kFailedPrecondition: the store follows none
//   - everything else             kUnavailable, with advice where there is any (space, permissions,
//                                 descriptors, hard links)
[[nodiscard]] Error FileError(int error_number, std::string_view doing);

// True when link(2) or rename(2) with this error has surely changed nothing. Others (EIO above all)
// may come after the effect.
[[nodiscard]] bool SurelyNotDone(int error_number);

}  // namespace nstance
