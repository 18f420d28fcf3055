// The machine of the user data fetch, row by row of its table, and the cache beside it.
#include "core/instance_config/user_data_fetch.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "core/instance_config/user_data.h"
#include "core/instance_config/user_data_cache.h"
#include "crypto/digest.h"

namespace nstance {
namespace {

using config::UserData;
using Machine = UserDataFetchMachine;

UserData At(std::string url, std::string sha256 = "") {
  return {.source = "url", .content = std::move(url), .sha256 = std::move(sha256)};
}

const KeptUserData kKept = {.etag = "\"1\"", .last_modified = "Mon, 01 Jan 2024", .body = "old"};

std::string DigestOf(std::string_view text) { return crypto::Sha256Hex(AsBytes(text)); }

TEST(UserDataUrlTest, WhatMayBeFetched) {
  const std::string digest = DigestOf("x");
  for (const char* url : {"https://example.com/u", "https://example.com", "HTTPS://a:8443/x?y=%20",
                          "https://[2001:db8::1]/x", "https://10.0.0.1/x"}) {
    EXPECT_TRUE(CheckUserDataUrl(url, "")) << url;
  }
  EXPECT_TRUE(CheckUserDataUrl("http://example.com/u", digest));
  for (const char* url : {"",
                          "http://example.com/u",
                          "file:///etc/passwd",
                          "ftp://example.com/u",
                          "example.com/u",
                          "https:/example.com",
                          "https://",
                          "https:///u",
                          "https://:443/u",
                          "https://user@host/u",
                          "https://user:word@host/u",
                          "https://host/u#part",
                          "https://host/a b",
                          "https://host/\n",
                          "https://h\xC3\xA4st/u",
                          "https://169.254.169.254/latest/user-data",
                          "https://169.254.0.1:80/",
                          "https://[fe80::1]/x",
                          "https://[FE80::1]/x",
                          "https://[febf::1]:443/x",
                          "https://[::ffff:169.254.169.254]/x",
                          "javascript:alert(1)"}) {
    const Status status = CheckUserDataUrl(url, "");
    ASSERT_FALSE(status) << url;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  }
  EXPECT_FALSE(CheckUserDataUrl("https://h/" + std::string(2'048, 'x'), ""));
  EXPECT_FALSE(CheckUserDataUrl("http://169.254.169.254/x", digest));
}

struct Row {
  std::string name;
  std::string sha256 = {};
  bool conditional = false;  // A kept body goes in.
  Machine::Answer answer = {};
  std::string body = {};  // Expected; empty: an error.
  Code code = Code::kUnknown;
};

TEST(UserDataFetchMachineTest, WhatAnAnswerMeans) {
  const std::string digest = DigestOf("new");
  const std::vector<Row> rows = {
      {.name = "200", .answer = {.status = 200, .body = "new"}, .body = "new"},
      {.name = "200 to a condition",
       .conditional = true,
       .answer = {.status = 200, .body = "new"},
       .body = "new"},
      {.name = "304", .conditional = true, .answer = {.status = 304}, .body = "old"},
      {.name = "304 unasked", .answer = {.status = 304}, .code = Code::kUnavailable},
      {.name = "right digest",
       .sha256 = digest,
       .answer = {.status = 200, .body = "new"},
       .body = "new"},
      {.name = "wrong digest",
       .sha256 = digest,
       .answer = {.status = 200, .body = "evil"},
       .code = Code::kFailedPrecondition},
      {.name = "another digest than the kept body: 304 cannot be answered",
       .sha256 = digest,
       .conditional = true,
       .answer = {.status = 304},
       .code = Code::kUnavailable},
      {.name = "gone", .answer = {.status = 404}, .code = Code::kFailedPrecondition},
      {.name = "gone, kept body or not",
       .conditional = true,
       .answer = {.status = 410},
       .code = Code::kFailedPrecondition},
      {.name = "redirect not followed",
       .answer = {.status = 302},
       .code = Code::kFailedPrecondition},
      {.name = "part of it",
       .answer = {.status = 206, .body = "n"},
       .code = Code::kFailedPrecondition},
      {.name = "busy", .answer = {.status = 503}, .code = Code::kUnavailable},
      {.name = "too many", .answer = {.status = 429}, .code = Code::kUnavailable},
      {.name = "unasked coding",
       .answer = {.status = 200, .content_encoding = "gzip", .body = "?"},
       .code = Code::kFailedPrecondition},
      {.name = "identity",
       .answer = {.status = 200, .content_encoding = "Identity", .body = "new"},
       .body = "new"},
      {.name = "too long",
       .answer = {.status = 200, .body = std::string(kMaxUserDataBytes + 1, 'x')},
       .code = Code::kResourceExhausted},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Machine machine(At("https://example.com/u", row.sha256),
                    row.conditional ? std::optional(kKept) : std::nullopt);
    const auto get = machine.Start();
    ASSERT_TRUE(std::holds_alternative<Machine::Get>(get));
    const auto command = machine.On(row.answer);
    ASSERT_TRUE(std::holds_alternative<Machine::Finish>(command));
    const auto& finish = std::get<Machine::Finish>(command);
    ASSERT_EQ(finish.body.has_value(), !row.body.empty());
    if (finish.body) {
      EXPECT_EQ(*finish.body, row.body);
      EXPECT_EQ(finish.keep.has_value(), row.answer.status == 200);
    } else {
      EXPECT_EQ(CodeName(finish.body.error().code), CodeName(row.code));
      EXPECT_FALSE(finish.keep);
    }
  }
}

TEST(UserDataFetchMachineTest, AskingDependsOnWhatIsKept) {
  const auto get = [](const UserData& userdata, std::optional<KeptUserData> kept) {
    Machine machine(userdata, std::move(kept));
    return std::get<Machine::Get>(machine.Start());
  };
  const UserData userdata = At("https://example.com/u");
  EXPECT_EQ(get(userdata, std::nullopt).if_none_match, "");
  EXPECT_EQ(get(userdata, std::nullopt).url, "https://example.com/u");
  EXPECT_EQ(get(userdata, kKept).if_none_match, "\"1\"");
  EXPECT_EQ(get(userdata, kKept).if_modified_since, "Mon, 01 Jan 2024");
  // The kept body is not what the configuration asks for (any more).
  EXPECT_EQ(get(At("https://example.com/u", DigestOf("new")), kKept).if_none_match, "");
  EXPECT_EQ(get(At("https://example.com/u", DigestOf("old")), kKept).if_none_match, "\"1\"");
}

TEST(UserDataFetchMachineTest, AUrlThatIsNotAllowedIsNeverAskedFor) {
  Machine machine(At("http://example.com/u"), std::nullopt);
  const auto command = machine.Start();
  ASSERT_TRUE(std::holds_alternative<Machine::Finish>(command));
  EXPECT_EQ(std::get<Machine::Finish>(command).body.error().code, Code::kFailedPrecondition);
}

TEST(UserDataFetchMachineTest, AnErrorIsHandedOn) {
  Machine machine(At("https://example.com/u"), kKept);
  ASSERT_TRUE(std::holds_alternative<Machine::Get>(machine.Start()));
  const auto command = machine.On(Fail(DeadlineExceeded("10s")));
  EXPECT_EQ(std::get<Machine::Finish>(command).body.error().code, Code::kDeadlineExceeded);
}

TEST(UserDataFetchMachineTest, ValidatorsThatAHeaderCannotHoldAreNotKept) {
  for (const std::string& etag :
       {std::string("a\nb"), std::string("\x80"), std::string(2'000, 'x')}) {
    Machine machine(At("https://example.com/u"), std::nullopt);
    (void)machine.Start();
    const auto command = machine.On(Machine::Answer{.status = 200, .etag = etag, .body = "x"});
    EXPECT_EQ(std::get<Machine::Finish>(command).keep->etag, "");
  }
}

TEST(UserDataFetchMachineTest, GzipAsAContentCodingIsTheBodyThatWasAskedFor) {
  UserData userdata = At("https://example.com/u.gz");
  userdata.encoding = "gzip";
  Machine machine(userdata, std::nullopt);
  (void)machine.Start();
  const auto command =
      machine.On(Machine::Answer{.status = 200, .content_encoding = "gzip", .body = "bytes"});
  EXPECT_EQ(std::get<Machine::Finish>(command).body, "bytes");
}

TEST(UserDataCacheTest, TheLongestUnusedGoesFirst) {
  UserDataCache cache;
  for (int i = 0; i < 32; ++i) cache.Keep(fmt::format("u{}", i), {.etag = "e", .body = "b"});
  EXPECT_TRUE(cache.Find("u0"));
  cache.Keep("one more", {.etag = "e"});
  EXPECT_EQ(cache.size(), UserDataCache::kMaxUrls);
  EXPECT_TRUE(cache.Find("u0"));
  EXPECT_FALSE(cache.Find("u1"));
  EXPECT_TRUE(cache.Find("one more"));
}

TEST(UserDataCacheTest, WithoutValidatorsNothingIsKept) {
  UserDataCache cache;
  cache.Keep("u", {.etag = "e", .body = "b"});
  cache.Keep("u", {.body = "new"});
  EXPECT_FALSE(cache.Find("u"));
}

}  // namespace
}  // namespace nstance
