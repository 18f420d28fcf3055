// The tables of the other roots: load balancers, images, certificates, templates, groups.
#include <algorithm>

#include "core/config/schema.h"

namespace nstance::config {
namespace {

constexpr int kMaxPort = 65'535;
constexpr int kHoursOfACentury = 876'000;
constexpr int kHoursOfAYear = 8'760;
constexpr std::size_t kMaxContent = std::size_t{1} * 1024 * 1024;

bool IsHexDigest(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

bool IsInstanceKind(std::string_view text) {
  return text.size() == 3 && text != "opr" &&
         std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

bool IsPublicKeyName(std::string_view text) {
  constexpr std::string_view kSuffix = ".pub";
  return text.ends_with(kSuffix) && text.size() > kSuffix.size() &&
         FileNameKey().parse(text).has_value();
}

auto StringList(std::string_view items = "strings") { return ListOf(items, TextRule()); }

// ---- load balancers and images ----------------------------------------------------------------

const ObjectSpec& TargetGroupSpec() {
  static const ObjectSpec spec = Table<TargetGroup>({
      In<&TargetGroup::arn>("arn", TextRule(), "The target group.").Required(),
      In<&TargetGroup::listener_port>("listener_port", IntRule(1, kMaxPort),
                                      "The port that clients use."),
      In<&TargetGroup::target_port>("target_port", IntRule(1, kMaxPort),
                                    "The port of the instances."),
      Unstored("proxy_port", IntRule(0, kMaxPort), "Accepted, has no effect."),
  });
  return spec;
}

const ObjectSpec& FrontendSpec() {
  static const ObjectSpec spec = Table<Frontend>({
      In<&Frontend::ip>("ip", ShapedTextRule("an IP address", &IsIpAddress), "The address.")
          .Required(),
      In<&Frontend::port>("port", IntRule(1, kMaxPort), "The port.").Required(),
      Unstored("proxy_port", IntRule(0, kMaxPort), "Accepted, has no effect."),
  });
  return spec;
}

// The short form of a list of target groups.
class ArnsRule final : public Rule<std::vector<TargetGroup>> {
 public:
  [[nodiscard]] std::string Allowed() const override { return StringList().Allowed(); }
  [[nodiscard]] std::optional<std::vector<TargetGroup>> Read(Reading& reading,
                                                             const Place& place) const override {
    std::optional<std::vector<std::string>> arns = StringList().Read(reading, place);
    if (!arns) return std::nullopt;
    std::vector<TargetGroup> groups;
    for (std::string& arn : *arns) groups.push_back({.arn = std::move(arn)});
    return groups;
  }
  [[nodiscard]] std::string Show(const std::vector<TargetGroup>& /*value*/) const override {
    return "";
  }
};

// The provider of a balancer or an image; that it equals the infrastructure's is checked later.
class BalancerProviderRule final : public Rule<ProviderKind> {
 public:
  [[nodiscard]] std::string Allowed() const override { return ProviderKindRule().Allowed(); }
  [[nodiscard]] std::optional<ProviderKind> Read(Reading& reading,
                                                 const Place& place) const override {
    const std::string* word = place.value()->if_string();
    if (word != nullptr && *word == "tunnel") {
      reading.problems.Error(place, "\"tunnel\" is not supported by this server; remove it");
      return std::nullopt;
    }
    return ProviderKindRule().Read(reading, place);
  }
  [[nodiscard]] std::string Show(const ProviderKind& /*value*/) const override { return ""; }
};

const ObjectSpec& ImageFilterSpec() {
  static const ObjectSpec spec = Table<ImageFilter>({
      In<&ImageFilter::name>("name", TextRule(), "The provider's name of the filter.").Required(),
      In<&ImageFilter::values>("values", ListOf("strings", TextRule(), 1), "Any of these.")
          .Required(),
  });
  return spec;
}

// ---- certificates -----------------------------------------------------------------------------

const ObjectSpec& CertificateSpec() {
  static const ObjectSpec spec = Table<Certificate>({
      In<&Certificate::kind>("kind", WordRule<CertificateKind>(), "What it is good for.")
          .Required(),
      In<&Certificate::cn>("cn", TextRule(), "Common name.").Default("the certificate's name"),
      In<&Certificate::organization>("organization", StringList(), "Subject O."),
      In<&Certificate::dns>("dns", StringList(), "Alternative names."),
      In<&Certificate::ip>("ip", StringList(), "Alternative addresses."),
      In<&Certificate::uri>("uri", StringList(), "Alternative URIs, with scheme."),
      In<&Certificate::country>("country", StringList(), "Subject C."),
      In<&Certificate::province>("province", StringList(), "Subject ST."),
      In<&Certificate::locality>("locality", StringList(), "Subject L."),
      In<&Certificate::street>("street", StringList(), "Subject STREET."),
      In<&Certificate::postal_code>("postal_code", StringList(), "Subject postalCode."),
      In<&Certificate::ttl>("ttl", HoursRule(kHoursOfACentury), "Life."),
  });
  return spec;
}

const ObjectSpec& CaSpec() {
  static const ObjectSpec spec = Table<CaCertificate>({
      In<&CaCertificate::cn>("cn", TextRule(64), "Common name of a CA that is made."),
      In<&CaCertificate::organization>("organization", StringList(), "Subject O.")
          .Default("`Nstance Cluster <cluster id>`"),
      In<&CaCertificate::ttl>("ttl", HoursRule(kHoursOfACentury), "Life."),
  });
  return spec;
}

const ObjectSpec& AgentSpec() {
  static const ObjectSpec spec = Table<AgentCertificate>({
      In<&AgentCertificate::ttl>("ttl", HoursRule(kHoursOfAYear), "Life; agents renew in time."),
      In<&AgentCertificate::legacy_ttl>("legacy_ttl", HoursRule(kHoursOfAYear),
                                        "Life for agents that cannot renew."),
  });
  return spec;
}

const ObjectSpec& OperatorSpec() {
  static const ObjectSpec spec = Table<OperatorCertificate>({
      In<&OperatorCertificate::ttl>("ttl", HoursRule(kHoursOfAYear), "Life."),
  });
  return spec;
}

// ---- templates --------------------------------------------------------------------------------

// A string, or a list of lines.
class ContentRule final : public Rule<std::string> {
 public:
  [[nodiscard]] std::string Allowed() const override { return "a string or a list of strings"; }
  [[nodiscard]] std::optional<std::string> Read(Reading& reading,
                                                const Place& place) const override {
    if (place.value()->if_array() == nullptr) {
      if (place.value()->if_string() == nullptr) TypeError(reading, place, Allowed());
      return place.value()->if_string() == nullptr ? std::nullopt
                                                   : TextRule(kMaxContent).Read(reading, place);
    }
    const auto lines =
        ListOf("strings", TextRule(kMaxContent, TextRule::Empty::kAllowed), 1).Read(reading, place);
    if (!lines) return std::nullopt;
    std::string content;
    for (const std::string& line : *lines) {
      content += line;
      content += '\n';
    }
    return content;
  }
  [[nodiscard]] std::string Show(const std::string& /*value*/) const override { return ""; }
};

const ObjectSpec& UserDataSpec() {
  static const ObjectSpec spec = Table<UserData>({
      In<&UserData::source>("source", WordRule<UserDataSource, std::string>(),
                            "Whether `content` is the text or where to fetch it.")
          .Default("inline"),
      In<&UserData::encoding>("encoding", WordRule<UserDataEncoding, std::string>(),
                              "How the text is packed; `gzip` only with url.")
          .Default("plain"),
      In<&UserData::content>("content", ContentRule(),
                             "The text, or its lines (joined, with a final newline), or the URL: "
                             "https, or http with `sha256`.")
          .Required(),
      In<&UserData::sha256>("sha256", ShapedTextRule("64 hex digits", &IsHexDigest),
                            "Only with url: the body must have this digest."),
  });
  return spec;
}

const ObjectSpec& FileKeySpec() {
  static const ObjectSpec spec = Table<FileKey>({
      In<&FileKey::source>(
          "source", ShapedTextRule("`agent`", [](std::string_view t) { return t == "agent"; }),
          "Who makes the key pair: `agent`.")
          .Required(),
      In<&FileKey::name>("name", ShapedTextRule("a file name that ends in .pub", &IsPublicKeyName),
                         "The agent's public key, `<base>.pub`.")
          .Required(),
  });
  return spec;
}

const ObjectSpec& FileSpec() {
  static const ObjectSpec spec = Table<File>({
      In<&File::kind>("kind", WordRule<FileKind>(), "Where the content comes from.").Required(),
      In<&File::source>("source", TextRule(),
                        "secret: the secret's name; storage: the object's name below `file/`."),
      In<&File::content>("template", AnyValueRule(),
                         "certificate: its name; env: an object of strings; json: an object; "
                         "string: the text."),
      In<&File::key>("key", ObjectRule<FileKey>(&FileKeySpec),
                     "certificate: the key that it is made for."),
  });
  return spec;
}

// ---- groups -----------------------------------------------------------------------------------

const ObjectSpec& PoolSpec() {
  constexpr int kMaxClaims = 1'000'000;
  static const ObjectSpec spec = Table<Pool>({
      In<&Pool::max_claimed>("max_claimed", IntRule(0, kMaxClaims), "0 = no limit."),
      In<&Pool::max_unclaimed_age>("max_unclaimed_age", DurationRule(),
                                   "Older members are rotated; 0s = never."),
      In<&Pool::reclaim>("reclaim", WordRule<PoolReclaim>(), "What becomes of a released one."),
      In<&Pool::state>("state", WordRule<PoolState>(),
                       "How members wait; `stopped` needs a provider with power control."),
      In<&Pool::on_empty>("on_empty", WordRule<PoolOnEmpty>(),
                          "A claim on an empty pool fails, or creates a cold instance."),
      In<&Pool::warm_files>("warm_files", StringList("file names"),
                            "Template files that an unclaimed member may have; kinds env, json, "
                            "string and storage only."),
      In<&Pool::claim_ttl>("claim_ttl", DurationRule(), "Older claims are released; 0s = none."),
      In<&Pool::refill_per_minute>("refill_per_minute", IntRule(1, 600),
                                   "Creations for the pool per minute."),
  });
  return spec;
}

const ObjectSpec& ExpiryLayerSpec() {
  constexpr std::string_view kServers = "the server's";
  static const ObjectSpec spec = Table<ExpiryLayer>({
      In<&ExpiryLayer::eligible_age>("eligible_age", DurationRule(), "0s = off.").Default(kServers),
      In<&ExpiryLayer::forced_age>("forced_age", DurationRule(), "0s = off.").Default(kServers),
      In<&ExpiryLayer::ondemand_age>("ondemand_age", DurationRule(), "0s = off.").Default(kServers),
  });
  return spec;
}

const ObjectSpec& TenantSpec() {
  static const ObjectSpec spec = Table<Tenant>({});
  return spec;
}

void ReadCertificate(Reading& reading, const Place& place, void* object) {
  static const auto rule = MapOf(LabelKey("name"), ObjectRule<Certificate>(&CertificateSpec));
  rule.ReadMember(reading, place, static_cast<Certificates*>(object)->named);
}

}  // namespace

const ObjectSpec& LoadBalancerSpec() {
  using Lb = LoadBalancer;
  static const ObjectSpec spec = Table<Lb>({
      Unstored("provider", BalancerProviderRule(), "Equals the kind of `server.provider`.")
          .Required(),
      In<&Lb::target_groups>("target_groups",
                             ListOf("objects", ObjectRule<TargetGroup>(&TargetGroupSpec)),
                             "aws; or `target_group_arns`."),
      In<&Lb::target_groups>("target_group_arns", ArnsRule(), "aws; the short form.").Default(" "),
      In<&Lb::network_endpoint_groups>("network_endpoint_groups", StringList(),
                                       "gcp; or `instance_group_name`."),
      In<&Lb::frontends>("frontends", ListOf("objects", ObjectRule<Frontend>(&FrontendSpec)),
                         "gcp: what clients connect to."),
      In<&Lb::instance_group_name>("instance_group_name", TextRule(), "gcp."),
      In<&Lb::targets_file>("targets_file", TextRule(), "local: a file with the list of targets."),
  });
  return spec;
}

const ObjectSpec& ImageSpec() {
  static const ObjectSpec spec = Table<Image>({
      Unstored("provider", ProviderKindRule(), "Equals the kind of `server.provider`.").Required(),
      In<&Image::filters>("filters", ListOf("objects", ObjectRule<ImageFilter>(&ImageFilterSpec)),
                          "aws, gcp: at least one."),
      In<&Image::owners>("owners", StringList(), "aws, gcp: whose images."),
      In<&Image::sort>("sort", WordRule<ImageSort>(), "aws, gcp: what decides among matches.")
          .Default("required for aws and gcp"),
      In<&Image::order>("order", WordRule<ImageOrder>(), "aws, gcp: the first in this order."),
      In<&Image::fallback>("fallback", TextRule(),
                           "aws, gcp: used when nothing matches. local: the value, required."),
      In<&Image::path>("path", TextRule(), "qemu: the image file, required."),
  });
  return spec;
}

const ObjectSpec& CertificatesSpec() {
  static const ObjectSpec spec = [] {
    ObjectSpec built = Table<Certificates>({
        In<&Certificates::ca>("ca", ObjectRule<CaCertificate>(&CaSpec), "The CA, when it is made."),
        In<&Certificates::agent>("agent", ObjectRule<AgentCertificate>(&AgentSpec),
                                 "The agents' own certificates."),
        In<&Certificates::operators>("operator", ObjectRule<OperatorCertificate>(&OperatorSpec),
                                     "The operators' own certificates."),
    });
    built.rest = &ReadCertificate;
    built.rest_below = {.suffix = ".<name>", .spec = &CertificateSpec()};
    return built;
  }();
  return spec;
}

const ObjectSpec& DefaultsSpec() {
  static const ObjectSpec spec = Table<Defaults>({
      In<&Defaults::args>("args", AnyObjectRule(), "Arguments of the provider."),
      In<&Defaults::vars>("vars", VariablesRule(), "Variables of templates."),
      In<&Defaults::userdata>("userdata", ObjectRule<UserData>(&UserDataSpec),
                              "For templates that have none."),
  });
  return spec;
}

const ObjectSpec& TemplateSpec() {
  static const ObjectSpec spec = Table<Template>({
      In<&Template::kind>("kind",
                          ShapedTextRule("three lower-case letters, not `opr`", &IsInstanceKind),
                          "Prefix of the instances' ids.")
          .Required(),
      In<&Template::arch>("arch", WordRule<Arch>(), "Architecture.").Required(),
      In<&Template::files>("files", MapOf(FileNameKey(), ObjectRule<File>(&FileSpec)),
                           "Files that the agent receives."),
      In<&Template::args>("args", AnyObjectRule(), "Arguments of the provider, over `defaults`."),
      In<&Template::userdata>("userdata", ObjectRule<UserData>(&UserDataSpec),
                              "Run at the first boot.")
          .Default("that of `defaults`"),
      In<&Template::instance_type>("instance_type", TextRule(256), "The provider's type."),
      In<&Template::subnet_pool>("subnet_pool", NameRule<SubnetPoolName>(),
                                 "One of `server.subnet_pools`."),
      In<&Template::vars>("vars", VariablesRule(), "Variables of templates, over `defaults`."),
      In<&Template::allowed_instance_types>("allowed_instance_types", StringList(),
                                            "Types that groups may choose; [] = any."),
      Unstored("size", IntRule(0, kMaxGroupSize), "Accepted, has no effect."),
  });
  return spec;
}

const ObjectSpec& GroupSpec() {
  constexpr std::string_view kTemplates = "the template's";
  static const ObjectSpec spec = Table<GroupLayer>({
      In<&GroupLayer::template_name>("template", TextRule(), "One of `templates`.")
          .Default("required"),
      In<&GroupLayer::size>("size", IntRule(0, kMaxGroupSize), "How many instances.").Default("0"),
      In<&GroupLayer::instance_type>("instance_type", TextRule(256, TextRule::Empty::kAllowed),
                                     "One of the template's `allowed_instance_types`, if given.")
          .Default(kTemplates),
      In<&GroupLayer::subnet_pool>("subnet_pool", NameRule<SubnetPoolName>(),
                                   "One of `server.subnet_pools`.")
          .Default(kTemplates),
      In<&GroupLayer::vars>("vars", VariablesRule(), "Variables, over the template's."),
      In<&GroupLayer::args>("args", AnyObjectRule(), "Arguments, over the template's."),
      In<&GroupLayer::drain_timeout>("drain_timeout", DurationRule({.max = Duration::Hours(24)}),
                                     "0s = no drain coordination.")
          .Default("`server.default_drain_timeout`"),
      In<&GroupLayer::load_balancers>(
          "load_balancers", ListOf("load balancer keys", NameRule<LoadBalancerKey>()),
          "Of `load_balancers`; a balancer serves groups of one tenant."),
      In<&GroupLayer::surge>("surge", IntRule(1, 100), "Instances above `size` during rotation.")
          .Default("1"),
      In<&GroupLayer::expiry>("expiry", ObjectRule<ExpiryLayer>(&ExpiryLayerSpec),
                              "Replacement by age.")
          .Default("`server.expiry`"),
      In<&GroupLayer::pool>("pool", ObjectRule<Pool>(&PoolSpec),
                            "The group is a warm pool: `size` counts unclaimed instances."),
      In<&GroupLayer::draw_from>("draw_from", NameRule<GroupKey>(),
                                 "A pool group of the same tenant; not in a pool group."),
  });
  return spec;
}

const ObjectSpec& ConfigSpec() {
  static const ObjectSpec spec = Table<Config>({
      In<&Config::server>("server", ObjectRule<Server>(&ServerSpec), "This shard.").Required(),
      In<&Config::tenants>("tenants", MapOf(DeclaredTenantKey(), ObjectRule<Tenant>(&TenantSpec)),
                           "The tenants besides `default`, which always exists."),
      In<&Config::load_balancers>(
          "load_balancers",
          MapOf(NameKey<LoadBalancerKey>("key"), ObjectRule<LoadBalancer>(&LoadBalancerSpec)),
          "Load balancers that groups may register with."),
      In<&Config::images>("images", MapOf(VariableKey(), ObjectRule<Image>(&ImageSpec)),
                          "Images that are looked up: `{{ .Image.<name> }}`."),
      In<&Config::certificates>("certificates", ObjectRule<Certificates>(&CertificatesSpec),
                                "Certificates for files, and the built-in identities."),
      In<&Config::defaults>("defaults", ObjectRule<Defaults>(&DefaultsSpec),
                            "What all templates start from."),
      In<&Config::templates>("templates",
                             MapOf(LabelKey("name"), ObjectRule<Template>(&TemplateSpec)),
                             "What an instance is made from."),
      In<&Config::groups>(
          "groups",
          MapOf(NameKey<TenantId>("tenant"),
                MapOf(NameKey<GroupKey>("group"), ObjectRule<GroupLayer>(&GroupSpec))),
          "The static groups of each tenant."),
      Refused("nat"),
      Refused("tunnels"),
  });
  return spec;
}

}  // namespace nstance::config
