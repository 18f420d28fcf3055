// The XML reader: examples from real answers, a table of what is refused with its place, limits,
// and a property over seeds: no byte flipped or cut does harm.
#include "base/xml.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/metrics.h"
#include "base/prng.h"

namespace nstance::xml {
namespace {

constexpr std::string_view kListing = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name><Prefix/><IsTruncated>false</IsTruncated>
  <Contents><Key>a &amp; b&#x2F;&lt;c&gt;&#13;</Key><ETag>&quot;0a&quot;</ETag><Size>3</Size></Contents>
  <Contents Kind='x'><Key>d</Key></Contents>
</ListBucketResult>
)";

TEST(XmlTest, ReadsWhatStoresSay) {
  const auto root = Parse(kListing);
  ASSERT_TRUE(root) << root.error().ToString();
  EXPECT_EQ(root->name, "ListBucketResult");
  ASSERT_EQ(root->children.size(), 5U);
  EXPECT_EQ(root->TextOf("Name"), "bucket");
  EXPECT_NE(root->Find("Prefix"), nullptr);
  EXPECT_EQ(root->TextOf("Prefix"), "");
  EXPECT_EQ(root->Find("Missing"), nullptr);
  EXPECT_EQ(root->TextOf("Missing"), "");
  EXPECT_EQ(root->Find("Contents")->TextOf("Key"), "a & b/<c>\r");
  EXPECT_EQ(root->Find("Contents")->TextOf("ETag"), "\"0a\"");
  EXPECT_EQ(root->children[4].TextOf("Key"), "d");
}

TEST(XmlTest, KeepsTextAroundChildrenAndNamesWithTheirPrefix) {
  const auto root = Parse("<s:a>one<b/>two</s:a >\n");
  ASSERT_TRUE(root) << root.error().ToString();
  EXPECT_EQ(root->name, "s:a");
  EXPECT_EQ(root->text, "onetwo");
}

struct Refused {
  std::string_view text;
  std::string_view message;
};

class XmlRefusedTest : public testing::TestWithParam<Refused> {};

TEST_P(XmlRefusedTest, SaysWhatAndWhere) {
  const auto root = Parse(GetParam().text);
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(root.error().message.starts_with(GetParam().message)) << root.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, XmlRefusedTest,
    testing::Values(
        Refused{"", "1:1: no element"}, Refused{"text", "1:1: no element"},
        Refused{"\xEF\xBB\xBF<a/>", "1:1: no element"},
        Refused{"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "1:2: no name"},
        Refused{"<?xml version='1.0'?><!DOCTYPE a><a/>", "1:23: no name"},
        Refused{"<?xml version='1.0'", "1:1: a declaration without end"},
        Refused{"<?xml <a>?><b/>", "1:1: a declaration that holds markup"},
        Refused{"<?php ?><a/>", "1:2: no name"}, Refused{"<a><!-- b --></a>", "1:5: no name"},
        Refused{"<a><![CDATA[b]]></a>", "1:5: no name"}, Refused{"<a>&b;</a>", "1:4: an entity"},
        Refused{"<a>&lt</a>", "1:4: a reference without end"},
        Refused{"<a>&#0;</a>", "1:4: a reference to no"},
        Refused{"<a>&#xD800;</a>", "1:4: a reference to no"},
        Refused{"<a>&#x110000;</a>", "1:4: a reference to no"},
        Refused{"<a>&#99999999999;</a>", "1:4: a reference to no"},
        Refused{"<a>&#;</a>", "1:4: a reference to no"},
        Refused{"<a>&#-1;</a>", "1:4: a reference to no"},
        Refused{"<a>\x01</a>", "1:4: a control character"},
        Refused{"<a>\nb\x7F\x01</a>", "2:3: a control character"},
        Refused{"<a b='\x02'/>", "1:7: a control character"},
        Refused{"<a b='&c;'/>", "1:7: an entity"}, Refused{"<a b=c/>", "1:6: an attribute"},
        Refused{"<a b/>", "1:5: an attribute"}, Refused{"<a b='c/>", "1:7: an attribute without"},
        Refused{"<a b='<'/>", "1:7: an attribute that holds"},
        Refused{"<a b='c'd='e'/>", "1:9: an element that does not end"},
        Refused{"<a", "1:3: an element that does not end"}, Refused{"<a>", "1:4: the end of"},
        Refused{"<a><b></a></b>", "1:10: the end of an element"},
        Refused{"<a></a", "1:7: an end tag"}, Refused{"<a></a b>", "1:8: an end tag"},
        Refused{"<a/><b/>", "1:5: something after"}, Refused{"<a/>text", "1:5: something after"},
        Refused{"<1/>", "1:2: no name"}, Refused{"< a/>", "1:2: no name"},
        Refused{"<a>\xFF</a>", "XML that is not UTF-8"},
        Refused{"<a>\xED\xA0\x80</a>", "XML that is not UTF-8"}));

TEST(XmlTest, NoMessageShowsTheText) {
  const auto root = Parse("<a><secret>NSTANCE-CANARY</secret><b>&NSTANCE-CANARY;</b></a>");
  ASSERT_FALSE(root);
  EXPECT_FALSE(root.error().message.contains("CANARY")) << root.error().message;
}

TEST(XmlTest, LimitsHoldAndAreCounted) {
  metrics::Registry registry;
  InputProbe probe(registry);
  const InputSource source{.interface = "cloud", .probe = &probe};
  const auto bytes = Parse("<a>12345</a>", {.max_bytes = 11, .source = source});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kResourceExhausted);
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "<a>";
  for (int i = 0; i < 17; ++i) deep += "</a>";
  const auto depth = Parse(deep, {.source = source});
  ASSERT_FALSE(depth);
  EXPECT_EQ(depth.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(Parse(deep, {.max_depth = 17}));
  const auto many = Parse("<a><b/><b/><b/></a>", {.max_elements = 3, .source = source});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Code::kResourceExhausted);
  EXPECT_TRUE(Parse("<a><b/><b/><b/></a>", {.max_elements = 4}));
}

TEST(XmlTest, ABombOfReferencesStaysSmall) {
  std::string bomb = "<a>";
  for (int i = 0; i < 100'000; ++i) bomb += "&lt;";
  bomb += "</a>";
  const auto root = Parse(bomb);
  ASSERT_TRUE(root) << root.error().ToString();
  EXPECT_EQ(root->text.size(), 100'000U);
}

TEST(XmlTest, BrokenTextsDoNoHarm) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 5'000; ++seed) {
    Prng prng(seed);
    std::string text(kListing);
    for (std::uint64_t i = 0; i <= prng.Below(3); ++i) {
      const std::size_t at = prng.Below(text.size());
      switch (prng.Below(4)) {
        case 0: text[at] = static_cast<char>(prng.Below(256)); break;
        case 1: text.erase(at, 1 + prng.Below(8)); break;
        case 2: text.insert(at, 1, "<>&;\"'/?!#"[prng.Below(10)]); break;
        default: text.resize(at + 1);
      }
      if (text.empty()) break;
    }
    const auto root = Parse(text);
    if (root) {
      ++accepted;
    } else {
      EXPECT_FALSE(root.error().message.empty());
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace nstance::xml
