// Messages to structs and back: one pair of functions per message of the contract.
//
// Reading is lenient where an older or newer peer may differ: an enum value that we do not know is
// kUnknown; a time outside the years 1 to 9999, or with a bad fraction, counts as absent. A length
// of time in a request decides what is done, so a bad one there is a problem that fails the
// message; one in a report counts as absent.
//
// Writing never fails: text that is not UTF-8, which no receiver would take, goes out with U+FFFD
// in place of what is wrong.
#pragma once

#include <string>
#include <string_view>

#include "ports/api/agent.h"
#include "ports/api/claims.h"
#include "ports/api/common.h"
#include "ports/api/events.h"
#include "ports/api/groups.h"
#include "ports/api/instances.h"
#include "ports/api/plan.h"
#include "ports/api/registration.h"

namespace nstance::v1 {
class RenewCertificateRequest;
class RenewCertificateResponse;
class RegisterClientRequest;
class RegisterClientResponse;
class KeyGenerationRequest;
class PublicKeysRequest;
class PublicKeySubmission;
class HealthReportRequest;
class Metrics;
class InterfaceMetrics;
class FileStatus;
class TerminationNotice;
class FileTransfer;
class ConfigStatusResponse;
class RefreshConfigResponse;
class UpsertGroupRequest;
class OperatorFence;
class GroupConfig;
class DeleteGroupRequest;
class ListGroupsResponse;
class GroupStatus;
class GroupEvent;
class CreateInstanceRequest;
class InstanceConfig;
class CreateInstanceResponse;
class DeleteInstanceRequest;
class DeleteInstanceResponse;
class GetInstanceStatusRequest;
class InstanceStatusResponse;
class InstanceEvent;
class DrainAckRequest;
class ErrorEvent;
class Instance;
class ListInstancesRequest;
class ListInstancesResponse;
class Action;
class Hold;
class PlanRequest;
class PlanResponse;
class ExplainRequest;
class ExplainResponse;
class ClaimInstanceRequest;
class ClaimInstanceResponse;
class ReleaseInstanceRequest;
class ReleaseInstanceResponse;
class Event;
class WatchEventsRequest;
}  // namespace nstance::v1

namespace google::protobuf {
class Duration;
class Empty;
class Timestamp;
}  // namespace google::protobuf

namespace nstance::rpc_codec {

// What the readers found wrong: the first thing, as text for the peer.
class ReadContext final {
 public:
  void Report(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  // Empty: all is well.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

class WriteContext final {
 public:
  // `text`, or what becomes of it when it is not UTF-8; valid until the next call.
  [[nodiscard]] const std::string& Clean(const std::string& text);
  const std::string& Clean(std::string&& text) = delete;  // It may be `text` itself that returns.

 private:
  std::string scratch_;
};

void Read(const google::protobuf::Empty& in, api::Empty& out, ReadContext& context);
void Write(const api::Empty& in, google::protobuf::Empty& out, WriteContext& context);

void Read(const v1::RenewCertificateRequest& in, api::RenewCertificateRequest& out,
          ReadContext& context);
void Write(const api::RenewCertificateRequest& in, v1::RenewCertificateRequest& out,
           WriteContext& context);
void Read(const v1::RenewCertificateResponse& in, api::RenewCertificateResponse& out,
          ReadContext& context);
void Write(const api::RenewCertificateResponse& in, v1::RenewCertificateResponse& out,
           WriteContext& context);
void Read(const v1::RegisterClientRequest& in, api::RegisterClientRequest& out,
          ReadContext& context);
void Write(const api::RegisterClientRequest& in, v1::RegisterClientRequest& out,
           WriteContext& context);
void Read(const v1::RegisterClientResponse& in, api::RegisterClientResponse& out,
          ReadContext& context);
void Write(const api::RegisterClientResponse& in, v1::RegisterClientResponse& out,
           WriteContext& context);
void Read(const v1::KeyGenerationRequest& in, api::KeyGenerationRequest& out, ReadContext& context);
void Write(const api::KeyGenerationRequest& in, v1::KeyGenerationRequest& out,
           WriteContext& context);
void Read(const v1::PublicKeysRequest& in, api::PublicKeysRequest& out, ReadContext& context);
void Write(const api::PublicKeysRequest& in, v1::PublicKeysRequest& out, WriteContext& context);
void Read(const v1::PublicKeySubmission& in, api::PublicKeySubmission& out, ReadContext& context);
void Write(const api::PublicKeySubmission& in, v1::PublicKeySubmission& out, WriteContext& context);
void Read(const v1::HealthReportRequest& in, api::HealthReportRequest& out, ReadContext& context);
void Write(const api::HealthReportRequest& in, v1::HealthReportRequest& out, WriteContext& context);
void Read(const v1::Metrics& in, api::Metrics& out, ReadContext& context);
void Write(const api::Metrics& in, v1::Metrics& out, WriteContext& context);
void Read(const v1::InterfaceMetrics& in, api::InterfaceMetrics& out, ReadContext& context);
void Write(const api::InterfaceMetrics& in, v1::InterfaceMetrics& out, WriteContext& context);
void Read(const v1::FileStatus& in, api::FileStatus& out, ReadContext& context);
void Write(const api::FileStatus& in, v1::FileStatus& out, WriteContext& context);
void Read(const v1::TerminationNotice& in, api::TerminationNotice& out, ReadContext& context);
void Write(const api::TerminationNotice& in, v1::TerminationNotice& out, WriteContext& context);
void Read(const v1::FileTransfer& in, api::FileTransfer& out, ReadContext& context);
void Write(const api::FileTransfer& in, v1::FileTransfer& out, WriteContext& context);
void Read(const v1::ConfigStatusResponse& in, api::ConfigStatusResponse& out, ReadContext& context);
void Write(const api::ConfigStatusResponse& in, v1::ConfigStatusResponse& out,
           WriteContext& context);
void Read(const v1::RefreshConfigResponse& in, api::RefreshConfigResponse& out,
          ReadContext& context);
void Write(const api::RefreshConfigResponse& in, v1::RefreshConfigResponse& out,
           WriteContext& context);
void Read(const v1::UpsertGroupRequest& in, api::UpsertGroupRequest& out, ReadContext& context);
void Write(const api::UpsertGroupRequest& in, v1::UpsertGroupRequest& out, WriteContext& context);
void Read(const v1::OperatorFence& in, api::OperatorFence& out, ReadContext& context);
void Write(const api::OperatorFence& in, v1::OperatorFence& out, WriteContext& context);
void Read(const v1::GroupConfig& in, api::GroupConfig& out, ReadContext& context);
void Write(const api::GroupConfig& in, v1::GroupConfig& out, WriteContext& context);
void Read(const v1::DeleteGroupRequest& in, api::DeleteGroupRequest& out, ReadContext& context);
void Write(const api::DeleteGroupRequest& in, v1::DeleteGroupRequest& out, WriteContext& context);
void Read(const v1::ListGroupsResponse& in, api::ListGroupsResponse& out, ReadContext& context);
void Write(const api::ListGroupsResponse& in, v1::ListGroupsResponse& out, WriteContext& context);
void Read(const v1::GroupStatus& in, api::GroupStatus& out, ReadContext& context);
void Write(const api::GroupStatus& in, v1::GroupStatus& out, WriteContext& context);
void Read(const v1::GroupEvent& in, api::GroupEvent& out, ReadContext& context);
void Write(const api::GroupEvent& in, v1::GroupEvent& out, WriteContext& context);
void Read(const v1::CreateInstanceRequest& in, api::CreateInstanceRequest& out,
          ReadContext& context);
void Write(const api::CreateInstanceRequest& in, v1::CreateInstanceRequest& out,
           WriteContext& context);
void Read(const v1::InstanceConfig& in, api::InstanceConfig& out, ReadContext& context);
void Write(const api::InstanceConfig& in, v1::InstanceConfig& out, WriteContext& context);
void Read(const v1::CreateInstanceResponse& in, api::CreateInstanceResponse& out,
          ReadContext& context);
void Write(const api::CreateInstanceResponse& in, v1::CreateInstanceResponse& out,
           WriteContext& context);
void Read(const v1::DeleteInstanceRequest& in, api::DeleteInstanceRequest& out,
          ReadContext& context);
void Write(const api::DeleteInstanceRequest& in, v1::DeleteInstanceRequest& out,
           WriteContext& context);
void Read(const v1::DeleteInstanceResponse& in, api::DeleteInstanceResponse& out,
          ReadContext& context);
void Write(const api::DeleteInstanceResponse& in, v1::DeleteInstanceResponse& out,
           WriteContext& context);
void Read(const v1::GetInstanceStatusRequest& in, api::GetInstanceStatusRequest& out,
          ReadContext& context);
void Write(const api::GetInstanceStatusRequest& in, v1::GetInstanceStatusRequest& out,
           WriteContext& context);
void Read(const v1::InstanceStatusResponse& in, api::InstanceStatusResponse& out,
          ReadContext& context);
void Write(const api::InstanceStatusResponse& in, v1::InstanceStatusResponse& out,
           WriteContext& context);
void Read(const v1::InstanceEvent& in, api::InstanceEvent& out, ReadContext& context);
void Write(const api::InstanceEvent& in, v1::InstanceEvent& out, WriteContext& context);
void Read(const v1::DrainAckRequest& in, api::DrainAckRequest& out, ReadContext& context);
void Write(const api::DrainAckRequest& in, v1::DrainAckRequest& out, WriteContext& context);
void Read(const v1::ErrorEvent& in, api::ErrorEvent& out, ReadContext& context);
void Write(const api::ErrorEvent& in, v1::ErrorEvent& out, WriteContext& context);
void Read(const v1::Instance& in, api::Instance& out, ReadContext& context);
void Write(const api::Instance& in, v1::Instance& out, WriteContext& context);
void Read(const v1::ListInstancesRequest& in, api::ListInstancesRequest& out, ReadContext& context);
void Write(const api::ListInstancesRequest& in, v1::ListInstancesRequest& out,
           WriteContext& context);
void Read(const v1::ListInstancesResponse& in, api::ListInstancesResponse& out,
          ReadContext& context);
void Write(const api::ListInstancesResponse& in, v1::ListInstancesResponse& out,
           WriteContext& context);
void Read(const v1::Action& in, api::Action& out, ReadContext& context);
void Write(const api::Action& in, v1::Action& out, WriteContext& context);
void Read(const v1::Hold& in, api::Hold& out, ReadContext& context);
void Write(const api::Hold& in, v1::Hold& out, WriteContext& context);
void Read(const v1::PlanRequest& in, api::PlanRequest& out, ReadContext& context);
void Write(const api::PlanRequest& in, v1::PlanRequest& out, WriteContext& context);
void Read(const v1::PlanResponse& in, api::PlanResponse& out, ReadContext& context);
void Write(const api::PlanResponse& in, v1::PlanResponse& out, WriteContext& context);
void Read(const v1::ExplainRequest& in, api::ExplainRequest& out, ReadContext& context);
void Write(const api::ExplainRequest& in, v1::ExplainRequest& out, WriteContext& context);
void Read(const v1::ExplainResponse& in, api::ExplainResponse& out, ReadContext& context);
void Write(const api::ExplainResponse& in, v1::ExplainResponse& out, WriteContext& context);
void Read(const v1::ClaimInstanceRequest& in, api::ClaimInstanceRequest& out, ReadContext& context);
void Write(const api::ClaimInstanceRequest& in, v1::ClaimInstanceRequest& out,
           WriteContext& context);
void Read(const v1::ClaimInstanceResponse& in, api::ClaimInstanceResponse& out,
          ReadContext& context);
void Write(const api::ClaimInstanceResponse& in, v1::ClaimInstanceResponse& out,
           WriteContext& context);
void Read(const v1::ReleaseInstanceRequest& in, api::ReleaseInstanceRequest& out,
          ReadContext& context);
void Write(const api::ReleaseInstanceRequest& in, v1::ReleaseInstanceRequest& out,
           WriteContext& context);
void Read(const v1::ReleaseInstanceResponse& in, api::ReleaseInstanceResponse& out,
          ReadContext& context);
void Write(const api::ReleaseInstanceResponse& in, v1::ReleaseInstanceResponse& out,
           WriteContext& context);
void Read(const v1::Event& in, api::Event& out, ReadContext& context);
void Write(const api::Event& in, v1::Event& out, WriteContext& context);
void Read(const v1::WatchEventsRequest& in, api::WatchEventsRequest& out, ReadContext& context);
void Write(const api::WatchEventsRequest& in, v1::WatchEventsRequest& out, WriteContext& context);

}  // namespace nstance::rpc_codec
