// Renewal of agent and operator certificates (security.md 4), over mutual TLS.
//
// Which generation the caller holds is told by the certificate that it presents. The present one
// may ask for any key; an older one only for the key that the record has (its answer was lost), and
// gets the same certificate again. Anything else is a cloned identity: an agent's is blocked until
// a person deletes the instance, an operator's call is refused; both raise the alarm
// identity_clone.
//
// Of two renewals with one certificate at the same moment one writes first. The other reads again
// and decides again on what it finds: the certificate that the other got when both asked for the
// same key, else a clone. ABORTED only when five times somebody else wrote first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/operator_record.h"
#include "server/services/identity_keys.h"
#include "server/services/operator_rows.h"
#include "server/services/service_context.h"
#include "server/services/unary_calls.h"
#include "storage/settled_put.h"

namespace nstance {

class RenewalService final {
 public:
  // Both outlive it.
  RenewalService(ServiceContext& context, IdentityKeys& keys, OperatorRows& rows);
  RenewalService(const RenewalService&) = delete;
  RenewalService& operator=(const RenewalService&) = delete;
  ~RenewalService();

  void RenewAgent(std::unique_ptr<RpcServerCall> call);
  void RenewOperator(std::unique_ptr<RpcServerCall> call);

 private:
  using Request = api::RenewCertificateRequest;
  using Answer = Reply<api::RenewCertificateResponse>;
  struct AgentJob;
  struct OperatorJob;

  void HandleAgent(const Request& request, const RpcCallInfo& info, const Answer& answer);
  void EditAgent(const InstanceId& id, const std::shared_ptr<AgentJob>& job, const Answer& answer);
  void HandleOperator(const Request& request, const RpcCallInfo& info, const Answer& answer);
  // Under the name of the key presented, else of the key asked for, else as other programs name it.
  void ReadOperator(std::uint64_t number);
  void OnOperator(std::uint64_t number, const Result<Object>& object);
  // The key asked for may be nobody else's.
  void CheckFree(std::uint64_t number, Object object);
  void WriteOperator(std::uint64_t number, const Object& object);
  void NameOperator(std::uint64_t number);
  void ReadName(std::uint64_t number);
  void CheckStillFree(std::uint64_t number);
  void IssueOperator(std::uint64_t number);
  void FinishOperator(std::uint64_t number, Result<api::RenewCertificateResponse> answer);
  [[nodiscard]] Error ForeignKey() const;
  [[nodiscard]] Error KeyOfAnother(const InstanceId& id) const;
  [[nodiscard]] Error KeyOfAnother(const TenantId& tenant) const;  // Of an operator.
  [[nodiscard]] Error CloneOf(const TenantId& tenant) const;

  ServiceContext& context_;
  IdentityKeys& keys_;
  OperatorRows& rows_;
  UnaryCalls calls_;
  std::map<std::uint64_t, std::unique_ptr<OperatorJob>> operators_;
  std::uint64_t next_ = 1;
};

}  // namespace nstance
