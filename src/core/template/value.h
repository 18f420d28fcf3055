// Values that templates work on: what Go's text/template sees by reflection.
//
//   kind      made by                     Go's type                 false when
//   nil       Value()                     nil                       always
//   bool      Bool(true)                  bool                      false
//   int       Int(5)                      int                       0
//   float     Real(0.5)                   float64                   0
//   string    String("x")                 string                    empty
//   list      List({...})                 []interface {}            empty
//   map       Map({...})                  map[string]interface {}   empty
//             StringMap({...})            map[string]string         empty
//   record    Record(type, {...})         a struct, by its name     never
//
// A map answers a key that it does not have with the empty string. A record has the fields of its
// type and no others: any other name is an error of the template.
//
// Values are immutable. Lists, maps and records are held by reference: a copy of a Value shares
// them, so that what all instances have in common (the cluster, the variables of a group) is built
// once.
//
//   static const RecordType kServer{.name = "Server", .fields = {"Shard", "AgentAddr"}};
//   const Value server = Value::Record(kServer, {Value::String("a"), Value::String("10.0.0.1:1")});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace nstance::tmpl {

// Templates print and compare numbers of configurations; nothing is decided by them in here.
using Float = double;  // allow(float): the only place of core/template that names the type.

// The name and the fields of a struct. The name is for messages and for %T.
struct RecordType {
  std::string name;
  std::vector<std::string> fields;
};

class Value;
struct ListData;
struct MapData;
struct RecordData;

class Value final {
 public:
  Value() = default;  // nil

  [[nodiscard]] static Value Bool(bool value);
  [[nodiscard]] static Value Int(std::int64_t value);
  [[nodiscard]] static Value Real(Float value);
  [[nodiscard]] static Value String(std::string value);
  [[nodiscard]] static Value List(std::vector<Value> items);
  // Of several members with one key the last counts.
  [[nodiscard]] static Value Map(std::vector<std::pair<std::string, Value>> members);
  [[nodiscard]] static Value StringMap(std::vector<std::pair<std::string, std::string>> members);
  // `type` must outlive the value and all its copies. REQUIRES: one value per field of the type.
  [[nodiscard]] static Value Record(const RecordType& type, std::vector<Value> fields);

  // As Go's encoding/json reads it into an `any`: objects are maps, every number is a float64.
  [[nodiscard]] static Value FromJson(const json::Value& value);

 private:
  friend struct View;
  using Data = std::variant<std::monostate, bool, std::int64_t, Float, std::string,
                            std::shared_ptr<const ListData>, std::shared_ptr<const MapData>,
                            std::shared_ptr<const RecordData>>;

  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

}  // namespace nstance::tmpl
