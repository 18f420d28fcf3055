#include <algorithm>
#include <map>
#include <string>

#include <fmt/core.h>

#include "base/text.h"
#include "core/config/args.h"
#include "core/config/check.h"
#include "core/config/provider_args.h"
#include "core/config/rule.h"

namespace nstance::config {
namespace {

// One static group and what it stands on. Null where a reference does not resolve.
struct GroupView {
  const Place& place;
  const GroupLayer& layer;
  const Template* base = nullptr;
};

std::string InstanceTypeOf(const GroupLayer& layer, const Template& base) {
  return layer.instance_type.empty() ? base.instance_type : layer.instance_type;
}

std::optional<SubnetPoolName> SubnetPoolOf(const GroupLayer& layer, const Template& base) {
  return layer.subnet_pool ? layer.subnet_pool : base.subnet_pool;
}

std::string CanonicalArgs(const Defaults& defaults, const Template& base, const GroupLayer& layer) {
  return json::WriteCanonical(
      json::Value::Map(MergeArgs(MergeArgs(defaults.args, base.args), layer.args)));
}

class GroupCheck {
 public:
  explicit GroupCheck(const Checking& checking)
      : config_(checking.config),
        problems_(checking.problems),
        kind_(config_.server.provider.kind),
        provider_known_(checking.provider_known),
        templates_place_(checking.root.Child("templates")),
        server_(checking.root.Child("server")),
        balancers_place_(checking.root.Child("load_balancers")),
        templates_(KeysAt(templates_place_)),
        pools_(KeysAt(server_.Child("subnet_pools"))),
        balancers_(KeysAt(balancers_place_)) {}

  void RunTenant(const Place& tenant, const TenantGroups& groups) {
    for (const json::Member& member : MembersAt(tenant)) {
      const Result<GroupKey> key = GroupKey::Parse(member.key);
      const auto group = key ? groups.find(*key) : groups.end();
      if (group == groups.end()) continue;
      const Place place = tenant.Child(member);
      const GroupView view = {
          .place = place, .layer = group->second, .base = BaseOf(group->second)};
      Run(view, tenant.key());
      CheckDraw(view, groups);
    }
  }

 private:
  [[nodiscard]] const Template* BaseOf(const GroupLayer& layer) const {
    if (!layer.template_name) return nullptr;
    const auto base = config_.templates.find(*layer.template_name);
    return base == config_.templates.end() ? nullptr : &base->second;
  }

  void Run(const GroupView& view, std::string_view tenant) {
    CheckReference(view.place.Child("template"), templates_, "one of `templates`");
    CheckReference(view.place.Child("subnet_pool"), pools_, "one of `server.subnet_pools`");
    if (!Present(view.place.Child("template"))) {
      problems_.Error(view.place.Child("template"), "missing; the name of a template");
    }
    CheckBalancers(view.place.Child("load_balancers"), tenant);
    CheckExpiry(view);
    if (view.base != nullptr) CheckAgainstTemplate(view);
    if (provider_known_) {
      CheckArgs(view.place.Child("args"), kind_, problems_);
      CheckPool(view);
    }
  }

  void CheckReference(const Place& place, const std::vector<std::string_view>& defined,
                      std::string_view what) const {
    const std::string* name = TextAt(place);
    if (name == nullptr || problems_.HasErrorAt(place) || Contains(defined, *name)) return;
    problems_.Error(place, NotDefined(problems_, place, what, defined));
  }

  void CheckBalancers(const Place& place, std::string_view tenant) {
    const json::Array* keys = Present(place) ? place.value()->if_array() : nullptr;
    if (keys == nullptr) return;
    std::map<std::string_view, int> seen;
    for (std::size_t i = 0; i < keys->size(); ++i) {
      const Place item = place.Item(i);
      CheckReference(item, balancers_, "one of `load_balancers`");
      const std::string* key = TextAt(item);
      if (key == nullptr || !Contains(balancers_, *key)) continue;
      if (++seen[*key] > 1) {
        problems_.Error(item, fmt::format("{} is named twice; each balancer once", Shown(item)));
      }
      const auto [owner, fresh] = balancer_tenants_.emplace(*key, tenant);
      if (fresh || owner->second == tenant) continue;
      problems_.Error(item, fmt::format("{} is used by groups of tenant `{}`; a balancer serves "
                                        "groups of one tenant",
                                        Shown(item), owner->second));
    }
  }

  void CheckExpiry(const GroupView& view) const {
    if (!view.layer.expiry) return;
    const Place expiry = view.place.Child("expiry");
    const Place eligible = expiry.Child("eligible_age");
    const Place forced = expiry.Child("forced_age");
    if (problems_.HasErrorAt(eligible) || problems_.HasErrorAt(forced)) return;
    const Expiry ages = Overlay(config_.server.expiry, *view.layer.expiry);
    if (ages.eligible_age == Duration() || ages.forced_age == Duration() ||
        ages.eligible_age < ages.forced_age) {
      return;
    }
    problems_.Error(Present(eligible) ? eligible : forced,
                    fmt::format("with the server's values `eligible_age` is {} and `forced_age` "
                                "{}; eligible below forced when both are set",
                                ShortDuration(ages.eligible_age), ShortDuration(ages.forced_age)));
  }

  void CheckAgainstTemplate(const GroupView& view) const {
    const Template& base = *view.base;
    const auto& allowed = base.allowed_instance_types;
    const Place type = view.place.Child("instance_type");
    const std::string& chosen = view.layer.instance_type;
    if (!chosen.empty() && !allowed.empty() &&
        std::ranges::find(allowed, chosen) == allowed.end()) {
      const std::vector<std::string_view> types(allowed.begin(), allowed.end());
      problems_.Error(
          type, fmt::format("{} is not in the template's `allowed_instance_types`; {}", Shown(type),
                            types.size() <= kMaxListed ? OneOf(types) : "one of them"));
    }
    const bool type_needed = kind_ == ProviderKind::kAws || kind_ == ProviderKind::kGcp;
    if (provider_known_ && type_needed && InstanceTypeOf(view.layer, base).empty()) {
      problems_.Error(type, fmt::format("missing; provider {} needs a type here or in the template",
                                        Word(kind_)));
    }
    if (!SubnetPoolOf(view.layer, base) && !Present(view.place.Child("subnet_pool"))) {
      problems_.Error(view.place.Child("subnet_pool"),
                      "missing; one of `server.subnet_pools`, here or in the template");
    }
    if (provider_known_) CheckMergedArgs(view);
  }

  // The layer in which an argument would be found first.
  [[nodiscard]] const json::Value* Argument(const GroupView& view, std::string_view key) const {
    for (const json::Object* args : {&view.layer.args, &view.base->args, &config_.defaults.args}) {
      const auto found = std::ranges::find(*args, key, &json::Member::key);
      if (found != args->end()) return &found->value;
    }
    return nullptr;
  }

  void CheckMergedArgs(const GroupView& view) const {
    const auto exactly_one = [&](std::string_view first, std::string_view second) {
      const bool has_first = Argument(view, first) != nullptr;
      if (has_first != (Argument(view, second) != nullptr)) return;
      problems_.Error(
          view.place.Child("args"),
          fmt::format("with the template's and the defaults' there {} `{}` {} `{}`; "
                      "exactly one of the two",
                      has_first ? "are" : "is neither", first, has_first ? "and" : "nor", second));
    };
    if (kind_ == ProviderKind::kQemu) exactly_one("Image", "Kernel");
    if (kind_ != ProviderKind::kProxmox) return;
    exactly_one("TemplateVMID", "TemplateName");
    if (Argument(view, "StoragePool") == nullptr) {
      const Place args = view.place.Child("args");
      problems_.Error(args.Child("StoragePool"),
                      "missing; required here, in the template or in the defaults");
    }
  }

  void CheckPool(const GroupView& view) const {
    if (!view.layer.pool) return;
    const Place pool = view.place.Child("pool");
    const Place state = pool.Child("state");
    if (view.layer.pool->state == PoolState::kStopped && kind_ == ProviderKind::kLocal) {
      problems_.Error(state,
                      "\"stopped\" needs a provider with power control; `running` with "
                      "provider local");
    }
    const Place files = pool.Child("warm_files");
    const json::Array* names = Present(files) ? files.value()->if_array() : nullptr;
    if (names == nullptr || view.base == nullptr) return;
    std::vector<std::string_view> defined;
    for (const auto& [name, file] : view.base->files) defined.push_back(name);
    for (std::size_t i = 0; i < names->size(); ++i) {
      const Place item = files.Item(i);
      const std::string* name = TextAt(item);
      if (name == nullptr) continue;
      const auto file = view.base->files.find(*name);
      if (file == view.base->files.end()) {
        problems_.Error(item, NotDefined(problems_, item, "a file of the template", defined));
      } else if (file->second.kind == FileKind::kSecret ||
                 file->second.kind == FileKind::kCertificate) {
        problems_.Error(item, fmt::format("{} is of kind {}, which an unclaimed member must not "
                                          "have; kinds env, json, string, storage",
                                          Shown(item), Word(file->second.kind)));
      }
    }
  }

  void CheckDraw(const GroupView& view, const TenantGroups& groups) const {
    const Place draw = view.place.Child("draw_from");
    if (!view.layer.draw_from) return;
    if (Present(view.place.Child("pool"))) {
      RefuseKey(problems_, draw, "a pool group does not draw");
      return;
    }
    const auto pool = groups.find(*view.layer.draw_from);
    if (pool == groups.end() || !pool->second.pool) {
      std::vector<std::string_view> pools;
      for (const auto& [key, layer] : groups) {
        if (layer.pool) pools.push_back(key.text());
      }
      if (pool == groups.end()) {
        problems_.Error(draw, NotDefined(problems_, draw, "a pool group of this tenant", pools));
      } else {
        problems_.Error(draw, fmt::format("{} is not a pool; {}", Shown(draw),
                                          pools.empty() ? "a group with `pool`" : OneOf(pools)));
      }
      return;
    }
    const Template* pool_base = BaseOf(pool->second);
    if (view.base == nullptr || pool_base == nullptr) return;
    const std::string_view field = Difference(view, pool->second, *pool_base);
    if (field.empty()) return;
    problems_.Error(draw, fmt::format("`{}` differs from that of the pool `{}`; members of a pool "
                                      "fit groups with the same kind, arch, instance_type, "
                                      "subnet_pool, args and userdata",
                                      field, pool->first.text()));
  }

  // The first field of the infra hash in which the two differ.
  [[nodiscard]] std::string_view Difference(const GroupView& group, const GroupLayer& pool,
                                            const Template& pool_base) const {
    const Template& base = *group.base;
    if (base.kind != pool_base.kind) return "kind";
    if (base.arch != pool_base.arch) return "arch";
    if (InstanceTypeOf(group.layer, base) != InstanceTypeOf(pool, pool_base)) {
      return "instance_type";
    }
    if (SubnetPoolOf(group.layer, base) != SubnetPoolOf(pool, pool_base)) return "subnet_pool";
    const auto& fallback = config_.defaults.userdata;
    if ((base.userdata ? base.userdata : fallback) !=
        (pool_base.userdata ? pool_base.userdata : fallback)) {
      return "userdata";
    }
    // Same template and same args of their own: nothing to merge.
    if (&base == &pool_base && group.layer.args == pool.args) return "";
    return CanonicalArgs(config_.defaults, base, group.layer) ==
                   CanonicalArgs(config_.defaults, pool_base, pool)
               ? ""
               : "args";
  }

  const Config& config_;
  Problems& problems_;
  ProviderKind kind_;
  bool provider_known_;
  Place templates_place_;
  Place server_;
  Place balancers_place_;
  std::vector<std::string_view> templates_;
  std::vector<std::string_view> pools_;
  std::vector<std::string_view> balancers_;
  std::map<std::string_view, std::string_view> balancer_tenants_;
};

}  // namespace

void CheckGroups(const Checking& checking) {
  GroupCheck check(checking);
  const Place groups = checking.root.Child("groups");
  const Place tenants_place = checking.root.Child("tenants");
  std::vector<std::string_view> tenants = KeysAt(tenants_place);
  tenants.push_back(DefaultTenant().text());
  std::ranges::sort(tenants);
  for (const json::Member& member : MembersAt(groups)) {
    const Result<TenantId> key = TenantId::Parse(member.key);
    const auto tenant = key ? checking.config.groups.find(*key) : checking.config.groups.end();
    if (tenant == checking.config.groups.end()) continue;
    const Place place = groups.Child(member);
    if (!Contains(tenants, member.key)) {
      std::string message = fmt::format("tenant {} is not declared; ", Quote(member.key));
      message += tenants.size() <= kMaxListed ? OneOf(tenants) : "`default` or one of `tenants`";
      if (checking.problems.MaySuggest()) message += DidYouMean(member.key, tenants);
      checking.problems.ErrorAtKey(place, message);
    }
    check.RunTenant(place, tenant->second);
  }
}

}  // namespace nstance::config
