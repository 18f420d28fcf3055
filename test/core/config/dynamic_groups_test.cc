// groups/{shard}.jsonc: bytes, what is kept, what is refused.
#include "core/config/dynamic_groups.h"

#include <string>

#include <gtest/gtest.h>

#include "base/text.h"
#include "crypto/digest.h"

namespace nstance::config {
namespace {

constexpr std::string_view kBody = R"({
  "prod": {
    "workers": {
      "drain_timeout": "0s",
      "fence": {
        "lease_uid": "u1",
        "transitions": 3
      },
      "later": {
        "x": [
          1
        ]
      },
      "pool": {
        "claim_ttl": "0s",
        "max_claimed": 2,
        "max_unclaimed_age": "7d",
        "newer": true,
        "on_empty": "fail",
        "reclaim": "delete",
        "refill_per_minute": 30,
        "state": "running"
      },
      "remove": [
        "knc06bgm7733st2576nx5jht4ecjw"
      ],
      "size": 0,
      "template": "knd",
      "vars": {
        "A": "1"
      }
    }
  }
}
)";

std::string Stamped(std::string_view body) {
  return "// nstance epoch=3 seq=17 write_id=AAECAwQFBgcICQoLDA0ODw sha256=" +
         crypto::Sha256Hex(AsBytes(body)) + "\n" + std::string(body);
}

const GroupsStamp kStamp = {.epoch = 3, .seq = 17, .write_id = "AAECAwQFBgcICQoLDA0ODw"};

const DynamicGroup& OnlyGroup(const DynamicGroupsResult& result) {
  return result.groups->begin()->second.begin()->second;
}

TEST(DynamicGroupsTest, WhatIsWrittenIsReadBackByteForByte) {
  const DynamicGroupsResult read = DecodeDynamicGroups(Stamped(kBody));
  ASSERT_TRUE(read.groups.has_value()) << read.errors.front().message;
  EXPECT_EQ(read.stamp, kStamp);
  EXPECT_EQ(EncodeDynamicGroups(*read.groups, kStamp), Stamped(kBody));
  const DynamicGroup& group = OnlyGroup(read);
  EXPECT_EQ(group.layer.size, 0);
  EXPECT_EQ(group.layer.drain_timeout, Duration());
  EXPECT_EQ(group.layer.pool->max_claimed, 2);
  EXPECT_EQ(group.fence, (Fence{"u1", 3}));
  EXPECT_EQ(group.remove.size(), 1U);
}

TEST(DynamicGroupsTest, UnknownMembersAreKeptWithTheirObject) {
  DynamicGroupsResult read = DecodeDynamicGroups(kBody);
  ASSERT_TRUE(read.groups.has_value());
  DynamicGroup& group = read.groups->begin()->second.begin()->second;
  group.layer.pool.reset();
  const std::string without = EncodeDynamicGroups(*read.groups, kStamp);
  EXPECT_EQ(without.find("newer"), std::string::npos);
  EXPECT_NE(without.find("\"later\""), std::string::npos);
}

TEST(DynamicGroupsTest, AMissingOrWrongStampIsAPersonsEdit) {
  const std::string good = Stamped(kBody);
  for (const std::string& edited :
       {std::string(kBody), good + " ", "// a comment\n" + good,
        "// nstance epoch=x seq=17 write_id=a sha256=b\n" + std::string(kBody)}) {
    const DynamicGroupsResult read = DecodeDynamicGroups(edited);
    EXPECT_TRUE(read.groups.has_value());
    EXPECT_FALSE(read.stamp.has_value());
    EXPECT_EQ(EncodeDynamicGroups(*read.groups, kStamp), good);
  }
}

TEST(DynamicGroupsTest, EmptyValuesAndTenantsAreLeftOut) {
  const DynamicGroupsResult read = DecodeDynamicGroups(
      R"({"a": {}, "b": {"g": {"vars": {}, "instance_type": "", "load_balancers": [],
          "template": "", "subnet_pool": "", "draw_from": ""}}})");
  ASSERT_TRUE(read.groups.has_value());
  const std::string written = EncodeDynamicGroups(*read.groups, kStamp);
  EXPECT_EQ(written.substr(written.find('\n') + 1), "{\n  \"b\": {\n    \"g\": {}\n  }\n}\n");
}

TEST(DynamicGroupsTest, AnEmptyFileOfGroups) {
  const DynamicGroupsResult read = DecodeDynamicGroups(EncodeDynamicGroups({}, kStamp));
  ASSERT_TRUE(read.groups.has_value());
  EXPECT_TRUE(read.groups->empty());
  EXPECT_EQ(read.stamp, kStamp);
}

TEST(DynamicGroupsTest, WrongValuesAreToldWithTheirPlace) {
  struct Row {
    std::string_view text;
    std::string_view error;
  };
  for (const Row& row : {
           Row{"[]", "f:1:1: is a list; an object of objects"},
           Row{R"({"A": {}})",
               "f:1:2: A: \"A\" is not a tenant name: it contains \"A\"; 1 to 32 lower-case "
               "letters and digits, with single hyphens between them"},
           Row{R"({"a": {"g": 1}})", "f:1:13: a.g: is a number; an object"},
           Row{R"({"a": {"g": {"size": -1}}})",
               "f:1:22: a.g.size: -1 is below the minimum; a whole number from 0 to 10000"},
           Row{R"({"a": {"g": {"fence": {"lease_uid": "x"}}}})",
               "f:1:23: a.g.fence.transitions: missing; a whole number of at least 0"},
           Row{R"({"a": {"g": {"remove": ["x"]}}})", ""},
       }) {
    const DynamicGroupsResult read = DecodeDynamicGroups(row.text);
    EXPECT_FALSE(read.groups.has_value()) << row.text;
    ASSERT_FALSE(read.errors.empty()) << row.text;
    if (row.error.empty()) continue;
    EXPECT_EQ(Format(read.errors.front(), "f"), row.error);
  }
}

TEST(DynamicGroupsTest, RemoveIsBounded) {
  std::string ids;
  for (std::size_t i = 0; i <= kMaxRemove; ++i) {
    ids += R"(,"knc06bgm7733st2576nx5jht4ecjw")";
  }
  const std::string text = R"({"a": {"g": {"remove": [)" + ids.substr(1) + "]}}}";
  EXPECT_EQ(DecodeDynamicGroups(text).errors.at(0).message, "has 257 entries; at most 256");
}

}  // namespace
}  // namespace nstance::config
