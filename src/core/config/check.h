// What several keys decide together: references, conditions on the provider, comparisons. Runs
// after reading, on what was read and on the document, which knows where things stand.
//
// A value that was found wrong is not compared with others: one mistake gives one message.
#pragma once

#include <string_view>
#include <vector>

#include "core/config/config.h"
#include "core/config/load.h"
#include "core/config/place.h"
#include "core/config/problems.h"

namespace nstance::config {

struct Checking {
  const Place& root;  // The document in its normal form.
  const Config& config;
  Problems& problems;
  bool provider_known = false;  // server.provider.kind is there and valid.
};

[[nodiscard]] bool IsProviderKnown(const Place& root);

// Fills in the defaults that depend on other keys.
void FillDefaults(Config& config, const Place& root, Layout layout);

void CheckServer(const Checking& checking);
void CheckBalancersAndImages(const Checking& checking);
void CheckCertificates(const Checking& checking);
void CheckTemplates(const Checking& checking);
void CheckGroups(const Checking& checking);

// ---- shared by the checks ---------------------------------------------------------------------

[[nodiscard]] inline bool Present(const Place& place) { return place.value() != nullptr; }
[[nodiscard]] const std::string* TextAt(const Place& place);

// The members of the object at `place`; none when there is no object.
[[nodiscard]] const json::Object& MembersAt(const Place& place);
// Their keys, sorted: what may be referred to.
[[nodiscard]] std::vector<std::string_view> KeysAt(const Place& place);
[[nodiscard]] bool Contains(const std::vector<std::string_view>& sorted, std::string_view key);

// Reports a key that must not be here: "<why>; remove it".
void RefuseKey(Problems& problems, const Place& place, std::string_view why);

}  // namespace nstance::config
