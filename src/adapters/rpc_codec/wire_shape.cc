#include "adapters/rpc_codec/wire_shape.h"

#include <algorithm>
#include <optional>
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

// One walk over the bytes of one message. The way that sound messages take makes no Result: every
// report of every agent comes through here. What fails says so by `false` and leaves its error.
class WireWalker final {
 public:
  explicit WireWalker(std::size_t counters) : counts_(counters, 0) {}

  using Node = WireShape::Node;
  using Field = WireShape::Field;

  [[nodiscard]] bool WalkMessage(const Node& node, std::string_view bytes, int depth);
  // REQUIRES: something has returned false.
  [[nodiscard]] Error error() && { return std::move(*error_); }
  // What the error was about, for the counters of bad input.
  [[nodiscard]] bool limit_hit() const { return limit_hit_; }

 private:
  struct Tag {
    std::uint32_t number = 0;
    WireType type = WireType::kVarint;
  };

  [[nodiscard]] bool WalkField(const Field& field, WireType type, std::string_view& rest,
                               int depth);
  [[nodiscard]] bool WalkKnown(const Field& field, std::string_view content, int depth);
  [[nodiscard]] bool SkipUnknown(const Tag& tag, std::string_view& rest, int depth);
  [[nodiscard]] bool SkipGroup(const Tag& tag, std::string_view& rest, int depth);
  [[nodiscard]] bool Add(const Field& field, std::size_t elements);
  [[nodiscard]] bool AddToAll(std::size_t elements);

  [[nodiscard]] bool TakeVarint(std::string_view& rest, std::uint64_t& value);
  [[nodiscard]] bool TakeLongVarint(std::string_view& rest, std::uint64_t& value);
  [[nodiscard]] bool TakeTag(std::string_view& rest, Tag& tag);
  // The content of a field that is no group: of a varint and of fixed ones their bytes, else what
  // the length spans.
  [[nodiscard]] bool TakeContent(WireType type, std::string_view& rest, std::string_view& content);
  [[nodiscard]] bool TakeBytes(std::uint64_t length, std::string_view& rest,
                               std::string_view& content);
  [[nodiscard]] bool CountPacked(WireShape::Content content, std::string_view bytes,
                                 std::size_t& elements);
  [[nodiscard]] static bool IsPacked(const Field& field, WireType type) {
    return field.count == WireShape::Count::kRepeated && type == WireType::kLength &&
           field.content != WireShape::Content::kText &&
           field.content != WireShape::Content::kBytes &&
           field.content != WireShape::Content::kMessage;
  }
  [[nodiscard]] static bool Fits(const Field& field, WireType type);

  bool Refuse(Error error) {
    error_ = std::move(error);
    return false;
  }
  bool RefuseLimit(Error error) {
    limit_hit_ = true;
    return Refuse(std::move(error));
  }
  bool TooDeep();

  std::vector<std::uint32_t> counts_;  // Of repeated fields, by Field::counter.
  std::uint32_t all_ = 0;
  bool limit_hit_ = false;
  std::optional<Error> error_;
};

bool WireWalker::TakeLongVarint(std::string_view& rest, std::uint64_t& value) {
  value = 0;
  const std::size_t most = std::min(rest.size(), kMaxVarintBytes);
  for (std::size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<std::uint8_t>(rest[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) == 0) {
      rest.remove_prefix(i + 1);
      return true;
    }
  }
  return Refuse(
      Malformed(most < kMaxVarintBytes ? "it ends inside a number" : "a number too long"));
}

// Nearly all tags and lengths are a single byte.
inline bool WireWalker::TakeVarint(std::string_view& rest, std::uint64_t& value) {
  if (rest.empty() || (static_cast<std::uint8_t>(rest.front()) & 0x80U) != 0) {
    return TakeLongVarint(rest, value);
  }
  value = static_cast<std::uint8_t>(rest.front());
  rest.remove_prefix(1);
  return true;
}

inline bool WireWalker::TakeTag(std::string_view& rest, Tag& tag) {
  std::uint64_t value = 0;
  if (!TakeVarint(rest, value)) return false;
  const std::uint64_t number = value >> 3U;
  const auto type = static_cast<std::uint8_t>(value & 7U);
  if (number == 0 || number > kMaxFieldNumber) return Refuse(Malformed("no such field number"));
  if (type > static_cast<std::uint8_t>(WireType::kFixed32)) {
    return Refuse(Malformed("no such kind of field"));
  }
  tag = {.number = static_cast<std::uint32_t>(number), .type = static_cast<WireType>(type)};
  return true;
}

inline bool WireWalker::TakeBytes(std::uint64_t length, std::string_view& rest,
                                  std::string_view& content) {
  if (length > rest.size()) return Refuse(Malformed("a field is longer than what is left"));
  content = rest.substr(0, static_cast<std::size_t>(length));
  rest.remove_prefix(content.size());
  return true;
}

inline bool WireWalker::TakeContent(WireType type, std::string_view& rest,
                                    std::string_view& content) {
  if (type == WireType::kFixed32) return TakeBytes(4, rest, content);
  if (type == WireType::kFixed64) return TakeBytes(8, rest, content);
  const std::string_view before = rest;
  std::uint64_t value = 0;
  if (!TakeVarint(rest, value)) return false;
  if (type == WireType::kLength) return TakeBytes(value, rest, content);
  content = before.substr(0, before.size() - rest.size());
  return true;
}

bool WireWalker::CountPacked(WireShape::Content content, std::string_view bytes,
                             std::size_t& elements) {
  if (content == WireShape::Content::kVarint) {
    const auto ends = std::ranges::count_if(
        bytes, [](char c) { return (static_cast<std::uint8_t>(c) & 0x80U) == 0; });
    elements = static_cast<std::size_t>(ends);
    return true;
  }
  const std::size_t size = content == WireShape::Content::kFixed32 ? 4 : 8;
  if (bytes.size() % size != 0) {
    return Refuse(Malformed("a packed field ends inside an element"));
  }
  elements = bytes.size() / size;
  return true;
}

inline bool WireWalker::Fits(const Field& field, WireType type) {
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

bool WireWalker::TooDeep() {
  return RefuseLimit(InvalidArgument(fmt::format(
      "message is nested too deeply; at most {} levels are allowed", kMaxMessageDepth)));
}

bool WireWalker::AddToAll(std::size_t elements) {
  if (elements > kMaxMessageElements - all_) {
    return RefuseLimit(InvalidArgument(
        fmt::format("message has too many elements; at most {} are allowed", kMaxMessageElements)));
  }
  all_ += static_cast<std::uint32_t>(elements);
  return true;
}

bool WireWalker::Add(const Field& field, std::size_t elements) {
  if (!AddToAll(elements)) return false;
  std::uint32_t& count = counts_[field.counter];
  if (elements > field.limit - count) {
    return RefuseLimit(InvalidArgument(
        fmt::format("{}: too many elements; at most {} are allowed", field.name, field.limit)));
  }
  count += static_cast<std::uint32_t>(elements);
  return true;
}

bool WireWalker::SkipGroup(const Tag& tag, std::string_view& rest, int depth) {
  if (depth >= kMaxMessageDepth) return TooDeep();
  Tag inner;
  while (TakeTag(rest, inner)) {
    if (inner.type == WireType::kEndGroup) {
      if (inner.number == tag.number) return true;
      return Refuse(Malformed("a group ends that was not begun"));
    }
    if (!SkipUnknown(inner, rest, depth + 1)) return false;
  }
  return false;
}

bool WireWalker::SkipUnknown(const Tag& tag, std::string_view& rest, int depth) {
  if (!AddToAll(1)) return false;
  if (tag.type == WireType::kEndGroup) {
    return Refuse(Malformed("a group ends that was not begun"));
  }
  if (tag.type == WireType::kStartGroup) return SkipGroup(tag, rest, depth);
  std::string_view content;
  return TakeContent(tag.type, rest, content);
}

bool WireWalker::WalkKnown(const Field& field, std::string_view content, int depth) {
  if (field.content == WireShape::Content::kText && !IsValidUtf8(content)) {
    return Refuse(InvalidArgument(fmt::format("{}: text is not UTF-8", field.name)));
  }
  if (field.content != WireShape::Content::kMessage) return true;
  if (depth >= kMaxMessageDepth) return TooDeep();
  if (field.count == WireShape::Count::kRepeated) {  // A new element begins with nothing.
    for (std::size_t i = field.message->first_counter; i < field.message->last_counter; ++i) {
      counts_[i] = 0;
    }
  }
  return WalkMessage(*field.message, content, depth + 1);
}

bool WireWalker::WalkField(const Field& field, WireType type, std::string_view& rest, int depth) {
  std::string_view content;
  if (!TakeContent(type, rest, content)) return false;
  if (field.count == WireShape::Count::kRepeated) {
    std::size_t elements = 1;
    if (IsPacked(field, type) && !CountPacked(field.content, content, elements)) return false;
    if (!Add(field, elements)) return false;
  }
  return WalkKnown(field, content, depth);
}

bool WireWalker::WalkMessage(const Node& node, std::string_view bytes, int depth) {
  const auto end = node.fields.end();
  auto at = node.fields.begin();  // Writers go by number: what comes is here, or next.
  Tag tag;
  while (!bytes.empty()) {
    if (!TakeTag(bytes, tag)) return false;
    if (at != end && at->number < tag.number) ++at;
    if (at == end || at->number != tag.number) {
      at = std::ranges::lower_bound(node.fields, tag.number, {}, &Field::number);
    }
    const bool known = at != end && at->number == tag.number && Fits(*at, tag.type);
    if (!(known ? WalkField(*at, tag.type, bytes, depth) : SkipUnknown(tag, bytes, depth))) {
      return false;
    }
  }
  return true;
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
  if (walker.WalkMessage(*root_, bytes, 1)) return {};
  if (walker.limit_hit()) {
    source.Limit("message-elements");
  } else {
    source.Bad("message");
  }
  return Fail(std::move(walker).error());
}

}  // namespace nstance::rpc_codec
