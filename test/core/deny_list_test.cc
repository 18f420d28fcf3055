// The deny list's bytes: a vector, a table of what is refused, round trips; then what is denied.
#include "core/deny_list.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/checksum.h"

namespace nstance {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

Timestamp At(std::string_view text) { return *ParseTimestamp(text); }

DenyEntry BySerial(std::string serial = "4711") {
  return {.serial = std::move(serial),
          .reason = "laptop lost",
          .denied_at = At("2026-01-01T00:00:00Z"),
          .expires_at = At("2026-01-02T00:00:00Z")};
}
DenyEntry ByIdentity() {
  DenyEntry entry = BySerial("");
  entry.tenant = *TenantId::Parse("prod");
  entry.identity = "knc06bgm7733st2576nx5jht4ecjw";
  return entry;
}

constexpr std::string_view kEntry =
    R"({"serial":"4711","reason":"laptop lost","denied_at":"2026-01-01T00:00:00Z",)"
    R"("expires_at":"2026-01-02T00:00:00Z"})";

std::string WithEntry(std::string_view entry) {
  return R"({"version":1,"entries":[)" + std::string(entry) + R"(],"write_id":"w"})";
}

TEST(DenyListTest, IsWrittenInTheOrderOfTheFormat) {
  const DenyList list{.entries = {BySerial(), ByIdentity()}, .write_id = "w"};
  const std::string expected =
      R"({"version":1,"entries":[)" + std::string(kEntry) +
      R"(,{"tenant":"prod","identity":"knc06bgm7733st2576nx5jht4ecjw","reason":"laptop lost",)"
      R"("denied_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-02T00:00:00Z"}],"write_id":"w"})";
  EXPECT_EQ(EncodeDenyList(list), crypto::AppendChecksum(expected));
  EXPECT_EQ(DecodeDenyList(EncodeDenyList(list)), list);
}

TEST(DenyListTest, AMissingChecksumIsAcceptedAndAWrongOneIsNot) {
  EXPECT_TRUE(DecodeDenyList(WithEntry(kEntry)));
  std::string bytes = EncodeDenyList({.entries = {BySerial()}, .write_id = "w"});
  bytes.replace(bytes.find("4711"), 4, "4712");
  EXPECT_THAT(DecodeDenyList(bytes).error().message, HasSubstr("wrong checksum"));
}

TEST(DenyListTest, MembersThatAreNotKnownAreKept) {
  std::string entry(kEntry);
  entry.insert(entry.size() - 1, R"(,"by":"admin")");
  std::string text = WithEntry(entry);
  text.insert(text.size() - 1, R"(,"later":[1,2])");
  const Result<DenyList> list = DecodeDenyList(text);
  ASSERT_TRUE(list);
  EXPECT_THAT(EncodeDenyList(*list), HasSubstr(R"("by":"admin"})"));
  EXPECT_THAT(EncodeDenyList(*list), HasSubstr(R"("later":[1,2])"));
}

TEST(DenyListTest, WhatIsNotClearIsRefusedWithItsPlace) {
  const std::string times =
      R"("reason":"r","denied_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-02T00:00:00Z"})";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "line"},
      {"[]", "not an object"},
      {R"({"entries":[]})", "version"},
      {R"({"version":2,"entries":[]})", "version"},
      {R"({"version":1})", "entries: not a list"},
      {R"({"version":1,"entries":{}})", "entries: not a list"},
      {WithEntry("1"), "entries[0]: not an object"},
      {WithEntry("{" + times), "serial, or a tenant and an identity"},
      {WithEntry(R"({"serial":"",)" + times), "serial: empty"},
      {WithEntry(R"({"serial":"007",)" + times), "serial"},
      {WithEntry(R"({"serial":"-1",)" + times), "serial"},
      {WithEntry(R"({"serial":17,)" + times), "serial: is a number"},
      {WithEntry(R"({"serial":"1","tenant":"a","identity":"b",)" + times), "not both"},
      {WithEntry(R"({"tenant":"prod",)" + times), "go together"},
      {WithEntry(R"({"identity":"x",)" + times), "go together"},
      {WithEntry(R"({"tenant":"A B","identity":"x",)" + times), "tenant"},
      {WithEntry(R"({"serial":"1","reason":"r","denied_at":"yesterday","expires_at":"x"})"),
       "denied_at"},
      {WithEntry(R"({"serial":"1","reason":"r","denied_at":"2026-01-01T00:00:00Z"})"),
       "expires_at: missing"},
      {WithEntry(R"({"serial":"1",)" + times + "," + R"({"serial":"x",)" + times), "entries[1]"},
  };
  for (const auto& [text, expected] : rows) {
    const Result<DenyList> list = DecodeDenyList(text);
    ASSERT_FALSE(list) << text;
    EXPECT_THAT(list.error().ToString(), HasSubstr(expected == "line" ? "1:1" : expected)) << text;
  }
}

TEST(DenyListTest, TooManyEntriesAreRefused) {
  std::string entries(kEntry);
  for (std::size_t i = 0; i < kMaxDenyEntries; ++i) entries += "," + std::string(kEntry);
  EXPECT_EQ(DecodeDenyList(WithEntry(entries)).error().code, Code::kResourceExhausted);
}

TEST(DenyListTest, DenyingReplacesTheSameTargetAndDropsWhatHasExpired) {
  const Timestamp now = At("2026-01-01T12:00:00Z");
  DenyEntry old = BySerial("1");
  old.expires_at = now;
  DenyEntry again = BySerial();
  again.reason = "found, and lost again";
  const Result<DenyList> list =
      WithDenied({.entries = {old, BySerial(), ByIdentity()}}, again, now);
  ASSERT_TRUE(list);
  ASSERT_THAT(list->entries, SizeIs(2));
  EXPECT_EQ(list->entries[0], ByIdentity());
  EXPECT_EQ(list->entries[1], again);
  EXPECT_FALSE(WithDenied({}, BySerial("nonsense"), now));
  EXPECT_FALSE(WithDenied({}, BySerial(""), now));
}

TEST(DenySetTest, ACertificateIsDeniedBySerialOrByTenantAndName) {
  const DenySet set({.entries = {BySerial(), ByIdentity()}});
  crypto::PeerIdentity peer;
  peer.tenant = *TenantId::Parse("prod");
  peer.id = "x";
  peer.serial = "4711";
  EXPECT_TRUE(set.Denies(peer));
  peer.serial = "4712";
  EXPECT_FALSE(set.Denies(peer));
  peer.id = ByIdentity().identity;
  EXPECT_TRUE(set.Denies(peer));
  peer.tenant = DefaultTenant();
  EXPECT_FALSE(set.Denies(peer)) << "another tenant's of the same name";
}

TEST(DenySetTest, WhatIsNewIsTold) {
  const DenyList before{.entries = {BySerial()}};
  const DenyList after{.entries = {BySerial(), ByIdentity()}};
  EXPECT_EQ(NewlyDenied(DenySet(before), after), std::vector<DenyEntry>{ByIdentity()});
}

}  // namespace
}  // namespace nstance
