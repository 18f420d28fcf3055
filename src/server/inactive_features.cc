#include "server/inactive_features.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance {
namespace {

using Lines = std::vector<std::string>;

void Add(Lines& lines, const std::string& place, const std::string& what) {
  lines.push_back(fmt::format("{}: not yet active: {}", place, what));
}

void AddImages(const config::Config& config, Lines& lines) {
  for (const auto& [name, image] : config.images) {
    if (image.filters.empty()) continue;
    const std::string place = fmt::format("images.{}.filters", name);
    if (image.fallback.empty()) {
      Add(lines, place,
          "images are not searched for; without a fallback, groups that use it make no instances");
    } else {
      Add(lines, place,
          fmt::format("images are not searched for; the fallback {} is used",
                      Quote(image.fallback)));
    }
  }
}

void AddFiles(const config::Config& config, Lines& lines) {
  for (const auto& [name, from] : config.templates) {
    if (from.files.empty()) continue;
    Add(lines, fmt::format("templates.{}.files", name),
        fmt::format("{} are not sent to agents",
                    from.files.size() == 1 ? std::string("its file")
                                           : fmt::format("its {} files", from.files.size())));
    for (const auto& [file, content] : from.files) {
      const std::string place = fmt::format("templates.{}.files.{}", name, file);
      if (content.kind == config::FileKind::kCertificate) {
        Add(lines, place, "the certificate is not issued");
      }
      if (content.key) Add(lines, place + ".key", "agents are not asked for the key");
    }
  }
}

}  // namespace

std::vector<std::string> InactiveFeatures(const TenantId& tenant, const GroupKey& name,
                                          const config::GroupLayer& group) {
  Lines lines;
  const std::string place = fmt::format("groups.{}.{}", tenant.text(), name.text());
  if (!group.load_balancers.empty()) {
    std::vector<std::string> names;
    names.reserve(group.load_balancers.size());
    for (const config::LoadBalancerKey& key : group.load_balancers) names.push_back(key.text());
    Add(lines, place + ".load_balancers",
        fmt::format("instances are not registered with {}", fmt::join(names, ", ")));
  }
  if (group.pool) Add(lines, place + ".pool", "the group makes no instances");
  if (group.draw_from) {
    Add(lines, place + ".draw_from",
        fmt::format("instances are created cold, none is taken from {}", group.draw_from->text()));
  }
  return lines;
}

std::vector<std::string> InactiveFeatures(const config::Config& config) {
  Lines lines;
  AddImages(config, lines);
  AddFiles(config, lines);
  for (const auto& [tenant, groups] : config.groups) {
    for (const auto& [key, group] : groups) {
      std::ranges::move(InactiveFeatures(tenant, key, group), std::back_inserter(lines));
    }
  }
  return lines;
}

}  // namespace nstance
