#include "core/config/normal_form.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "base/name.h"
#include "core/config/place.h"
#include "core/config/rule.h"
#include "core/config/suggest.h"

namespace nstance::config {
namespace {

constexpr std::size_t kMaxNames = 100;

struct KeyPair {
  std::string_view from;
  std::string_view to;
};

constexpr std::array kClusterKeys = {
    KeyPair{"id", "cluster_id"},
    KeyPair{"leader_election", "leader_election"},
    KeyPair{"secrets", "secrets"},
    KeyPair{"storage", "storage"},
};

constexpr std::array kShardKeys = {
    KeyPair{"advertise", "advertise"},
    KeyPair{"bind", "bind"},
    KeyPair{"create_rate_limit", "create_rate_limit"},
    KeyPair{"default_drain_timeout", "default_drain_timeout"},
    KeyPair{"dynamic_subnet_pools", "dynamic_subnet_pools"},
    KeyPair{"error_exit_jitter", "error_exit_jitter"},
    KeyPair{"expiry", "expiry"},
    KeyPair{"garbage_collection", "garbage_collection"},
    KeyPair{"health_check_interval", "health_check_interval"},
    KeyPair{"id", "shard"},
    KeyPair{"image_refresh_interval", "image_refresh_interval"},
    KeyPair{"infra", "provider"},
    KeyPair{"leader_election", "leader_election"},
    KeyPair{"leader_network", "leader_network"},
    KeyPair{"request_timeout", "request_timeout"},
    KeyPair{"shutdown_timeout", "shutdown_timeout"},
    KeyPair{"subnet_pools", "subnet_pools"},
};

constexpr std::array kInfraKeys = {
    KeyPair{"options", "options"},
    KeyPair{"provider", "kind"},
    KeyPair{"region", "region"},
    KeyPair{"zone", "zone"},
};

constexpr std::array kElectionKeys = {
    KeyPair{"frequent_interval", "frequent_interval"},
    KeyPair{"infrequent_interval", "infrequent_interval"},
    KeyPair{"leader_timeout", "leader_timeout"},
};

constexpr std::array kClusterElectionKeys = {
    KeyPair{"enabled", "enabled"},
    KeyPair{"frequent_interval", "frequent_interval"},
    KeyPair{"infrequent_interval", "infrequent_interval"},
    KeyPair{"leader_timeout", "leader_timeout"},
};

constexpr std::array<std::string_view, 8> kRoots = {"server",    "tenants",      "load_balancers",
                                                    "images",    "certificates", "defaults",
                                                    "templates", "groups"};

void ReportUnknown(const Place& place, std::span<const KeyPair> keys, Problems& problems) {
  std::vector<std::string_view> names;
  for (const KeyPair& pair : keys) names.push_back(pair.from);
  const bool cut = names.size() > kMaxListed;
  std::string message = "unknown key; allowed here: " +
                        Listed(std::span(names).first(std::min(names.size(), kMaxListed))) +
                        (cut ? ", ..." : "");
  if (problems.MaySuggest()) {
    const std::string hint = DidYouMean(place.key(), names);
    if (!hint.empty()) message += (cut ? " " : "") + hint;
  }
  problems.ErrorAtKey(place, message);
}

// The members of the object at `place` under their new keys. What is unknown is reported.
json::Object Renamed(const Place& place, std::span<const KeyPair> keys, Problems& problems) {
  json::Object out;
  if (place.value() == nullptr) return out;
  const json::Object* members = place.value()->if_object();
  if (members == nullptr) {
    problems.Error(place, fmt::format("is {}; an object", json::TypeName(place.value()->type())));
    return out;
  }
  for (const json::Member& member : *members) {
    const auto pair = std::ranges::find(keys, member.key, &KeyPair::from);
    if (pair == keys.end()) {
      if (!IsForTools(member.key)) ReportUnknown(place.Child(member), keys, problems);
      continue;
    }
    out.push_back(
        {.key = std::string(pair->to), .key_position = member.key_position, .value = member.value});
  }
  return out;
}

json::Value ObjectAt(json::Object members, const Place& place) {
  json::Value value = json::Value::Map(std::move(members));
  value.set_position(place.position());
  return value;
}

struct Source {
  Place place;
  std::span<const KeyPair> keys;
};

// Gives the keys of one object in `parent` their new names. No object: left to the schema.
void RenameBelow(json::Value& parent, std::string_view key, const Source& source,
                 Problems& problems) {
  json::Value* value = parent.Find(key);
  if (value == nullptr || value->if_object() == nullptr) return;
  *value = ObjectAt(Renamed(source.place, source.keys, problems), source.place);
}

// `shard` and `cluster` as `server`.
json::Value MakeServer(const Place& root, Problems& problems) {
  const Place cluster = root.Child("cluster");
  const Place shard = root.Child("shard");
  const Place& from = shard.value() == nullptr ? cluster : shard;
  json::Object from_cluster = Renamed(cluster, kClusterKeys, problems);
  json::Value server = ObjectAt(Renamed(shard, kShardKeys, problems), from);
  RenameBelow(server, "provider", {shard.Child("infra"), kInfraKeys}, problems);
  RenameBelow(server, "leader_election", {shard.Child("leader_election"), kElectionKeys}, problems);
  for (json::Member& member : from_cluster) {
    if (member.key == "storage" && member.value.if_object() != nullptr &&
        member.value.Find("prefix") == nullptr) {
      member.value.Set("prefix", json::Value::String("cluster/"));
    }
    if (member.key != "leader_election") {
      server.if_object()->push_back(std::move(member));
      continue;
    }
    const Place old = cluster.Child("leader_election");
    if (server.Find("leader_election") == nullptr) {
      server.Set("leader_election", ObjectAt({}, old));
    }
    json::Value* target = server.Find("leader_election");
    if (target->if_object() == nullptr) continue;  // Reported with the schema.
    json::Value mapped = member.value.if_object() == nullptr
                             ? std::move(member.value)
                             : ObjectAt(Renamed(old, kClusterElectionKeys, problems), old);
    target->Set("cluster", std::move(mapped));
  }
  return server;
}

// The tenants that the groups name, for files of a form that does not list them.
json::Value TenantsOf(const json::Value& groups) {
  json::Object tenants;
  if (const json::Object* members = groups.if_object()) {
    for (const json::Member& member : *members) {
      if (member.key == DefaultTenant().text() || !TenantId::Parse(member.key)) continue;
      tenants.push_back(
          {.key = member.key, .key_position = member.key_position, .value = json::Value::Map({})});
    }
  }
  return json::Value::Map(std::move(tenants));
}

PathNames OldNames() {
  return {{"server", "shard"},
          {"server.cluster_id", "cluster.id"},
          {"server.shard", "shard.id"},
          {"server.storage", "cluster.storage"},
          {"server.secrets", "cluster.secrets"},
          {"server.provider", "shard.infra"},
          {"server.provider.kind", "shard.infra.provider"},
          {"server.leader_election.cluster", "cluster.leader_election"}};
}

// Roots in the order of the reference, then whatever else there is.
void SortRoots(json::Object& members) {
  json::Object sorted;
  for (const std::string_view root : kRoots) {
    const auto at = std::ranges::find(members, root, &json::Member::key);
    if (at == members.end()) continue;
    sorted.push_back(std::move(*at));
    members.erase(at);
  }
  for (json::Member& member : members) sorted.push_back(std::move(member));
  members = std::move(sorted);
}

void MapOldForm(json::Value& root, PathNames& names, Problems& problems) {
  const Place place(root);
  const Place old_server = place.Child("server");
  if (old_server.value() != nullptr) {
    problems.ErrorAtKey(old_server.Child("files"), "not supported by this server; remove it");
  }
  json::Value server = MakeServer(place, problems);
  root.Remove("cluster");
  root.Remove("shard");
  root.Remove("server");
  root.if_object()->push_back(
      {.key = "server", .key_position = server.position(), .value = std::move(server)});
  SortRoots(*root.if_object());
  names = OldNames();
}

// Gives keys that have another name their usual one.
class Aliases {
 public:
  Aliases(PathNames& names, Problems& problems) : names_(names), problems_(problems) {}

  void RenameElectionKeys(json::Value& root);
  void RenameAllUserData(json::Value& root);

 private:
  void RenameElection(const Place& place, json::Value& value) {
    Rename(place, value, {"frequent_interval", "renew_interval"});
    Rename(place, value, {"leader_timeout", "lease_timeout"});
  }
  void RenameUserData(const Place& owner, json::Value& value);
  // Both names at once are an error.
  void Rename(const Place& object, json::Value& target, KeyPair pair);

  PathNames& names_;
  Problems& problems_;
};

void Aliases::Rename(const Place& object, json::Value& target, KeyPair pair) {
  json::Object& members = *target.if_object();
  const auto alias = std::ranges::find(members, pair.from, &json::Member::key);
  if (alias == members.end()) return;
  if (target.Find(pair.to) != nullptr) {
    problems_.ErrorAtKey(
        object.Child(*alias),
        fmt::format("is another name of `{}`, which is given too; one of the two", pair.to));
    members.erase(alias);
    return;
  }
  alias->key = pair.to;
  if (names_.size() >= kMaxNames) return;
  names_.emplace_back(object.Child(pair.to).Path(),
                      NameInFile(names_, object.Path()) + "." + std::string(pair.from));
}

void Aliases::RenameElectionKeys(json::Value& root) {
  json::Value* server = root.Find("server");
  json::Value* election = server == nullptr ? nullptr : server->Find("leader_election");
  if (election == nullptr || election->if_object() == nullptr) return;
  const Place top(root);
  const Place server_place = top.Child("server");
  const Place place = server_place.Child("leader_election");
  RenameElection(place, *election);
  json::Value* cluster = election->Find("cluster");
  if (cluster != nullptr && cluster->if_object() != nullptr) {
    RenameElection(place.Child("cluster"), *cluster);
  }
}

void Aliases::RenameUserData(const Place& owner, json::Value& value) {
  json::Value* userdata = value.Find("userdata");
  if (userdata == nullptr || userdata->if_object() == nullptr) return;
  const Place place = owner.Child("userdata");
  const bool from_url = userdata->Find("templateUrl") != nullptr;
  Rename(place, *userdata, {"templateString", "content"});
  Rename(place, *userdata, {"templateUrl", "content"});
  if (from_url && userdata->Find("source") == nullptr) {
    userdata->Set("source", json::Value::String("url"));
  }
}

void Aliases::RenameAllUserData(json::Value& root) {
  const Place top(root);
  if (json::Value* defaults = root.Find("defaults")) {
    RenameUserData(top.Child("defaults"), *defaults);
  }
  json::Value* templates = root.Find("templates");
  if (templates == nullptr || templates->if_object() == nullptr) return;
  const Place place = top.Child("templates");
  for (json::Member& member : *templates->if_object()) {
    RenameUserData(place.Child(member), member.value);
  }
}

bool LooksLikeAGroup(const json::Member& member) {
  const json::Value* name = member.value.Find("template");
  return name != nullptr && name->if_string() != nullptr;
}

void NestGroups(json::Value& root, PathNames& names, Problems& problems) {
  json::Value* groups = root.Find("groups");
  const json::Object* members = groups == nullptr ? nullptr : groups->if_object();
  if (members == nullptr || members->empty() || !std::ranges::all_of(*members, LooksLikeAGroup)) {
    return;
  }
  const Place top(root);
  problems.Warn(top.Child("groups"),
                "the values are groups, not tenants; read as the groups of tenant `default`");
  const json::Position position = groups->position();
  json::Object nested;
  nested.push_back({.key = DefaultTenant().text(), .key_position = position, .value = *groups});
  *groups = json::Value::Map(std::move(nested));
  groups->set_position(position);
  names.emplace_back("groups.default", "groups");
}

}  // namespace

bool NormalForm(json::Value& root, Problems& problems) {
  CHECK(root.if_object() != nullptr);
  const json::Value* server = root.Find("server");
  const bool old_form = root.Find("cluster") != nullptr || root.Find("shard") != nullptr;
  const json::Object* server_members = server == nullptr ? nullptr : server->if_object();
  const bool only_files = server_members != nullptr && server_members->size() == 1 &&
                          server_members->front().key == "files";
  if (old_form && server != nullptr && !only_files) {
    problems.ErrorAtKey(Place(root).Child("server"),
                        "two layouts in one file: use `server.cluster_id` and `server.shard`, or "
                        "`cluster` and `shard`, not both");
    return false;
  }
  PathNames names;
  if (old_form) MapOldForm(root, names, problems);
  Aliases aliases(names, problems);
  aliases.RenameElectionKeys(root);
  aliases.RenameAllUserData(root);
  NestGroups(root, names, problems);
  if (old_form && root.Find("tenants") == nullptr) {
    const json::Value* groups = root.Find("groups");
    root.Set("tenants", groups == nullptr ? json::Value::Map({}) : TenantsOf(*groups));
    SortRoots(*root.if_object());
  }
  problems.set_path_names(std::move(names));
  return true;
}

}  // namespace nstance::config
