// Every message of the contract through decode and encode, all fields set by reflection: the bytes
// must come back as they were. Then by name, so that no two fields can be exchanged in both
// directions unseen; then what is lenient and what is strict.
#include <set>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include "adapters/rpc_codec/convert_parts.h"
#include "adapters/rpc_codec/method_table.h"
#include "base/check.h"
#include "nstance/v1/agent.pb.h"
#include "nstance/v1/operator.pb.h"
#include "nstance/v1/registration.pb.h"
#include "ports/api/methods.h"
#include "test/adapters/rpc_codec/filled_message.h"

namespace nstance::rpc_codec {
namespace {

using test::BytesOf;
using test::Fill;
using test::NewMessage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

RpcMessageCodec CodecOf(std::string_view name) {
  for (const NamedCodec& codec : MessageCodecs()) {
    if (codec.name == name) return codec.codec;
  }
  CHECK(false, "{}", name);
  return {};
}

template <class Struct>
Struct Decoded(const google::protobuf::Message& message) {
  const auto decoded = CodecOf(message.GetDescriptor()->full_name()).decode(BytesOf(message), {});
  CHECK(decoded.has_value(), "{}", decoded.error().message);
  const Struct* value = decoded->template As<Struct>();
  CHECK(value != nullptr);
  return *value;
}

TEST(RoundTrip, EveryMessageComesBackAsItWas) {
  for (const NamedCodec& codec : MessageCodecs()) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Prng prng(seed);
      const auto message = NewMessage(codec.name);
      Fill(*message, prng);
      const std::string bytes = BytesOf(*message);
      const auto decoded = codec.codec.decode(bytes, {});
      ASSERT_TRUE(decoded) << codec.name << ": " << decoded.error().message;
      const std::string again = codec.codec.encode(*decoded);
      if (again == bytes) continue;
      const auto returned = NewMessage(codec.name);
      ASSERT_TRUE(returned->ParseFromString(again));
      FAIL() << codec.name << " was\n"
             << message->DebugString() << "and came back as\n"
             << returned->DebugString();
    }
  }
}

TEST(RoundTrip, AnEmptyMessageIsNoBytes) {
  for (const NamedCodec& codec : MessageCodecs()) {
    const auto decoded = codec.codec.decode("", {});
    ASSERT_TRUE(decoded) << codec.name;
    EXPECT_EQ(codec.codec.encode(*decoded), "") << codec.name;
  }
}

void Reach(const google::protobuf::Descriptor& type, std::set<std::string>& reached) {
  if (!reached.insert(type.full_name()).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->message_type() != nullptr) Reach(*type.field(i)->message_type(), reached);
  }
}

TEST(RoundTrip, EveryMessageOfTheProtoIsReachedByAMethod) {
  std::set<std::string> reached;
  for (const NamedCodec& codec : MessageCodecs()) {
    Reach(*NewMessage(codec.name)->GetDescriptor(), reached);
  }
  for (const auto* file :
       {v1::RegisterClientRequest::descriptor()->file(), v1::Metrics::descriptor()->file(),
        v1::GroupStatus::descriptor()->file(), v1::RenewCertificateRequest::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      EXPECT_TRUE(reached.contains(file->message_type(i)->full_name()))
          << file->message_type(i)->full_name();
    }
  }
}

TEST(RoundTrip, AMessageIsEncodedOnceForAllWatchers) {
  const RpcMessageCodec codec = CodecOf("nstance.v1.ErrorEvent");
  const RpcMessage message = RpcMessage::Of(api::ErrorEvent{.group = "g", .error = "e"});
  const std::vector<RpcMessage> watchers(3, message);
  for (const RpcMessage& copy : watchers) {
    EXPECT_EQ(EncodeShared(codec, copy), EncodeShared(codec, message));
  }
}

// --- By name -------------------------------------------------------------------------------------

TEST(RoundTrip, AReportReadsByName) {
  v1::HealthReportRequest in;
  in.set_version("1.2.3");
  in.set_instance_id("knc1");
  in.mutable_timestamp()->set_seconds(10);
  in.set_count(4);
  in.set_uptime("1h2m3s");
  in.set_config_hash("hash");
  (*in.mutable_files())["good"].mutable_last_modified()->set_seconds(20);
  (*in.mutable_files())["bad"].set_error("disk full");
  (*in.mutable_files())["new"];
  in.mutable_termination_notice()->set_action("stop");
  in.mutable_termination_notice()->mutable_deadline()->set_seconds(30);
  in.mutable_booted_at()->set_seconds(40);
  in.mutable_agent_started_at()->set_seconds(50);
  in.mutable_report_interval()->set_nanos(5);
  auto& network = *in.mutable_metrics()->mutable_network_interface();
  network.set_interface_name("eth0");
  network.set_rx_bytes(1);
  network.set_tx_bytes(2);
  network.set_rx_packets(3);
  network.set_tx_packets(4);
  network.set_rx_drops(5);
  network.set_tx_drops(6);
  in.mutable_metrics()->set_conntrack_count(7);
  in.mutable_metrics()->set_conntrack_max(8);
  in.mutable_metrics()->set_cpu_usage(0);
  in.mutable_one_minute()->set_memory_usage(1);
  in.mutable_five_minutes()->set_memory_usage(5);
  in.mutable_fifteen_minutes()->set_memory_usage(15);

  const auto at = [](std::int64_t seconds) { return Timestamp::FromUnix(seconds); };
  const auto out = Decoded<api::HealthReportRequest>(in);
  EXPECT_EQ(out.version, "1.2.3");
  EXPECT_EQ(out.instance_id, "knc1");
  EXPECT_EQ(out.timestamp, at(10));
  EXPECT_EQ(out.count, 4);
  EXPECT_EQ(out.uptime, "1h2m3s");
  EXPECT_EQ(out.config_hash, "hash");
  EXPECT_THAT(out.files, ElementsAre(Pair("bad", api::FileStatus{.status = "disk full"}),
                                     Pair("good", api::FileStatus{.status = at(20)}),
                                     Pair("new", api::FileStatus{})));
  EXPECT_EQ(out.termination_notice, (api::TerminationNotice{.action = "stop", .deadline = at(30)}));
  EXPECT_EQ(out.booted_at, at(40));
  EXPECT_EQ(out.agent_started_at, at(50));
  EXPECT_EQ(out.report_interval, Duration::Nanoseconds(5));
  ASSERT_TRUE(out.metrics);
  EXPECT_EQ(out.metrics->network_interface, (api::InterfaceMetrics{.interface_name = "eth0",
                                                                   .rx_bytes = 1,
                                                                   .tx_bytes = 2,
                                                                   .rx_packets = 3,
                                                                   .tx_packets = 4,
                                                                   .rx_drops = 5,
                                                                   .tx_drops = 6}));
  EXPECT_EQ(out.metrics->conntrack_count, 7U);
  EXPECT_EQ(out.metrics->conntrack_max, 8U);
  EXPECT_EQ(out.metrics->cpu_usage, 0.0) << "zero is not absent";
  EXPECT_EQ(out.metrics->memory_usage, std::nullopt);
  EXPECT_EQ(out.one_minute->memory_usage, 1.0);
  EXPECT_EQ(out.five_minutes->memory_usage, 5.0);
  EXPECT_EQ(out.fifteen_minutes->memory_usage, 15.0);
}

TEST(RoundTrip, AGroupReadsByName) {
  v1::GroupStatus in;
  in.set_key("k");
  in.set_tenant("t");
  in.set_template_("m");
  in.set_size(1);
  in.set_instance_type("i");
  in.set_subnet_pool("s");
  (*in.mutable_vars())["a"] = "b";
  in.set_etag("e");
  in.set_actual_size(2);
  in.add_provider_ids("p");
  in.set_draining(3);
  in.set_creating(4);
  in.set_ready(5);
  in.set_warm(6);
  in.set_claimed(7);
  in.add_instance_ids("n");
  in.set_draw_from("d");
  in.set_warming(8);
  EXPECT_EQ(Decoded<api::GroupStatus>(in), (api::GroupStatus{.key = "k",
                                                             .tenant = "t",
                                                             .template_name = "m",
                                                             .size = 1,
                                                             .instance_type = "i",
                                                             .subnet_pool = "s",
                                                             .vars = {{"a", "b"}},
                                                             .is_static = false,
                                                             .etag = "e",
                                                             .actual_size = 2,
                                                             .provider_ids = {"p"},
                                                             .draining = 3,
                                                             .creating = 4,
                                                             .ready = 5,
                                                             .warm = 6,
                                                             .claimed = 7,
                                                             .instance_ids = {"n"},
                                                             .pool = false,
                                                             .draw_from = "d",
                                                             .warming = 8}));
}

TEST(RoundTrip, AnInstanceReadsByName) {
  const auto message = NewMessage("nstance.v1.Instance");
  auto& in = dynamic_cast<v1::Instance&>(*message);
  in.set_instance_id("id");
  in.set_phase(v1::INSTANCE_PHASE_DRAINING);
  in.set_private_ipv4("v4");
  in.set_private_ipv6("v6");
  in.set_hostname("h");
  in.mutable_created_at()->set_seconds(1);
  in.mutable_registered_at()->set_seconds(2);
  in.mutable_last_seen()->set_seconds(3);
  in.mutable_delete_at()->set_seconds(4);
  in.mutable_claimed_at()->set_seconds(5);
  in.mutable_cert_expires_at()->set_seconds(6);
  in.set_drifted(true);
  in.set_pool("p");
  in.set_member_state("m");
  v1::InstanceStatusResponse outer;
  *outer.mutable_instance() = in;
  const auto out = Decoded<api::InstanceStatusResponse>(outer).instance;
  const auto at = [](std::int64_t seconds) { return Timestamp::FromUnix(seconds); };
  EXPECT_EQ(out, (api::Instance{.instance_id = "id",
                                .phase = api::InstancePhase::kDraining,
                                .private_ipv4 = "v4",
                                .private_ipv6 = "v6",
                                .hostname = "h",
                                .created_at = at(1),
                                .registered_at = at(2),
                                .last_seen = at(3),
                                .delete_at = at(4),
                                .drifted = true,
                                .claimed_at = at(5),
                                .cert_expires_at = at(6),
                                .pool = "p",
                                .member_state = "m"}));
}

TEST(RoundTrip, AUpsertReadsByName) {
  v1::UpsertGroupRequest in;
  in.set_key("k");
  in.mutable_config()->set_size(3);
  (*in.mutable_config()->mutable_vars())["v"] = "1";
  (*in.mutable_config()->mutable_args())["a"] = "2";
  in.set_request_id("r");
  in.set_size_unset(true);
  in.add_replace("vars");
  in.add_remove_instance_ids("gone");
  in.mutable_fence()->set_lease_uid("uid");
  in.mutable_fence()->set_transitions(9);
  EXPECT_EQ(Decoded<api::UpsertGroupRequest>(in),
            (api::UpsertGroupRequest{
                .key = "k",
                .config = api::GroupConfig{.size = 3, .vars = {{"v", "1"}}, .args = {{"a", "2"}}},
                .request_id = "r",
                .size_unset = true,
                .replace = {"vars"},
                .remove_instance_ids = {"gone"},
                .fence = api::OperatorFence{.lease_uid = "uid", .transitions = 9}}));
}

TEST(RoundTrip, TheSubjectOfExplainIsOneOfTwo) {
  v1::ExplainRequest in;
  EXPECT_EQ(Decoded<api::ExplainRequest>(in), api::ExplainRequest{});
  in.set_group("");
  EXPECT_EQ(Decoded<api::ExplainRequest>(in),
            (api::ExplainRequest{.subject = api::ExplainRequest::Group{}}));
  in.set_instance_id("i");
  EXPECT_EQ(Decoded<api::ExplainRequest>(in),
            (api::ExplainRequest{.subject = api::ExplainRequest::InstanceId{.text = "i"}}));
}

// --- Lenient and strict --------------------------------------------------------------------------

TEST(RoundTrip, AnEnumValueFromTheFutureIsUnknown) {
  v1::ListInstancesRequest in;
  in.add_phases(v1::INSTANCE_PHASE_GONE);
  in.add_phases(static_cast<v1::InstancePhase>(77));
  in.add_phases(static_cast<v1::InstancePhase>(-1));
  EXPECT_THAT(Decoded<api::ListInstancesRequest>(in).phases,
              ElementsAre(api::InstancePhase::kGone, api::InstancePhase::kUnknown,
                          api::InstancePhase::kUnknown));
  v1::GroupEvent event;
  event.set_type(static_cast<v1::GroupEvent::Type>(3));
  const auto out = Decoded<api::GroupEvent>(event);
  EXPECT_EQ(out.type, api::GroupEventType::kUnknown);
  EXPECT_EQ(CodecOf("nstance.v1.GroupEvent").encode(RpcMessage::Of(out)), "");
}

TEST(RoundTrip, BI66_ATimeThatIsNoneIsAbsent) {
  const auto reads = [](std::int64_t seconds, std::int32_t nanos) {
    v1::HealthReportRequest in;
    in.mutable_timestamp()->set_seconds(seconds);
    in.mutable_timestamp()->set_nanos(nanos);
    return Decoded<api::HealthReportRequest>(in).timestamp.has_value();
  };
  EXPECT_TRUE(reads(0, 0));
  EXPECT_TRUE(reads(-62'135'596'800, 0));  // 0001-01-01
  EXPECT_FALSE(reads(-62'135'596'801, 0));
  EXPECT_TRUE(reads(253'402'300'799, 999'999'999));  // 9999-12-31
  EXPECT_FALSE(reads(253'402'300'800, 0));
  EXPECT_FALSE(reads(0, -1));
  EXPECT_FALSE(reads(0, 1'000'000'000));
  EXPECT_FALSE(reads(std::numeric_limits<std::int64_t>::max(), 0));
  EXPECT_FALSE(reads(std::numeric_limits<std::int64_t>::min(), 0));
}

TEST(RoundTrip, ABadLengthOfTimeFailsARequestButNotAReport) {
  v1::DeleteInstanceRequest request;
  request.mutable_drain_timeout()->set_seconds(1);
  request.mutable_drain_timeout()->set_nanos(-1);
  const auto refused = CodecOf("nstance.v1.DeleteInstanceRequest").decode(BytesOf(request), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("drain_timeout"));

  v1::ClaimInstanceRequest claim;
  claim.mutable_wait()->set_seconds(315'576'000'001);
  EXPECT_FALSE(CodecOf("nstance.v1.ClaimInstanceRequest").decode(BytesOf(claim), {}));

  v1::HealthReportRequest report;
  report.mutable_report_interval()->set_nanos(1'000'000'000);
  EXPECT_FALSE(Decoded<api::HealthReportRequest>(report).report_interval);
}

TEST(RoundTrip, ALongLengthOfTimeIsTheLongest) {
  v1::ClaimInstanceRequest claim;
  claim.mutable_wait()->set_seconds(315'576'000'000);
  EXPECT_EQ(Decoded<api::ClaimInstanceRequest>(claim).wait, Duration::Max());
  claim.mutable_wait()->set_seconds(-315'576'000'000);
  EXPECT_EQ(Decoded<api::ClaimInstanceRequest>(claim).wait, Duration::Min());
}

TEST(RoundTrip, BI68_AVersionThatIsNotUtf8IsRefused) {
  v1::HealthReportRequest report;
  report.set_version("@");
  std::string bytes = BytesOf(report);
  bytes.back() = '\xFF';
  const auto refused = CodecOf("nstance.v1.HealthReportRequest").decode(bytes, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), InvalidArgument("version: text is not UTF-8"));
}

TEST(RoundTrip, BI63_AMillionFilesOrCoresAreRefusedBeforeTheyAreRead) {
  // The transport refuses them by their size; whatever came so far would be refused here.
  constexpr int kMany = 1'000'000;
  v1::HealthReportRequest file;
  (*file.mutable_files())["f"];
  const std::string one = BytesOf(file);
  std::string files;
  for (int i = 0; i < kMany; ++i) files += one;
  v1::HealthReportRequest cores;
  cores.mutable_metrics()->mutable_cpu_core_usage()->Resize(kMany, 1);
  for (const std::string& bytes : {files, BytesOf(cores)}) {
    const auto refused = CodecOf("nstance.v1.HealthReportRequest").decode(bytes, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("too many elements"));
  }
}

TEST(RoundTrip, TextThatIsNotUtf8IsRefusedOnArrival) {
  // DeleteGroupRequest{key: "\xFF"}.
  const auto refused = CodecOf("nstance.v1.DeleteGroupRequest").decode("\x0A\x01\xFF", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), InvalidArgument("key: text is not UTF-8"));
  // As the key of a map.
  EXPECT_FALSE(CodecOf("nstance.v1.GroupStatus").decode("\x3A\x03\x0A\x01\xFF", {}));
  // FileTransfer{content: "\xFF"}: bytes are bytes.
  EXPECT_TRUE(CodecOf("nstance.v1.FileTransfer").decode("\x12\x01\xFF", {}));
}

TEST(RoundTrip, TextThatIsNotUtf8GoesOutMended) {
  const RpcMessageCodec codec = CodecOf("nstance.v1.UpsertGroupRequest");
  const std::string bad = "a\xFF\xC3z";
  const std::string mended = "a\xEF\xBF\xBD\xEF\xBF\xBDz";
  const std::string bytes = codec.encode(RpcMessage::Of(api::UpsertGroupRequest{
      .key = bad, .config = api::GroupConfig{.vars = {{bad, bad}}}, .replace = {bad}}));
  const auto decoded = codec.decode(bytes, {});
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded->As<api::UpsertGroupRequest>(),
            (api::UpsertGroupRequest{.key = mended,
                                     .config = api::GroupConfig{.vars = {{mended, mended}}},
                                     .replace = {mended}}));
}

TEST(RoundTrip, UnknownFieldsAreLeftOut) {
  // Field 99, varint 1; then key "k".
  const RpcMessageCodec codec = CodecOf("nstance.v1.DeleteGroupRequest");
  const auto decoded = codec.decode("\x98\x06\x01\x0A\x01k", {});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->As<api::DeleteGroupRequest>()->key, "k");
  EXPECT_EQ(codec.encode(*decoded), "\x0A\x01k");
}

}  // namespace
}  // namespace nstance::rpc_codec
