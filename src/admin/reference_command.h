// What `nstance-admin completion|manual` was asked to print.
#pragma once

#include <cstdint>

namespace nstance::admin {

enum class ReferenceKind : std::uint8_t { kBash, kZsh, kMan, kMarkdown };

// The commands and flags of this program, in the form that a shell or a reader wants.
struct ReferenceCommand {
  ReferenceKind kind = ReferenceKind::kMan;
  friend bool operator==(const ReferenceCommand&, const ReferenceCommand&) = default;
};

}  // namespace nstance::admin
