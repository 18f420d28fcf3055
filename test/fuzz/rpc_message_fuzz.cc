// Messages of the wire contract. The first byte picks the type, the rest are its bytes. Any bytes
// give a message or an error that says why; a message that was read is written and read back as
// the same; what protobuf takes, the walker before it has taken too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "adapters/rpc_codec/method_table.h"
#include "base/check.h"
#include "base/text.h"

namespace nstance {
namespace {

void Check(const rpc_codec::NamedCodec& named, std::string_view bytes) {
  const Result<RpcMessage> message = named.codec.decode(bytes, {});
  if (!message) {
    CHECK(message.error().code == Code::kInvalidArgument, "{}", message.error().ToString());
    CHECK(!message.error().message.empty());
    CHECK(IsValidUtf8(message.error().message), "an error goes to the peer");
    return;
  }
  const std::string written = named.codec.encode(*message);
  // It may differ from what came (unknown fields, enum values and times that we do not know), but
  // what was written is the form that stays.
  const Result<RpcMessage> again = named.codec.decode(written, {});
  CHECK(again.has_value(), "{}: {}", named.name, again.error().message);
  CHECK(named.codec.encode(*again) == written, "{}", named.name);
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto codecs = nstance::rpc_codec::MessageCodecs();
  nstance::Check(codecs[data[0] % codecs.size()],
                 std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
