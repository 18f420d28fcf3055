// Bytes written by hand, row by row: what counts, what is malformed, what is too much. Then the
// promise: whatever protobuf accepts and is within limits, the walker accepts too.
#include "adapters/rpc_codec/wire_shape.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "adapters/rpc_codec/method_table.h"
#include "nstance/v1/agent.pb.h"
#include "nstance/v1/operator.pb.h"
#include "test/adapters/rpc_codec/filled_message.h"

namespace nstance::rpc_codec {
namespace {

using testing::HasSubstr;

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  return bytes + static_cast<char>(value);
}
std::string Tag(std::uint32_t number, std::uint32_t type) {
  return Varint((std::uint64_t{number} << 3U) | type);
}
std::string Field(std::uint32_t number, const std::string& content) {
  return Tag(number, 2) + Varint(content.size()) + content;
}
std::string Times(int count, const std::string& bytes) {
  std::string all;
  for (int i = 0; i < count; ++i) all += bytes;
  return all;
}

template <class Proto>
Status Check(const std::string& bytes) {
  return WireShape(*Proto::descriptor()).Check(bytes, {});
}

void ExpectRefused(const Status& status, std::string_view part) {
  ASSERT_FALSE(status) << part;
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr(part));
}

TEST(WireShape, CountsElementsOfARepeatedMessage) {
  const std::string key = Field(2, "");
  EXPECT_TRUE(Check<v1::PublicKeysRequest>(Times(64, key)));
  ExpectRefused(Check<v1::PublicKeysRequest>(Times(65, key)),
                "keys: too many elements; at most 64");
}

TEST(WireShape, CountsEntriesOfAMapEqualKeysIncluded) {
  const std::string entry = Field(4, Field(1, "same"));
  EXPECT_TRUE(Check<v1::ClaimInstanceRequest>(Times(16, entry)));
  ExpectRefused(Check<v1::ClaimInstanceRequest>(Times(17, entry)), "vars: too many elements");
}

TEST(WireShape, CountsTexts) {
  const std::string id = Field(103, "");
  EXPECT_TRUE(Check<v1::UpsertGroupRequest>(Times(256, id)));
  ExpectRefused(Check<v1::UpsertGroupRequest>(Times(257, id)), "remove_instance_ids");
}

TEST(WireShape, CountsPackedAndUnpackedNumbersAlike) {
  const std::string one = Tag(2, 0) + Varint(3);
  EXPECT_TRUE(Check<v1::ListInstancesRequest>(Times(64, one)));
  ExpectRefused(Check<v1::ListInstancesRequest>(Times(65, one)), "phases");
  EXPECT_TRUE(Check<v1::ListInstancesRequest>(Field(2, Times(64, Varint(300)))));
  ExpectRefused(Check<v1::ListInstancesRequest>(Field(2, Times(65, Varint(300)))), "phases");
  ExpectRefused(Check<v1::ListInstancesRequest>(Times(33, Field(2, Times(2, Varint(3))))),
                "phases");
}

TEST(WireShape, CountsWhatMergingWouldPutTogether) {
  // `config` three times, 60 vars each: protobuf makes one config with 180.
  const std::string config = Field(2, Times(60, Field(5, "")));
  EXPECT_TRUE(Check<v1::UpsertGroupRequest>(Times(2, config)));
  ExpectRefused(Check<v1::UpsertGroupRequest>(Times(3, config)), "vars: too many elements");
}

TEST(WireShape, EveryElementHasALimitOfItsOwn) {
  // Each group may have its vars: no limit on them here but that of all elements.
  const std::string group = Field(1, Times(100, Field(7, "")));
  EXPECT_TRUE(Check<v1::ListGroupsResponse>(Times(100, group)));
}

TEST(WireShape, VarsAndArgsAreCountedApart) {
  const std::string config = Times(128, Field(5, "")) + Times(128, Field(6, ""));
  EXPECT_TRUE(Check<v1::UpsertGroupRequest>(Field(2, config)));
  ExpectRefused(Check<v1::UpsertGroupRequest>(Field(2, config + Field(6, ""))), "args");
}

TEST(WireShape, AnUpsertInsideAPlanIsHeldToTheSame) {
  const std::string upsert = Field(2, Times(129, Field(5, "")));
  ExpectRefused(Check<v1::PlanRequest>(Field(2, upsert)), "vars: too many elements");
}

TEST(WireShape, AllElementsTogetherAreLimited) {
  const std::string unknown = Tag(50, 0) + Varint(0);
  EXPECT_TRUE(Check<v1::DeleteGroupRequest>(Times(131'072, unknown)));
  ExpectRefused(Check<v1::DeleteGroupRequest>(Times(131'073, unknown)), "too many elements");
  ExpectRefused(Check<v1::ListGroupsResponse>(Times(16'385, Field(1, ""))),
                "groups: too many elements");
}

TEST(WireShape, GroupsMayNestUpToTheLimit) {
  const auto nested = [](int depth) { return Times(depth, Tag(50, 3)) + Times(depth, Tag(50, 4)); };
  EXPECT_TRUE(Check<v1::DeleteGroupRequest>(nested(63)));
  ExpectRefused(Check<v1::DeleteGroupRequest>(nested(64)), "nested too deeply");
  ExpectRefused(Check<v1::DeleteGroupRequest>(Times(100'000, Tag(50, 3))), "nested too deeply");
}

TEST(WireShape, MalformedBytesAreRefusedWithAReason) {
  struct Row {
    std::string bytes;
    std::string_view reason;
  };
  const std::string cut_number(1, '\x80');
  const std::string long_number = Times(10, "\xFF") + "\x01";
  for (const Row& row : {
           Row{Tag(1, 0), "ends inside a number"}, Row{cut_number, "ends inside a number"},
           Row{long_number, "a number too long"}, Row{Varint(2), "no such field number"},
           Row{Varint(std::uint64_t{1} << 32U), "no such field number"},
           Row{Tag(1, 6), "no such kind of field"}, Row{Tag(1, 7), "no such kind of field"},
           Row{Tag(1, 2) + Varint(1), "longer than what is left"},
           Row{Tag(1, 2) + Varint(~std::uint64_t{0}), "longer than what is left"},
           Row{Tag(1, 5) + "abc", "longer than what is left"},
           Row{Tag(1, 1) + "abcdefg", "longer than what is left"},
           Row{Tag(50, 4), "a group ends that was not begun"},
           Row{Tag(50, 3) + Tag(51, 4), "a group ends that was not begun"},
           Row{Tag(50, 3), "ends inside a number"},
           Row{Field(6, Field(2, "1234567")), "ends inside an element"},  // cpu_core_usage
       }) {
    ExpectRefused(Check<v1::HealthReportRequest>(row.bytes), row.reason);
  }
}

TEST(WireShape, AFieldOfAnotherKindIsUnknownNotWrong) {
  EXPECT_TRUE(Check<v1::DeleteGroupRequest>(Tag(1, 0) + Varint(5)));
  EXPECT_TRUE(Check<v1::DeleteGroupRequest>(Tag(1, 5) + "abcd"));
}

TEST(WireShape, AcceptsWhateverIsWellFormed) {
  for (const NamedCodec& codec : MessageCodecs()) {
    Prng prng(7);
    const auto message = test::NewMessage(codec.name);
    test::Fill(*message, prng);
    const Status status = WireShape(*message->GetDescriptor()).Check(test::BytesOf(*message), {});
    EXPECT_TRUE(status) << codec.name << ": " << status.error().message;
  }
}

// Damaged bytes: the walker and protobuf may differ in detail, but never may the walker refuse as
// malformed what protobuf takes.
TEST(WireShape, IsNoStricterThanProtobufAboutForm) {
  const WireShape shape(*v1::HealthReportRequest::descriptor());
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    Prng prng(seed);
    v1::HealthReportRequest message;
    test::Fill(message, prng);
    std::string bytes = test::BytesOf(message);
    for (std::uint64_t n = prng.Below(4); n > 0; --n) {
      bytes[static_cast<std::size_t>(prng.Below(bytes.size()))] =
          static_cast<char>(prng.Below(256));
    }
    if (prng.Chance(1, 4)) bytes.resize(static_cast<std::size_t>(prng.Below(bytes.size())));
    v1::HealthReportRequest parsed;
    const google::protobuf::LogSilencer silence;
    const bool taken = parsed.ParseFromString(bytes);
    const Status status = shape.Check(bytes, {});
    if (taken) {
      EXPECT_TRUE(status) << "seed " << seed << ": " << status.error().message;
    }
  }
}

}  // namespace
}  // namespace nstance::rpc_codec
