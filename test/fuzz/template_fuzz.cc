// Templates: any bytes parse or give an error that says why and where; what parses renders within
// its limits or gives an error, and does so again in the same way.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "core/template/lint.h"
#include "core/template/template.h"

namespace nstance::tmpl {
namespace {

const Value& Data() {
  static const RecordType instance{.name = "Instance", .fields = {"ID", "Kind"}};
  static const RecordType root{.name = "Data",
                               .fields = {"Instance", "Vars", "List", "Map", "N", "F", "S"}};
  static const Value value = Value::Record(
      root,
      {Value::Record(instance, {Value::String("knc1"), Value::String("worker")}),
       Value::StringMap({{"A", "it's"}, {"B", "\xFF\xC3\xA9"}}),
       Value::List({Value::Int(1), Value(), Value::String("x"), Value::List({Value::Real(0.5)})}),
       Value::Map({{"a", Value::Bool(true)}, {"b", Value::List({})}, {"c", Value()}}),
       Value::Int(3), Value::Real(1e21), Value::String("text <&> 'x'")});
  return value;
}

void CheckPlace(const Place& place, std::string_view source) {
  CHECK(place.offset <= source.size(), "{}", place.offset);
  CHECK(place == PlaceOf(source, place.offset));
}

void Check(std::string_view source) {
  Place place;
  const Result<Template> parsed = Template::Parse("fuzz", source, {.error_at = &place});
  if (!parsed) {
    CHECK(parsed.error().message.starts_with("template: fuzz:"), "{}", parsed.error().message);
    CheckPlace(place, source);
    return;
  }
  const Limits limits{.output_bytes = 10'000, .steps = 2'000, .depth = 20};
  const Result<std::string> first = parsed->Render(Data(), {.limits = limits, .error_at = &place});
  if (first) {
    CHECK(first->size() <= limits.output_bytes, "{}", first->size());
  } else {
    CHECK(first.error().message.starts_with("template: fuzz:"), "{}", first.error().message);
    CheckPlace(place, source);
  }
  CHECK(parsed->Render(Data(), {.limits = limits}) == first);
  for (const Finding& finding : FindRawInsertions(*parsed)) CheckPlace(finding.place, source);
  (void)parsed->CheckNames();
}

}  // namespace
}  // namespace nstance::tmpl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::tmpl::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
