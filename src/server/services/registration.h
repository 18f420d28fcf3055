// RegistrationService: how strangers with a token become agents and operators (wire.md 3).
//
// Checks run from cheap to dear, and nothing is read from storage for a token with a bad signature.
// A token is consumed by compare-and-swap, bound to the key, before anything is signed: of many
// calls with one token one key wins, and the same key gets the same certificate again, byte for
// byte, until the token expires. The text of every UNAUTHENTICATED is "registration refused"; the
// reason is in the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "crypto/registration_token.h"
#include "server/services/identity_keys.h"
#include "server/services/operator_rows.h"
#include "server/services/service_context.h"
#include "server/services/unary_calls.h"
#include "storage/operator_enrolment.h"
#include "storage/settled_put.h"

namespace nstance {

class RegistrationService final {
 public:
  // Both outlive it.
  RegistrationService(ServiceContext& context, IdentityKeys& keys, OperatorRows& rows);
  RegistrationService(const RegistrationService&) = delete;
  RegistrationService& operator=(const RegistrationService&) = delete;
  ~RegistrationService();

  void RegisterAgent(std::unique_ptr<RpcServerCall> call);
  void RegisterOperator(std::unique_ptr<RpcServerCall> call);

 private:
  using Request = api::RegisterClientRequest;
  using Answer = Reply<api::RegisterClientResponse>;
  struct Joiner;
  struct OperatorJob;

  [[nodiscard]] Result<crypto::RegistrationClaims> Verify(const Request& request,
                                                          crypto::TokenKind kind);
  [[nodiscard]] Result<crypto::PublicKey> CheckKey(const Request& request);
  void HandleAgent(const Request& request, const RpcCallInfo& info, const Answer& answer);
  [[nodiscard]] Status CheckFacts(const Request& request) const;
  void ConsumeAgentToken(const std::shared_ptr<Joiner>& joiner, const Answer& answer);
  void HandleOperator(const Request& request, const Answer& answer);
  void ConsumeOperatorToken(std::uint64_t job);
  void ReadOperatorToken(std::uint64_t job);
  void WriteOperator(std::uint64_t job);
  void OnEnrolled(std::uint64_t job, Result<EnrolledOperator> enrolled);
  void FinishOperator(std::uint64_t job, Result<api::RegisterClientResponse> answer);
  [[nodiscard]] Error KeyOfAnother(const InstanceId& id) const;
  [[nodiscard]] Error KeyOfAnother(const TenantId& tenant) const;  // Of an operator.
  [[nodiscard]] Error Refuse(const std::string& reason) const;
  [[nodiscard]] Error RefuseInput(const std::string& reason) const;
  [[nodiscard]] Error Invalid(std::string_view reason, std::string message) const;

  ServiceContext& context_;
  IdentityKeys& keys_;
  OperatorRows& rows_;
  UnaryCalls calls_;
  std::map<std::uint64_t, std::unique_ptr<OperatorJob>> operators_;
  std::uint64_t next_ = 1;
};

}  // namespace nstance
