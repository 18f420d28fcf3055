// Keys that may reach a store, and those that may not.
#include "core/object_key.h"

#include <string>

#include <gtest/gtest.h>

namespace nstance {
namespace {

TEST(ObjectKeyTest, AcceptsOrdinaryKeys) {
  for (const std::string_view text :
       {"ca.crt", "leader/dc1-zone-a.json", "instance/a/prod.knc06bgm7733st2576nx5jht4ecjw.json",
        "a..b/...", "probe/x/~"}) {
    EXPECT_TRUE(ObjectKey::Parse(text).has_value()) << text;
  }
  EXPECT_TRUE(ObjectKey::Parse(std::string(1'024, 'k')).has_value());
}

TEST(ObjectKeyTest, RefusesWhatCouldEscapeOrConfuse) {
  for (const std::string& text :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string(".."),
        std::string("a/../b"), std::string("./a"), std::string("a/."), std::string("a\0b", 3),
        std::string("a\nb"), std::string("a b"), std::string("a\\b"), std::string("\xC3\xBC"),
        std::string("\x7f"), std::string(1'025, 'k')}) {
    EXPECT_FALSE(ObjectKey::Parse(text).has_value()) << text;
  }
  EXPECT_EQ(ObjectKey::Parse("a/../b").error().message,
            "\"a/../b\" is not an object key: it has a component . or ..");
}

}  // namespace
}  // namespace nstance
