#include "test/adapters/rpc_codec/filled_message.h"

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include "base/check.h"

namespace nstance::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

constexpr std::int64_t kBillion = 1'000'000'000;

// Some have text that is no ASCII, and all differ.
std::string SomeText(const FieldDescriptor& field, Prng& prng) {
  return fmt::format("{}-{:x}-\xC3\xA4\xE2\x82\xAC", field.name(), prng.Next());
}

std::string SomeBytes(Prng& prng) {
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += static_cast<char>(prng.Below(256));
  return bytes;
}

bool FillTime(Message& message, Prng& prng) {
  if (auto* time = dynamic_cast<google::protobuf::Timestamp*>(&message)) {
    time->set_seconds(prng.Between(-60 * kBillion, 250 * kBillion));
    time->set_nanos(static_cast<std::int32_t>(prng.Between(1, kBillion - 1)));
    return true;
  }
  if (auto* length = dynamic_cast<google::protobuf::Duration*>(&message)) {
    const std::int64_t sign = prng.Chance(1, 2) ? 1 : -1;
    length->set_seconds(sign * prng.Between(1, 9 * kBillion));
    length->set_nanos(static_cast<std::int32_t>(sign * prng.Between(1, kBillion - 1)));
    return true;
  }
  return false;
}

int SomeEnum(const FieldDescriptor& field, Prng& prng) {
  const auto& type = *field.enum_type();
  const auto last = static_cast<std::uint64_t>(type.value_count() - 1);
  return type.value(static_cast<int>(1 + prng.Below(last)))->number();
}

// One value for a singular field; one more for a repeated one.
void Put(Message& message, const FieldDescriptor& field, Prng& prng) {
  const Reflection& is = *message.GetReflection();
  const bool add = field.is_repeated();
  const auto number = static_cast<std::int64_t>(prng.Between(1, 1'000'000'000));
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(add ? *is.AddMessage(&message, &field) : *is.MutableMessage(&message, &field),
                  prng);
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string text =
          field.type() == FieldDescriptor::TYPE_BYTES ? SomeBytes(prng) : SomeText(field, prng);
      return add ? is.AddString(&message, &field, std::move(text))
                 : is.SetString(&message, &field, std::move(text));
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return is.SetInt32(&message, &field, static_cast<std::int32_t>(-number));
    case FieldDescriptor::CPPTYPE_INT64: return is.SetInt64(&message, &field, -number * kBillion);
    case FieldDescriptor::CPPTYPE_UINT32:
      return is.SetUInt32(&message, &field, static_cast<std::uint32_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      return is.SetUInt64(&message, &field, static_cast<std::uint64_t>(number) << 32U);
    case FieldDescriptor::CPPTYPE_BOOL: return is.SetBool(&message, &field, true);
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = static_cast<double>(number) / 7;
      return add ? is.AddDouble(&message, &field, value) : is.SetDouble(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return add ? is.AddEnumValue(&message, &field, SomeEnum(field, prng))
                 : is.SetEnumValue(&message, &field, SomeEnum(field, prng));
    default: CHECK(false, "{}: a type that the contract does not use", field.full_name());
  }
}

}  // namespace

std::unique_ptr<Message> NewMessage(std::string_view full_name) {
  const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
      std::string(full_name));
  CHECK(type != nullptr, "{}", full_name);
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

void Fill(Message& message, Prng& prng) {
  if (FillTime(message, prng)) return;
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.real_containing_oneof() != nullptr) continue;
    const int count = field.is_map() ? 3 : field.is_repeated() ? 2 : 1;
    for (int n = 0; n < count; ++n) Put(message, field, prng);
  }
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const OneofDescriptor& oneof = *type.oneof_decl(i);
    const auto members = static_cast<std::uint64_t>(oneof.field_count());
    Put(message, *oneof.field(static_cast<int>(prng.Below(members))), prng);
  }
}

std::string BytesOf(const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    CHECK(message.SerializeToCodedStream(&out));
  }
  return bytes;
}

}  // namespace nstance::test
