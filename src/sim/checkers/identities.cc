#include "sim/checkers/identities.h"

#include "core/operator_record.h"

namespace nstance::sim {

void Identities::OnChange(const SimChange& change, const Truth& truth) {
  if (change.after == nullptr) return;
  if (truth.last().kind == TruthChange::Kind::kRecord) {
    const InstanceRecord* record = truth.Find(*truth.last().id);
    if (record == nullptr || record->cert_serial.empty()) return;
    by_serial_.try_emplace(record->cert_serial,
                           KnownIdentity{.role = crypto::Role::kAgent,
                                         .tenant = record->tenant.text(),
                                         .name = record->instance_id.text(),
                                         .public_key_pem = record->public_key_pem});
    return;
  }
  if (!change.key.text().starts_with("operator/")) return;
  const Result<OperatorRecord> record = DecodeOperatorRecord(change.after->bytes);
  if (!record.has_value()) return;
  by_serial_.try_emplace(record->cert_serial,
                         KnownIdentity{.role = crypto::Role::kOperator,
                                       .tenant = record->tenant.text(),
                                       .name = record->client_id,
                                       .public_key_pem = record->public_key_pem});
}

const KnownIdentity* Identities::Find(const std::string& serial) const {
  const auto at = by_serial_.find(serial);
  return at == by_serial_.end() ? nullptr : &at->second;
}

}  // namespace nstance::sim
