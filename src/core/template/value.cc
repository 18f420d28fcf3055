#include "core/template/value.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/overloaded.h"
#include "core/template/view.h"

namespace nstance::tmpl {
namespace {

using Members = std::vector<std::pair<std::string, Value>>;

// Sorted by key; of equal keys the last stays.
Members Sorted(Members members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const int by_key = members[a].first.compare(members[b].first);
    return by_key != 0 ? by_key < 0 : a < b;
  });
  Members sorted;
  sorted.reserve(members.size());
  for (const std::size_t at : order) {
    if (!sorted.empty() && sorted.back().first == members[at].first) sorted.pop_back();
    sorted.push_back(std::move(members[at]));
  }
  return sorted;
}

}  // namespace

Value Value::Bool(bool value) { return Value(Data(value)); }
Value Value::Int(std::int64_t value) { return Value(Data(value)); }
Value Value::Real(Float value) { return Value(Data(value)); }
Value Value::String(std::string value) { return Value(Data(std::move(value))); }

Value Value::List(std::vector<Value> items) {
  return Value(Data(std::make_shared<const ListData>(std::move(items))));
}

Value Value::Map(Members members) {
  return Value(Data(std::make_shared<const MapData>(Sorted(std::move(members)), false)));
}

Value Value::StringMap(std::vector<std::pair<std::string, std::string>> members) {
  Members values;
  values.reserve(members.size());
  for (auto& [key, text] : members) values.emplace_back(std::move(key), String(std::move(text)));
  return Value(Data(std::make_shared<const MapData>(Sorted(std::move(values)), true)));
}

Value Value::Record(const RecordType& type, std::vector<Value> fields) {
  CHECK(type.fields.size() == fields.size(), "{} has {} fields, not {}", type.name,
        type.fields.size(), fields.size());
  return Value(Data(std::make_shared<const RecordData>(&type, std::move(fields))));
}

Value Value::FromJson(const json::Value& value) {
  switch (value.type()) {
    case json::Type::kNull: return {};
    case json::Type::kBool: return Bool(*value.if_bool());
    case json::Type::kInteger:
    case json::Type::kDouble: return Real(*value.AsDouble());
    case json::Type::kString: return String(*value.if_string());
    case json::Type::kArray: {
      std::vector<Value> items;
      items.reserve(value.if_array()->size());
      for (const json::Value& item : *value.if_array()) items.push_back(FromJson(item));
      return List(std::move(items));
    }
    case json::Type::kObject: {
      Members members;
      members.reserve(value.if_object()->size());
      for (const json::Member& member : *value.if_object()) {
        members.emplace_back(member.key, FromJson(member.value));
      }
      return Map(std::move(members));
    }
  }
  return {};
}

const Value* MapData::Find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(
      members, key, {}, [](const auto& member) -> std::string_view { return member.first; });
  return found != members.end() && found->first == key ? &found->second : nullptr;
}

const Value* RecordData::Find(std::string_view name) const {
  // A handful of short names: faster than any search.
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (type->fields[i] == name) return &fields[i];
  }
  return nullptr;
}

View View::Of(const Value& value) {
  View view;
  std::visit(Overloaded{[](std::monostate) {}, [&](bool held) { view = Bool(held); },
                        [&](std::int64_t held) { view = Int(held); },
                        [&](Float held) { view = Real(held); },
                        [&](const std::string& held) { view = String(held); },
                        [&](const std::shared_ptr<const ListData>& held) {
                          view.kind = Kind::kList;
                          view.items = held->items.data();
                          view.size = held->items.size();
                          view.capacity = static_cast<std::uint32_t>(view.size);
                        },
                        [&](const std::shared_ptr<const MapData>& held) {
                          view.kind = Kind::kMap;
                          view.map = held.get();
                        },
                        [&](const std::shared_ptr<const RecordData>& held) {
                          view.kind = Kind::kRecord;
                          view.record = held.get();
                        }},
             value.data_);
  return view;
}

bool View::Truth() const {
  switch (kind) {
    case Kind::kNil:
    case Kind::kUnset: return false;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kByte: return integer != 0;
    case Kind::kFloat: return real != 0;
    case Kind::kString:
    case Kind::kList: return size > 0;
    case Kind::kMap: return !map->members.empty();
    case Kind::kRecord: return true;
  }
  return false;
}

std::string_view View::TypeName() const {
  switch (kind) {
    case Kind::kNil:
    case Kind::kUnset: return "<nil>";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kByte: return "uint8";
    case Kind::kFloat: return "float64";
    case Kind::kString: return "string";
    case Kind::kList: return "[]interface {}";
    case Kind::kMap: return map->strings ? "map[string]string" : "map[string]interface {}";
    case Kind::kRecord: return record->type->name;
  }
  return "<nil>";
}

}  // namespace nstance::tmpl
