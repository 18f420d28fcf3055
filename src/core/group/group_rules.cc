#include "core/group/group_rules.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "base/text.h"

namespace nstance {
namespace {

using config::Config;
using config::GroupLayer;
using config::Template;

// Longer lists are not read by anybody.
constexpr std::size_t kMaxListed = 12;

std::string Listed(const std::vector<std::string_view>& names, std::string_view rule) {
  if (names.empty() || names.size() > kMaxListed) return std::string(rule);
  std::string text = "one of: ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += ", ";
    AppendEscaped(text, names[i]);
  }
  return text;
}

template <class Map>
std::vector<std::string_view> KeysOf(const Map& map) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : map) {
    if constexpr (std::is_same_v<std::decay_t<decltype(key)>, std::string>) {
      keys.emplace_back(key);
    } else {
      keys.emplace_back(key.text());
    }
  }
  return keys;
}

bool IsIdentifier(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); });
}

Status CheckMapName(std::string_view name, std::string_view field, MapNames names) {
  if (name.size() > kMaxMapNameBytes) {
    return Fail(InvalidArgument(fmt::format("{}: the name {} has {} bytes; at most {}", field,
                                            Quote(name), name.size(), kMaxMapNameBytes)));
  }
  if (names == MapNames::kIdentifiers && !IsIdentifier(name)) {
    return Fail(InvalidArgument(fmt::format(
        "{}: {} is not a name of a variable; letters, digits and _, not starting with a digit",
        field, Quote(name))));
  }
  if (name.empty()) {
    return Fail(InvalidArgument(
        fmt::format("{}: a name is empty; 1 to {} bytes", field, kMaxMapNameBytes)));
  }
  return {};
}

Status CheckRange(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Fail(InvalidArgument(fmt::format("{}: {} is {} the {}; a whole number from {} to {}",
                                          field, value, value < low ? "below" : "above",
                                          value < low ? "minimum" : "maximum", low, high)));
}

Status CheckBalancers(const Config& config, const GroupLayer& layer) {
  for (const config::LoadBalancerKey& key : layer.load_balancers) {
    if (config.load_balancers.contains(key)) continue;
    return Fail(InvalidArgument(
        fmt::format("load_balancers: {} is not defined; {}", Quote(key.text()),
                    Listed(KeysOf(config.load_balancers), "a key of `load_balancers`"))));
  }
  return {};
}

Status CheckPool(const Template& of, const GroupLayer& layer) {
  if (!layer.pool) return {};
  if (layer.draw_from) {
    return Fail(InvalidArgument("draw_from: not in a group that is a pool itself; remove one"));
  }
  for (const std::string& name : layer.pool->warm_files) {
    const auto file = of.files.find(name);
    if (file == of.files.end()) {
      return Fail(
          InvalidArgument(fmt::format("pool.warm_files: {} is no file of the template; {}",
                                      Quote(name), Listed(KeysOf(of.files), "the name of one"))));
    }
    if (file->second.kind == config::FileKind::kSecret ||
        file->second.kind == config::FileKind::kCertificate) {
      return Fail(InvalidArgument(fmt::format(
          "pool.warm_files: {} is a secret or a certificate; env, json, string or storage",
          Quote(name))));
    }
  }
  return {};
}

}  // namespace

const Template* FindTemplate(const Config& config, const GroupLayer& layer) {
  if (!layer.template_name) return nullptr;
  const auto found = config.templates.find(*layer.template_name);
  return found == config.templates.end() ? nullptr : &found->second;
}

std::string InstanceTypeOf(const Template& from, const GroupLayer& layer) {
  return layer.instance_type.empty() ? from.instance_type : layer.instance_type;
}

std::optional<SubnetPoolName> SubnetPoolOf(const Template& from, const GroupLayer& layer) {
  return layer.subnet_pool ? layer.subnet_pool : from.subnet_pool;
}

Status CheckTemplateName(const Config& config, std::string_view name) {
  if (config.templates.contains(std::string(name))) return {};
  return Fail(
      InvalidArgument(fmt::format("template: {} is not defined; {}", Quote(name),
                                  Listed(KeysOf(config.templates), "a key of `templates`"))));
}

Status CheckInstanceType(const Template& of, std::string_view type, const ArchOf& arch_of) {
  if (type.empty()) {
    return Fail(InvalidArgument("instance_type: missing; the template gives none, so name one"));
  }
  if (type.size() > kMaxMapNameBytes || !IsValidUtf8(type)) {
    return Fail(InvalidArgument(fmt::format(
        "instance_type: {} is no type; at most {} bytes of UTF-8", Quote(type), kMaxMapNameBytes)));
  }
  const std::vector<std::string>& allowed = of.allowed_instance_types;
  if (!allowed.empty() && std::ranges::find(allowed, type) == allowed.end()) {
    return Fail(InvalidArgument(fmt::format(
        "instance_type: {} is not allowed by the template; {}", Quote(type),
        Listed({allowed.begin(), allowed.end()}, "one of its `allowed_instance_types`"))));
  }
  const std::optional<config::Arch> arch = arch_of ? arch_of(type) : std::nullopt;
  if (arch && *arch != of.arch) {
    return Fail(
        InvalidArgument(fmt::format("instance_type: {} is {}; the template's arch is {}",
                                    Quote(type), config::Word(*arch), config::Word(of.arch))));
  }
  return {};
}

Result<SubnetPoolName> CheckSubnetPool(const Config& config, std::string_view name) {
  Result<SubnetPoolName> pool = SubnetPoolName::Parse(name);
  if (pool && config.server.subnet_pools.contains(*pool)) return pool;
  return Fail(InvalidArgument(
      fmt::format("subnet_pool: {} is not defined; {}", Quote(name),
                  Listed(KeysOf(config.server.subnet_pools), "a key of `server.subnet_pools`"))));
}

Status CheckDynamicSubnetPool(const Config& config, const SubnetPoolName& pool) {
  const std::vector<SubnetPoolName>& allowed = config.server.dynamic_subnet_pools;
  if (allowed.empty() || std::ranges::find(allowed, pool) != allowed.end()) return {};
  std::vector<std::string_view> names;
  names.reserve(allowed.size());
  for (const SubnetPoolName& name : allowed) names.emplace_back(name.text());
  return Fail(InvalidArgument(
      fmt::format("subnet_pool: {} is not open to dynamic groups and on-demand instances; {}",
                  Quote(pool.text()), Listed(names, "one of `server.dynamic_subnet_pools`"))));
}

Status CheckStringMap(const config::StringMap& map, std::string_view field, MapNames names) {
  if (map.size() > kMaxMapEntries) {
    return Fail(InvalidArgument(
        fmt::format("{}: {} entries; at most {}", field, map.size(), kMaxMapEntries)));
  }
  for (const auto& [name, value] : map) {
    RETURN_IF_ERROR(CheckMapName(name, field, names));
    if (value.size() > kMaxMapValueBytes) {
      return Fail(InvalidArgument(fmt::format("{}: the value of {} has {} bytes; at most {}", field,
                                              Quote(name), value.size(), kMaxMapValueBytes)));
    }
    if (!IsValidUtf8(name) || !IsValidUtf8(value)) {
      return Fail(InvalidArgument(
          fmt::format("{}: {} or its value is not UTF-8; only UTF-8", field, Quote(name))));
    }
  }
  return {};
}

Status CheckLayer(const Config& config, const GroupLayer& layer, const ArchOf& arch_of) {
  if (!layer.template_name) {
    return Fail(
        InvalidArgument("template: missing; a group that no configuration defines needs one"));
  }
  RETURN_IF_ERROR(CheckTemplateName(config, *layer.template_name));
  const Template& of = *FindTemplate(config, layer);
  RETURN_IF_ERROR(CheckRange("size", layer.size.value_or(0), 0, config::kMaxGroupSize));
  RETURN_IF_ERROR(CheckInstanceType(of, InstanceTypeOf(of, layer), arch_of));
  const std::optional<SubnetPoolName> pool = SubnetPoolOf(of, layer);
  if (!pool) {
    return Fail(InvalidArgument("subnet_pool: missing; the template gives none, so name one"));
  }
  RETURN_IF_ERROR(CheckSubnetPool(config, pool->text()));
  RETURN_IF_ERROR(CheckBalancers(config, layer));
  return CheckPool(of, layer);
}

}  // namespace nstance
