// WireShape: what the bytes of one message type may hold, checked before protobuf builds anything.
//
// Tiny elements become large objects: two bytes of an empty element cost protobuf and us some
// hundred. So the bytes are walked once, without allocating by what they claim, and refused when
//   - they are malformed: cut, a length beyond the end, field number 0, an unknown wire type
//   - text is not UTF-8 (protobuf would refuse it too, and write about it to standard error)
//   - messages or groups nest deeper than 64
//   - a repeated or map field has more elements than its limit (element_limits.h)
//   - there are more than 131,072 elements and unknown fields altogether
// Elements are counted as they stand on the wire, a packed field by its elements, a map by its
// entries, equal keys included. A singular message that occurs several times is merged by protobuf,
// so its elements are counted together.
//
// Time is linear in the bytes, memory constant per type. Immutable once made; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_probe.h"
#include "base/result.h"

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace nstance::rpc_codec {

inline constexpr int kMaxMessageDepth = 64;
inline constexpr std::uint32_t kMaxMessageElements = 131'072;

class WireShape final {
 public:
  // REQUIRES: no message of the type can hold one of its own type.
  explicit WireShape(const google::protobuf::Descriptor& type);

  // kInvalidArgument with the field and what is allowed.
  [[nodiscard]] Status Check(std::string_view bytes, const InputSource& source) const;

 private:
  friend class WireWalker;

  enum class Content : std::uint8_t {
    kVarint,
    kFixed32,
    kFixed64,
    kText,
    kBytes,
    kMessage,
  };
  enum class Count : std::uint8_t { kSingle, kRepeated };

  struct Node;
  struct Field {
    std::uint32_t number = 0;
    Content content = Content::kVarint;
    Count count = Count::kSingle;
    std::uint32_t limit = 0;              // Repeated only.
    std::size_t counter = 0;              // Repeated only: its place among all counters.
    std::unique_ptr<const Node> message;  // Content::kMessage only.
    std::string_view name;                // Of the descriptor, which lives for ever.
  };
  // One message type at one place of the tree.
  struct Node {
    std::vector<Field> fields;      // By number.
    std::size_t first_counter = 0;  // The counters of this subtree.
    std::size_t last_counter = 0;   // One past.
  };

  [[nodiscard]] std::unique_ptr<const Node> Expand(const google::protobuf::Descriptor& type,
                                                   int depth);
  [[nodiscard]] Field Describe(const google::protobuf::FieldDescriptor& field, int depth);

  std::size_t counters_ = 0;
  std::unique_ptr<const Node> root_;
};

}  // namespace nstance::rpc_codec
