// The rules that a group's values must meet, whoever gives them: the file, the API, a request for
// one instance. Each error is kInvalidArgument and says "<field>: <what is wrong>; <what is
// allowed>".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/name.h"
#include "base/result.h"
#include "core/config/config.h"

namespace nstance {

// Limits of one request (wire.md 1.1), and of what a dynamic layer may grow to by requests.
inline constexpr std::size_t kMaxMapEntries = 128;
inline constexpr std::size_t kMaxMapNameBytes = 128;
inline constexpr std::size_t kMaxMapValueBytes = std::size_t{4} * 1024;

// What the provider knows about an instance type; empty function or no answer: nothing.
using ArchOf = std::function<std::optional<config::Arch>(std::string_view instance_type)>;

// Null pointer when the layer names none, or one that is not defined.
[[nodiscard]] const config::Template* FindTemplate(const config::Config& config,
                                                   const config::GroupLayer& layer);
// The group's own, else the template's; empty (absent) when neither has one.
[[nodiscard]] std::string InstanceTypeOf(const config::Template& from,
                                         const config::GroupLayer& layer);
[[nodiscard]] std::optional<SubnetPoolName> SubnetPoolOf(const config::Template& from,
                                                         const config::GroupLayer& layer);

[[nodiscard]] Status CheckTemplateName(const config::Config& config, std::string_view name);
// In the template's `allowed_instance_types`, and of its architecture as far as that is known.
[[nodiscard]] Status CheckInstanceType(const config::Template& of, std::string_view type,
                                       const ArchOf& arch_of = {});
[[nodiscard]] Result<SubnetPoolName> CheckSubnetPool(const config::Config& config,
                                                     std::string_view name);
// Whether dynamic groups and on-demand instances may use the pool.
[[nodiscard]] Status CheckDynamicSubnetPool(const config::Config& config,
                                            const SubnetPoolName& pool);
// Number of entries, lengths, UTF-8; names of variables are identifiers, others only not empty.
enum class MapNames : std::uint8_t { kIdentifiers, kAny };
[[nodiscard]] Status CheckStringMap(const config::StringMap& map, std::string_view field,
                                    MapNames names);

// Everything that a group needs so that instances can be made of it: a template that is defined, a
// type and a subnet pool that exist, ranges, known load balancers.
[[nodiscard]] Status CheckLayer(const config::Config& config, const config::GroupLayer& layer,
                                const ArchOf& arch_of = {});

}  // namespace nstance
