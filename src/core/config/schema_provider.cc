// The tables of `server.provider` and of the options of each kind of provider.
#include <array>

#include "base/check.h"
#include "core/config/schema.h"

namespace nstance::config {
namespace {

constexpr int kMaxCount = 1'000'000;
constexpr std::size_t kMaxZone = 64;

const ObjectSpec& LocalSpec() {
  static const ObjectSpec spec = Table<LocalOptions>({
      In<&LocalOptions::root>("root", TextRule(), "Folder of the instances."),
      In<&LocalOptions::shell>("shell", TextRule(), "Program that runs the user data."),
      In<&LocalOptions::kill_grace>("kill_grace", DurationRule({.max = Duration::Hours(1)}),
                                    "From SIGTERM to SIGKILL."),
      In<&LocalOptions::keep_logs>("keep_logs", BoolRule(), "Keep the console of deleted ones."),
      In<&LocalOptions::max_instances>("max_instances", IntRule(0, kMaxCount), "0 = no limit."),
      In<&LocalOptions::env>("env", VariablesRule(), "Environment of every instance."),
  });
  return spec;
}

const ObjectSpec& QemuSpec() {
  static const ObjectSpec spec = Table<QemuOptions>({
      In<&QemuOptions::root>("root", TextRule(), "Folder of the machines."),
      In<&QemuOptions::binary>("binary", TextRule(), "The emulator."),
      In<&QemuOptions::img_binary>("img_binary", TextRule(), "The image tool."),
      In<&QemuOptions::accel>("accel", WordRule<QemuAccel>(),
                              "`auto` takes KVM where it works, else emulation."),
      In<&QemuOptions::memory_limit_mib>("memory_limit_mib", IntRule(0, 1 << 30),
                                         "Sum of all guests; 0 = no limit."),
      In<&QemuOptions::kill_grace>("kill_grace", DurationRule({.max = Duration::Hours(1)}),
                                   "From `quit` to SIGKILL."),
      In<&QemuOptions::host_alias>("host_alias", TextRule(), "This host, as guests see it."),
  });
  return spec;
}

const ObjectSpec& AwsSpec() {
  static const ObjectSpec spec = Table<AwsOptions>({
      In<&AwsOptions::endpoint>("endpoint", TextRule(), "Another endpoint of the service."),
  });
  return spec;
}

const ObjectSpec& GcpSpec() {
  static const ObjectSpec spec = Table<GcpOptions>({
      In<&GcpOptions::project_id>("project_id", TextRule(), "The project.").Required(),
      In<&GcpOptions::endpoint>("endpoint", TextRule(), "Another endpoint of the service."),
  });
  return spec;
}

const ObjectSpec& ProxmoxSpec() {
  static const ObjectSpec spec = Table<ProxmoxOptions>({
      In<&ProxmoxOptions::cloud_init_iso_storage>("cloud_init_iso_storage", TextRule(),
                                                  "Storage for the seed images."),
      In<&ProxmoxOptions::ca_file>("ca_file", TextRule(), "Certificates to trust."),
      In<&ProxmoxOptions::insecure_tls>("insecure_tls", BoolRule(),
                                        "Do not check the certificate; logged at every start."),
  });
  return spec;
}

template <class Options>
ProviderOptions ReadOptions(Reading& reading, const Place& place, const ObjectSpec& spec) {
  Options options;
  ReadObject(reading, place, spec, &options);
  return options;
}

ProviderOptions ReadOptionsOf(ProviderKind kind, Reading& reading, const Place& place) {
  const ObjectSpec& spec = OptionsSpec(kind);
  switch (kind) {
    case ProviderKind::kLocal: return ReadOptions<LocalOptions>(reading, place, spec);
    case ProviderKind::kQemu: return ReadOptions<QemuOptions>(reading, place, spec);
    case ProviderKind::kAws: return ReadOptions<AwsOptions>(reading, place, spec);
    case ProviderKind::kGcp: return ReadOptions<GcpOptions>(reading, place, spec);
    case ProviderKind::kProxmox: return ReadOptions<ProxmoxOptions>(reading, place, spec);
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

// Which keys there are depends on `kind`, which stands beside it.
class OptionsRule final : public Rule<ProviderOptions> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "an object"; }
  [[nodiscard]] std::optional<ProviderOptions> Read(Reading& reading,
                                                    const Place& place) const override {
    if (place.value()->if_object() == nullptr) {
      TypeError(reading, place, Allowed());
      return std::nullopt;
    }
    const json::Value* kind = place.parent()->value()->Find("kind");
    const std::string* word = kind == nullptr ? nullptr : kind->if_string();
    const std::optional<ProviderKind> known =
        word == nullptr ? std::nullopt : FromWord<ProviderKind>(*word);
    // Without a kind there is an error already.
    if (!known) return std::nullopt;
    return ReadOptionsOf(*known, reading, place);
  }
  [[nodiscard]] std::string Show(const ProviderOptions& /*value*/) const override { return "{}"; }
};

}  // namespace

std::string ProviderKindRule::Allowed() const { return WordRule<ProviderKind>().Allowed(); }

std::optional<ProviderKind> ProviderKindRule::Read(Reading& reading, const Place& place) const {
  const std::string* word = place.value()->if_string();
  if (word != nullptr && (*word == "mock" || *word == "tmux")) {
    reading.problems.Error(place, Shown(place) + " is not supported; use `local`");
    return std::nullopt;
  }
  return WordRule<ProviderKind>().Read(reading, place);
}

const ObjectSpec& OptionsSpec(ProviderKind kind) {
  switch (kind) {
    case ProviderKind::kLocal: return LocalSpec();
    case ProviderKind::kQemu: return QemuSpec();
    case ProviderKind::kAws: return AwsSpec();
    case ProviderKind::kGcp: return GcpSpec();
    case ProviderKind::kProxmox: return ProxmoxSpec();
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

const ObjectSpec& ProviderSpec() {
  static const ObjectSpec spec = Table<Provider>({
      In<&Provider::kind>("kind", ProviderKindRule(),
                          "Who makes the machines. `google` means `gcp`; templates see the word "
                          "that is used here.")
          .Required(),
      In<&Provider::region>("region", TextRule(kMaxZone), "The provider's region.")
          .Default("`local` for local and qemu, else required"),
      In<&Provider::zone>("zone", TextRule(kMaxZone), "The provider's zone.")
          .Default("`local` for local and qemu, else required"),
      In<&Provider::options>("options", OptionsRule(), "Keys by provider, see below."),
  });
  return spec;
}

}  // namespace nstance::config
