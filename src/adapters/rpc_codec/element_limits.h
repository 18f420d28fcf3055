// How many elements a repeated or map field may have on the wire, per message that holds it.
#pragma once

#include <cstdint>
#include <string_view>

namespace nstance::rpc_codec {

// `full_name` as descriptors have it: "nstance.v1.GroupConfig.vars". Fields without a limit of
// their own: 16,384 for messages, kMaxMessageElements for everything smaller.
enum class ElementKind : std::uint8_t { kMessage, kOther };
[[nodiscard]] std::uint32_t ElementLimit(std::string_view full_name, ElementKind kind);

}  // namespace nstance::rpc_codec
