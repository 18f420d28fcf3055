#include "test/contract/rpc_contract.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/check.h"
#include "crypto/serial_number.h"

namespace nstance::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::array<std::string_view, 2> kKnownMetadata = {"x-known", "x-known-bin"};
constexpr Duration kRowLimit = Duration::Seconds(60);

constexpr RpcPolicyRow AgentRow(std::string_view path, RpcKind kind) {
  return {.path = path,
          .port = RpcPort::kAgent,
          .kind = kind,
          .caller = RpcCaller::kAgent,
          .tenant_rule = RpcTenantRule::kSelf,
          .subject_rule = RpcSubjectRule::kInstance,
          .limits =
              kind == RpcKind::kUnary ? RpcLimitsClass::kAgentUnary : RpcLimitsClass::kAgentStream,
          .time_limit = kind == RpcKind::kUnary ? std::optional(kRowLimit) : std::nullopt,
          .metadata = kKnownMetadata};
}

constexpr RpcPolicyRow Withdrawn(RpcPolicyRow row) {
  row.offer = RpcOffer::kNotOffered;
  return row;
}

constexpr std::array kPolicy = {
    RpcPolicyRow{.path = kAnonymousUnary, .time_limit = kRowLimit},
    AgentRow(kUnary, RpcKind::kUnary),
    AgentRow(kClientStream, RpcKind::kClientStream),
    AgentRow(kServerStream, RpcKind::kServerStream),
    AgentRow(kBoth, RpcKind::kBidirectional),
    Withdrawn(AgentRow(kNotOffered, RpcKind::kUnary)),
    RpcPolicyRow{.path = kOperatorUnary,
                 .port = RpcPort::kOperator,
                 .caller = RpcCaller::kOperator,
                 .tenant_rule = RpcTenantRule::kOwn,
                 .limits = RpcLimitsClass::kOperatorUnary,
                 .time_limit = kRowLimit},
};

Result<RpcMessage> DecodeText(std::string_view bytes, const InputSource& /*source*/) {
  if (bytes.starts_with("undecodable")) return Fail(InvalidArgument("undecodable"));
  return RpcMessage::Of(std::string(bytes));
}

std::string EncodeText(const RpcMessage& message) {
  const auto* text = message.As<std::string>();
  CHECK(text != nullptr);
  return *text;
}

std::string TextOf(const RpcMessage& message) {
  const auto* text = message.As<std::string>();
  return text == nullptr ? "not a text" : *text;
}

template <class T>
T Must(Result<T> result) {
  CHECK(result.has_value(), "{}", result.error().ToString());
  return *std::move(result);
}

crypto::PrivateKey KeyOf(std::uint8_t first, std::uint8_t second) {
  std::array<std::uint8_t, crypto::PrivateKey::kSeedSize> seed{};
  seed.fill(first);
  seed.back() = second;
  return crypto::PrivateKey::FromSeed(seed);
}

// The texts `prefix`0, `prefix`1 ... up to `count` of them.
std::vector<std::string> Numbered(std::string_view prefix, int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(fmt::format("{}{}", prefix, i));
  return texts;
}

}  // namespace

std::span<const RpcPolicyRow> ContractPolicy() { return kPolicy; }

std::span<const RpcMethod> ContractMethods() {
  static const std::vector<RpcMethod> methods = [] {
    const RpcMessageCodec text{.decode = &DecodeText, .encode = &EncodeText};
    std::vector<RpcMethod> all;
    for (const RpcPolicyRow& row : kPolicy) {
      all.push_back(
          {.path = std::string(row.path), .kind = row.kind, .request = text, .response = text});
    }
    return all;
  }();
  return methods;
}

// --- ContractAuthority ---------------------------------------------------------------------------

ContractAuthority::ContractAuthority(Timestamp now, std::uint8_t number)
    : issued_at_(now - Duration::Hours(1)), number_(number) {
  crypto::PrivateKey key = KeyOf(number, 0);
  crypto::Certificate root =
      Must(crypto::IssueCa({.organization = {"Nstance Cluster contract"}}, key,
                           {.issued_at = issued_at_, .life = Duration::Hours(1'000)}));
  authority_ = Must(crypto::CertificateAuthority::Make(std::move(root), std::move(key)));
}

crypto::IssueTerms ContractAuthority::Terms() {
  std::array<std::uint8_t, 16> serial{};
  serial.fill(number_);
  serial.back() = next_key_;
  return {.serial = crypto::SerialNumber::FromRandom(serial),
          .issued_at = issued_at_,
          .life = Duration::Hours(24)};
}

RpcTls ContractAuthority::Wrap(crypto::Certificate leaf, crypto::PrivateKey key) {
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain.push_back(std::move(leaf));
  material->key = std::make_shared<const crypto::PrivateKey>(std::move(key));
  material->roots.push_back(root());
  return material;
}

RpcTls ContractAuthority::Server(const std::string& host) {
  crypto::PrivateKey key = KeyOf(number_, ++next_key_);
  auto leaf = Must(authority_->IssueServer({.hosts = {host}}, key.public_key(), Terms()));
  return Wrap(std::move(leaf), std::move(key));
}

InstanceId ContractAuthority::InstanceOf(std::uint8_t instance) {
  UuidBytes uuid{};
  uuid[6] = 0x70;
  uuid[8] = 0x80;
  uuid[15] = instance;
  return {"knc", uuid};
}

RpcTls ContractAuthority::Agent(std::string_view tenant, std::uint8_t instance) {
  crypto::PrivateKey key = KeyOf(number_, ++next_key_);
  auto leaf =
      Must(authority_->IssueClient(crypto::AgentSubject{.tenant = Must(TenantId::Parse(tenant)),
                                                        .instance = InstanceOf(instance)},
                                   key.public_key(), Terms()));
  return Wrap(std::move(leaf), std::move(key));
}

RpcTls ContractAuthority::Operator(std::string_view tenant) {
  crypto::PrivateKey key = KeyOf(number_, ++next_key_);
  auto leaf = Must(
      authority_->IssueClient(crypto::OperatorSubject{.tenant = Must(TenantId::Parse(tenant)),
                                                      .id = Must(ClusterId::Parse("contract"))},
                              key.public_key(), Terms()));
  return Wrap(std::move(leaf), std::move(key));
}

RpcTls ContractAuthority::Nobody() {
  auto material = std::make_shared<RpcTlsMaterial>();
  material->roots.push_back(root());
  return material;
}

// --- The fixture ---------------------------------------------------------------------------------

void RpcContractTest::SetUp() {
  world = GetParam().make();
  authority.emplace(world->loop().WallNow(), std::uint8_t{1});
  on_accept = [this](ServedCall& call) { Listen(call); };
  ASSERT_TRUE(world->server().SetTls(authority->Server(world->host())));
  agents = Open(RpcPort::kAgent);
}

void RpcContractTest::TearDown() {
  served.clear();
  world.reset();
}

RpcAddress RpcContractTest::Open(RpcPort port) {
  std::optional<Result<RpcAddress>> answer;
  const Pending pending = world->server().Open(
      {.port = port,
       .bind = {.host = world->host()},
       .accept =
           [this](std::unique_ptr<RpcServerCall> call) {
             served.push_back(std::make_unique<ServedCall>());
             served.back()->call = std::move(call);
             on_accept(*served.back());
           },
       .gate = [this](const RpcCallInfo& info) { return gate ? gate(info) : Status(); }},
      [&](Result<RpcAddress> address) { answer = std::move(address); });
  EXPECT_TRUE(Wait([&] { return answer.has_value(); }));
  EXPECT_TRUE(answer && *answer) << (answer ? answer->error().ToString() : "no answer");
  return answer && *answer ? world->Reach(**answer) : RpcAddress{};
}

void RpcContractTest::Listen(ServedCall& call) {
  ServedCall* at = &call;
  call.call->Listen({.message = [at](RpcMessage m) { at->messages.push_back(TextOf(m)); },
                     .half_close = [at] { ++at->half_closes; },
                     .cancelled = [at](const Error& why) { at->cancelled.push_back(why); },
                     .drained = [at] { ++at->drained; }});
}

std::unique_ptr<MadeChannel> RpcContractTest::Dial(const RpcAddress& address, RpcTls tls) {
  auto made = std::make_unique<MadeChannel>();
  MadeChannel* at = made.get();
  made->channel = world->dialer().Dial({.address = address, .tls = std::move(tls)},
                                       {.state = [at](RpcChannelState state, const Status& why) {
                                         at->states.push_back(state);
                                         at->why = why;
                                       }});
  made->channel->Connect();
  return made;
}

std::unique_ptr<MadeChannel> RpcContractTest::Connected(const RpcAddress& address, RpcTls tls) {
  auto made = Dial(address, std::move(tls));
  EXPECT_TRUE(Wait([&] { return made->ready() || made->gone(); }));
  EXPECT_TRUE(made->ready()) << (made->why ? "no reason" : made->why.error().ToString());
  return made;
}

std::unique_ptr<MadeChannel> RpcContractTest::ConnectedAgent(std::uint8_t instance) {
  return Connected(agents, authority->Agent("default", instance));
}

std::unique_ptr<MadeCall> RpcContractTest::Start(MadeChannel& channel, std::string_view path,
                                                 RpcCallOptions options) {
  auto made = std::make_unique<MadeCall>();
  MadeCall* at = made.get();
  made->call = channel.channel->Start(
      path, std::move(options),
      {.metadata = [at](const RpcMetadata& metadata) { at->metadata.push_back(metadata); },
       .message = [at](RpcMessage m) { at->messages.push_back(TextOf(m)); },
       .drained = [at] { ++at->drained; },
       .end = [at](const RpcEnd& end) { at->ends.push_back(end); }});
  return made;
}

ServedCall* RpcContractTest::NextServed() {
  const std::size_t index = next_served++;
  if (!Wait([&] { return served.size() > index; })) return nullptr;
  return served[index].get();
}

std::pair<std::unique_ptr<MadeCall>, ServedCall*> RpcContractTest::Stream(MadeChannel& channel,
                                                                          std::string_view path) {
  auto call = Start(channel, path);
  if (path == kServerStream) {
    EXPECT_EQ(call->Send("request"), RpcSend::kTaken);
  }
  ServedCall* handler = NextServed();
  EXPECT_NE(handler, nullptr);
  return {std::move(call), handler};
}

Error RpcContractTest::ErrorOf(MadeChannel& channel, std::string_view path) {
  auto call = Start(channel, path);
  call->Send("request");
  call->call->HalfClose();
  EXPECT_TRUE(Wait([&] { return call->ended(); }));
  return call->error();
}

// --- Channels ------------------------------------------------------------------------------------

TEST_P(RpcContractTest, AChannelTellsItsStatesInOrder) {
  const auto channel = ConnectedAgent();
  EXPECT_THAT(channel->states, ElementsAre(RpcChannelState::kResolving,
                                           RpcChannelState::kConnecting, RpcChannelState::kReady));
  channel->channel->Close();
  EXPECT_TRUE(channel->ready()) << "no event from inside a verb";
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  EXPECT_EQ(channel->states.back(), RpcChannelState::kGone);
}

TEST_P(RpcContractTest, AChannelToNobodyIsGone) {
  const std::uint16_t nobody = agents.port == 1 ? 2 : 1;
  const auto channel = Dial({.host = agents.host, .port = nobody}, authority->Agent("default", 1));
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  ASSERT_FALSE(channel->why);
  EXPECT_EQ(channel->why.error().code, Code::kUnavailable);
}

TEST_P(RpcContractTest, ACallOnAChannelThatIsNotReadyWasNotMade) {
  MadeChannel idle;
  idle.channel =
      world->dialer().Dial({.address = agents, .tls = authority->Agent("default", 1)}, {});
  const auto call = Start(idle, kUnary);
  EXPECT_FALSE(call->ended()) << "no event from inside a verb";
  ASSERT_TRUE(Wait([&] { return call->ended(); }));
  EXPECT_EQ(call->error().code, Code::kUnavailable);
  EXPECT_EQ(call->error().outcome, Outcome::kNotDone);
}

TEST_P(RpcContractTest, AServerWithACertificateForAnotherNameIsRefused) {
  ASSERT_TRUE(world->server().SetTls(authority->Server("elsewhere.example")));
  // Every server's certificate is good for these; tls_test.cc shows it with other names.
  if (world->host() == "localhost" || world->host() == "127.0.0.1") return;
  const auto channel = Dial(agents, authority->Agent("default", 1));
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  EXPECT_EQ(channel->why.error().code, Code::kPermissionDenied);
}

TEST_P(RpcContractTest, AServerOfAnotherAuthorityIsRefused) {
  ContractAuthority other(world->loop().WallNow(), 2);
  auto tls = std::make_shared<RpcTlsMaterial>(*authority->Agent("default", 1));
  tls->roots = {other.root()};
  const auto channel = Dial(agents, tls);
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  EXPECT_EQ(channel->why.error().code, Code::kPermissionDenied);
}

TEST_P(RpcContractTest, AClientOfAnotherAuthorityIsUnauthenticated) {
  ContractAuthority other(world->loop().WallNow(), 2);
  auto tls = std::make_shared<RpcTlsMaterial>(*other.Agent("default", 1));
  tls->roots = {authority->root()};
  const auto channel = Dial(agents, tls);
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  EXPECT_EQ(channel->why.error().code, Code::kUnauthenticated);
  EXPECT_THAT(served, IsEmpty());
}

TEST_P(RpcContractTest, AClientWithoutACertificateIsUnauthenticated) {
  const auto channel = Dial(agents, authority->Nobody());
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  EXPECT_EQ(channel->why.error().code, Code::kUnauthenticated);
}

// --- Calls ---------------------------------------------------------------------------------------

TEST_P(RpcContractTest, AUnaryCallCarriesRequestAndResponse) {
  const auto channel = ConnectedAgent();
  const auto call = Start(*channel, kUnary);
  EXPECT_EQ(call->Send("question"), RpcSend::kTaken);
  ServedCall* handler = NextServed();
  ASSERT_NE(handler, nullptr);
  ASSERT_TRUE(Wait([&] { return handler->half_closes == 1; }));
  EXPECT_THAT(handler->messages, ElementsAre("question"));
  EXPECT_EQ(handler->Send("answer"), RpcSend::kTaken);
  EXPECT_THAT(call->messages, IsEmpty());
  handler->call->Finish({}, {{.name = "x-trailing", .value = "end"}});
  ASSERT_TRUE(Wait([&] { return call->ended(); }));
  EXPECT_THAT(call->messages, ElementsAre("answer"));
  EXPECT_TRUE(call->ends.front().status);
  EXPECT_THAT(call->ends.front().trailing,
              testing::Contains(RpcMetadataEntry{.name = "x-trailing", .value = "end"}));
  EXPECT_THAT(handler->cancelled, IsEmpty());
}

TEST_P(RpcContractTest, AHandlerKnowsWhoIsCalling) {
  const RpcTls tls = authority->Agent("default", 7);
  const auto channel = Connected(agents, tls);
  const auto [call, handler] = Stream(*channel, kBoth);
  const RpcCallInfo& info = handler->call->info();
  EXPECT_EQ(info.port, RpcPort::kAgent);
  EXPECT_EQ(info.policy->path, kBoth);
  ASSERT_TRUE(info.peer.identity);
  const crypto::PeerIdentity& who = *info.peer.identity;
  EXPECT_EQ(who.role, crypto::Role::kAgent);
  EXPECT_EQ(who.tenant, DefaultTenant());
  EXPECT_EQ(who.id, ContractAuthority::InstanceOf(7).text());
  EXPECT_EQ(who.serial, tls->chain.front().facts().serial.decimal());
  EXPECT_EQ(who.key_sha256, tls->key->public_key().SpkiSha256());
  EXPECT_EQ(who.not_after, tls->chain.front().facts().not_after);
  EXPECT_EQ(who.pool, crypto::PoolState::kNone);
  EXPECT_FALSE(info.peer.address.host.empty());
}

TEST_P(RpcContractTest, TheRegistrationPortAsksForNoCertificate) {
  const RpcAddress registration = Open(RpcPort::kRegistration);
  const auto channel = Connected(registration, authority->Nobody());
  const auto call = Start(*channel, kAnonymousUnary);
  EXPECT_EQ(call->Send("join"), RpcSend::kTaken);
  ServedCall* handler = NextServed();
  ASSERT_NE(handler, nullptr);
  EXPECT_FALSE(handler->call->info().peer.identity);
}

TEST_P(RpcContractTest, OnlyMetadataThatThePolicyNamesCrosses) {
  const std::string binary("\x00\xFF\x0A,", 4);
  const auto channel = ConnectedAgent();
  const auto call = Start(*channel, kBoth,
                          {.metadata = {{.name = "x-other", .value = "no"},
                                        {.name = "x-known", .value = "yes"},
                                        {.name = "x-known-bin", .value = binary},
                                        {.name = "x-known", .value = "twice"}}});
  ServedCall* handler = NextServed();
  ASSERT_NE(handler, nullptr);
  EXPECT_THAT(handler->call->info().metadata,
              ElementsAre(RpcMetadataEntry{.name = "x-known", .value = "yes"},
                          RpcMetadataEntry{.name = "x-known-bin", .value = binary},
                          RpcMetadataEntry{.name = "x-known", .value = "twice"}));
}

TEST_P(RpcContractTest, ADeadlineIsClampedToTheRow) {
  const auto channel = ConnectedAgent();
  const auto long_call = Start(*channel, kUnary, {.timeout = Duration::Hours(1)});
  long_call->Send("x");
  const ServedCall* handler = NextServed();
  ASSERT_NE(handler, nullptr);
  EXPECT_LE(handler->call->info().deadline, world->loop().Now() + kRowLimit);
  const auto unlimited = Stream(*channel, kBoth);
  EXPECT_EQ(unlimited.second->call->info().deadline, Instant::Never());
}

TEST_P(RpcContractTest, AClientStreamArrivesInOrderThenTheHalfClose) {
  const auto channel = ConnectedAgent();
  const auto [call, handler] = Stream(*channel, kClientStream);
  for (const std::string& text : Numbered("m", 10)) EXPECT_NE(call->Send(text), RpcSend::kRefused);
  call->call->HalfClose();
  EXPECT_EQ(call->Send("late"), RpcSend::kRefused);
  ASSERT_TRUE(Wait([&, at = handler] { return at->half_closes == 1; }));
  EXPECT_EQ(handler->messages, Numbered("m", 10));
  handler->Send("received");
  handler->call->Finish({});
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_THAT(call->messages, ElementsAre("received"));
}

TEST_P(RpcContractTest, AServerStreamArrivesInOrderThenTheEnd) {
  const auto channel = ConnectedAgent();
  const auto [call, handler] = Stream(*channel, kServerStream);
  handler->call->SetResponseMetadata({{.name = "x-first", .value = "1"}});
  for (const std::string& text : Numbered("m", 10)) {
    EXPECT_NE(handler->Send(text), RpcSend::kRefused);
  }
  handler->call->Finish(Fail(Aborted("replaced")), {{.name = "x-last", .value = "2"}});
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_EQ(call->messages, Numbered("m", 10));
  ASSERT_THAT(call->metadata, SizeIs(1));
  EXPECT_THAT(call->metadata.front(),
              testing::Contains(RpcMetadataEntry{.name = "x-first", .value = "1"}));
  EXPECT_EQ(call->error(), Aborted("replaced"));
  EXPECT_THAT(call->ends.front().trailing,
              testing::Contains(RpcMetadataEntry{.name = "x-last", .value = "2"}));
}

TEST_P(RpcContractTest, ResponseMetadataComesBeforeAnyMessage) {
  const auto channel = ConnectedAgent();
  const auto [call, handler] = Stream(*channel, kServerStream);
  EXPECT_EQ(handler->Send("first"), RpcSend::kTaken);
  ASSERT_TRUE(Wait([&, at = call.get()] { return !at->messages.empty(); }));
  EXPECT_THAT(call->metadata, SizeIs(1));
  EXPECT_FALSE(call->ended());
}

TEST_P(RpcContractTest, BothSidesMayTalkAtOnce) {
  const auto channel = ConnectedAgent();
  const auto [call, handler] = Stream(*channel, kBoth);
  for (int i = 0; i < 5; ++i) {
    call->Send(fmt::format("c{}", i));
    handler->Send(fmt::format("s{}", i));
  }
  call->call->HalfClose();
  ASSERT_TRUE(Wait([&, at = handler] { return at->half_closes == 1; }));
  EXPECT_EQ(handler->messages, Numbered("c", 5));
  EXPECT_NE(handler->Send("s5"), RpcSend::kRefused) << "a half-close ends one direction only";
  handler->call->Finish({});
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_EQ(call->messages, Numbered("s", 6));
  EXPECT_TRUE(call->ends.front().status);
}

TEST_P(RpcContractTest, AServerMayFinishBeforeTheClientHas) {
  const auto channel = ConnectedAgent();
  const auto [call, handler] = Stream(*channel, kClientStream);
  call->Send("one");
  handler->call->Finish(Fail(ResourceExhausted("enough")));
  EXPECT_EQ(handler->Send("late"), RpcSend::kRefused);
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_EQ(call->error(), ResourceExhausted("enough"));
  EXPECT_EQ(call->Send("two"), RpcSend::kRefused);
  EXPECT_THAT(handler->cancelled, IsEmpty()) << "no event after Finish()";
}

TEST_P(RpcContractTest, StatusesKeepCodeAndTextAndTellTheOutcome) {
  const auto channel = ConnectedAgent();
  for (int code = 1; code <= 16; ++code) {
    const Error error{.code = static_cast<Code>(code),
                      .message = fmt::format("100 % of {}: \xC3\xA4\n", code)};
    auto [call, handler] = Stream(*channel, kBoth);
    handler->call->Finish(Fail(error));
    ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
    EXPECT_EQ(call->error().code, error.code);
    EXPECT_EQ(call->error().message, error.message);
    EXPECT_EQ(call->error().outcome, OutcomeOfRpcStatus(error.code)) << code;
  }
}

// --- Ends ----------------------------------------------------------------------------------------

TEST_P(RpcContractTest, AHandlerLearnsThatItsClientHasCancelled) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  call->call.reset();
  ASSERT_TRUE(Wait([&, at = handler] { return !at->cancelled.empty(); }));
  EXPECT_THAT(handler->cancelled, SizeIs(1));
  EXPECT_EQ(handler->cancelled.front().code, Code::kCancelled);
  EXPECT_EQ(handler->Send("late"), RpcSend::kRefused);
  handler->call->Finish({});
  EXPECT_TRUE(channel->ready()) << "the connection goes on";
}

TEST_P(RpcContractTest, ACallThatItsHandlerDropsIsUnavailable) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  handler->call.reset();
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_EQ(call->error().code, Code::kUnavailable);
  EXPECT_EQ(call->error().outcome, Outcome::kMaybeDone);
}

TEST_P(RpcContractTest, ADeadlineEndsBothSides) {
  const auto channel = ConnectedAgent();
  const auto call = Start(*channel, kUnary, {.timeout = Duration::Milliseconds(200)});
  call->Send("slow");
  ServedCall* handler = NextServed();
  ASSERT_NE(handler, nullptr);
  ASSERT_TRUE(Wait([&] { return call->ended() && !handler->cancelled.empty(); }));
  EXPECT_EQ(call->error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(call->error().outcome, Outcome::kMaybeDone);
  // Whichever clock was first: its own deadline, or the client's reset.
  const Code code = handler->cancelled.front().code;
  EXPECT_TRUE(code == Code::kDeadlineExceeded || code == Code::kCancelled) << CodeName(code);
}

TEST_P(RpcContractTest, ADeadlineOfZeroHasPassed) {
  const auto channel = ConnectedAgent();
  const auto call = Start(*channel, kBoth, {.timeout = Duration()});
  ASSERT_TRUE(Wait([&] { return call->ended(); }));
  EXPECT_EQ(call->error().code, Code::kDeadlineExceeded);
}

TEST_P(RpcContractTest, ALostConnectionEndsEverythingOnIt) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  world->LoseConnections();
  ASSERT_TRUE(Wait([&, at = call.get(), by = handler] {
    return at->ended() && !by->cancelled.empty() && channel->gone();
  }));
  EXPECT_EQ(call->error().code, Code::kUnavailable);
  EXPECT_EQ(call->error().outcome, Outcome::kMaybeDone);
  EXPECT_EQ(handler->cancelled.front().code, Code::kUnavailable);
  EXPECT_EQ(channel->why.error().code, Code::kUnavailable);
}

TEST_P(RpcContractTest, AClientThatIsGoneEndsItsCalls) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  channel->channel.reset();
  ASSERT_TRUE(Wait([&, by = handler] { return !by->cancelled.empty(); }));
  EXPECT_FALSE(call->ended()) << "a destroyed channel tells nobody";
}

TEST_P(RpcContractTest, AServerThatIsGoneEndsItsConnections) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  world->DestroyServer();
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended() && channel->gone(); }));
  EXPECT_EQ(call->error().code, Code::kUnavailable);
  EXPECT_THAT(handler->cancelled, IsEmpty());
  EXPECT_EQ(handler->Send("late"), RpcSend::kRefused);
}

TEST_P(RpcContractTest, AClosedChannelEndsItsCallsFirst) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  channel->channel->Close();
  EXPECT_FALSE(call->ended());
  bool ended_first = false;
  ASSERT_TRUE(Wait([&, at = call.get()] {
    if (at->ended() && !channel->gone()) ended_first = true;
    return channel->gone();
  }));
  EXPECT_TRUE(call->ended());
  EXPECT_EQ(call->error().code, Code::kUnavailable);
}

TEST_P(RpcContractTest, AnEventMayDestroyWhatItCameFrom) {
  const auto channel = ConnectedAgent();
  on_accept = [](ServedCall& call) {
    ServedCall* at = &call;
    call.call->Listen({.message = [at](const RpcMessage&) { at->call.reset(); }});
  };
  MadeCall made;
  made.call = channel->channel->Start(kBoth, {}, {.end = [&](const RpcEnd& end) {
                                        made.ends.push_back(end);
                                        made.call.reset();
                                        channel->channel.reset();
                                      }});
  made.Send("x");
  ASSERT_TRUE(Wait([&] { return made.ended(); }));
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_EQ(channel->channel, nullptr);
}

// --- Back-pressure -------------------------------------------------------------------------------

// A sender that goes on whenever it may.
template <class Call>
struct Filler {
  Call& call;
  int sent = 0;
  int drained_seen = 0;
  bool full = false;

  void Go() {
    if (full && call.drained > drained_seen) full = false;
    drained_seen = call.drained;
    const std::string padding(16'384, '.');
    while (!full) {
      const RpcSend taken = call.Send(fmt::format("{:08}{}", sent, padding));
      ASSERT_TRUE(taken == RpcSend::kTaken || taken == RpcSend::kTakenNowFull);
      ++sent;
      full = taken == RpcSend::kTakenNowFull;
      ASSERT_LT(sent, 1'000) << "never full";
    }
    EXPECT_EQ(call.Send("one too many"), RpcSend::kRefused);
  }
};

void ExpectNumbered(const std::vector<std::string>& texts, int count) {
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(texts[static_cast<std::size_t>(i)].substr(0, 8), fmt::format("{:08}", i));
  }
}

// Time passes: a message on another stream of the connection goes through.
void RpcContractTest::Tick(MadeCall& call, const ServedCall& handler) {
  const std::size_t before = handler.messages.size();
  ASSERT_EQ(call.Send("tick"), RpcSend::kTaken);
  ASSERT_TRUE(Wait([&] { return handler.messages.size() > before; }));
}

TEST_P(RpcContractTest, ASlowHandlerStopsItsClient) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  auto [clock, clock_handler] = Stream(*channel, kBoth);
  handler->call->Pause();
  Filler<MadeCall> filler{.call = *call};
  for (int round = 0; round < 20; ++round) {  // Fills whatever there is on the way, and stops.
    filler.Go();
    Tick(*clock, *clock_handler);
  }
  EXPECT_THAT(handler->messages, IsEmpty());
  const int drained = call->drained;
  const auto sent = static_cast<std::size_t>(filler.sent);
  handler->call->Resume();
  ASSERT_TRUE(Wait([&, at = handler, from = call.get()] {
    return at->messages.size() == sent && from->drained > drained;
  }));
  ExpectNumbered(handler->messages, filler.sent);
  EXPECT_EQ(call->Send("again"), RpcSend::kTaken);
}

TEST_P(RpcContractTest, ASlowClientStopsItsHandler) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kServerStream);
  auto [clock, clock_handler] = Stream(*channel, kBoth);
  call->call->Pause();
  Filler<ServedCall> filler{.call = *handler};
  for (int round = 0; round < 20; ++round) {
    filler.Go();
    Tick(*clock, *clock_handler);
  }
  EXPECT_THAT(call->messages, IsEmpty());
  const int drained = handler->drained;
  const auto sent = static_cast<std::size_t>(filler.sent);
  call->call->Resume();
  ASSERT_TRUE(Wait([&, at = call.get(), from = handler] {
    return at->messages.size() == sent && from->drained > drained;
  }));
  ExpectNumbered(call->messages, filler.sent);
  handler->call->Finish({});
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_TRUE(call->ends.front().status);
}

TEST_P(RpcContractTest, TheEndByFinishWaitsBehindPausedMessages) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kServerStream);
  auto [clock, clock_handler] = Stream(*channel, kBoth);
  call->call->Pause();
  handler->Send("last words");
  handler->call->Finish({});
  for (int round = 0; round < 3; ++round) Tick(*clock, *clock_handler);
  EXPECT_FALSE(call->ended());
  call->call->Resume();
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended(); }));
  EXPECT_THAT(call->messages, ElementsAre("last words"));
}

TEST_P(RpcContractTest, APausedStreamDoesNotHoldUpOthers) {
  const auto channel = ConnectedAgent();
  auto [slow, slow_handler] = Stream(*channel, kBoth);
  slow_handler->call->Pause();
  Filler<MadeCall> filler{.call = *slow};
  filler.Go();
  auto [quick, quick_handler] = Stream(*channel, kClientStream);
  quick->Send("through");
  ASSERT_TRUE(Wait([&, at = quick_handler] { return !at->messages.empty(); }));
  EXPECT_THAT(slow_handler->messages, IsEmpty());
}

TEST_P(RpcContractTest, APausedHandlerIsNotToldTheHalfCloseButACancellation) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  handler->call->Pause();
  call->Send("x");
  call->call->HalfClose();
  auto [other, other_handler] = Stream(*channel, kBoth);  // Later on the same connection.
  other->Send("y");
  ASSERT_TRUE(Wait([&, at = other_handler] { return !at->messages.empty(); }));
  EXPECT_EQ(handler->half_closes, 0);
  EXPECT_THAT(handler->messages, IsEmpty());
  call->call.reset();
  ASSERT_TRUE(Wait([&, at = handler] { return !at->cancelled.empty(); }));
  EXPECT_EQ(handler->half_closes, 0);
}

TEST_P(RpcContractTest, EventsWaitUntilSomebodyListens) {
  const auto channel = ConnectedAgent();
  on_accept = [](ServedCall&) {};
  auto [call, handler] = Stream(*channel, kBoth);
  for (const std::string& text : Numbered("m", 5)) call->Send(text);
  call->call->HalfClose();
  auto [other, other_handler] = Stream(*channel, kBoth);
  EXPECT_THAT(handler->messages, IsEmpty());
  Listen(*handler);
  EXPECT_THAT(handler->messages, IsEmpty()) << "no event from inside a verb";
  ASSERT_TRUE(Wait([&, at = handler] { return at->half_closes == 1; }));
  EXPECT_EQ(handler->messages, Numbered("m", 5));
}

TEST_P(RpcContractTest, AGateMayHandACallOn) {
  const auto channel = ConnectedAgent();
  std::vector<std::string> at_gate;
  on_accept = [&](ServedCall& call) {
    ServedCall* at = &call;
    call.call->Listen({.message = [&, at](const RpcMessage& message) {
      at_gate.push_back(TextOf(message));
      Listen(*at);
    }});
  };
  auto [call, handler] = Stream(*channel, kBoth);
  for (const char* text : {"first", "second", "third"}) call->Send(text);
  ASSERT_TRUE(Wait([&, at = handler] { return at->messages.size() == 2; }));
  EXPECT_THAT(at_gate, ElementsAre("first"));
  EXPECT_THAT(handler->messages, ElementsAre("second", "third"));
}

// --- What is refused before a handler ------------------------------------------------------------

TEST_P(RpcContractTest, AMethodThatIsNotOfferedHereIsUnimplemented) {
  const auto channel = ConnectedAgent();
  for (const std::string_view path : {kNotOffered, kOperatorUnary, kAnonymousUnary}) {
    EXPECT_EQ(ErrorOf(*channel, path).code, Code::kUnimplemented) << path;
  }
  EXPECT_THAT(served, IsEmpty());
  EXPECT_TRUE(channel->ready());
}

TEST_P(RpcContractTest, ARoleThatTheRowDoesNotNameIsRefused) {
  const auto as_operator = Connected(agents, authority->Operator("default"));
  const Error error = ErrorOf(*as_operator, kUnary);
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_EQ(error.outcome, Outcome::kNotDone);
  const RpcAddress operators = Open(RpcPort::kOperator);
  const auto as_agent = Connected(operators, authority->Agent("default", 1));
  EXPECT_EQ(ErrorOf(*as_agent, kOperatorUnary).code, Code::kPermissionDenied);
  EXPECT_THAT(served, IsEmpty());
}

TEST_P(RpcContractTest, OnlyWhomTheRowAdmitsLearnsThatItsMethodIsNotOffered) {
  const auto as_operator = Connected(agents, authority->Operator("default"));
  EXPECT_EQ(ErrorOf(*as_operator, kNotOffered).code, Code::kPermissionDenied);
  EXPECT_EQ(ErrorOf(*as_operator, kOperatorUnary).code, Code::kUnimplemented)
      << "there is no such method on this port, for anybody";
  EXPECT_THAT(served, IsEmpty());
}

TEST_P(RpcContractTest, WhomTheGateRefusesDoesNotLearnThatTheMethodIsNotOffered) {
  const auto channel = ConnectedAgent();
  std::vector<std::string> asked;
  gate = [&](const RpcCallInfo& info) -> Status {
    asked.emplace_back(info.policy->path);
    return Fail(Unauthenticated("denied"));
  };
  const Error error = ErrorOf(*channel, kNotOffered);
  EXPECT_EQ(error.code, Code::kUnauthenticated);
  EXPECT_EQ(error.message, "denied");
  EXPECT_THAT(asked, ElementsAre(kNotOffered));
  EXPECT_THAT(served, IsEmpty());
}

TEST_P(RpcContractTest, ARequestWithoutAMessageIsUnimplemented) {
  const auto channel = ConnectedAgent();
  const auto call = Start(*channel, kUnary);
  call->call->HalfClose();
  ASSERT_TRUE(Wait([&] { return call->ended(); }));
  EXPECT_EQ(call->error().code, Code::kUnimplemented);
  EXPECT_THAT(served, IsEmpty());
}

TEST_P(RpcContractTest, ASecondRequestMessageIsNotTaken) {
  const auto channel = ConnectedAgent();
  const auto call = Start(*channel, kUnary);
  EXPECT_EQ(call->Send("one"), RpcSend::kTaken);
  EXPECT_EQ(call->Send("two"), RpcSend::kRefused);
}

TEST_P(RpcContractTest, AnUndecodableMessageEndsItsCall) {
  if (!world->carries_bytes()) return;  // Messages do not become bytes here.
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  call->Send("fine");
  call->Send("undecodable");
  ASSERT_TRUE(
      Wait([&, at = call.get(), by = handler] { return at->ended() && !by->cancelled.empty(); }));
  EXPECT_EQ(call->error().code, Code::kInvalidArgument);
  EXPECT_EQ(handler->cancelled.front().code, Code::kInvalidArgument);
  EXPECT_TRUE(channel->ready());
}

TEST_P(RpcContractTest, AMessageThatIsTooLargeIsNotSentAndTheCallGoesOn) {
  if (!world->carries_bytes()) return;  // Messages have no size here.
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kServerStream);
  EXPECT_EQ(handler->Send(std::string(kMaxRpcMessageBytes + 1, 'x')), RpcSend::kTooLarge);
  EXPECT_EQ(handler->Send("small"), RpcSend::kTaken);
  ASSERT_TRUE(Wait([&, at = call.get()] { return !at->messages.empty(); }));
  EXPECT_THAT(call->messages, ElementsAre("small"));
}

TEST_P(RpcContractTest, CallsInFlightAreLimitedPerInstance) {
  const auto channel = ConnectedAgent(1);
  const auto other = ConnectedAgent(2);
  std::vector<std::unique_ptr<MadeCall>> calls;
  for (int i = 0; i < 2; ++i) {
    calls.push_back(Start(*channel, kUnary));
    calls.back()->Send("x");
    ASSERT_NE(NextServed(), nullptr);
  }
  EXPECT_EQ(ErrorOf(*channel, kUnary).code, Code::kResourceExhausted);
  calls.push_back(Start(*other, kUnary));
  calls.back()->Send("x");
  ASSERT_NE(NextServed(), nullptr) << "another instance has room of its own";
  served[0]->Send("done");
  served[0]->call->Finish({});
  ASSERT_TRUE(Wait([&] { return calls[0]->ended(); }));
  calls.push_back(Start(*channel, kUnary));
  calls.back()->Send("x");
  EXPECT_NE(NextServed(), nullptr) << "room is given back";
}

// --- The owner's verbs ---------------------------------------------------------------------------

TEST_P(RpcContractTest, ConnectionsOfAnIdentityAreClosedAndNoOthers) {
  const auto one = ConnectedAgent(1);
  const auto two = ConnectedAgent(2);
  auto [call, handler] = Stream(*one, kBoth);
  auto [other_call, other_handler] = Stream(*two, kBoth);
  world->server().CloseConnections(
      RpcIdentity{.role = crypto::Role::kAgent, .id = ContractAuthority::InstanceOf(1).text()},
      PermissionDenied("being deleted"));
  EXPECT_THAT(handler->cancelled, IsEmpty()) << "no event from inside a verb";
  ASSERT_TRUE(Wait([&, at = call.get(), by = handler] {
    return at->ended() && one->gone() && !by->cancelled.empty();
  }));
  EXPECT_EQ(call->error(), PermissionDenied("being deleted"));
  EXPECT_EQ(handler->cancelled.front(), PermissionDenied("being deleted"));
  EXPECT_TRUE(two->ready());
  EXPECT_FALSE(other_call->ended());
  EXPECT_THAT(other_handler->cancelled, IsEmpty());
}

TEST_P(RpcContractTest, ConnectionsOfASerialOrATenantAreClosed) {
  const RpcTls tls = authority->Agent("default", 1);
  const auto by_serial = Connected(agents, tls);
  const auto by_tenant = Connected(agents, authority->Agent("other", 2));
  const auto stays = ConnectedAgent(3);
  world->server().CloseConnections(
      RpcSerial{.decimal = tls->chain.front().facts().serial.decimal()}, Unauthenticated("denied"));
  ASSERT_TRUE(Wait([&] { return by_serial->gone(); }));
  EXPECT_TRUE(by_tenant->ready());
  world->server().CloseConnections(Must(TenantId::Parse("other")), PermissionDenied("removed"));
  ASSERT_TRUE(Wait([&] { return by_tenant->gone(); }));
  EXPECT_TRUE(stays->ready());
}

TEST_P(RpcContractTest, AClosedListenerLetsOpenCallsFinish) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  bool closed = false;
  const Pending closing = world->server().Close(
      RpcPort::kAgent, world->loop().Now() + Duration::Hours(1), [&] { closed = true; });
  const auto late = Dial(agents, authority->Agent("default", 2));
  ASSERT_TRUE(Wait([&] { return late->gone(); }));
  EXPECT_FALSE(closed);
  call->Send("still here");
  ASSERT_TRUE(Wait([&, at = handler] { return !at->messages.empty(); }));
  handler->Send("goodbye");
  handler->call->Finish({});
  ASSERT_TRUE(Wait([&, at = call.get()] { return at->ended() && channel->gone() && closed; }));
  EXPECT_TRUE(call->ends.front().status);
  EXPECT_THAT(call->messages, ElementsAre("goodbye"));
}

TEST_P(RpcContractTest, AServerThatGoesAwayTakesNoNewCalls) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  const Pending closing =
      world->server().Close(RpcPort::kAgent, world->loop().Now() + Duration::Hours(1), [] {});
  const Error error = ErrorOf(*channel, kBoth);
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_EQ(error.outcome, Outcome::kNotDone);
  EXPECT_THAT(served, SizeIs(1));
}

TEST_P(RpcContractTest, AtTheDeadlineOpenCallsEnd) {
  const auto channel = ConnectedAgent();
  auto [call, handler] = Stream(*channel, kBoth);
  bool stopped = false;
  const Pending stopping = world->server().Stop(world->loop().Now() + Duration::Milliseconds(200),
                                                [&] { stopped = true; });
  ASSERT_TRUE(Wait([&, at = call.get()] { return stopped && at->ended() && channel->gone(); }));
  EXPECT_EQ(call->error().code, Code::kUnavailable);
  ASSERT_THAT(handler->cancelled, SizeIs(1));
  EXPECT_EQ(handler->cancelled.front().code, Code::kUnavailable);
}

TEST_P(RpcContractTest, AListenerOpensAgainOnThePortItHadChosen) {
  bool closed = false;
  const Pending closing =
      world->server().Close(RpcPort::kAgent, world->loop().Now(), [&] { closed = true; });
  ASSERT_TRUE(Wait([&] { return closed; }));
  EXPECT_EQ(Open(RpcPort::kAgent), agents);
  EXPECT_TRUE(ConnectedAgent()->ready());
}

TEST_P(RpcContractTest, ConnectionsOfARootThatHasLeftAreClosed) {
  const auto channel = ConnectedAgent();
  ContractAuthority next(world->loop().WallNow(), 2);
  auto both = std::make_shared<RpcTlsMaterial>(*next.Server(world->host()));
  both->roots = {next.root(), authority->root()};
  ASSERT_TRUE(world->server().SetTls(both));
  auto trusting_next = std::make_shared<RpcTlsMaterial>(*next.Agent("default", 2));
  const auto newer = Connected(agents, trusting_next);
  EXPECT_TRUE(channel->ready());
  ASSERT_TRUE(world->server().SetTls(next.Server(world->host())));
  ASSERT_TRUE(Wait([&] { return channel->gone(); }));
  EXPECT_TRUE(newer->ready());
}

TEST_P(RpcContractTest, UnusableTlsMaterialChangesNothing) {
  auto mixed = std::make_shared<RpcTlsMaterial>(*authority->Server(world->host()));
  mixed->key = authority->Server(world->host())->key;
  const Status refused = world->server().SetTls(mixed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(ConnectedAgent()->ready());
}

}  // namespace nstance::test
