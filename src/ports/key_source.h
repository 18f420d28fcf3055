// KeySource: where an encryption key comes from. Asked once at start; a cloud's answer takes a
// while, so the call is asynchronous.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "crypto/envelope.h"
#include "ports/pending.h"

namespace nstance {

class KeySource {
 public:
  KeySource() = default;
  KeySource(const KeySource&) = delete;
  KeySource& operator=(const KeySource&) = delete;
  virtual ~KeySource() = default;

  using Done = std::move_only_function<void(Result<crypto::EncryptionKey>)>;

  // kInvalidArgument or kFailedPrecondition: the source is there but unusable; the message says
  // what to do and never shows the value.
  [[nodiscard]] virtual Pending Load(Done done) = 0;

  // "environment variable NAME", "file /path": for messages.
  [[nodiscard]] virtual std::string Description() const = 0;
};

}  // namespace nstance
