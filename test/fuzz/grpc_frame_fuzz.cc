// The reader of gRPC's message prefixes: the first byte says how the rest is cut; whole and cut
// must give the same messages and the same error, and no more is held than has arrived.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "adapters/rpc/grpc_frame.h"
#include "base/check.h"

namespace nstance::grpc {
namespace {

struct Reading {
  std::vector<std::string> messages;
  std::optional<Error> error;
  bool at_boundary = true;

  friend bool operator==(const Reading&, const Reading&) = default;
};

Reading ReadAll(std::span<const std::uint8_t> bytes, std::size_t piece_size) {
  MessageReader reader({.max_message = 1'000});
  Reading out;
  std::size_t fed = 0;
  while (!bytes.empty()) {
    std::span<const std::uint8_t> piece = bytes.first(std::min(piece_size, bytes.size()));
    bytes = bytes.subspan(piece.size());
    while (!piece.empty()) {
      const Result<MessageReader::Step> step = reader.Read(piece);
      if (!step.has_value()) {
        out.error = step.error();
        return out;
      }
      CHECK(step->consumed > 0 && step->consumed <= piece.size());
      fed += step->consumed;
      piece = piece.subspan(step->consumed);
      if (step->message) out.messages.emplace_back(AsText(*step->message));
      CHECK(reader.buffered() <= fed && reader.buffered() <= 1'000);
    }
  }
  out.at_boundary = reader.AtBoundary();
  return out;
}

}  // namespace
}  // namespace nstance::grpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  CHECK(nstance::grpc::ReadAll(bytes, std::size_t{data[0]} % 16 + 1) ==
        nstance::grpc::ReadAll(bytes, size));
  return 0;
}
