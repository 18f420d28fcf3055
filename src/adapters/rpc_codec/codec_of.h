// CodecOf: the codec of one message, made from its pair of conversions (convert.h). For the tables of
// this folder; it brings all of protobuf with it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/rpc_codec/wire_shape.h"
#include "base/check.h"

namespace nstance::rpc_codec {

// An arena whose first block the calling thread keeps; most messages fit into it.
[[nodiscard]] google::protobuf::ArenaOptions WithFirstBlock();

// The parts of decoding and encoding that are the same for all types.
[[nodiscard]] Status ParseInto(std::string_view bytes, google::protobuf::Message& message,
                               const InputSource& source);
[[nodiscard]] Error Unsound(const std::string& problem, const InputSource& source);
[[nodiscard]] std::string Serialize(const google::protobuf::Message& message);

template <class Struct, class Proto>
Result<RpcMessage> Decode(std::string_view bytes, const InputSource& source) {
  static const WireShape shape(*Proto::descriptor());
  RETURN_IF_ERROR(shape.Check(bytes, source));
  google::protobuf::Arena arena(WithFirstBlock());
  auto& in = *google::protobuf::Arena::CreateMessage<Proto>(&arena);
  RETURN_IF_ERROR(ParseInto(bytes, in, source));
  Struct out;
  ReadContext context;
  Read(in, out, context);
  if (!context.problem().empty()) return Fail(Unsound(context.problem(), source));
  RpcMessage message = RpcMessage::Of(std::move(out));
  // The struct is about as large as the message that it was made from; texts are counted apart.
  message.SetWeight(bytes.size() + arena.SpaceUsed());
  return message;
}

template <class Struct, class Proto>
std::string Encode(const RpcMessage& message) {
  const Struct* in = message.As<Struct>();
  CHECK(in != nullptr, "message is no {}", Proto::descriptor()->full_name());
  google::protobuf::Arena arena(WithFirstBlock());
  auto& out = *google::protobuf::Arena::CreateMessage<Proto>(&arena);
  WriteContext context;
  Write(*in, out, context);
  return Serialize(out);
}

template <class Struct, class Proto>
constexpr NamedCodec CodecOf(std::string_view name) {
  return {.name = name,
          .codec = {.decode = &Decode<Struct, Proto>, .encode = &Encode<Struct, Proto>}};
}

// The methods of all services of a file. Every message has a codec (a CHECK).
void AppendMethods(const google::protobuf::FileDescriptor& file, std::span<const NamedCodec> codecs,
                   std::vector<RpcMethod>& methods);

}  // namespace nstance::rpc_codec
