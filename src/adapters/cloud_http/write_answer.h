// What an HTTP status means for an object store: the part that S3 and GCS share. What a store says
// in words of its own (a missing bucket, a rate limit) its adapter has looked at before.
#pragma once

#include <string>

#include "base/result.h"

namespace nstance::cloud {

// The normal form of a write (ports/object_store.h) that was answered with something else than
// success. `detail` is what the store said, for the message.
//
//   304, 409, 412          conflict
//   429                    not done
//   other 3xx              not done; a redirect is never followed
//   401, 403               kPermissionDenied, not done
//   404                    kFailedPrecondition, not done: there is no such bucket
//   other 4xx but 408      kInvalidArgument, not done
//   408, 5xx, all others   maybe done
[[nodiscard]] Error WriteError(int status, const std::string& detail);

// A read that was answered with something else than success or 404. Says nothing about the object.
[[nodiscard]] Error ReadError(int status, const std::string& detail);

// Errors of the HTTP client to a write, in the normal form: a full queue is `not done`, an answer
// above its limit `maybe done`.
[[nodiscard]] Error WriteTransportError(Error error);

}  // namespace nstance::cloud
