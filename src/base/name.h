// Names and identifiers as distinct types: a TenantId is never passed where a GroupKey belongs, and
// a value of one of these types has been checked when it was made.
//
// A name (cluster, shard, tenant, group, subnet pool) is 1 to 32 characters of lower-case letters
// and digits with single inner hyphens: ^[a-z0-9]+(-[a-z0-9]+)*$. It is safe in object keys, file
// names, certificate subjects and metric labels without escaping. Tenant `default` always exists.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace nstance {

inline constexpr std::size_t kMaxNameLength = 32;

// Success, or an error that says what is wrong with `text` and what is allowed. `what` is the kind
// of name, for the message: "tenant".
[[nodiscard]] Status CheckName(std::string_view text, std::string_view what);

// `Kind` is a tag with `static constexpr std::string_view kWhat`.
template <class Kind>
class Name {
 public:
  [[nodiscard]] static Result<Name> Parse(std::string_view text) {
    RETURN_IF_ERROR(CheckName(text, Kind::kWhat));
    return Name(std::string(text));
  }

  [[nodiscard]] const std::string& text() const { return text_; }

  friend bool operator==(const Name&, const Name&) = default;
  friend std::strong_ordering operator<=>(const Name& a, const Name& b) {
    return a.text_ <=> b.text_;
  }

 private:
  explicit Name(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

struct ClusterKind {
  static constexpr std::string_view kWhat = "cluster";
};
struct ShardKind {
  static constexpr std::string_view kWhat = "shard";
};
struct TenantKind {
  static constexpr std::string_view kWhat = "tenant";
};
struct GroupKind {
  static constexpr std::string_view kWhat = "group";
};
struct SubnetPoolKind {
  static constexpr std::string_view kWhat = "subnet pool";
};

using ClusterId = Name<ClusterKind>;
using ShardId = Name<ShardKind>;
using TenantId = Name<TenantKind>;
using GroupKey = Name<GroupKind>;
using SubnetPoolName = Name<SubnetPoolKind>;

// The tenant that exists without being declared.
[[nodiscard]] const TenantId& DefaultTenant();

}  // namespace nstance

template <class Kind>
struct std::hash<nstance::Name<Kind>> {
  std::size_t operator()(const nstance::Name<Kind>& name) const noexcept {
    return std::hash<std::string>()(name.text());
  }
};
