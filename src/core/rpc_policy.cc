#include "core/rpc_policy.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace nstance {
namespace {

constexpr Duration kUnaryLimit = Duration::Seconds(60);
constexpr Duration kClaimLimit = Duration::Minutes(10);
constexpr std::array<std::string_view, 1> kFeatures = {"nstance-features"};

constexpr RpcPolicyRow Registration(std::string_view path, RpcLeaderRule leader) {
  return {.path = path,
          .port = RpcPort::kRegistration,
          .caller = RpcCaller::kAnybody,
          .tenant_rule = RpcTenantRule::kAnonymous,
          .subject_rule = RpcSubjectRule::kToken,
          .leader_rule = leader,
          .limits = RpcLimitsClass::kRegistration,
          .time_limit = kUnaryLimit};
}

constexpr RpcPolicyRow AgentRegistration(std::string_view path) {
  RpcPolicyRow row = Registration(path, RpcLeaderRule::kOfShard);
  row.metadata = kFeatures;
  return row;
}

constexpr RpcPolicyRow Agent(std::string_view path, RpcKind kind) {
  const bool unary = kind == RpcKind::kUnary;
  return {.path = path,
          .port = RpcPort::kAgent,
          .kind = kind,
          .caller = RpcCaller::kAgent,
          .tenant_rule = RpcTenantRule::kSelf,
          .subject_rule = RpcSubjectRule::kInstance,
          .leader_rule = RpcLeaderRule::kOfShard,
          .limits = unary ? RpcLimitsClass::kAgentUnary : RpcLimitsClass::kAgentStream,
          .time_limit = unary ? std::optional(kUnaryLimit) : std::nullopt,
          .metadata = kFeatures};
}

constexpr RpcPolicyRow OnOperatorPort(std::string_view path, RpcSubjectRule subject) {
  return {.path = path,
          .port = RpcPort::kOperator,
          .caller = RpcCaller::kOperator,
          .tenant_rule = RpcTenantRule::kOwn,
          .subject_rule = subject,
          .leader_rule = RpcLeaderRule::kOfShard,
          .limits = RpcLimitsClass::kOperatorUnary};
}

constexpr RpcPolicyRow Operator(std::string_view path, RpcSubjectRule subject) {
  RpcPolicyRow row = OnOperatorPort(path, subject);
  row.time_limit = kUnaryLimit;
  return row;
}

constexpr RpcPolicyRow OperatorRenewal(std::string_view path) {
  RpcPolicyRow row = Operator(path, RpcSubjectRule::kNone);
  row.leader_rule = RpcLeaderRule::kOfAnyShard;
  return row;
}

constexpr RpcPolicyRow Claim(std::string_view path) {
  RpcPolicyRow row = OnOperatorPort(path, RpcSubjectRule::kGroup);
  row.limits = RpcLimitsClass::kOperatorClaim;
  row.time_limit = kClaimLimit;
  return row;
}

constexpr RpcPolicyRow Watch(std::string_view path) {
  RpcPolicyRow row = OnOperatorPort(path, RpcSubjectRule::kNone);
  row.kind = RpcKind::kServerStream;
  row.limits = RpcLimitsClass::kWatch;
  return row;
}

constexpr RpcPolicyRow WatchWithFeatures(std::string_view path) {
  RpcPolicyRow row = Watch(path);
  row.metadata = kFeatures;
  return row;
}

// Written, and not offered yet: UNIMPLEMENTED for those whom the row admits.
constexpr RpcPolicyRow Later(RpcPolicyRow row) {
  row.offer = RpcOffer::kNotOffered;
  return row;
}

constexpr auto kNone = RpcSubjectRule::kNone;
constexpr auto kGroup = RpcSubjectRule::kGroup;
constexpr auto kInstance = RpcSubjectRule::kInstance;

constexpr std::array kRows = {
    Agent("/nstance.v1.AgentService/ReceiveFiles", RpcKind::kServerStream),
    Agent("/nstance.v1.AgentService/ReceiveKeyRequests", RpcKind::kServerStream),
    Agent("/nstance.v1.AgentService/RenewCertificate", RpcKind::kUnary),
    Agent("/nstance.v1.AgentService/SubmitHealthReport", RpcKind::kClientStream),
    Later(Agent("/nstance.v1.AgentService/SubmitPublicKeys", RpcKind::kUnary)),
    Operator("/nstance.v1.OperatorService/AcknowledgeDrained", kInstance),
    Later(Claim("/nstance.v1.OperatorService/ClaimInstance")),
    Operator("/nstance.v1.OperatorService/CreateInstance", kGroup),
    Operator("/nstance.v1.OperatorService/DeleteGroup", kGroup),
    Operator("/nstance.v1.OperatorService/DeleteInstance", kInstance),
    Operator("/nstance.v1.OperatorService/Explain", kNone),
    Operator("/nstance.v1.OperatorService/GetConfigStatus", kNone),
    Operator("/nstance.v1.OperatorService/GetInstanceStatus", kInstance),
    Operator("/nstance.v1.OperatorService/ListGroups", kNone),
    Operator("/nstance.v1.OperatorService/ListInstances", kNone),
    Operator("/nstance.v1.OperatorService/Plan", kNone),
    Operator("/nstance.v1.OperatorService/RefreshConfig", kNone),
    Later(Operator("/nstance.v1.OperatorService/ReleaseInstance", kInstance)),
    OperatorRenewal("/nstance.v1.OperatorService/RenewCertificate"),
    Operator("/nstance.v1.OperatorService/UpsertGroup", kGroup),
    Watch("/nstance.v1.OperatorService/WatchErrors"),
    Watch("/nstance.v1.OperatorService/WatchEvents"),
    Watch("/nstance.v1.OperatorService/WatchGroups"),
    WatchWithFeatures("/nstance.v1.OperatorService/WatchInstances"),
    AgentRegistration("/nstance.v1.RegistrationService/RegisterAgent"),
    Registration("/nstance.v1.RegistrationService/RegisterOperator", RpcLeaderRule::kOfAnyShard),
};

void AppendComplaint(std::vector<std::string>& complaints, std::string_view what,
                     std::string_view path) {
  complaints.push_back(fmt::format("{} {}", what, path));
}

}  // namespace

std::string_view RpcPortName(RpcPort port) {
  switch (port) {
    case RpcPort::kRegistration: return "registration";
    case RpcPort::kAgent: return "agent";
    case RpcPort::kOperator: return "operator";
  }
  return "unknown";
}

std::optional<std::size_t> InFlightLimit(RpcLimitsClass limits) {
  switch (limits) {
    case RpcLimitsClass::kRegistration: return 128;
    case RpcLimitsClass::kAgentUnary: return 2;
    case RpcLimitsClass::kAgentStream: return std::nullopt;
    case RpcLimitsClass::kOperatorUnary: return 64;
    case RpcLimitsClass::kOperatorClaim: return 256;
    case RpcLimitsClass::kWatch: return 32;
  }
  return std::nullopt;
}

std::span<const RpcPolicyRow> RpcPolicy() { return kRows; }

const RpcPolicyRow* FindRpcPolicy(std::span<const RpcPolicyRow> rows, std::string_view path) {
  const auto found = std::ranges::find(rows, path, &RpcPolicyRow::path);
  return found == rows.end() ? nullptr : &*found;
}

const RpcPolicyRow* FindRpcPolicy(std::span<const RpcPolicyRow> rows, std::string_view path,
                                  RpcPort port) {
  const auto found = std::ranges::find_if(
      rows, [&](const RpcPolicyRow& row) { return row.path == path && row.port == port; });
  return found == rows.end() ? nullptr : &*found;
}

bool Admits(const RpcPolicyRow& row, std::optional<crypto::Role> role) {
  switch (row.caller) {
    case RpcCaller::kAnybody: return true;
    case RpcCaller::kAgent: return role == crypto::Role::kAgent;
    case RpcCaller::kOperator: return role == crypto::Role::kOperator;
  }
  return false;
}

Status CheckPolicyCovers(std::span<const RpcPolicyRow> rows,
                         std::span<const RpcMethodFact> methods) {
  std::vector<std::string> complaints;
  for (const RpcMethodFact& method : methods) {
    const auto count = std::ranges::count(rows, method.path, &RpcPolicyRow::path);
    if (count == 0) {
      AppendComplaint(complaints, "no row for", method.path);
    } else if (count > 1) {
      AppendComplaint(complaints, "several rows for", method.path);
    } else if (FindRpcPolicy(rows, method.path)->kind != method.kind) {
      AppendComplaint(complaints, "row of another kind for", method.path);
    }
  }
  for (const RpcPolicyRow& row : rows) {
    if (std::ranges::find(methods, row.path, &RpcMethodFact::path) == methods.end()) {
      AppendComplaint(complaints, "no method for the row", row.path);
    }
  }
  if (complaints.empty()) return {};
  return Fail(FailedPrecondition(fmt::format("{}", fmt::join(complaints, "; "))));
}

}  // namespace nstance
