// The method table against the typed list of ports/api/methods.h and the policy table: three places
// that must say the same.
#include "adapters/rpc_codec/method_table.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/metrics.h"
#include "ports/api/methods.h"

namespace nstance::rpc_codec {
namespace {

using testing::HasSubstr;

TEST(MethodTable, HasTheMethodsOfTheApiWithTheirTypes) {
  const auto methods = MakeMethodTable(RpcPolicy());
  ASSERT_TRUE(methods) << methods.error().message;
  std::set<std::string> paths;
  api::ForEachMethod([&]<class Request, class Response>(const api::Method<Request, Response>& of) {
    paths.emplace(of.path);
    const RpcMethod* method = FindRpcMethod(*methods, of.path);
    ASSERT_NE(method, nullptr) << of.path;
    EXPECT_EQ(method->kind, of.kind) << of.path;
    const auto request = method->request.decode("", {});
    ASSERT_TRUE(request) << of.path;
    EXPECT_NE(request->template As<Request>(), nullptr) << of.path;
    const auto response = method->response.decode("", {});
    ASSERT_TRUE(response) << of.path;
    EXPECT_NE(response->template As<Response>(), nullptr) << of.path;
  });
  EXPECT_EQ(paths.size(), methods->size());
}

TEST(MethodTable, TheAgentsTableIsThatPartOfTheWholeOne) {
  const std::vector<RpcMethod> agents = MakeAgentMethodTable();
  const auto methods = MakeMethodTable(RpcPolicy());
  ASSERT_TRUE(methods) << methods.error().message;
  std::size_t expected = 0;
  for (const RpcMethod& method : *methods) {
    if (method.path.contains("OperatorService")) continue;
    ++expected;
    const RpcMethod* same = FindRpcMethod(agents, method.path);
    ASSERT_NE(same, nullptr) << method.path;
    EXPECT_EQ(same->kind, method.kind) << method.path;
    EXPECT_EQ(same->request.decode, method.request.decode) << method.path;
    EXPECT_EQ(same->request.encode, method.request.encode) << method.path;
    EXPECT_EQ(same->response.decode, method.response.decode) << method.path;
    EXPECT_EQ(same->response.encode, method.response.encode) << method.path;
  }
  EXPECT_EQ(agents.size(), expected);
}

TEST(MethodTable, AMethodWithoutAPolicyRowStopsTheStart) {
  std::vector<RpcPolicyRow> rows(RpcPolicy().begin(), RpcPolicy().end());
  std::erase_if(rows, [](const RpcPolicyRow& row) {
    return row.path == "/nstance.v1.OperatorService/DeleteInstance";
  });
  const auto methods = MakeMethodTable(rows);
  ASSERT_FALSE(methods);
  EXPECT_EQ(methods.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(methods.error().message,
              HasSubstr("RPC policy: no row for /nstance.v1.OperatorService/DeleteInstance"));
}

TEST(MethodTable, ARowThatIsNotOfferedStillHasItsMethod) {
  std::vector<RpcPolicyRow> rows(RpcPolicy().begin(), RpcPolicy().end());
  for (RpcPolicyRow& row : rows) row.offer = RpcOffer::kNotOffered;
  EXPECT_TRUE(MakeMethodTable(rows));
}

TEST(MethodTable, WhatIsRefusedIsCounted) {
  metrics::Registry registry;
  InputProbe probe(registry);
  const InputSource source{.interface = "agent", .probe = &probe};
  const auto methods = MakeMethodTable(RpcPolicy());
  ASSERT_TRUE(methods);
  const RpcMethod* keys = FindRpcMethod(*methods, api::kSubmitPublicKeys.path);
  EXPECT_FALSE(keys->request.decode("\xFF", source));
  std::string many;
  for (int i = 0; i < 65; ++i) many += std::string("\x12\x00", 2);
  EXPECT_FALSE(keys->request.decode(many, source));
  const metrics::Snapshot page = registry.Take();
  EXPECT_EQ(page.at("bad_input_total").series.size(), 2U);
  ASSERT_EQ(page.at("limit_hits_total").series.size(), 1U);
  EXPECT_THAT(page.at("limit_hits_total").series[0].labels,
              testing::Contains(std::string("message-elements")));
}

TEST(MethodTable, CodecsAreSortedByName) {
  EXPECT_TRUE(std::ranges::is_sorted(MessageCodecs(), {}, &NamedCodec::name));
}

}  // namespace
}  // namespace nstance::rpc_codec
