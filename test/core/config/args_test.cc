// Merging of args: objects by key, everything else replaced.
#include "core/config/args.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace nstance::config {
namespace {

std::string Merged(std::string_view base, std::string_view over) {
  const json::Value below = *json::Parse(base);
  const json::Value above = *json::Parse(over);
  return json::WriteCanonical(json::Value::Map(MergeArgs(*below.if_object(), *above.if_object())));
}

TEST(MergeArgsTest, ObjectsAreMergedAndEverythingElseIsReplaced) {
  EXPECT_EQ(Merged(R"({"a": {"x": 1, "y": {"p": 1}}, "l": [1, 2], "s": "t"})",
                   R"({"a": {"y": {"q": 2}}, "l": [3], "n": null})"),
            R"({"a":{"x":1,"y":{"p":1,"q":2}},"l":[3],"n":null,"s":"t"})");
  EXPECT_EQ(Merged(R"({"a": {"x": 1}})", R"({"a": 2})"), R"({"a":2})");
  EXPECT_EQ(Merged(R"({"a": 2})", R"({"a": {"x": 1}})"), R"({"a":{"x":1}})");
  EXPECT_EQ(Merged("{}", "{}"), "{}");
}

}  // namespace
}  // namespace nstance::config
