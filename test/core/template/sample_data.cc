#include "test/core/template/sample_data.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

namespace nstance::test {
namespace {

using tmpl::RecordType;
using tmpl::Value;

const RecordType& InstanceType() {
  static const RecordType type{.name = "main.Instance", .fields = {"ID", "Kind", "Arch", "Type"}};
  return type;
}

const RecordType& ClusterType() {
  static const RecordType type{.name = "main.Cluster", .fields = {"ID", "CACert"}};
  return type;
}

const RecordType& RootType() {
  static const RecordType type{
      .name = "main.Root",
      .fields = {"Instance", "Cluster", "Vars", "Nonce", "Count", "Ratio", "Flag", "List", "Map"}};
  return type;
}

Value Strings(const RecordType& type, const json::Value& object) {
  std::vector<Value> fields;
  for (const std::string& name : type.fields) {
    fields.push_back(Value::String(*object.Find(name)->if_string()));
  }
  return Value::Record(type, std::move(fields));
}

std::string Decoded(const json::Value& text) {
  const Result<Bytes> bytes = Base64Decode(*text.if_string());
  CHECK(bytes.has_value(), "{}", *text.if_string());
  return std::string(AsText(*bytes));
}

}  // namespace

Value SampleFromJson(std::string_view text) {
  const Result<json::Value> parsed = json::Parse(text);
  CHECK(parsed.has_value(), "{}: {}", text, parsed.error().message);
  const json::Value& root = *parsed;
  std::vector<std::pair<std::string, std::string>> vars;
  for (const json::Member& member : *root.Find("Vars")->if_object()) {
    vars.emplace_back(member.key, Decoded(member.value));
  }
  return Value::Record(
      RootType(),
      {Strings(InstanceType(), *root.Find("Instance")),
       Strings(ClusterType(), *root.Find("Cluster")), Value::StringMap(std::move(vars)),
       Value::String(Decoded(*root.Find("Nonce"))), Value::Int(*root.Find("Count")->if_integer()),
       Value::Real(*root.Find("Ratio")->AsDouble()), Value::Bool(*root.Find("Flag")->if_bool()),
       Value::FromJson(*root.Find("List")), Value::FromJson(*root.Find("Map"))});
}

const std::string& SampleJson() {
  // Vars: ROLE worker, QUOTE it's, EMPTY, HTML <a href="x">&'. Nonce: n0nce.
  static const std::string text =
      R"({"Instance":{"ID":"knc1","Kind":"worker","Arch":"arm64","Type":"c7g.large"},)"
      R"("Cluster":{"ID":"example","CACert":"-----BEGIN\nabc\n-----END\n"},)"
      R"("Vars":{"ROLE":"d29ya2Vy","QUOTE":"aXQncw==","EMPTY":"","HTML":"PGEgaHJlZj0ieCI+Jic="},)"
      R"("Nonce":"bjBuY2U=","Count":3,"Ratio":0.25,"Flag":true,)"
      R"("List":["x",1,2.5,true,null,{"a":"A","b":null,"c":[1,"two"]}],)"
      R"("Map":{"a":"A","b":1e6,"c":{"a":"deep","b":[],"c":{}},"n":null,"f":false,"e":"é\t😀"}})";
  return text;
}

const Value& Sample() {
  static const Value value = SampleFromJson(SampleJson());
  return value;
}

}  // namespace nstance::test
