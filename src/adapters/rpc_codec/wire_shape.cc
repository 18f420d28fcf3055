#include "adapters/rpc_codec/wire_shape.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <google/protobuf/descriptor.h>

#include "adapters/rpc_codec/element_limits.h"
#include "base/check.h"
#include "base/text.h"

namespace nstance::rpc_codec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr std::size_t kMaxVarintBytes = 10;
constexpr std::uint64_t kMaxFieldNumber = (std::uint64_t{1} << 29U) - 1;

Error Malformed(std::string_view why) {
  return InvalidArgument(fmt::format("message is malformed: {}", why));
}

}  // namespace

// One walk over the bytes of one message.
class WireWalker final {
 public:
  explicit WireWalker(std::size_t counters) : counts_(counters, 0) {}

  using Node = WireShape::Node;
  using Field = WireShape::Field;

  [[nodiscard]] Status WalkMessage(const Node& node, std::string_view bytes, int depth);
  // What the error was about, for the counters of bad input.
  [[nodiscard]] bool limit_hit() const { return limit_hit_; }

 private:
  struct Tag {
    std::uint32_t number = 0;
    WireType type = WireType::kVarint;
  };

  [[nodiscard]] Status WalkField(const Node& node, const Tag& tag, std::string_view& rest,
                                 int depth);
  [[nodiscard]] Status WalkKnown(const Field& field, std::string_view content, int depth);
  [[nodiscard]] Status SkipUnknown(const Tag& tag, std::string_view& rest, int depth);
  [[nodiscard]] Status SkipGroup(const Tag& tag, std::string_view& rest, int depth);
  [[nodiscard]] Status Add(const Field& field, std::size_t elements);
  [[nodiscard]] Status AddToAll(std::size_t elements);

  [[nodiscard]] static Result<std::uint64_t> TakeVarint(std::string_view& rest);
  [[nodiscard]] static Result<Tag> TakeTag(std::string_view& rest);
  // The content of a field that is no group: of a varint and of fixed ones their bytes, else what
  // the length spans.
  [[nodiscard]] static Result<std::string_view> TakeContent(WireType type, std::string_view& rest);
  [[nodiscard]] static Result<std::string_view> TakeBytes(std::uint64_t length,
                                                          std::string_view& rest);
  [[nodiscard]] static Result<std::size_t> CountPacked(WireShape::Content content,
                                                       std::string_view bytes);
  [[nodiscard]] static bool IsPacked(const Field& field, WireType type) {
    return field.count == WireShape::Count::kRepeated && type == WireType::kLength &&
           field.content != WireShape::Content::kText &&
           field.content != WireShape::Content::kBytes &&
           field.content != WireShape::Content::kMessage;
  }
  [[nodiscard]] static bool Fits(const Field& field, WireType type);
  [[nodiscard]] Error TooDeep();

  std::vector<std::uint32_t> counts_;  // Of repeated fields, by Field::counter.
  std::uint32_t all_ = 0;
  bool limit_hit_ = false;
};

Result<std::uint64_t> WireWalker::TakeVarint(std::string_view& rest) {
  std::uint64_t value = 0;
  const std::size_t most = std::min(rest.size(), kMaxVarintBytes);
  for (std::size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<std::uint8_t>(rest[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) == 0) {
      rest.remove_prefix(i + 1);
      return value;
    }
  }
  return Fail(Malformed(most < kMaxVarintBytes ? "it ends inside a number" : "a number too long"));
}

Result<WireWalker::Tag> WireWalker::TakeTag(std::string_view& rest) {
  ASSIGN_OR_RETURN(const std::uint64_t value, TakeVarint(rest));
  const std::uint64_t number = value >> 3U;
  const auto type = static_cast<std::uint8_t>(value & 7U);
  if (number == 0 || number > kMaxFieldNumber) return Fail(Malformed("no such field number"));
  if (type > static_cast<std::uint8_t>(WireType::kFixed32)) {
    return Fail(Malformed("no such kind of field"));
  }
  return Tag{.number = static_cast<std::uint32_t>(number), .type = static_cast<WireType>(type)};
}

Result<std::string_view> WireWalker::TakeBytes(std::uint64_t length, std::string_view& rest) {
  if (length > rest.size()) return Fail(Malformed("a field is longer than what is left"));
  const std::string_view content = rest.substr(0, static_cast<std::size_t>(length));
  rest.remove_prefix(content.size());
  return content;
}

Result<std::string_view> WireWalker::TakeContent(WireType type, std::string_view& rest) {
  if (type == WireType::kFixed32) return TakeBytes(4, rest);
  if (type == WireType::kFixed64) return TakeBytes(8, rest);
  if (type == WireType::kLength) {
    ASSIGN_OR_RETURN(const std::uint64_t length, TakeVarint(rest));
    return TakeBytes(length, rest);
  }
  const std::string_view before = rest;
  RETURN_IF_ERROR(TakeVarint(rest));
  return before.substr(0, before.size() - rest.size());
}

Result<std::size_t> WireWalker::CountPacked(WireShape::Content content, std::string_view bytes) {
  if (content == WireShape::Content::kVarint) {
    const auto ends = std::ranges::count_if(
        bytes, [](char c) { return (static_cast<std::uint8_t>(c) & 0x80U) == 0; });
    return static_cast<std::size_t>(ends);
  }
  const std::size_t size = content == WireShape::Content::kFixed32 ? 4 : 8;
  if (bytes.size() % size != 0) return Fail(Malformed("a packed field ends inside an element"));
  return bytes.size() / size;
}

bool WireWalker::Fits(const Field& field, WireType type) {
  switch (field.content) {
    case WireShape::Content::kVarint: return type == WireType::kVarint || IsPacked(field, type);
    case WireShape::Content::kFixed32: return type == WireType::kFixed32 || IsPacked(field, type);
    case WireShape::Content::kFixed64: return type == WireType::kFixed64 || IsPacked(field, type);
    case WireShape::Content::kText:
    case WireShape::Content::kBytes:
    case WireShape::Content::kMessage: return type == WireType::kLength;
  }
  return false;
}

Error WireWalker::TooDeep() {
  limit_hit_ = true;
  return InvalidArgument(
      fmt::format("message is nested too deeply; at most {} levels are allowed", kMaxMessageDepth));
}

Status WireWalker::AddToAll(std::size_t elements) {
  if (elements > kMaxMessageElements - all_) {
    limit_hit_ = true;
    return Fail(InvalidArgument(
        fmt::format("message has too many elements; at most {} are allowed", kMaxMessageElements)));
  }
  all_ += static_cast<std::uint32_t>(elements);
  return {};
}

Status WireWalker::Add(const Field& field, std::size_t elements) {
  RETURN_IF_ERROR(AddToAll(elements));
  std::uint32_t& count = counts_[field.counter];
  if (elements > field.limit - count) {
    limit_hit_ = true;
    return Fail(InvalidArgument(
        fmt::format("{}: too many elements; at most {} are allowed", field.name, field.limit)));
  }
  count += static_cast<std::uint32_t>(elements);
  return {};
}

Status WireWalker::SkipGroup(const Tag& tag, std::string_view& rest, int depth) {
  if (depth >= kMaxMessageDepth) return Fail(TooDeep());
  while (true) {
    ASSIGN_OR_RETURN(const Tag inner, TakeTag(rest));
    if (inner.type == WireType::kEndGroup) {
      if (inner.number == tag.number) return {};
      return Fail(Malformed("a group ends that was not begun"));
    }
    RETURN_IF_ERROR(SkipUnknown(inner, rest, depth + 1));
  }
}

Status WireWalker::SkipUnknown(const Tag& tag, std::string_view& rest, int depth) {
  RETURN_IF_ERROR(AddToAll(1));
  if (tag.type == WireType::kEndGroup) {
    return Fail(Malformed("a group ends that was not begun"));
  }
  if (tag.type == WireType::kStartGroup) return SkipGroup(tag, rest, depth);
  RETURN_IF_ERROR(TakeContent(tag.type, rest));
  return {};
}

Status WireWalker::WalkKnown(const Field& field, std::string_view content, int depth) {
  if (field.content == WireShape::Content::kText && !IsValidUtf8(content)) {
    return Fail(InvalidArgument(fmt::format("{}: text is not UTF-8", field.name)));
  }
  if (field.content != WireShape::Content::kMessage) return {};
  if (depth >= kMaxMessageDepth) return Fail(TooDeep());
  if (field.count == WireShape::Count::kRepeated) {  // A new element begins with nothing.
    for (std::size_t i = field.message->first_counter; i < field.message->last_counter; ++i) {
      counts_[i] = 0;
    }
  }
  return WalkMessage(*field.message, content, depth + 1);
}

Status WireWalker::WalkField(const Node& node, const Tag& tag, std::string_view& rest, int depth) {
  const auto found = std::ranges::lower_bound(node.fields, tag.number, {}, &Field::number);
  const bool known = found != node.fields.end() && found->number == tag.number;
  if (!known || !Fits(*found, tag.type)) return SkipUnknown(tag, rest, depth);

  ASSIGN_OR_RETURN(const std::string_view content, TakeContent(tag.type, rest));
  if (found->count == WireShape::Count::kRepeated) {
    std::size_t elements = 1;
    if (IsPacked(*found, tag.type)) {
      ASSIGN_OR_RETURN(elements, CountPacked(found->content, content));
    }
    RETURN_IF_ERROR(Add(*found, elements));
  }
  return WalkKnown(*found, content, depth);
}

Status WireWalker::WalkMessage(const Node& node, std::string_view bytes, int depth) {
  while (!bytes.empty()) {
    ASSIGN_OR_RETURN(const Tag tag, TakeTag(bytes));
    RETURN_IF_ERROR(WalkField(node, tag, bytes, depth));
  }
  return {};
}

WireShape::WireShape(const Descriptor& type) : root_(Expand(type, 0)) {}

WireShape::Field WireShape::Describe(const FieldDescriptor& descriptor, int depth) {
  Field field;
  field.number = static_cast<std::uint32_t>(descriptor.number());
  field.name = descriptor.name();
  switch (descriptor.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: field.content = Content::kMessage; break;
    case FieldDescriptor::CPPTYPE_STRING:
      field.content =
          descriptor.type() == FieldDescriptor::TYPE_BYTES ? Content::kBytes : Content::kText;
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE: field.content = Content::kFixed64; break;
    case FieldDescriptor::CPPTYPE_FLOAT: field.content = Content::kFixed32; break;
    default:
      // The contract has no fixed-width integers; this keeps it so.
      CHECK(descriptor.type() != FieldDescriptor::TYPE_FIXED32 &&
                descriptor.type() != FieldDescriptor::TYPE_FIXED64 &&
                descriptor.type() != FieldDescriptor::TYPE_SFIXED32 &&
                descriptor.type() != FieldDescriptor::TYPE_SFIXED64,
            "{}", descriptor.full_name());
      field.content = Content::kVarint;
  }
  if (descriptor.is_repeated()) {
    field.count = Count::kRepeated;
    field.counter = counters_++;
    field.limit = ElementLimit(descriptor.full_name(),
                               field.content == Content::kMessage && !descriptor.is_map()
                                   ? ElementKind::kMessage
                                   : ElementKind::kOther);
  }
  if (field.content == Content::kMessage) {
    field.message = Expand(*descriptor.message_type(), depth + 1);
  }
  return field;
}

std::unique_ptr<const WireShape::Node> WireShape::Expand(const Descriptor& type, int depth) {
  CHECK(depth < kMaxMessageDepth, "{} holds itself", type.full_name());
  auto node = std::make_unique<Node>();
  node->first_counter = counters_;
  for (int i = 0; i < type.field_count(); ++i) {
    node->fields.push_back(Describe(*type.field(i), depth));
  }
  node->last_counter = counters_;
  std::ranges::sort(node->fields, {}, &Field::number);
  return node;
}

Status WireShape::Check(std::string_view bytes, const InputSource& source) const {
  WireWalker walker(counters_);
  Status status = walker.WalkMessage(*root_, bytes, 1);
  if (!status) {
    if (walker.limit_hit()) {
      source.Limit("message-elements");
    } else {
      source.Bad("message");
    }
  }
  return status;
}

}  // namespace nstance::rpc_codec
