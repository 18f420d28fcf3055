#include "admin/shard/api_json.h"

#include <map>
#include <utility>

#include "admin/shard/words.h"

namespace nstance::admin {
namespace {

json::Value Texts(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.push_back(json::Value::String(text));
  return json::Value::List(std::move(array));
}

json::Value Map(const std::map<std::string, std::string>& map) {
  json::Value value = json::Value::Map({});
  for (const auto& [key, text] : map) value.Set(key, json::Value::String(text));
  return value;
}

void SetBool(json::Value& object, std::string_view key, bool flag) {
  object.Set(key, json::Value::Bool(flag));
}

}  // namespace

void SetText(json::Value& object, std::string_view key, const std::string& text) {
  object.Set(key, json::Value::String(text));
}

void SetNumber(json::Value& object, std::string_view key, std::int64_t number) {
  object.Set(key, json::Value::Integer(number));
}

void SetTime(json::Value& object, std::string_view key, const std::optional<Timestamp>& time) {
  if (time) object.Set(key, json::Value::String(FormatTimestamp(*time)));
}

json::Value ToJson(const api::GroupStatus& status) {
  json::Value value = json::Value::Map({});
  SetText(value, "key", status.key);
  SetText(value, "tenant", status.tenant);
  SetText(value, "template", status.template_name);
  SetNumber(value, "size", status.size);
  SetText(value, "instance_type", status.instance_type);
  SetText(value, "subnet_pool", status.subnet_pool);
  value.Set("vars", Map(status.vars));
  SetBool(value, "is_static", status.is_static);
  SetText(value, "etag", status.etag);
  SetNumber(value, "actual_size", status.actual_size);
  value.Set("provider_ids", Texts(status.provider_ids));
  SetNumber(value, "draining", status.draining);
  SetNumber(value, "creating", status.creating);
  SetNumber(value, "ready", status.ready);
  SetNumber(value, "warm", status.warm);
  SetNumber(value, "claimed", status.claimed);
  value.Set("instance_ids", Texts(status.instance_ids));
  SetBool(value, "pool", status.pool);
  SetText(value, "draw_from", status.draw_from);
  SetNumber(value, "warming", status.warming);
  return value;
}

json::Value ToJson(const api::Instance& instance) {
  json::Value value = json::Value::Map({});
  SetText(value, "instance_id", instance.instance_id);
  SetText(value, "tenant", instance.tenant);
  SetText(value, "group", instance.group);
  SetText(value, "phase", std::string(PhaseWord(instance.phase)));
  SetText(value, "status", instance.status);
  SetBool(value, "on_demand", instance.on_demand);
  SetText(value, "provider_instance_id", instance.provider_instance_id);
  SetText(value, "instance_type", instance.instance_type);
  SetText(value, "subnet_id", instance.subnet_id);
  SetText(value, "private_ipv4", instance.private_ipv4);
  SetText(value, "private_ipv6", instance.private_ipv6);
  SetText(value, "hostname", instance.hostname);
  SetTime(value, "created_at", instance.created_at);
  SetTime(value, "registered_at", instance.registered_at);
  SetTime(value, "last_seen", instance.last_seen);
  SetText(value, "health", instance.health);
  SetText(value, "reason", instance.reason);
  SetTime(value, "delete_at", instance.delete_at);
  SetBool(value, "drifted", instance.drifted);
  SetText(value, "claim_request_id", instance.claim_request_id);
  SetTime(value, "claimed_at", instance.claimed_at);
  SetTime(value, "cert_expires_at", instance.cert_expires_at);
  SetText(value, "agent_version", instance.agent_version);
  SetText(value, "pool", instance.pool);
  SetText(value, "member_state", instance.member_state);
  return value;
}

json::Value ToJson(const api::Action& action) {
  json::Value value = json::Value::Map({});
  SetText(value, "kind", action.kind);
  SetText(value, "group", action.group);
  SetText(value, "instance_id", action.instance_id);
  SetText(value, "reason", action.reason);
  SetNumber(value, "priority", action.priority);
  SetText(value, "detail", action.detail);
  return value;
}

json::Value ToJson(const api::Hold& hold) {
  json::Value value = json::Value::Map({});
  SetText(value, "code", hold.code);
  SetText(value, "group", hold.group);
  SetText(value, "instance_id", hold.instance_id);
  SetText(value, "detail", hold.detail);
  SetTime(value, "until", hold.until);
  return value;
}

json::Value ToJson(const api::Event& event) {
  json::Value value = json::Value::Map({});
  SetTime(value, "time", event.time);
  SetText(value, "type", event.type);
  SetText(value, "group", event.group);
  SetText(value, "instance_id", event.instance_id);
  if (event.phase != api::InstancePhase::kUnspecified) {
    SetText(value, "phase", std::string(PhaseWord(event.phase)));
  }
  SetText(value, "reason", event.reason);
  SetText(value, "message", event.message);
  return value;
}

std::string Document(const json::Value& value) { return json::Write(value, {.indent = 2}) + "\n"; }

}  // namespace nstance::admin
