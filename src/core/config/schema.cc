#include "core/config/schema.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "crypto/certificate_writer.h"

namespace nstance::config {
namespace {

constexpr std::size_t kMaxPlaces = 3;

template <class N>
N PlaceholderName() {
  Result<N> name = N::Parse("unset");
  CHECK(name.has_value());
  return *std::move(name);
}

std::vector<std::string_view> KeysOf(const ObjectSpec& spec) {
  std::vector<std::string_view> keys;
  for (const Field& field : spec.fields) {
    if (field.standing != Field::Standing::kRefused) keys.push_back(field.key);
  }
  std::ranges::sort(keys);
  return keys;
}

std::string AllowedKeys(const std::vector<std::string_view>& keys) {
  if (keys.empty()) return "no keys are allowed here";
  if (keys.size() <= kMaxListed) return "allowed here: " + Listed(keys);
  return "allowed here: " + Listed(std::span(keys).first(kMaxListed)) + ", ...";
}

// ". Did you mean "x"?", or where the key belongs if it is one of another object.
std::string Hint(Reading& reading, const Place& place, const std::vector<std::string_view>& keys) {
  if (!reading.problems.MaySuggest()) return "";
  const bool cut = keys.size() > kMaxListed;
  if (const std::string_view nearest = Nearest(place.key(), keys); !nearest.empty()) {
    return fmt::format("{}. Did you mean {}?", cut ? " " : "", Quote(nearest));
  }
  const std::vector<std::string> elsewhere = PlacesOfKey(place.key());
  if (elsewhere.empty() || elsewhere.size() > kMaxPlaces) return "";
  std::string names;
  for (const std::string& name : elsewhere) {
    if (name.empty()) return fmt::format("{}. Belongs at the top level", cut ? " " : "");
    names += fmt::format("{}`{}`", names.empty() ? "" : " or ", reading.problems.NameInFile(name));
  }
  return fmt::format("{}. Belongs under {}", cut ? " " : "", names);
}

void UnknownKey(Reading& reading, const Place& place, const ObjectSpec& spec) {
  if (!reading.problems.Wants(place.key_position())) {
    reading.problems.ErrorAtKey(place, "unknown key");
    return;
  }
  const std::vector<std::string_view> keys = KeysOf(spec);
  reading.problems.ErrorAtKey(
      place, fmt::format("unknown key; {}{}", AllowedKeys(keys), Hint(reading, place, keys)));
}

void ReadField(Reading& reading, const Place& place, const Field& field, void* object) {
  if (field.standing == Field::Standing::kRefused) {
    reading.problems.ErrorAtKey(place, "not supported by this server; remove it");
    return;
  }
  if (reading.unknown == nullptr) {
    field.read(*field.rule, reading, place, object);
    return;
  }
  // What the object below does not know is kept under this key.
  json::Object below;
  Reading inner = {.problems = reading.problems, .unknown = &below};
  field.read(*field.rule, inner, place, object);
  if (below.empty()) return;
  reading.unknown->push_back({.key = std::string(place.key()),
                              .key_position = place.key_position(),
                              .value = json::Value::Map(std::move(below))});
}

void ReadUnknown(Reading& reading, const Place& place, const ObjectSpec& spec, void* object) {
  if (reading.unknown != nullptr) {
    reading.unknown->push_back({.key = std::string(place.key()),
                                .key_position = place.key_position(),
                                .value = *place.value()});
  } else if (spec.rest != nullptr) {
    spec.rest(reading, place, object);
  } else if (!IsForTools(place.key())) {
    UnknownKey(reading, place, spec);
  }
}

using KeyIndex = std::map<std::string_view, std::vector<std::string>>;

void IndexKeys(const ObjectSpec& spec, const std::string& path, KeyIndex& index) {
  const auto descend = [&](const Below& below, const std::string& base) {
    if (below.spec != nullptr) IndexKeys(*below.spec, base + below.suffix, index);
  };
  for (const Field& field : spec.fields) {
    if (field.rule == nullptr) continue;
    index[field.key].push_back(path);
    descend(field.rule->below(),
            path.empty() ? std::string(field.key) : fmt::format("{}.{}", path, field.key));
  }
  descend(spec.rest_below, path);
}

}  // namespace

template <>
Server Fresh<Server>() {
  return {.cluster_id = PlaceholderName<ClusterId>(), .shard = PlaceholderName<ShardId>()};
}

template <>
Config Fresh<Config>() {
  return {.server = Fresh<Server>()};
}

void ReadObject(Reading& reading, const Place& place, const ObjectSpec& spec, void* object) {
  const json::Object* members = place.value()->if_object();
  CHECK(members != nullptr, "{} is no object", place.Path());
  std::vector<bool> seen(spec.fields.size());
  for (const json::Member& member : *members) {
    const Place child = place.Child(member);
    const auto field = std::ranges::find(spec.fields, member.key, &Field::key);
    if (field == spec.fields.end()) {
      ReadUnknown(reading, child, spec, object);
      continue;
    }
    seen[static_cast<std::size_t>(field - spec.fields.begin())] = true;
    ReadField(reading, child, *field, object);
  }
  for (std::size_t i = 0; i < spec.fields.size(); ++i) {
    const Field& field = spec.fields[i];
    if (seen[i] || field.standing != Field::Standing::kRequired) continue;
    const bool wanted = reading.problems.Wants(place.position());
    reading.problems.Error(place.Child(field.key),
                           wanted ? "missing; " + field.rule->Allowed() : "missing");
  }
}

bool IsIpAddress(std::string_view text) { return !crypto::AddressBytes(std::string(text)).empty(); }

std::vector<std::string> PlacesOfKey(std::string_view key) {
  static const KeyIndex index = [] {
    KeyIndex built;
    IndexKeys(ConfigSpec(), "", built);
    return built;
  }();
  const auto found = index.find(key);
  return found == index.end() ? std::vector<std::string>() : found->second;
}

}  // namespace nstance::config
