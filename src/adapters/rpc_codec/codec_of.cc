#include "adapters/rpc_codec/codec_of.h"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/core.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include "base/check.h"

namespace nstance::rpc_codec {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kFirstBlockBytes = std::size_t{32} * 1024;

RpcKind KindOf(const pb::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcKind::kBidirectional : RpcKind::kClientStream;
  }
  return method.server_streaming() ? RpcKind::kServerStream : RpcKind::kUnary;
}

const RpcMessageCodec& CodecNamed(std::span<const NamedCodec> codecs, const pb::Descriptor& type) {
  const auto found = std::ranges::find(codecs, type.full_name(), &NamedCodec::name);
  CHECK(found != codecs.end(), "no codec for {}", type.full_name());
  return found->codec;
}

// Most messages fit into the first block, which the thread keeps.
pb::ArenaOptions WithFirstBlock() {
  thread_local const auto block = std::make_unique<std::array<char, kFirstBlockBytes>>();
  pb::ArenaOptions options;
  options.initial_block = block->data();
  options.initial_block_size = block->size();
  return options;
}

Status ParseInto(std::string_view bytes, pb::Message& message, const InputSource& source) {
  pb::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                              static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxMessageDepth);
  if (message.ParseFromCodedStream(&in) && in.ConsumedEntireMessage()) return {};
  source.Bad("message");
  return Fail(InvalidArgument(fmt::format("bytes are no {}", message.GetDescriptor()->name())));
}

Error Unsound(const std::string& problem, const InputSource& source) {
  source.Bad("message");
  return InvalidArgument(problem);
}

std::string Serialize(const pb::Message& message) {
  std::string bytes;
  {
    pb::io::StringOutputStream stream(&bytes);
    pb::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    CHECK(message.SerializeToCodedStream(&out), "{}", message.GetDescriptor()->full_name());
  }
  return bytes;
}

}  // namespace

Result<RpcMessage> DecodeAs(const Decoding& type, std::string_view bytes,
                            const InputSource& source) {
  RETURN_IF_ERROR(type.shape.Check(bytes, source));
  pb::Arena arena(WithFirstBlock());
  pb::Message& in = *type.prototype.New(&arena);
  RETURN_IF_ERROR(ParseInto(bytes, in, source));
  ReadContext context;
  RpcMessage message = type.read(in, context);
  if (!context.problem().empty()) return Fail(Unsound(context.problem(), source));
  // The struct is about as large as the message that it was made from; texts are counted apart.
  message.SetWeight(bytes.size() + arena.SpaceUsed());
  return message;
}

std::string EncodeAs(const Encoding& type, const RpcMessage& message) {
  pb::Arena arena(WithFirstBlock());
  pb::Message& out = *type.prototype.New(&arena);
  WriteContext context;
  CHECK(type.write(message, out, context), "message is no {}", out.GetDescriptor()->full_name());
  return Serialize(out);
}

void AppendMethods(const pb::FileDescriptor& file, std::span<const NamedCodec> codecs,
                   std::vector<RpcMethod>& methods) {
  for (int s = 0; s < file.service_count(); ++s) {
    const pb::ServiceDescriptor& service = *file.service(s);
    for (int m = 0; m < service.method_count(); ++m) {
      const pb::MethodDescriptor& method = *service.method(m);
      methods.push_back({.path = fmt::format("/{}/{}", service.full_name(), method.name()),
                         .kind = KindOf(method),
                         .request = CodecNamed(codecs, *method.input_type()),
                         .response = CodecNamed(codecs, *method.output_type())});
    }
  }
}

}  // namespace nstance::rpc_codec
