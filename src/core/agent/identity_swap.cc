#include "core/agent/identity_swap.h"

namespace nstance::agent {

std::vector<SwapStep> PlanSwap(const SwapFiles& files) {
  const IdentityKeys& keys = files.keys;
  std::vector<SwapStep> steps;
  if (!files.has_next_certificate) {
    // Only the key decides: a missing or other public key is that of an earlier step.
    if (keys.key && keys.public_key != keys.key) steps.push_back(SwapStep::kWritePublicKey);
    return steps;
  }
  if (keys.next_certificate && keys.next_certificate == keys.next_key) {
    return {SwapStep::kMoveKey, SwapStep::kWritePublicKey, SwapStep::kMoveCertificate};
  }
  if (keys.next_certificate && keys.next_certificate == keys.key) {
    if (keys.public_key != keys.key) steps.push_back(SwapStep::kWritePublicKey);
    steps.push_back(SwapStep::kMoveCertificate);
    return steps;
  }
  steps.push_back(SwapStep::kDropCertificate);
  if (keys.key && keys.public_key != keys.key) steps.push_back(SwapStep::kWritePublicKey);
  return steps;
}

}  // namespace nstance::agent
