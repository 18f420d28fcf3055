// Answers of servers as JSON: the proto's names, phases as words, times RFC 3339, what is absent
// left out, empty lists as [].
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"
#include "ports/api/plan.h"

namespace nstance::admin {

[[nodiscard]] json::Value ToJson(const api::GroupStatus& status);
[[nodiscard]] json::Value ToJson(const api::Instance& instance);
[[nodiscard]] json::Value ToJson(const api::Action& action);
[[nodiscard]] json::Value ToJson(const api::Hold& hold);
[[nodiscard]] json::Value ToJson(const api::Event& event);

template <class T>
[[nodiscard]] json::Value ListToJson(const std::vector<T>& items) {
  json::Array array;
  array.reserve(items.size());
  for (const T& item : items) array.push_back(ToJson(item));
  return json::Value::List(std::move(array));
}

void SetText(json::Value& object, std::string_view key, const std::string& text);
void SetNumber(json::Value& object, std::string_view key, std::int64_t number);
void SetTime(json::Value& object, std::string_view key, const std::optional<Timestamp>& time);

// One document with its newline.
[[nodiscard]] std::string Document(const json::Value& value);

}  // namespace nstance::admin
