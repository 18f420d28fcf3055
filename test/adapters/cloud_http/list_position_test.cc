// Pages of listings: what a store may list, and what it may not.
#include "adapters/cloud_http/list_position.h"

#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace nstance::cloud {
namespace {

RawPage Page(const std::vector<std::string>& keys, std::string next = "") {
  RawPage page;
  for (const std::string& key : keys) page.entries.push_back({.key = key, .version = {}});
  page.next_token = std::move(next);
  return page;
}

std::vector<std::string> Keys(const ListPage& page) {
  std::vector<std::string> keys;
  for (const ListedObject& object : page.objects) keys.push_back(object.key.text());
  return keys;
}

TEST(ListPositionTest, TokensSurviveARoundTrip) {
  const ListPosition position{
      .empty_pages = 3, .last_key = "a/b \xC3\xA4", .store_token = "opaque\n\n=="};
  const auto again = ListPosition::FromToken(position.ToToken());
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(again->empty_pages, 3);
  EXPECT_EQ(again->last_key, position.last_key);
  EXPECT_EQ(again->store_token, position.store_token);
  EXPECT_EQ(ListPosition{}.ToToken(), "");
  EXPECT_EQ(ListPosition::FromToken("")->store_token, "");
}

TEST(ListPositionTest, TokensOfOthersAreRefused) {
  for (const std::string token :
       {"x", "1", "1\n", "1\na", "1\na\n", "x\na\nb", "-1\na\nb", "\n\n"}) {
    const auto position = ListPosition::FromToken(token);
    ASSERT_FALSE(position) << token;
    EXPECT_EQ(position.error().code, Code::kInvalidArgument);
  }
}

TEST(CheckPageTest, GoesOnWhereThePageBeforeEnded) {
  const ListRequest request{.prefix = "a/"};
  const auto first = CheckPage(Page({"a/1", "a/2"}, "next"), request, {});
  ASSERT_TRUE(first) << first.error().ToString();
  const auto position = ListPosition::FromToken(first->next_page_token);
  ASSERT_TRUE(position);
  EXPECT_EQ(position->store_token, "next");
  EXPECT_EQ(position->last_key, "a/2");
  const auto second = CheckPage(Page({"a/3"}), request, *position);
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_FALSE(CheckPage(Page({"a/2"}), request, *position)) << "listed twice";
  EXPECT_FALSE(CheckPage(Page({"a/1"}), request, *position)) << "back again";
}

TEST(CheckPageTest, WhatPeopleKeepInTheBucketIsPassedOver) {
  const auto page =
      CheckPage(Page({"a/", "a/1", "a/2//3", "a/My notes.txt", "a/\xC3\xA4", "a/\xF0\x9F\x98\x80"}),
                {.prefix = "a/"}, {});
  ASSERT_TRUE(page) << page.error().ToString();
  EXPECT_EQ(Keys(*page), std::vector<std::string>{"a/1"});
}

TEST(CheckPageTest, ALieFailsTheListing) {
  struct Lie {
    std::vector<std::string> keys;
    std::string prefix;
  };
  const std::vector<Lie> lies = {
      {{"a/2", "a/1"}, "a/"},
      {{"a/1", "a/1"}, "a/"},
      {{"b/1"}, "a/"},
      {{"a/../b"}, "a/"},
      {{".."}, ""},
      {{"a/./b"}, ""},
      {{"a/.."}, ""},
      {{"a/1\n"}, "a/"},
      {{"a\r"}, ""},
      {{std::string("a\0", 2)}, ""},
      {{"a\x7F"}, ""},
      {{""}, ""},
      {{"a", "b", "c", "d"}, ""},
  };
  for (const Lie& lie : lies) {
    const auto page = CheckPage(Page(lie.keys), {.prefix = lie.prefix, .page_size = 3}, {});
    ASSERT_FALSE(page) << lie.keys.front();
    EXPECT_EQ(page.error().code, Code::kUnavailable) << page.error().ToString();
  }
}

TEST(CheckPageTest, ATokenThatRepeatsItselfEndsTheListing) {
  const ListPosition position{.last_key = "a", .store_token = "same"};
  EXPECT_FALSE(CheckPage(Page({"b"}, "same"), {}, position));
  EXPECT_TRUE(CheckPage(Page({"b"}, "other"), {}, position));
}

TEST(CheckPageTest, EmptyPagesEndSomewhere) {
  ListPosition position;
  int pages = 0;
  for (;; ++pages) {
    ASSERT_LE(pages, kMaxEmptyPages);
    const auto page = CheckPage(Page({}, fmt::format("token {}", pages)), {}, position);
    if (!page) break;
    position = *ListPosition::FromToken(page->next_page_token);
  }
  EXPECT_EQ(pages, kMaxEmptyPages);
  const auto key = CheckPage(Page({"a"}, "t"), {}, {.empty_pages = kMaxEmptyPages});
  ASSERT_TRUE(key);
  EXPECT_EQ(ListPosition::FromToken(key->next_page_token)->empty_pages, 0);
}

}  // namespace
}  // namespace nstance::cloud
