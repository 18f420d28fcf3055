// Every method of the contract, called by everybody, about everything (security.md 5.1).
//
// Methods come from the proto's descriptors, so a new one without a row here fails. What is
// expected is told twice: by ExpectedOf(), which follows the policy table and the gate, and by
// rpc_matrix_expected.tsv, which people read in reviews; the two must agree cell by cell, and so
// must the answers of the real services. A call that is refused changes nothing: neither an object
// of the bucket nor a machine of the cloud.
//
//   HS  refused in the handshake     UA  UNAUTHENTICATED     PD  PERMISSION_DENIED
//   NF  NOT_FOUND                    UI  UNIMPLEMENTED       OK  answered, or a stream that stays
#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "core/deny_list.h"
#include "nstance/v1/agent.pb.h"
#include "nstance/v1/operator.pb.h"
#include "nstance/v1/registration.pb.h"
#include "test/crypto/certificate_forge.h"
#include "test/crypto/crypto_fixture.h"
#include "test/server/services/services_world.h"

namespace nstance::test {
namespace {

using crypto::test::Forge;
using crypto::test::ForgeKey;
using crypto::test::ForgeSpec;

// --- Who and about what --------------------------------------------------------------------------

enum class Who : std::uint8_t {
  kNone,
  kSelfSigned,
  kOtherCa,
  kExpired,
  kNotYetValid,
  kDeniedSerial,
  kDeniedIdentity,
  kAgentA,
  kAgentA2,
  kAgentB,
  kAgentBlocked,
  kAgentDeleted,
  kOperatorA,
  kOperatorB,
  kRemovedTenant,
  kServer,
  kNoRole,
  kTwoRoles,
  kUnknownRole,
  kNoTenant,
  kTwoTenants,
  kServerUsage,
};
constexpr std::array<std::pair<Who, std::string_view>, 22> kWho = {{
    {Who::kNone, "none"},
    {Who::kSelfSigned, "self-signed"},
    {Who::kOtherCa, "other-ca"},
    {Who::kExpired, "expired"},
    {Who::kNotYetValid, "not-yet"},
    {Who::kDeniedSerial, "denied-serial"},
    {Who::kDeniedIdentity, "denied-id"},
    {Who::kAgentA, "agent-a"},
    {Who::kAgentA2, "agent-a2"},
    {Who::kAgentB, "agent-b"},
    {Who::kAgentBlocked, "agent-blocked"},
    {Who::kAgentDeleted, "agent-deleted"},
    {Who::kOperatorA, "operator-a"},
    {Who::kOperatorB, "operator-b"},
    {Who::kRemovedTenant, "removed-tenant"},
    {Who::kServer, "server"},
    {Who::kNoRole, "no-role"},
    {Who::kTwoRoles, "two-roles"},
    {Who::kUnknownRole, "unknown-role"},
    {Who::kNoTenant, "no-o"},
    {Who::kTwoTenants, "two-o"},
    {Who::kServerUsage, "eku-server"},
}};

// Relative to the caller; "-" where a method names nothing.
enum class Target : std::uint8_t { kNothing, kOwn, kSameTenant, kOtherTenant, kUnknown };
constexpr std::array<std::pair<Target, std::string_view>, 5> kTargets = {{
    {Target::kNothing, "-"},
    {Target::kOwn, "own"},
    {Target::kSameTenant, "same-tenant"},
    {Target::kOtherTenant, "other-tenant"},
    {Target::kUnknown, "unknown"},
}};

std::string_view NameOf(Target target) {
  return std::ranges::find(kTargets, target, &std::pair<Target, std::string_view>::first)->second;
}

bool IsAgent(Who who) { return who >= Who::kAgentA && who <= Who::kAgentDeleted; }
bool IsOperator(Who who) { return who >= Who::kOperatorA && who <= Who::kOperatorB; }
bool IsRefusedInHandshake(Who who) {
  return who <= Who::kNotYetValid || who == Who::kServer || who == Who::kServerUsage;
}
bool HasNoIdentity(Who who) { return who >= Who::kNoRole && who <= Who::kTwoTenants; }

// --- The world of the matrix ---------------------------------------------------------------------

const TenantId kGone = *TenantId::Parse("gone");

// What a caller's targets are called.
struct Names {
  InstanceId own;
  InstanceId same_tenant;
  InstanceId other_tenant;
  std::string other_group;  // A group that only the other tenant has.
};

class MatrixWorld : public ServicesWorld {
 public:
  MatrixWorld()
      : a(JoinNew(kProd)),
        a2(JoinNew(kProd)),
        b(JoinNew(kDev)),
        waiting_a(NewInstance(kProd)),
        waiting_b(NewInstance(kDev)),
        blocked(JoinNew(kProd)),
        deleted(JoinNew(kProd)) {
    Block();
    EXPECT_TRUE(Call(Operator(kProd), api::kDeleteInstance, {.instance_id = deleted.id.text()}));
    DenySome();
    EXPECT_TRUE(Until([&] { return cloud.VmsOf(deleted.id).empty(); }));
    For(Duration::Minutes(1));
    alarms.clear();
  }

  // The certificate that the caller presents; where any role would do, the one of the port.
  [[nodiscard]] RpcTls Present(Who who, RpcPort port) {
    switch (who) {
      case Who::kNone: return Nobody();
      case Who::kAgentA: return a.tls;
      case Who::kAgentA2: return a2.tls;
      case Who::kAgentB: return b.tls;
      case Who::kAgentBlocked: return blocked.tls;
      case Who::kAgentDeleted: return deleted.tls;
      case Who::kOperatorA: return Operator(kProd);
      case Who::kOperatorB: return Operator(kDev);
      case Who::kDeniedSerial: return port == RpcPort::kOperator ? denied_operator : denied_agent;
      case Who::kDeniedIdentity:
        return port == RpcPort::kOperator
                   ? Client(crypto::OperatorSubject{.tenant = kProd, .id = denied_name})
                   : denied_instance.tls;
      case Who::kRemovedTenant:
        if (port == RpcPort::kOperator) return Operator(kGone);
        return Client(crypto::AgentSubject{.tenant = kGone, .instance = a.id});
      case Who::kServer: return ServerLeaf();
      default: return Forged(who, port);
    }
  }

  [[nodiscard]] Names NamesFor(Who who) const {
    if (who == Who::kAgentB || who == Who::kOperatorB) {
      return {
          .own = b.id, .same_tenant = waiting_b, .other_tenant = a.id, .other_group = "only-prod"};
    }
    const InstanceId own = who == Who::kAgentA2 ? a2.id : a.id;
    const InstanceId same = who == Who::kAgentA2 ? a.id : a2.id;
    return {.own = own, .same_tenant = same, .other_tenant = b.id, .other_group = "only-dev"};
  }

  JoinedAgent a;
  JoinedAgent a2;
  JoinedAgent b;
  InstanceId waiting_a;
  InstanceId waiting_b;
  JoinedAgent blocked;
  JoinedAgent deleted;
  JoinedAgent denied_instance = JoinNew(kProd);
  Puidv7 denied_name{"opr", denied_instance.id.uuid()};
  RpcTls denied_agent = Client(crypto::AgentSubject{.tenant = kProd, .instance = a.id});
  RpcTls denied_operator = Operator(kProd);
  // Of the two whose tokens wait, so that repeated registrations are of the same key.
  std::shared_ptr<const crypto::PrivateKey> join_key_a = NewKey();
  std::shared_ptr<const crypto::PrivateKey> join_key_b = NewKey();
  std::string operator_token = OperatorToken(kProd);
  std::shared_ptr<const crypto::PrivateKey> operator_key = NewKey();

 private:
  // As a clone would: another certificate of the same name, asking for another key.
  void Block() {
    const RpcTls clone = Client(crypto::AgentSubject{.tenant = kProd, .instance = blocked.id});
    const auto answer = Call(clone, api::kAgentRenewCertificate,
                             {.public_key_pem = NewKey()->public_key().ToPem()});
    EXPECT_FALSE(answer.has_value());
    EXPECT_TRUE(Record(kProd, blocked.id).blocked.has_value());
  }

  void DenySome() {
    const auto entry = [&](const RpcTls& tls) {
      return DenyEntry{.serial = tls->chain.front().facts().serial.decimal(),
                       .reason = "test",
                       .denied_at = now(),
                       .expires_at = now() + Duration::Hours(48)};
    };
    DenyList list = {.entries = {entry(denied_agent), entry(denied_operator)}};
    for (const std::string& name : {denied_instance.id.text(), denied_name.text()}) {
      list.entries.push_back({.tenant = kProd,
                              .identity = name,
                              .reason = "test",
                              .denied_at = now(),
                              .expires_at = now() + Duration::Hours(48)});
    }
    Put("deny/cluster.json", EncodeDenyList(list));
    EXPECT_TRUE(Until([&] { return denied->set().size() == 4; }));
  }

  [[nodiscard]] RpcTls ServerLeaf() {
    const auto key = NewKey();
    const auto leaf = identity->authority->IssueServer(
        {.hosts = {}}, key->public_key(),
        {.serial = NewSerial(), .issued_at = now(), .life = Duration::Hours(24)});
    return WithCertificate(leaf->ToPem(), key);
  }

  [[nodiscard]] ForgeSpec GoodSpec(RpcPort port) const {
    const bool of_operator = port == RpcPort::kOperator;
    ForgeSpec spec;
    spec.subject = {{.field = "O", .value = "prod"},
                    {.field = "CN", .value = of_operator ? kServicesCluster.text() : a.id.text()}};
    spec.not_before = now() - Duration::Minutes(5);
    spec.not_after = now() + Duration::Hours(24);
    const auto role =
        crypto::RoleExtension(of_operator ? crypto::Role::kOperator : crypto::Role::kAgent);
    spec.roles = {{.value = Bytes(role.begin(), role.end())}};
    return spec;
  }

  [[nodiscard]] RpcTls Forged(Who who, RpcPort port) {
    ForgeSpec spec = GoodSpec(port);
    const Bytes* issuer = &identity->roots.front().der();
    Bytes strange_root;
    const auto key = NewKey();
    auto signer = CaKey();
    switch (who) {
      case Who::kSelfSigned:
        issuer = nullptr;
        signer = key;
        break;
      case Who::kOtherCa:
        signer = NewKey();
        strange_root = crypto::IssueCa({.organization = {"Nstance Cluster c1"}}, *signer,
                                       {.issued_at = now() - Duration::Hours(1),
                                        .life = Duration::Hours(1'000)})
                           ->der();
        issuer = &strange_root;
        break;
      case Who::kExpired:
        spec.not_before = now() - Duration::Hours(48);
        spec.not_after = now() - Duration::Minutes(1);
        break;
      case Who::kNotYetValid: spec.not_before = now() + Duration::Minutes(1); break;
      case Who::kNoRole: spec.roles.clear(); break;
      case Who::kTwoRoles: spec.roles.push_back(spec.roles.front()); break;
      case Who::kUnknownRole: spec.roles.front().value = crypto::test::Hex("1304726f6f74"); break;
      case Who::kNoTenant: spec.subject.erase(spec.subject.begin()); break;
      case Who::kTwoTenants: spec.subject.push_back({.field = "O", .value = "dev"}); break;
      case Who::kServerUsage: spec.extended_key_usage = "serverAuth"; break;
      default: ADD_FAILURE() << "not a forgery"; break;
    }
    auto material = std::make_shared<RpcTlsMaterial>();
    material->chain = {crypto::test::Must(crypto::Certificate::FromDer(
        Forge(spec, ForgeKey(key->native_handle()),
              {.certificate = issuer, .key = ForgeKey(signer->native_handle())})))};
    material->key = key;
    material->roots = identity->roots;
    return material;
  }
};

// --- What is sent --------------------------------------------------------------------------------

using Builder = std::function<RpcMessage(MatrixWorld&, Who, Target)>;
struct MethodCase {
  std::vector<Target> targets;
  Builder request;
};

const std::vector<Target> kInstanceTargets = {Target::kOwn, Target::kSameTenant,
                                              Target::kOtherTenant, Target::kUnknown};
const std::vector<Target> kGroupTargets = {Target::kOwn, Target::kOtherTenant, Target::kUnknown};
const std::vector<Target> kTokenTargets = {Target::kOwn, Target::kUnknown};

const InstanceId kNobody = *ParsePuidv7("wrk06bgm7733st2576nx5jht4ecjw");

std::string InstanceName(const MatrixWorld& world, Who who, Target target) {
  const Names names = world.NamesFor(who);
  switch (target) {
    case Target::kOwn: return names.own.text();
    case Target::kSameTenant: return names.same_tenant.text();
    case Target::kOtherTenant: return names.other_tenant.text();
    default: return kNobody.text();
  }
}

std::string GroupName(const MatrixWorld& world, Who who, Target target) {
  switch (target) {
    case Target::kOwn: return "workers";
    case Target::kOtherTenant: return world.NamesFor(who).other_group;
    default: return "nowhere";
  }
}

template <class Message>
Builder Plain() {
  return [](MatrixWorld&, Who, Target) { return RpcMessage::Of(Message{}); };
}

template <class Message>
Builder ById() {
  return [](MatrixWorld& world, Who who, Target target) {
    Message message;
    message.instance_id = InstanceName(world, who, target);
    return RpcMessage::Of(std::move(message));
  };
}

RpcMessage JoinMessage(MatrixWorld& world, Target target, bool of_operator) {
  if (of_operator) {
    auto request = world.JoinRequest(world.operator_token, *world.operator_key);
    if (target == Target::kUnknown) request.registration_nonce_jwt += "x";
    return RpcMessage::Of(std::move(request));
  }
  auto request = world.JoinRequest(world.TokenOf(world.waiting_a), *world.join_key_a);
  if (target == Target::kUnknown) {
    request = world.JoinRequest(world.TokenOf(world.waiting_a) + "x", *world.join_key_a);
  }
  return RpcMessage::Of(std::move(request));
}

RpcMessage UpsertMessage(const MatrixWorld& world, Who who, Target target) {
  api::UpsertGroupRequest request;
  request.key = GroupName(world, who, target);
  request.config = api::GroupConfig{.template_name = "t", .size = 0, .vars = {{"COLOUR", "red"}}};
  return RpcMessage::Of(std::move(request));
}

// One entry per method; the test fails for a method that has none.
std::map<std::string, MethodCase> MakeCases() {
  const std::string r = "/nstance.v1.RegistrationService/";
  const std::string g = "/nstance.v1.AgentService/";
  const std::string o = "/nstance.v1.OperatorService/";
  const std::vector<Target> none = {Target::kNothing};
  const auto join = [](bool of_operator) {
    return [of_operator](MatrixWorld& world, Who, Target target) {
      return JoinMessage(world, target, of_operator);
    };
  };
  const auto renew = [](MatrixWorld& world, Who, Target) {
    return RpcMessage::Of(
        api::RenewCertificateRequest{.public_key_pem = world.NewKey()->public_key().ToPem()});
  };
  const auto create = [](MatrixWorld& world, Who who, Target target) {
    return RpcMessage::Of(api::CreateInstanceRequest{
        .config = api::InstanceConfig{.group = GroupName(world, who, target)}});
  };
  const auto delete_group = [](MatrixWorld& world, Who who, Target target) {
    return RpcMessage::Of(api::DeleteGroupRequest{.key = GroupName(world, who, target)});
  };
  const auto explain = [](MatrixWorld& world, Who who, Target target) {
    return RpcMessage::Of(api::ExplainRequest{
        .subject = api::ExplainRequest::InstanceId{InstanceName(world, who, target)}});
  };
  const auto plan = [](MatrixWorld& world, Who who, Target target) {
    return RpcMessage::Of(api::PlanRequest{.group = GroupName(world, who, target)});
  };
  return {
      {r + "RegisterAgent", {kTokenTargets, join(false)}},
      {r + "RegisterOperator", {kTokenTargets, join(true)}},
      {g + "ReceiveFiles", {none, Plain<api::Empty>()}},
      {g + "ReceiveKeyRequests", {none, Plain<api::Empty>()}},
      {g + "RenewCertificate", {none, renew}},
      {g + "SubmitHealthReport", {kInstanceTargets, ById<api::HealthReportRequest>()}},
      {g + "SubmitPublicKeys", {kInstanceTargets, ById<api::PublicKeysRequest>()}},
      {o + "AcknowledgeDrained", {kInstanceTargets, ById<api::DrainAckRequest>()}},
      {o + "ClaimInstance", {none, Plain<api::ClaimInstanceRequest>()}},
      {o + "CreateInstance", {kGroupTargets, create}},
      {o + "DeleteGroup", {kGroupTargets, delete_group}},
      {o + "DeleteInstance", {kInstanceTargets, ById<api::DeleteInstanceRequest>()}},
      {o + "Explain", {kInstanceTargets, explain}},
      {o + "GetConfigStatus", {none, Plain<api::Empty>()}},
      {o + "GetInstanceStatus", {kInstanceTargets, ById<api::GetInstanceStatusRequest>()}},
      {o + "ListGroups", {none, Plain<api::Empty>()}},
      {o + "ListInstances", {none, Plain<api::ListInstancesRequest>()}},
      {o + "Plan", {kGroupTargets, plan}},
      {o + "RefreshConfig", {none, Plain<api::Empty>()}},
      {o + "ReleaseInstance", {none, Plain<api::ReleaseInstanceRequest>()}},
      {o + "RenewCertificate", {none, renew}},
      {o + "UpsertGroup", {kGroupTargets, UpsertMessage}},
      {o + "WatchErrors", {none, Plain<api::Empty>()}},
      {o + "WatchEvents", {none, Plain<api::WatchEventsRequest>()}},
      {o + "WatchGroups", {none, Plain<api::Empty>()}},
      {o + "WatchInstances", {none, Plain<api::Empty>()}},
  };
}

const std::map<std::string, MethodCase>& Cases() {
  static const std::map<std::string, MethodCase> cases = MakeCases();
  return cases;
}

// --- What is expected ----------------------------------------------------------------------------

std::vector<std::string> MethodsOfTheProto() {
  std::vector<std::string> paths;
  for (const google::protobuf::FileDescriptor* file :
       {v1::RegisterClientRequest::descriptor()->file(),
        v1::HealthReportRequest::descriptor()->file(),
        v1::UpsertGroupRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        paths.push_back("/" + std::string(service->full_name()) + "/" +
                        std::string(service->method(j)->name()));
      }
    }
  }
  return paths;
}

// What the gate and the handlers answer to a caller whose role is right.
std::string AfterTheTransport(const RpcPolicyRow& row, Who who, Target target) {
  switch (who) {
    case Who::kRemovedTenant:
    case Who::kAgentDeleted: return "PD";
    case Who::kAgentBlocked:
    case Who::kDeniedSerial:
    case Who::kDeniedIdentity: return "UA";
    default: break;
  }
  if (row.offer == RpcOffer::kNotOffered) return "UI";
  const bool foreign = target == Target::kOtherTenant || target == Target::kUnknown;
  if (row.tenant_rule == RpcTenantRule::kSelf) {
    return target == Target::kOwn || target == Target::kNothing ? "OK" : "PD";
  }
  const std::string_view name = row.path.substr(row.path.rfind('/') + 1);
  // An operator that no record knows cannot renew.
  if (name == "RenewCertificate") return "UA";
  // Idempotent, or creating what is not there in the caller's own tenant.
  if (name == "DeleteInstance" || name == "DeleteGroup" || name == "UpsertGroup") return "OK";
  return foreign ? "NF" : "OK";
}

std::string ExpectedOf(const RpcPolicyRow& row, Who who, Target target) {
  if (row.tenant_rule == RpcTenantRule::kAnonymous) return target == Target::kOwn ? "OK" : "UA";
  if (IsRefusedInHandshake(who)) return "HS";
  if (HasNoIdentity(who)) return "UA";
  if (row.caller == RpcCaller::kAgent && IsOperator(who)) return "PD";
  if (row.caller == RpcCaller::kOperator && IsAgent(who)) return "PD";
  return AfterTheTransport(row, who, target);
}

using Matrix = std::map<std::pair<std::string, std::string>, std::map<std::string, std::string>>;

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) {
    field.erase(field.find_last_not_of(' ') + 1);
    fields.push_back(field);
  }
  return fields;
}

// Lines `method <tab> target <tab> answer of each caller`; the first one names the callers.
Matrix ReadExpected() {
  std::ifstream in(std::string(NSTANCE_SOURCE_DIR) + "/test/contract/rpc_matrix_expected.tsv");
  EXPECT_TRUE(in.good());
  Matrix out;
  std::vector<std::string> callers;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const std::vector<std::string> fields = Split(line);
    if (callers.empty()) {
      callers = fields;
      continue;
    }
    EXPECT_EQ(fields.size(), callers.size()) << line;
    if (fields.size() != callers.size()) continue;
    auto& row = out[{"/nstance.v1." + fields[0], fields[1]}];
    EXPECT_TRUE(row.empty()) << "twice: " << line;
    for (std::size_t i = 2; i < fields.size(); ++i) row[callers[i]] = fields[i];
  }
  return out;
}

TEST(RpcMatrix, EveryMethodHasACaseARowForEveryTargetAndACellForEveryCaller) {
  const Matrix expected = ReadExpected();
  const std::map<std::string, MethodCase>& cases = Cases();
  std::size_t rows = 0;
  for (const std::string& path : MethodsOfTheProto()) {
    const RpcPolicyRow* policy = FindRpcPolicy(RpcPolicy(), path);
    ASSERT_NE(policy, nullptr) << path;
    ASSERT_TRUE(cases.contains(path)) << "a method without a case: " << path;
    for (const Target target : cases.at(path).targets) {
      const auto row = expected.find({path, std::string(NameOf(target))});
      ASSERT_NE(row, expected.end()) << "no row for " << path << " " << NameOf(target);
      ++rows;
      for (const auto& [who, name] : kWho) {
        const auto cell = row->second.find(std::string(name));
        ASSERT_NE(cell, row->second.end()) << "no column " << name;
        EXPECT_EQ(cell->second, ExpectedOf(*policy, who, target))
            << path << " " << NameOf(target) << " " << name
            << ": the file and the policy table differ";
      }
      EXPECT_EQ(row->second.size(), kWho.size());
    }
  }
  EXPECT_EQ(rows, expected.size()) << "rows of no method";
  EXPECT_EQ(cases.size(), MethodsOfTheProto().size());
}

// --- What is answered ----------------------------------------------------------------------------

std::string Word(const ClientCall& call) {
  if (!call.connected) return "HS";
  if (!call.end.has_value() || call.end->has_value()) return "OK";
  switch (call.end->error().code) {
    case Code::kUnauthenticated: return "UA";
    case Code::kPermissionDenied: return "PD";
    case Code::kNotFound: return "NF";
    case Code::kUnimplemented: return "UI";
    default: return call.end->error().ToString();
  }
}

struct Answer {
  std::string word;
  std::string message;
};

Answer Ask(MatrixWorld& world, const std::string& path, Who who, Target target) {
  const RpcPolicyRow& row = *FindRpcPolicy(RpcPolicy(), path);
  const ClientCallPtr call = world.Open(world.Present(who, row.port), path);
  if (call->connected) {
    call->call->Send(Cases().at(path).request(world, who, target));
    if (row.kind == RpcKind::kClientStream) {
      world.Until([&] { return call->end.has_value(); }, Duration::Milliseconds(200));
      call->call->HalfClose();
    }
    const bool stays = row.kind == RpcKind::kServerStream;
    world.Until([&] { return call->end.has_value(); },
                stays ? Duration::Milliseconds(300) : Duration::Seconds(90));
    if (!stays && !call->end.has_value()) return {.word = "no answer", .message = {}};
  }
  const bool failed = call->end.has_value() && !call->end->has_value();
  return {.word = Word(*call), .message = failed ? call->end->error().message : ""};
}

std::string WithoutNames(std::string text, const MatrixWorld& world, Who who, Target target) {
  for (const std::string& name :
       {InstanceName(world, who, target), GroupName(world, who, target)}) {
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) {
      text.replace(at, name.size(), "*");
    }
  }
  return text;
}

class RpcMatrixTest : public testing::TestWithParam<std::string> {
 public:
  static std::vector<std::string> Machines(const MatrixWorld& world) {
    std::vector<std::string> out;
    for (const sim::SimVm* vm : world.cloud.Vms()) out.push_back(vm->provider_id);
    return out;
  }
};

TEST_P(RpcMatrixTest, EverybodyGetsWhatTheFileSaysAndARefusalChangesNothing) {
  const std::string& path = GetParam();
  const Matrix expected = ReadExpected();
  // Texts by caller: what is foreign is answered like what is unknown, word for word.
  std::map<Who, std::map<Target, std::string>> texts;
  for (const Target target : Cases().at(path).targets) {
    MatrixWorld world;
    const auto& cells = expected.at({path, std::string(NameOf(target))});
    for (const bool refused : {true, false}) {
      for (const auto& [who, name] : kWho) {
        const std::string& cell = cells.at(std::string(name));
        if ((cell != "OK") != refused) continue;
        const auto objects = world.Objects();
        const auto machines = Machines(world);
        const Answer answer = Ask(world, path, who, target);
        EXPECT_EQ(answer.word, cell)
            << path << " " << NameOf(target) << " by " << name << ": " << answer.message;
        texts[who][target] = answer.word + WithoutNames(answer.message, world, who, target);
        if (!refused) continue;
        EXPECT_EQ(world.Objects(), objects) << name << " changed something";
        EXPECT_EQ(Machines(world), machines) << name << " changed something";
      }
    }
  }
  for (const auto& [who, by_target] : texts) {
    if (!by_target.contains(Target::kOtherTenant)) continue;
    EXPECT_EQ(by_target.at(Target::kOtherTenant), by_target.at(Target::kUnknown)) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(AllMethods, RpcMatrixTest, testing::ValuesIn(MethodsOfTheProto()),
                         [](const auto& param) {
                           std::string name = param.param.substr(param.param.find("v1.") + 3);
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

TEST(RpcMatrix, AMethodAtAnotherPortIsUnimplementedOrDenied) {
  MatrixWorld world;
  const auto before = world.Objects();
  for (const RpcPolicyRow& row : RpcPolicy()) {
    for (const RpcPort port : {RpcPort::kRegistration, RpcPort::kAgent, RpcPort::kOperator}) {
      if (port == row.port) continue;
      const RpcTls tls = port == RpcPort::kOperator ? world.Operator(kProd) : world.a.tls;
      const ClientCallPtr call = world.Open(tls, row.path, {.port = port});
      ASSERT_TRUE(call->connected);
      call->call->Send(
          Cases().at(std::string(row.path)).request(world, Who::kAgentA, Target::kOwn));
      ASSERT_TRUE(world.Until([&] { return call->end.has_value(); })) << row.path;
      EXPECT_EQ(call->code(), Code::kUnimplemented) << row.path << " " << RpcPortName(port);
    }
  }
  EXPECT_EQ(world.Objects(), before);
}

// T4, T5: groups of one name in two tenants, and one operator's changes.
TEST(RpcMatrix, WhatAnOperatorDoesIsNotSeenInAnotherTenant) {
  MatrixWorld world;
  const RpcTls dev = world.Operator(kDev);
  const RpcTls prod = world.Operator(kProd);
  const auto groups = world.Call(dev, api::kListGroups, {});
  const auto instances = world.Call(dev, api::kListInstances, {});
  const ClientCallPtr watch_groups = world.Watch(dev, api::kWatchGroups);
  const ClientCallPtr watch_instances = world.Watch(dev, api::kWatchInstances);
  const ClientCallPtr watch_errors = world.Watch(dev, api::kWatchErrors);
  const std::size_t seen = watch_groups->messages.size();
  ASSERT_TRUE(world.Call(prod, api::kUpsertGroup,
                         {.key = "workers", .config = api::GroupConfig{.size = 2}}));
  ASSERT_TRUE(
      world.Call(prod, api::kUpsertGroup,
                 {.key = "only-dev", .config = api::GroupConfig{.template_name = "t", .size = 0}}));
  ASSERT_TRUE(
      world.Call(prod, api::kDeleteInstance, {.instance_id = world.a.id.text(), .drain = true}));
  world.For(Duration::Minutes(1));
  EXPECT_EQ(world.Call(dev, api::kListGroups, {}), groups);
  EXPECT_EQ(world.Call(dev, api::kListInstances, {}), instances);
  EXPECT_EQ(watch_groups->messages.size(), seen);
  EXPECT_TRUE(watch_instances->messages.empty());
  EXPECT_TRUE(watch_errors->messages.empty());
  for (const auto& status : groups->groups) EXPECT_EQ(status.tenant, "dev");
}

}  // namespace
}  // namespace nstance::test
