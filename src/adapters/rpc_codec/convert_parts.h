// Pieces that the conversions of convert.h share: times, lengths of time, phases, maps of texts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "adapters/rpc_codec/convert.h"
#include "base/time.h"

namespace nstance::v1 {
enum InstancePhase : int;
}  // namespace nstance::v1

namespace nstance::rpc_codec {

// Empty when it is none: outside the years 1 to 9999, or a fraction that is no part of a second.
[[nodiscard]] std::optional<Timestamp> ReadTime(const google::protobuf::Timestamp& in);
// Years before 1, which the wire form does not have, go out as the first moment of year 1.
void WriteTime(Timestamp in, google::protobuf::Timestamp& out);

// Empty when it is none: beyond 10,000 years, or parts with different signs. What is longer than a
// Duration can be is the longest one.
[[nodiscard]] std::optional<Duration> ReadLength(const google::protobuf::Duration& in);
void WriteLength(Duration in, google::protobuf::Duration& out);
// "drain_timeout: not a valid length of time".
[[nodiscard]] std::string BadLength(std::string_view field);

[[nodiscard]] api::InstancePhase ReadPhase(int in);
[[nodiscard]] v1::InstancePhase WritePhase(api::InstancePhase in);

// `out` is a map field of protobuf.
template <class MapField>
void WriteTexts(const std::map<std::string, std::string>& in, MapField& out,
                WriteContext& context) {
  for (const auto& [name, value] : in) {
    std::string& slot = out[context.Clean(name)];
    slot = context.Clean(value);
  }
}

}  // namespace nstance::rpc_codec
