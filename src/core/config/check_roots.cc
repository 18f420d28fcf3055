#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

#include "base/text.h"
#include "core/config/check.h"
#include "core/config/rule.h"
#include "core/config/schema.h"

namespace nstance::config {
namespace {

using Keys = std::vector<std::string_view>;

// The keys of a balancer that belong to one provider; empty: it has none.
Keys BalancerKeys(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::kAws: return {"target_group_arns", "target_groups"};
    case ProviderKind::kGcp: return {"frontends", "instance_group_name", "network_endpoint_groups"};
    case ProviderKind::kLocal: return {"targets_file"};
    case ProviderKind::kQemu:
    case ProviderKind::kProxmox: return {};
  }
  return {};
}

Keys ImageKeys(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::kAws:
    case ProviderKind::kGcp: return {"fallback", "filters", "order", "owners", "sort"};
    case ProviderKind::kLocal: return {"fallback"};
    case ProviderKind::kQemu: return {"path"};
    case ProviderKind::kProxmox: return {};
  }
  return {};
}

Keys AllKeys(const ObjectSpec& spec) {
  Keys keys;
  for (const Field& field : spec.fields) keys.push_back(field.key);
  return keys;
}

class ProviderObjectCheck {
 public:
  ProviderObjectCheck(const Checking& checking, std::string_view what)
      : problems_(checking.problems), kind_(checking.config.server.provider.kind), what_(what) {}

  // Provider equal to the infrastructure's, and no keys of another one. False: nothing more to say.
  [[nodiscard]] bool Check(const Place& place, const ObjectSpec& spec, const Keys& allowed) const {
    if (place.value()->if_object() == nullptr) return false;
    const Place provider = place.Child("provider");
    const std::string* word = TextAt(provider);
    if (word == nullptr || problems_.HasErrorAt(provider)) return false;
    if (FromWord<ProviderKind>(*word) != kind_) {
      problems_.Error(provider, fmt::format("{} is not the provider of the infrastructure; {}",
                                            Quote(*word), Word(kind_)));
      return false;
    }
    if (allowed.empty()) {
      problems_.ErrorAtKey(place,
                           fmt::format("provider {} offers no {}; remove it", Word(kind_), what_));
      return false;
    }
    for (const std::string_view key : AllKeys(spec)) {
      const Place at = place.Child(key);
      if (key == "provider" || !Present(at) || Contains(allowed, key)) continue;
      problems_.ErrorAtKey(
          at, fmt::format("not with provider {}; allowed here: {}", Word(kind_), Listed(allowed)));
    }
    return true;
  }

  // Exactly one of two keys.
  void OneOfTwo(const Place& place, std::string_view first, std::string_view second) const {
    const bool has_first = Present(place.Child(first));
    const bool has_second = Present(place.Child(second));
    if (has_first && has_second) {
      problems_.ErrorAtKey(place.Child(second),
                           fmt::format("is given beside `{}`; one of the two", first));
    } else if (!has_first && !has_second) {
      problems_.Error(place, fmt::format("has no `{}`; it or `{}` is required", first, second));
    }
  }

  void Require(const Place& place, std::string_view key, std::string_view allowed) const {
    const Place at = place.Child(key);
    if (Present(at)) return;
    problems_.Error(at, fmt::format("missing; {}", allowed));
  }

 private:
  Problems& problems_;
  ProviderKind kind_;
  std::string_view what_;
};

void CheckBalancers(const Checking& checking) {
  const ProviderKind kind = checking.config.server.provider.kind;
  const ProviderObjectCheck check(checking, "load balancers");
  const Place balancers = checking.root.Child("load_balancers");
  for (const json::Member& member : MembersAt(balancers)) {
    if (IsForTools(member.key)) continue;
    const Place place = balancers.Child(member);
    if (!check.Check(place, LoadBalancerSpec(), BalancerKeys(kind))) continue;
    if (kind == ProviderKind::kAws) check.OneOfTwo(place, "target_groups", "target_group_arns");
    if (kind == ProviderKind::kGcp) {
      check.OneOfTwo(place, "network_endpoint_groups", "instance_group_name");
      const Place frontends = place.Child("frontends");
      if (Present(frontends) && !Present(place.Child("network_endpoint_groups"))) {
        RefuseKey(checking.problems, frontends, "only with `network_endpoint_groups`");
      }
    }
    if (kind == ProviderKind::kLocal) {
      check.Require(place, "targets_file", TextRule().Allowed());
    }
    for (const std::string_view key :
         {"target_groups", "target_group_arns", "network_endpoint_groups"}) {
      const Place list = place.Child(key);
      if (!Present(list) || list.value()->if_array() == nullptr) continue;
      if (list.value()->if_array()->empty()) {
        checking.problems.Error(list, "is empty; at least one");
      }
    }
  }
}

void CheckImages(const Checking& checking) {
  const ProviderKind kind = checking.config.server.provider.kind;
  const ProviderObjectCheck check(checking, "images");
  const Place images = checking.root.Child("images");
  for (const json::Member& member : MembersAt(images)) {
    const Place place = images.Child(member);
    if (!VariableKey().parse(member.key)) continue;
    if (!check.Check(place, ImageSpec(), ImageKeys(kind))) continue;
    if (kind == ProviderKind::kQemu) check.Require(place, "path", TextRule().Allowed());
    if (kind == ProviderKind::kLocal) check.Require(place, "fallback", TextRule().Allowed());
    if (kind != ProviderKind::kAws && kind != ProviderKind::kGcp) continue;
    check.Require(place, "sort", WordRule<ImageSort>().Allowed());
    check.Require(place, "filters", "at least one filter");
    const Place filters = place.Child("filters");
    const json::Array* list = Present(filters) ? filters.value()->if_array() : nullptr;
    if (list != nullptr && list->empty()) {
      checking.problems.Error(filters, "is empty; at least one filter");
    }
  }
}

bool HasScheme(std::string_view uri) {
  const std::size_t colon = uri.find(':');
  return colon != std::string_view::npos && colon > 0 &&
         std::ranges::all_of(uri.substr(0, colon), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '-' || c == '.';
         });
}

struct Literal {
  std::string_view key;
  bool (*good)(std::string_view text);
  std::string_view allowed;
};

// Strings without actions are used as they are, so they can be checked now.
void CheckLiterals(const Place& certificate, const Literal& literal, Problems& problems) {
  const Place list = certificate.Child(literal.key);
  const json::Array* items = Present(list) ? list.value()->if_array() : nullptr;
  if (items == nullptr) return;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const Place item = list.Item(i);
    const std::string* text = TextAt(item);
    if (text == nullptr || text->empty() || text->find("{{") != std::string::npos) continue;
    if (literal.good(*text)) continue;
    problems.Error(item, fmt::format("{} is not allowed; {}", Shown(item), literal.allowed));
  }
}

}  // namespace

void CheckBalancersAndImages(const Checking& checking) {
  if (!checking.provider_known) return;
  CheckBalancers(checking);
  CheckImages(checking);
}

void CheckCertificates(const Checking& checking) {
  const Place certificates = checking.root.Child("certificates");
  for (const json::Member& member : MembersAt(certificates)) {
    if (!checking.config.certificates.named.contains(member.key)) continue;
    const Place place = certificates.Child(member);
    CheckLiterals(place, {"ip", &IsIpAddress, "an IP address, or a template"}, checking.problems);
    CheckLiterals(place, {"uri", &HasScheme, "a URI with a scheme, or a template"},
                  checking.problems);
  }
}

}  // namespace nstance::config
