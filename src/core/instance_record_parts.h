// The objects inside an instance record, read and written; instance_record.cc is the only user.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "core/instance_record.h"

namespace nstance {

// nonce, blocked, drain, deletion, quarantine, claims, claim, failure. Errors name the member:
// "drain: length_ms: missing".
[[nodiscard]] Status ReadRecordParts(const json::Value& object, InstanceRecord& record);

// Each as `,"key":{...}`, or nothing when absent.
void AppendNonce(std::string& out, const InstanceRecord& record);
void AppendMark(std::string& out, std::string_view key, const std::optional<RecordMark>& mark);
void AppendDrainAndDeletion(std::string& out, const InstanceRecord& record);
void AppendClaims(std::string& out, const InstanceRecord& record);
void AppendFailure(std::string& out, const InstanceRecord& record);

}  // namespace nstance
