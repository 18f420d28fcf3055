// What is sent to the provider for a new instance, and what its record says before.
//
// Both are functions of the group's configuration, the time and a few random bytes; a repeated
// creation is made from the record alone, and is sent only if it has the same hash (RU6).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/name.h"
#include "base/puidv7.h"
#include "base/result.h"
#include "base/time.h"
#include "core/instance_config/merge.h"
#include "core/instance_config/render_plan.h"
#include "core/instance_config/template_data.h"
#include "core/instance_record.h"
#include "crypto/ed25519.h"
#include "crypto/registration_token.h"
#include "ports/provider.h"

namespace nstance {

struct NewInstance {
  InstanceId id;
  TenantId tenant;
  GroupKey group;
  bool on_demand = false;
  std::string subnet = {};
  std::string request_id = {};
  std::optional<InstanceId> replaces = std::nullopt;
};

struct NewInstanceTerms {
  Timestamp now = {};
  Duration token_life = {};  // registration_timeout + the provider's longest creation time.
  std::span<const std::uint8_t> token_id;  // 16 random bytes.
  std::string provider = {};
};

// The record as it is first written (phase creating), without the hashes of token and request,
// which need the rendered request.
[[nodiscard]] InstanceRecord NewInstanceRecord(const NewInstance& instance,
                                               const MergedInstanceConfig& config,
                                               const NewInstanceTerms& terms);

// Which VM it is. What the agent has said about itself counts more than what the provider says.
void NameVm(InstanceRecord& record, const ProviderInstance& vm);

struct TokenPlace {
  ClusterId cluster;
  ShardId shard;
};
// The claims that the record keeps. REQUIRES: record.nonce.
[[nodiscard]] crypto::RegistrationClaims TokenClaims(const InstanceRecord& record,
                                                     const TokenPlace& place);

struct CreateRendering {
  const SharedTemplateData& shared;
  const TokenPlace& place;
  const crypto::PrivateKey& token_key;
  // The body behind the user data's URL, when there is one.
  std::optional<std::string> fetched = std::nullopt;
};

struct RenderedCreate {
  ProviderCreate request;
  std::string request_sha256;
  std::string token_sha256;
};

// Whether the user data must be fetched first.
[[nodiscard]] Result<bool> NeedsFetch(const InstanceRecord& record);
// kInvalidArgument, kFailedPrecondition: what the templates or the stored configuration are wrong
// in.
[[nodiscard]] Result<RenderedCreate> RenderCreate(const InstanceRecord& record,
                                                  const CreateRendering& rendering);

// An image that the templates of this configuration use and that is not known; empty: none.
[[nodiscard]] std::string MissingImage(const MergedInstanceConfig& config,
                                       const config::StringMap& images,
                                       const std::map<std::string, config::Image>& defined);

}  // namespace nstance
