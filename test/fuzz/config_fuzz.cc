// Configuration files: any bytes give a Config or errors, never both; every error has a place in
// the text and can be shown; what loads converts to a file that gives the same Config. Dynamic
// groups: what is read is written, and read back as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "core/config/dynamic_groups.h"
#include "core/config/load.h"

namespace nstance::config {
namespace {

void CheckProblems(const std::vector<Problem>& problems, std::string_view text) {
  CHECK(problems.size() <= kMaxProblems);
  for (const Problem& problem : problems) {
    CHECK(problem.offset <= text.size());
    CHECK(!problem.message.empty());
    CHECK(!FormatWithExcerpt(problem, "f", text).empty());
  }
}

void CheckConfig(std::string_view text) {
  const LoadResult result = Load(text);
  CheckProblems(result.errors, text);
  CheckProblems(result.warnings, text);
  CHECK(result.config.has_value() == result.errors.empty());
  for (const TemplateSource& source : result.templates) {
    for (std::size_t i = 0; i <= source.text.size(); ++i) {
      const json::Position at = PlaceInFile(text, source, i);
      CHECK(at.line >= 1 && at.column >= 1);
    }
  }
  const ConvertResult converted = Convert(text);
  CHECK(converted.text.has_value() == result.config.has_value());
  if (!converted.text) return;
  const LoadResult again = Load(*converted.text);
  CHECK(again.config.has_value(), "{}", *converted.text);
  CHECK(*again.config == *result.config, "{}", *converted.text);
}

void CheckGroups(std::string_view text) {
  const DynamicGroupsResult result = DecodeDynamicGroups(text);
  CheckProblems(result.errors, text);
  CHECK(result.groups.has_value() == result.errors.empty());
  if (!result.groups) return;
  const GroupsStamp stamp = {.epoch = 1, .seq = 2, .write_id = "w"};
  const std::string written = EncodeDynamicGroups(*result.groups, stamp);
  const DynamicGroupsResult again = DecodeDynamicGroups(written);
  CHECK(again.groups.has_value(), "{}", written);
  CHECK(again.stamp == stamp, "{}", written);
  CHECK(EncodeDynamicGroups(*again.groups, stamp) == written, "{}", written);
}

}  // namespace
}  // namespace nstance::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  nstance::config::CheckConfig(text);
  nstance::config::CheckGroups(text);
  return 0;
}
