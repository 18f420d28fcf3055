// ObjectVersion: which write of an object somebody has seen; and the conditions that writes are
// made under.
//
// A version is an opaque text (an ETag, a generation): only equality counts. Every write of ours
// changes the bytes, so a content hash serves as a version. An empty one means that the store did
// not tell.
#pragma once

#include <string>
#include <variant>

namespace nstance {

struct ObjectVersion {
  std::string text;
  friend bool operator==(const ObjectVersion&, const ObjectVersion&) = default;
};

// Conditions of a write.
struct IfAbsent {
  friend bool operator==(IfAbsent, IfAbsent) = default;
};
struct IfVersion {
  ObjectVersion version;
  friend bool operator==(const IfVersion&, const IfVersion&) = default;
};
using PutCondition = std::variant<IfAbsent, IfVersion>;

}  // namespace nstance
