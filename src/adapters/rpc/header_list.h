// Headers that are about to be sent, as strings of our own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "adapters/rpc/grpc_metadata.h"
#include "adapters/rpc/h2_session.h"
#include "base/input_probe.h"

namespace nstance::grpc {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// Entries that HTTP/2 cannot carry are left out and counted.
inline void AppendMetadata(HeaderList& headers, const Metadata& metadata,
                           const InputSource& source) {
  for (const MetadataEntry& entry : metadata) {
    Result<std::string> value = EncodeValue(entry);
    if (value.has_value()) {
      headers.emplace_back(entry.name, std::move(value).value());
    } else {
      source.Bad("metadata_to_send");
    }
  }
}

// Views into `list`.
[[nodiscard]] inline std::vector<H2Header> ToHeaders(const HeaderList& list) {
  std::vector<H2Header> headers;
  headers.reserve(list.size());
  for (const auto& [name, value] : list) headers.push_back({.name = name, .value = value});
  return headers;
}

}  // namespace nstance::grpc
