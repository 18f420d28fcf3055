#include "server/request_memory.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/fault_point.h"
#include "base/text.h"
#include "crypto/digest.h"

namespace nstance {
namespace {

// Each text with its length, so that no two lists of texts look the same.
class ContentWriter {
 public:
  void Add(std::string_view text) { out_ += fmt::format("{}:{};", text.size(), text); }
  void Add(const config::StringMap& map) {
    Add(fmt::format("{}", map.size()));
    for (const auto& [name, value] : map) {
      Add(name);
      Add(value);
    }
  }
  void Add(const std::vector<std::string>& list) {
    Add(fmt::format("{}", list.size()));
    for (const std::string& text : list) Add(text);
  }
  [[nodiscard]] std::string Hash() const { return crypto::Sha256Hex(AsBytes(out_)); }

 private:
  std::string out_;
};

const TenantId& KeyTenant(const TenantId& tenant) {
  return Planted(Plant::kTenantLeftOut) ? DefaultTenant() : tenant;
}

}  // namespace

std::string ContentOf(const UpsertRequest& request) {
  ContentWriter out;
  out.Add(request.template_name);
  out.Add(request.size ? fmt::format("{}", *request.size) : "unset");
  out.Add(request.instance_type);
  out.Add(request.subnet_pool);
  out.Add(request.vars);
  out.Add(request.args);
  out.Add(request.draw_from);
  out.Add(request.replace);
  out.Add(request.remove_instance_ids);
  if (request.fence) {
    out.Add(request.fence->lease_uid);
    out.Add(fmt::format("{}", request.fence->transitions));
  }
  return out.Hash();
}

RequestMemory::Verdict RequestMemory::Look(const TenantId& tenant, const GroupKey& key,
                                           std::string_view id, std::string_view content) const {
  const auto group = groups_.find({KeyTenant(tenant), key});
  if (group == groups_.end()) return Verdict::kNew;
  const auto entry = std::ranges::find(group->second, id, &Entry::id);
  if (entry == group->second.end()) return Verdict::kNew;
  return entry->content == content ? Verdict::kRepeat : Verdict::kOtherContent;
}

void RequestMemory::Note(const TenantId& tenant, const GroupKey& key, std::string id,
                         std::string content) {
  std::deque<Entry>& entries = groups_[{KeyTenant(tenant), key}];
  if (std::ranges::find(entries, id, &Entry::id) != entries.end()) return;
  entries.push_back({.id = std::move(id), .content = std::move(content)});
  if (entries.size() > kPerGroup) entries.pop_front();
}

void RequestMemory::Forget(const TenantId& tenant, const GroupKey& key) {
  groups_.erase({KeyTenant(tenant), key});
}

}  // namespace nstance
