// CodecOf: the codec of one message, made from its pair of conversions (convert.h), for the tables
// of this folder. Whoever uses it includes the generated header of the message.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/rpc_codec/convert.h"
#include "adapters/rpc_codec/method_table.h"
#include "adapters/rpc_codec/wire_shape.h"

namespace google::protobuf {
class FileDescriptor;
class Message;
}  // namespace google::protobuf

namespace nstance::rpc_codec {

// What decoding and encoding need to know of a type; the rest is the same for all of them.
struct Decoding {
  const WireShape& shape;
  const google::protobuf::Message& prototype;
  RpcMessage (*read)(const google::protobuf::Message& in, ReadContext& context);
};
struct Encoding {
  const google::protobuf::Message& prototype;
  // False: the message is none of that type.
  bool (*write)(const RpcMessage& in, google::protobuf::Message& out, WriteContext& context);
};
[[nodiscard]] Result<RpcMessage> DecodeAs(const Decoding& type, std::string_view bytes,
                                          const InputSource& source);
[[nodiscard]] std::string EncodeAs(const Encoding& type, const RpcMessage& message);

template <class Struct, class Proto>
Result<RpcMessage> Decode(std::string_view bytes, const InputSource& source) {
  static const WireShape shape(*Proto::descriptor());
  return DecodeAs({.shape = shape,
                   .prototype = Proto::default_instance(),
                   .read =
                       [](const google::protobuf::Message& in, ReadContext& context) {
                         Struct out;
                         Read(static_cast<const Proto&>(in), out, context);
                         return RpcMessage::Of(std::move(out));
                       }},
                  bytes, source);
}

template <class Struct, class Proto>
std::string Encode(const RpcMessage& message) {
  return EncodeAs(
      {.prototype = Proto::default_instance(),
       .write =
           [](const RpcMessage& in, google::protobuf::Message& out, WriteContext& context) {
             const Struct* value = in.As<Struct>();
             if (value == nullptr) return false;
             Write(*value, static_cast<Proto&>(out), context);
             return true;
           }},
      message);
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
