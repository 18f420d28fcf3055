#include "core/config/dynamic_groups.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"
#include "core/config/check.h"
#include "core/config/document.h"
#include "core/config/load.h"
#include "core/config/place.h"
#include "core/config/problems.h"
#include "core/config/rule.h"
#include "core/config/schema.h"
#include "crypto/digest.h"

namespace nstance::config {
namespace {

constexpr std::string_view kStampStart = "// nstance epoch=";

// ---- the stamp --------------------------------------------------------------------------------

// Takes `prefix`, then everything up to the next blank; nothing when it is not there.
std::optional<std::string_view> TakeWord(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return std::nullopt;
  line.remove_prefix(prefix.size());
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::optional<std::int64_t> Number(std::optional<std::string_view> word) {
  if (!word || word->empty()) return std::nullopt;
  std::int64_t number = 0;
  const char* end = word->data() + word->size();
  const auto parsed = std::from_chars(word->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return std::nullopt;
  return number;
}

std::optional<GroupsStamp> ReadStamp(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = bytes.substr(0, end);
  const auto epoch = Number(TakeWord(line, kStampStart));
  const auto seq = Number(TakeWord(line, " seq="));
  const auto write_id = TakeWord(line, " write_id=");
  const auto hash = TakeWord(line, " sha256=");
  if (!epoch || !seq || !write_id || write_id->empty() || !hash || !line.empty()) {
    return std::nullopt;
  }
  if (*hash != crypto::Sha256Hex(AsBytes(bytes.substr(end + 1)))) return std::nullopt;
  return GroupsStamp{.epoch = *epoch, .seq = *seq, .write_id = std::string(*write_id)};
}

// ---- reading ----------------------------------------------------------------------------------

class InstanceIdRule final : public Rule<InstanceId> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "an instance id"; }
  [[nodiscard]] std::optional<InstanceId> Read(Reading& reading,
                                               const Place& place) const override {
    const std::string* text = place.value()->if_string();
    if (text == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    Result<InstanceId> id = ReadPuidv7(*text);
    if (id) return *std::move(id);
    reading.problems.Error(place, id.error().message);
    return std::nullopt;
  }
  [[nodiscard]] std::string Show(const InstanceId& value) const override { return value.text(); }
};

class TransitionsRule final : public Rule<std::int64_t> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "a whole number of at least 0"; }
  [[nodiscard]] std::optional<std::int64_t> Read(Reading& reading,
                                                 const Place& place) const override {
    const std::int64_t* number = place.value()->if_integer();
    if (number != nullptr && *number >= 0) return *number;
    if (number != nullptr) {
      reading.problems.Error(place, Shown(place) + " is below the minimum; " + Allowed());
    } else {
      TypeError(reading, place, Allowed());
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string Show(const std::int64_t& value) const override {
    return fmt::format("{}", value);
  }
};

const ObjectSpec& FenceSpec() {
  static const ObjectSpec spec = Table<Fence>({
      In<&Fence::lease_uid>("lease_uid", TextRule(), "The operator's lease.").Required(),
      In<&Fence::transitions>("transitions", TransitionsRule(), "Its count of holders.").Required(),
  });
  return spec;
}

// The members that only the dynamic layer has. GroupSpec() leaves them among the unknown ones.
const ObjectSpec& DynamicSpec() {
  static const ObjectSpec spec = Table<DynamicGroup>({
      In<&DynamicGroup::remove>("remove", ListOf("instance ids", InstanceIdRule()),
                                "Instances that go first."),
      In<&DynamicGroup::fence>("fence", ObjectRule<Fence>(&FenceSpec), "Who wrote last."),
  });
  return spec;
}

class DynamicGroupRule final : public Rule<DynamicGroup> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "an object"; }
  [[nodiscard]] std::optional<DynamicGroup> Read(Reading& reading,
                                                 const Place& place) const override {
    if (place.value()->if_object() == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    DynamicGroup group;
    json::Object unknown;
    Reading inner = {.problems = reading.problems, .unknown = &unknown};
    ReadObject(inner, place, GroupSpec(), &group.layer);
    // Reads the rest from the same object: what GroupSpec() knows is unknown here, and dropped.
    json::Object others;
    inner.unknown = &others;
    ReadObject(inner, place, DynamicSpec(), &group);
    KeepUnknown(unknown, others, group);
    if (group.remove.size() > kMaxRemove) {
      reading.problems.Error(place.Child("remove"), fmt::format("has {} entries; at most {}",
                                                                group.remove.size(), kMaxRemove));
    }
    return group;
  }
  [[nodiscard]] std::string Show(const DynamicGroup& /*value*/) const override { return ""; }

 private:
  static void KeepUnknown(json::Object& of_group, json::Object& of_dynamic, DynamicGroup& group) {
    for (json::Member& member : of_group) {
      if (member.key != "remove" && member.key != "fence") {
        group.unknown.push_back(std::move(member));
      }
    }
    for (json::Member& member : of_dynamic) {
      // Only what stands below `fence`.
      if (member.key == "fence") group.unknown.push_back(std::move(member));
    }
  }
};

// ---- writing ----------------------------------------------------------------------------------

json::Value Text(std::string_view text) { return json::Value::String(std::string(text)); }
json::Value Text(Duration duration) { return Text(ShortDuration(duration)); }

json::Value TextMap(const StringMap& map) {
  json::Object members;
  for (const auto& [key, value] : map)
    members.push_back({.key = key, .key_position = {}, .value = Text(value)});
  return json::Value::Map(std::move(members));
}

template <class Items, class Convert>
json::Value List(const Items& items, Convert convert) {
  json::Array list;
  for (const auto& item : items) list.push_back(Text(convert(item)));
  return json::Value::List(std::move(list));
}

class ObjectWriter {
 public:
  void Set(std::string_view key, json::Value value) {
    members_.push_back({.key = std::string(key), .key_position = {}, .value = std::move(value)});
  }
  void SetDuration(std::string_view key, const std::optional<Duration>& value) {
    if (value) Set(key, Text(*value));
  }
  void SetInt(std::string_view key, const std::optional<int>& value) {
    if (value) Set(key, json::Value::Integer(*value));
  }
  [[nodiscard]] json::Object Take() { return std::move(members_); }
  [[nodiscard]] json::Value TakeValue() { return json::Value::Map(std::move(members_)); }

 private:
  json::Object members_;
};

json::Value WritePool(const Pool& pool) {
  ObjectWriter out;
  out.SetInt("max_claimed", pool.max_claimed);
  out.SetDuration("max_unclaimed_age", pool.max_unclaimed_age);
  out.Set("reclaim", Text(Word(pool.reclaim)));
  out.Set("state", Text(Word(pool.state)));
  out.Set("on_empty", Text(Word(pool.on_empty)));
  if (!pool.warm_files.empty()) {
    out.Set("warm_files", List(pool.warm_files, [](const std::string& file) { return file; }));
  }
  out.SetDuration("claim_ttl", pool.claim_ttl);
  out.SetInt("refill_per_minute", pool.refill_per_minute);
  return out.TakeValue();
}

json::Value WriteExpiry(const ExpiryLayer& expiry) {
  ObjectWriter out;
  out.SetDuration("eligible_age", expiry.eligible_age);
  out.SetDuration("forced_age", expiry.forced_age);
  out.SetDuration("ondemand_age", expiry.ondemand_age);
  return out.TakeValue();
}

void WriteLayer(const GroupLayer& layer, ObjectWriter& out) {
  if (layer.template_name) out.Set("template", Text(*layer.template_name));
  out.SetInt("size", layer.size);
  if (!layer.instance_type.empty()) out.Set("instance_type", Text(layer.instance_type));
  if (layer.subnet_pool) out.Set("subnet_pool", Text(layer.subnet_pool->text()));
  if (!layer.vars.empty()) out.Set("vars", TextMap(layer.vars));
  if (!layer.args.empty()) out.Set("args", json::Value::Map(layer.args));
  out.SetDuration("drain_timeout", layer.drain_timeout);
  if (!layer.load_balancers.empty()) {
    out.Set("load_balancers",
            List(layer.load_balancers, [](const LoadBalancerKey& key) { return key.text(); }));
  }
  out.SetInt("surge", layer.surge);
  if (layer.expiry && *layer.expiry != ExpiryLayer{}) {
    out.Set("expiry", WriteExpiry(*layer.expiry));
  }
  if (layer.pool) out.Set("pool", WritePool(*layer.pool));
  if (layer.draw_from) out.Set("draw_from", Text(layer.draw_from->text()));
}

// Adds what is not known. Members of a known object are kept only while that object is there.
void AddUnknown(json::Object& members, const json::Object& unknown) {
  constexpr std::array<std::string_view, 3> kKnownObjects = {"pool", "expiry", "fence"};
  for (const json::Member& member : unknown) {
    const auto known = std::ranges::find(members, member.key, &json::Member::key);
    if (known == members.end()) {
      const bool nested = std::ranges::find(kKnownObjects, member.key) != kKnownObjects.end();
      if (!nested) members.push_back(member);
      continue;
    }
    const json::Object* more = member.value.if_object();
    if (known->value.if_object() == nullptr || more == nullptr) continue;
    for (const json::Member& inner : *more) {
      if (known->value.Find(inner.key) == nullptr) known->value.Set(inner.key, inner.value);
    }
  }
}

json::Value WriteGroup(const DynamicGroup& group) {
  ObjectWriter out;
  WriteLayer(group.layer, out);
  if (!group.remove.empty()) {
    out.Set("remove", List(group.remove, [](const InstanceId& id) { return id.text(); }));
  }
  if (group.fence) {
    ObjectWriter fence;
    fence.Set("lease_uid", Text(group.fence->lease_uid));
    fence.Set("transitions", json::Value::Integer(group.fence->transitions));
    out.Set("fence", fence.TakeValue());
  }
  json::Object members = out.Take();
  AddUnknown(members, group.unknown);
  return json::Value::Map(std::move(members));
}

}  // namespace

DynamicGroupsResult DecodeDynamicGroups(std::string_view bytes) {
  DynamicGroupsResult result;
  Problems problems;
  const std::optional<json::Value> document =
      ParseDocument(bytes, {.interface = "groups"}, problems);
  if (document) {
    const auto rule =
        MapOf(NameKey<TenantId>("tenant"), MapOf(NameKey<GroupKey>("group"), DynamicGroupRule()));
    Reading reading = {.problems = problems};
    result.groups = rule.Read(reading, Place(*document));
  }
  if (problems.error_count() > 0) result.groups.reset();
  result.errors = problems.TakeErrors(bytes);
  if (result.groups) result.stamp = ReadStamp(bytes);
  return result;
}

std::string EncodeDynamicGroups(const DynamicGroups& groups, const GroupsStamp& stamp) {
  json::Object tenants;
  for (const auto& [tenant, members] : groups) {
    if (members.empty()) continue;
    json::Object of_tenant;
    for (const auto& [key, group] : members) {
      of_tenant.push_back({.key = key.text(), .key_position = {}, .value = WriteGroup(group)});
    }
    tenants.push_back({.key = tenant.text(),
                       .key_position = {},
                       .value = json::Value::Map(std::move(of_tenant))});
  }
  const std::string body = json::Write(json::Value::Map(std::move(tenants)),
                                       {.key_order = json::KeyOrder::kSorted, .indent = 2}) +
                           "\n";
  return fmt::format("{}{} seq={} write_id={} sha256={}\n{}", kStampStart, stamp.epoch, stamp.seq,
                     stamp.write_id, crypto::Sha256Hex(AsBytes(body)), body);
}

}  // namespace nstance::config
