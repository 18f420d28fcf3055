#include "core/config/provider_args.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "core/config/rule.h"

namespace nstance::config {
namespace {

constexpr auto kLocal = std::to_array<ArgSpec>({
    {"Env", ArgShape::kTextMap, "Environment of the instance."},
    {"Timeout", ArgShape::kDuration, "Run limit."},
});

constexpr auto kQemu = std::to_array<ArgSpec>({
    {"Memory", ArgShape::kNumber, "MiB; 512."},
    {"Cpus", ArgShape::kNumber, "1."},
    {"Image", ArgShape::kText, "qcow2 file, usually `{{ .Image.x }}`; or `Kernel`."},
    {"DiskSize", ArgShape::kNumber, "GiB."},
    {"Kernel", ArgShape::kText, "Boots without a disk; or `Image`."},
    {"Initrd", ArgShape::kText, "With `Kernel`."},
    {"Cmdline", ArgShape::kText, "With `Kernel`."},
    {"Forward", ArgShape::kNumbers, "TCP ports of the guest."},
    {"ExtraArgs", ArgShape::kTexts, "For development."},
});

constexpr auto kAws = std::to_array<ArgSpec>({
    {"ImageId", ArgShape::kText, "The image."},
    {"SecurityGroupIds", ArgShape::kTexts, "Security groups."},
    {"IamInstanceProfile", ArgShape::kAny, "Instance profile."},
    {"BlockDeviceMappings", ArgShape::kList, "Disks."},
    {"MetadataOptions", ArgShape::kObject, "Metadata service."},
    {"Ipv6AddressCount", ArgShape::kNumber, "IPv6 addresses."},
    {"PrivateDnsNameOptions", ArgShape::kObject, "Names."},
    {"TagSpecifications", ArgShape::kList, "Tags, at most 40; `nstance:` names are ours."},
    {"InstanceMarketOptions", ArgShape::kObject, "Spot."},
    {"KeyName", ArgShape::kText, "Key pair."},
    {"CapacityReservationSpecification", ArgShape::kObject, "Reservations."},
    {"CreditSpecification", ArgShape::kObject, "CPU credits."},
});

constexpr auto kGcp = std::to_array<ArgSpec>({
    {"disks", ArgShape::kList, "Disks."},
    {"networkInterfaces", ArgShape::kList, "Interfaces."},
    {"serviceAccounts", ArgShape::kList, "Service accounts."},
    {"scheduling", ArgShape::kObject, "Spot."},
    {"metadata", ArgShape::kObject, "Metadata."},
    {"tags", ArgShape::kAny, "Network tags."},
    {"labels", ArgShape::kTextMap, "Labels, at most 55; `nstance-` names are ours."},
    {"shieldedInstanceConfig", ArgShape::kObject, "Shielded VM."},
});

constexpr auto kProxmox = std::to_array<ArgSpec>({
    {"StoragePool", ArgShape::kText, "Required."},
    {"TemplateVMID", ArgShape::kNumber, "Exactly one of this and `TemplateName`."},
    {"TemplateName", ArgShape::kText, "Exactly one of this and `TemplateVMID`."},
    {"Cores", ArgShape::kNumber, "CPU cores."},
    {"Memory", ArgShape::kNumber, "MiB."},
    {"Bridge", ArgShape::kText, "Network bridge."},
    {"VLANTag", ArgShape::kNumber, "VLAN."},
    {"StartOnBoot", ArgShape::kFlag, "Start with the host."},
    {"DiskSize", ArgShape::kAny, "Size of the first disk."},
    {"Pool", ArgShape::kText, "Resource pool."},
});

bool IsTemplate(const std::string& text) { return text.find("{{") != std::string::npos; }

bool IsText(const json::Value& value) { return value.if_string() != nullptr; }

bool IsNumber(const json::Value& value) {
  if (const std::string* text = value.if_string()) return IsTemplate(*text);
  const std::int64_t* number = value.if_integer();
  return number != nullptr && *number >= 0;
}

bool IsDuration(const json::Value& value) {
  if (const std::int64_t* number = value.if_integer()) return *number == 0;
  const std::string* text = value.if_string();
  if (text == nullptr || IsTemplate(*text)) return text != nullptr;
  const Result<Duration> duration = ParseDuration(*text);
  return duration && *duration >= Duration();
}

bool AllItems(const json::Value& value, bool (*good)(const json::Value&)) {
  const json::Array* items = value.if_array();
  return items != nullptr && std::ranges::all_of(*items, good);
}

bool Fits(const json::Value& value, ArgShape shape) {
  switch (shape) {
    case ArgShape::kAny: return true;
    case ArgShape::kText: return IsText(value);
    case ArgShape::kTexts: return AllItems(value, &IsText);
    case ArgShape::kTextMap: {
      const json::Object* members = value.if_object();
      return members != nullptr && std::ranges::all_of(*members, &IsText, &json::Member::value);
    }
    case ArgShape::kNumber: return IsNumber(value);
    case ArgShape::kNumbers: return AllItems(value, &IsNumber);
    case ArgShape::kFlag: return value.if_bool() != nullptr;
    case ArgShape::kDuration: return IsDuration(value);
    case ArgShape::kList: return value.if_array() != nullptr;
    case ArgShape::kObject: return value.if_object() != nullptr;
  }
  CHECK(false, "shape {}", static_cast<int>(shape));
}

void UnknownArg(const Place& place, ProviderKind kind, Problems& problems) {
  std::vector<std::string_view> keys;
  for (const ArgSpec& spec : ArgsOf(kind)) keys.push_back(spec.key);
  std::ranges::sort(keys);
  std::string message =
      fmt::format("unknown argument of provider {}; allowed here: {}", Word(kind), Listed(keys));
  if (problems.MaySuggest()) message += DidYouMean(place.key(), keys);
  // The clouds' own lists are closed; elsewhere an argument that nobody reads does no harm.
  const bool closed = kind == ProviderKind::kAws || kind == ProviderKind::kGcp;
  closed ? problems.ErrorAtKey(place, message) : problems.WarnAtKey(place, message);
}

void RefuseOurs(const Place& place, std::string_view name, std::string_view prefix,
                Problems& problems) {
  if (!name.starts_with(prefix)) return;
  problems.Error(place, fmt::format("the name is reserved for the server; one that does not start "
                                    "with `{}`",
                                    prefix));
}

// What a cloud takes of one VM, without what we put there ourselves (providers.md 1.3).
struct TagLimits {
  std::size_t count = 0;
  std::size_t key = 0;    // Characters.
  std::size_t value = 0;  // Likewise.
};
// 50 less our ten; `Name` is one of them and may be given.
constexpr TagLimits kAwsTags = {.count = 40, .key = 128, .value = 256};
constexpr std::string_view kAwsName = "Name";
// 64 less our nine.
constexpr TagLimits kGcpLabels = {.count = 55, .key = 63, .value = 63};

std::size_t Characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// A template's length is known only when it has been rendered.
void CheckLength(const Place& place, std::string_view text, std::size_t limit, Problems& problems) {
  if (text.contains("{{") || Characters(text) <= limit) return;
  problems.Error(place,
                 fmt::format("is too long: {} characters; at most {}", Characters(text), limit));
}

void CheckCount(const Place& place, std::size_t count, std::size_t limit, Problems& problems) {
  if (count <= limit) return;
  problems.Error(place,
                 fmt::format("too many: {}; at most {} beside the server's own", count, limit));
}

// TagSpecifications: [{"Tags": [{"Key": ...}]}].
void CheckAwsTags(const Place& place, Problems& problems) {
  const json::Array* specifications = place.value()->if_array();
  if (specifications == nullptr) return;
  for (std::size_t i = 0; i < specifications->size(); ++i) {
    const Place item = place.Item(i);
    const Place tags = item.Child("Tags");
    const json::Array* list = tags.value() == nullptr ? nullptr : tags.value()->if_array();
    if (list == nullptr) continue;
    std::size_t count = 0;
    for (std::size_t j = 0; j < list->size(); ++j) {
      const Place tag = tags.Item(j);
      const auto text_of = [](const Place& at) {
        return at.value() == nullptr ? nullptr : at.value()->if_string();
      };
      const Place key = tag.Child("Key");
      const std::string* name = text_of(key);
      if (name == nullptr || *name != kAwsName) ++count;
      if (name != nullptr) {
        RefuseOurs(key, *name, "nstance:", problems);
        CheckLength(key, *name, kAwsTags.key, problems);
      }
      const Place value = tag.Child("Value");
      if (const std::string* text = text_of(value)) {
        CheckLength(value, *text, kAwsTags.value, problems);
      }
    }
    CheckCount(tags, count, kAwsTags.count, problems);
  }
}

void CheckGcpLabels(const Place& place, Problems& problems) {
  const json::Object* labels = place.value()->if_object();
  if (labels == nullptr) return;
  for (const json::Member& label : *labels) {
    const Place at = place.Child(label);
    RefuseOurs(at, label.key, "nstance-", problems);
    CheckLength(at, label.key, kGcpLabels.key, problems);
    if (const std::string* text = label.value.if_string()) {
      CheckLength(at, *text, kGcpLabels.value, problems);
    }
  }
  CheckCount(place, labels->size(), kGcpLabels.count, problems);
}

}  // namespace

std::span<const ArgSpec> ArgsOf(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::kLocal: return kLocal;
    case ProviderKind::kQemu: return kQemu;
    case ProviderKind::kAws: return kAws;
    case ProviderKind::kGcp: return kGcp;
    case ProviderKind::kProxmox: return kProxmox;
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

std::string_view ShapeText(ArgShape shape) {
  switch (shape) {
    case ArgShape::kAny: return "any value";
    case ArgShape::kText: return "a string";
    case ArgShape::kTexts: return "a list of strings";
    case ArgShape::kTextMap: return "an object of strings";
    case ArgShape::kNumber: return "a whole number, or a template";
    case ArgShape::kNumbers: return "a list of whole numbers";
    case ArgShape::kFlag: return "true or false";
    case ArgShape::kDuration: return "a duration, or a template";
    case ArgShape::kList: return "a list";
    case ArgShape::kObject: return "an object";
  }
  CHECK(false, "shape {}", static_cast<int>(shape));
}

void CheckArgs(const Place& args, ProviderKind kind, Problems& problems) {
  const json::Object* members = args.value() == nullptr ? nullptr : args.value()->if_object();
  if (members == nullptr) return;
  for (const json::Member& member : *members) {
    const Place place = args.Child(member);
    const auto specs = ArgsOf(kind);
    const auto spec = std::ranges::find(specs, member.key, &ArgSpec::key);
    if (spec == specs.end()) {
      if (!IsForTools(member.key)) UnknownArg(place, kind, problems);
      continue;
    }
    if (!Fits(member.value, spec->shape)) {
      problems.Error(place,
                     fmt::format("is {} that does not fit; {}", json::TypeName(member.value.type()),
                                 ShapeText(spec->shape)));
      continue;
    }
    if (member.key == "TagSpecifications") CheckAwsTags(place, problems);
    if (kind == ProviderKind::kGcp && member.key == "labels") CheckGcpLabels(place, problems);
  }
}

}  // namespace nstance::config
