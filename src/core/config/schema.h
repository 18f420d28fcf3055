// The schema: every key of the file in one place. A table of fields per object drives reading into
// the structs of config.h, the messages, and the reference document (core/config/reference.h).
//
//   const ObjectSpec spec = Table<Registration>({
//       In<&Registration::require_proof>("require_proof", BoolRule(), "Refuse joins without ..."),
//   });
//
// A field ties a key to a member and a rule of the member's type; a rule of another type does not
// compile. Defaults are the members' initial values, so the table does not repeat them; where a
// default depends on other keys, Default("...") says so in words. What several keys decide together
// is checked afterwards (core/config/check.h).
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config.h"
#include "core/config/place.h"
#include "core/config/rule.h"

namespace nstance::config {

struct Field {
  enum class Standing : std::uint8_t {
    kOptional,
    kRequired,
    kNoEffect,  // Read and dropped: older files have it, or another check looks at it.
    kRefused,   // Known, and not supported.
  };

  std::string_view key;
  std::shared_ptr<const RuleBase> rule;  // Null: refused.
  std::string_view doc;
  Standing standing = Standing::kOptional;
  std::string_view default_text = {};  // Instead of the member's initial value.

  void (*read)(const RuleBase& rule, Reading& reading, const Place& place, void* object) = nullptr;
  // The default as the reference shows it; `object` is a new one.
  std::string (*show)(const RuleBase& rule, const void* object) = nullptr;

  [[nodiscard]] Field Required() && {
    standing = Standing::kRequired;
    return std::move(*this);
  }
  [[nodiscard]] Field Default(std::string_view text) && {
    default_text = text;
    return std::move(*this);
  }
};

struct ObjectSpec {
  std::vector<Field> fields;
  // A new object, for the defaults in the reference.
  std::shared_ptr<const void> fresh = nullptr;
  // Reads members that are no fields, where an object is also a map (`certificates`). Null: they
  // are unknown keys.
  void (*rest)(Reading& reading, const Place& place, void* object) = nullptr;
  Below rest_below = {};
};

template <class S>
[[nodiscard]] ObjectSpec Table(std::vector<Field>&& fields);

// Reads the members of an object; reports what is unknown, missing or wrong.
void ReadObject(Reading& reading, const Place& place, const ObjectSpec& spec, void* object);

// The objects of the schema that have a field `key`: "server.bind", "groups.<tenant>.<group>"; the
// top level is "".
[[nodiscard]] std::vector<std::string> PlacesOfKey(std::string_view key);

// A new object with defaults. Those whose names cannot be empty get one that is always replaced:
// the keys are required.
template <class T>
[[nodiscard]] T Fresh() {
  return T{};
}
template <>
Server Fresh<Server>();
template <>
Config Fresh<Config>();

template <class S>
class ObjectRule final : public Rule<S> {
 public:
  using Spec = const ObjectSpec& (*)();
  explicit ObjectRule(Spec spec) : spec_(spec) {}
  [[nodiscard]] std::string Allowed() const override { return "an object"; }
  [[nodiscard]] Below below() const override { return {.suffix = {}, .spec = &spec_()}; }
  [[nodiscard]] std::optional<S> Read(Reading& reading, const Place& place) const override {
    if (place.value()->if_object() == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    S read = Fresh<S>();
    ReadObject(reading, place, spec_(), &read);
    return read;
  }
  [[nodiscard]] std::string Show(const S& /*value*/) const override { return ""; }

 private:
  Spec spec_;
};

template <class T>
struct MemberPointer;
template <class S, class M>
struct MemberPointer<M S::*> {
  using Object = S;
  using Member = M;
};

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<std::optional<T>> {
  using Type = T;
};

template <auto kMember, class R>
[[nodiscard]] Field In(std::string_view key, R rule, std::string_view doc) {
  using Object = typename MemberPointer<decltype(kMember)>::Object;
  using Member = typename MemberPointer<decltype(kMember)>::Member;
  using Target = typename Plain<Member>::Type;
  static_assert(std::derived_from<R, Rule<Target>>, "the rule must read the member's type");
  return {
      .key = key,
      .rule = std::make_shared<const R>(std::move(rule)),
      .doc = doc,
      .read =
          [](const RuleBase& base, Reading& reading, const Place& place, void* object) {
            auto value = static_cast<const R&>(base).Read(reading, place);
            if (!value) return;
            Member& member = static_cast<Object*>(object)->*kMember;
            if constexpr (std::same_as<Member, Target>) {
              member = *std::move(value);
            } else {
              member = std::move(value);
            }
          },
      .show = [](const RuleBase& base, const void* object) -> std::string {
        if constexpr (std::same_as<Member, Target>) {
          return static_cast<const R&>(base).Show(static_cast<const Object*>(object)->*kMember);
        } else {
          return "";
        }
      },
  };
}

// A key that is checked against its rule, and whose value is used by a later check, or not at all.
template <class R>
[[nodiscard]] Field Unstored(std::string_view key, R rule, std::string_view doc) {
  return {
      .key = key,
      .rule = std::make_shared<const R>(std::move(rule)),
      .doc = doc,
      .standing = Field::Standing::kNoEffect,
      .read =
          [](const RuleBase& base, Reading& reading, const Place& place, void* /*object*/) {
            static_cast<void>(static_cast<const R&>(base).Read(reading, place));
          },
      .show = [](const RuleBase& /*base*/, const void* /*object*/) { return std::string(); },
  };
}

[[nodiscard]] inline Field Refused(std::string_view key) {
  return {.key = key,
          .rule = nullptr,
          .doc = "Not supported by this server.",
          .standing = Field::Standing::kRefused};
}

template <class S>
ObjectSpec Table(std::vector<Field>&& fields) {
  return {.fields = std::move(fields), .fresh = std::make_shared<const S>(Fresh<S>())};
}

// The tables.
[[nodiscard]] const ObjectSpec& ConfigSpec();
[[nodiscard]] const ObjectSpec& ServerSpec();
[[nodiscard]] const ObjectSpec& ProviderSpec();
[[nodiscard]] const ObjectSpec& LoadBalancerSpec();
[[nodiscard]] const ObjectSpec& ImageSpec();
[[nodiscard]] const ObjectSpec& CertificatesSpec();
[[nodiscard]] const ObjectSpec& DefaultsSpec();
[[nodiscard]] const ObjectSpec& TemplateSpec();
[[nodiscard]] const ObjectSpec& GroupSpec();
// The options of each kind of provider, in the order of the alternatives of ProviderOptions.
[[nodiscard]] const ObjectSpec& OptionsSpec(ProviderKind kind);

// Rules that several tables share.
[[nodiscard]] bool IsIpAddress(std::string_view text);
// The kind of a provider; also understands what older files call it.
class ProviderKindRule final : public Rule<ProviderKind> {
 public:
  [[nodiscard]] std::string Allowed() const override;
  [[nodiscard]] std::optional<ProviderKind> Read(Reading& reading,
                                                 const Place& place) const override;
  [[nodiscard]] std::string Show(const ProviderKind& /*value*/) const override { return ""; }
};

}  // namespace nstance::config
