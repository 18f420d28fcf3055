// ObjectKey: the name of an object in a store. Made only from checked parts, so no tenant, shard or
// id can reach outside its place, whatever it is called.
//
// A key is 1 to 1,024 bytes of components separated by `/`: printable ASCII without backslash, no
// empty component, no `.` or `..`, not starting with `/`. That is safe as a file name below a
// directory and needs no escaping decisions on S3 or GCS.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace nstance {

class ObjectKey {
 public:
  [[nodiscard]] static Result<ObjectKey> Parse(std::string_view text);

  [[nodiscard]] const std::string& text() const { return text_; }

  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
  friend std::strong_ordering operator<=>(const ObjectKey& a, const ObjectKey& b) {
    return a.text_ <=> b.text_;
  }

 private:
  explicit ObjectKey(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace nstance
