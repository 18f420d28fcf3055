// The policy table against a second, hand-written one: a wrong row must be wrong twice. Then the
// comparison with the methods of the proto, with tables that are broken on purpose.
#include "core/rpc_policy.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nstance {
namespace {

using testing::HasSubstr;

// Service/method, kind, tenant rule, leader, limits, seconds (0: none), features metadata.
struct Expected {
  std::string_view method;
  RpcKind kind;
  RpcTenantRule tenant;
  RpcLeaderRule leader;
  RpcLimitsClass limits;
  std::int64_t seconds;
  bool features;
};

constexpr auto kUnary = RpcKind::kUnary;
constexpr auto kServerStream = RpcKind::kServerStream;
constexpr auto kSelf = RpcTenantRule::kSelf;
constexpr auto kOwn = RpcTenantRule::kOwn;
constexpr auto kShard = RpcLeaderRule::kOfShard;
constexpr auto kAny = RpcLeaderRule::kOfAnyShard;
constexpr auto kCalls = RpcLimitsClass::kOperatorUnary;
constexpr auto kWatches = RpcLimitsClass::kWatch;

constexpr std::array kExpected = {
    Expected{"RegistrationService/RegisterAgent", kUnary, RpcTenantRule::kAnonymous, kShard,
             RpcLimitsClass::kRegistration, 60, true},
    Expected{"RegistrationService/RegisterOperator", kUnary, RpcTenantRule::kAnonymous, kAny,
             RpcLimitsClass::kRegistration, 60, false},
    Expected{"AgentService/ReceiveKeyRequests", kServerStream, kSelf, kShard,
             RpcLimitsClass::kAgentStream, 0, true},
    Expected{"AgentService/SubmitPublicKeys", kUnary, kSelf, kShard, RpcLimitsClass::kAgentUnary,
             60, true},
    Expected{"AgentService/SubmitHealthReport", RpcKind::kClientStream, kSelf, kShard,
             RpcLimitsClass::kAgentStream, 0, true},
    Expected{"AgentService/ReceiveFiles", kServerStream, kSelf, kShard,
             RpcLimitsClass::kAgentStream, 0, true},
    Expected{"AgentService/RenewCertificate", kUnary, kSelf, kShard, RpcLimitsClass::kAgentUnary,
             60, true},
    Expected{"OperatorService/RenewCertificate", kUnary, kOwn, kAny, kCalls, 60, false},
    Expected{"OperatorService/GetConfigStatus", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/RefreshConfig", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/ListGroups", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/UpsertGroup", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/DeleteGroup", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/CreateInstance", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/DeleteInstance", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/GetInstanceStatus", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/AcknowledgeDrained", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/WatchGroups", kServerStream, kOwn, kShard, kWatches, 0, false},
    Expected{"OperatorService/WatchInstances", kServerStream, kOwn, kShard, kWatches, 0, true},
    Expected{"OperatorService/WatchErrors", kServerStream, kOwn, kShard, kWatches, 0, false},
    Expected{"OperatorService/ListInstances", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/Plan", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/Explain", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/ClaimInstance", kUnary, kOwn, kShard, RpcLimitsClass::kOperatorClaim,
             600, false},
    Expected{"OperatorService/ReleaseInstance", kUnary, kOwn, kShard, kCalls, 60, false},
    Expected{"OperatorService/WatchEvents", kServerStream, kOwn, kShard, kWatches, 0, false},
};

struct Place {
  RpcPort port;
  RpcCaller caller;
};
Place PlaceOf(std::string_view method) {
  if (method.starts_with("AgentService/")) return {RpcPort::kAgent, RpcCaller::kAgent};
  if (method.starts_with("OperatorService/")) return {RpcPort::kOperator, RpcCaller::kOperator};
  return {RpcPort::kRegistration, RpcCaller::kAnybody};
}

std::vector<RpcMethodFact> Facts() {
  std::vector<RpcMethodFact> facts;
  for (const RpcPolicyRow& row : RpcPolicy()) {
    facts.push_back({.path = std::string(row.path), .kind = row.kind});
  }
  return facts;
}

TEST(RpcPolicy, HasTheRowsThatWereWrittenByHand) {
  EXPECT_EQ(RpcPolicy().size(), kExpected.size());
  for (const Expected& expected : kExpected) {
    const RpcPolicyRow* row =
        FindRpcPolicy(RpcPolicy(), "/nstance.v1." + std::string(expected.method));
    ASSERT_NE(row, nullptr) << expected.method;
    EXPECT_EQ(row->port, PlaceOf(expected.method).port) << expected.method;
    EXPECT_EQ(row->caller, PlaceOf(expected.method).caller) << expected.method;
    EXPECT_EQ(row->kind, expected.kind) << expected.method;
    EXPECT_EQ(row->tenant_rule, expected.tenant) << expected.method;
    EXPECT_EQ(row->leader_rule, expected.leader) << expected.method;
    EXPECT_EQ(row->limits, expected.limits) << expected.method;
    EXPECT_EQ(row->time_limit.value_or(Duration()), Duration::Seconds(expected.seconds))
        << expected.method;
    EXPECT_EQ(!row->metadata.empty(), expected.features) << expected.method;
  }
}

TEST(RpcPolicy, IsSortedWithoutRepetition) {
  const auto rows = RpcPolicy();
  // No neighbours of which the first is not below the second.
  EXPECT_EQ(std::ranges::adjacent_find(rows, std::ranges::greater_equal(), &RpcPolicyRow::path),
            rows.end());
}

TEST(RpcPolicy, AdmitsOnlyTheRoleOfTheRow) {
  for (const RpcPolicyRow& row : RpcPolicy()) {
    const bool anybody = row.port == RpcPort::kRegistration;
    EXPECT_EQ(Admits(row, std::nullopt), anybody) << row.path;
    EXPECT_EQ(Admits(row, crypto::Role::kAgent), anybody || row.port == RpcPort::kAgent)
        << row.path;
    EXPECT_EQ(Admits(row, crypto::Role::kOperator), anybody || row.port == RpcPort::kOperator)
        << row.path;
  }
}

TEST(RpcPolicy, FindsNothingButTheExactPath) {
  for (const std::string_view path :
       {"", "/", "/nstance.v1.AgentService/receivefiles", "nstance.v1.AgentService/ReceiveFiles",
        "/nstance.v1.AgentService/ReceiveFiles/", "/nstance.v1.AgentService/../ReceiveFiles",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(FindRpcPolicy(RpcPolicy(), path), nullptr) << path;
  }
}

TEST(RpcPolicy, FindsTheRowOfThePortWhenSeveralOfferTheMethod) {
  const std::vector<RpcPolicyRow> rows = {
      {.path = "/s/A", .port = RpcPort::kAgent, .caller = RpcCaller::kAgent},
      {.path = "/s/B", .port = RpcPort::kAgent},
      {.path = "/s/A", .port = RpcPort::kOperator, .caller = RpcCaller::kOperator}};
  EXPECT_EQ(FindRpcPolicy(rows, "/s/A", RpcPort::kAgent), &rows[0]);
  EXPECT_EQ(FindRpcPolicy(rows, "/s/A", RpcPort::kOperator), &rows[2]);
  EXPECT_EQ(FindRpcPolicy(rows, "/s/A", RpcPort::kRegistration), nullptr);
  EXPECT_EQ(FindRpcPolicy(rows, "/s/B", RpcPort::kOperator), nullptr);
}

TEST(RpcPolicy, CallsInFlightHaveTheLimitsOfTheContract) {
  EXPECT_EQ(InFlightLimit(RpcLimitsClass::kRegistration), 128);
  EXPECT_EQ(InFlightLimit(RpcLimitsClass::kAgentUnary), 2);
  EXPECT_EQ(InFlightLimit(RpcLimitsClass::kAgentStream), std::nullopt);
  EXPECT_EQ(InFlightLimit(RpcLimitsClass::kOperatorUnary), 64);
  EXPECT_EQ(InFlightLimit(RpcLimitsClass::kOperatorClaim), 256);
  EXPECT_EQ(InFlightLimit(RpcLimitsClass::kWatch), 32);
}

TEST(RpcPolicy, CoversMethodsThatAreTheSame) {
  EXPECT_TRUE(CheckPolicyCovers(RpcPolicy(), Facts()));
}

TEST(RpcPolicy, AMethodWithoutARowIsNamed) {
  auto facts = Facts();
  facts.push_back({.path = "/nstance.v1.AgentService/Forgotten"});
  const Status status = CheckPolicyCovers(RpcPolicy(), facts);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(status.error().message, HasSubstr("no row for /nstance.v1.AgentService/Forgotten"));
}

TEST(RpcPolicy, ARowWithoutAMethodIsNamed) {
  auto facts = Facts();
  facts.pop_back();
  const Status status = CheckPolicyCovers(RpcPolicy(), facts);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("no method for the row"));
}

TEST(RpcPolicy, ARowOfAnotherKindIsNamed) {
  auto facts = Facts();
  facts.front().kind = RpcKind::kBidirectional;
  const Status status = CheckPolicyCovers(RpcPolicy(), facts);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("row of another kind for"));
}

TEST(RpcPolicy, TwoRowsForOneMethodAreNamed) {
  std::vector<RpcPolicyRow> rows(RpcPolicy().begin(), RpcPolicy().end());
  rows.push_back(rows.front());
  const Status status = CheckPolicyCovers(rows, Facts());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("several rows for"));
}

}  // namespace
}  // namespace nstance
