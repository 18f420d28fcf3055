// The made-up facts of template_check.h.
#include <array>
#include <string>

#include "base/puidv7.h"
#include "core/config/advertise.h"
#include "core/instance_config/template_check.h"

namespace nstance {
namespace {

constexpr std::uint16_t kSamplePort = 8'992;

// As the server would advertise it on a host of the documentation network.
std::string SampleAddress(const config::Server& server,
                          config::Address config::Addresses::* which) {
  config::Addresses bound = server.bind;
  for (auto address : {&config::Addresses::health_addr, &config::Addresses::election_addr,
                       &config::Addresses::registration_addr, &config::Addresses::operator_addr,
                       &config::Addresses::agent_addr}) {
    if ((bound.*address).port == 0) (bound.*address).port = kSamplePort;
  }
  const Result<config::Addresses> advertised = config::AdvertisedAddresses(
      server, {.primary = {.ipv4 = "192.0.2.1", .ipv6 = "2001:db8::1"}, .bound = bound});
  return config::FormatAddress(advertised ? (*advertised).*which : bound.*which);
}

}  // namespace

ServerFacts SampleServer(const config::Config& config) {
  ServerFacts facts{.cluster_id = config.server.cluster_id.text(),
                    .shard = config.server.shard.text(),
                    .provider_kind = config.server.provider.word,
                    .region = config.server.provider.region,
                    .zone = config.server.provider.zone};
  facts.ca_certificate = "-----BEGIN CERTIFICATE-----\n";
  for (int line = 0; line < 9; ++line) facts.ca_certificate += std::string(64, 'A') + "\n";
  facts.ca_certificate += "-----END CERTIFICATE-----\n";
  facts.registration_addr = SampleAddress(config.server, &config::Addresses::registration_addr);
  facts.agent_addr = SampleAddress(config.server, &config::Addresses::agent_addr);
  facts.operator_addr = SampleAddress(config.server, &config::Addresses::operator_addr);
  return facts;
}

config::StringMap SampleImages(const config::Config& config) {
  config::StringMap images;
  for (const auto& [name, image] : config.images) {
    images[name] = !image.path.empty()       ? image.path
                   : !image.fallback.empty() ? image.fallback
                                             : "image-of-" + name;
  }
  return images;
}

InstanceFacts SampleInstance(std::string_view kind) {
  constexpr UuidBytes kUuid = {0x01, 0x97, 0x0a, 0x1c, 0xe3, 0x1e, 0x74, 0x22,
                               0x9c, 0xd5, 0xe9, 0x65, 0x1d, 0x11, 0xcc, 0x97};
  InstanceFacts facts;
  facts.id = CheckPuidPrefix(kind) ? Puidv7(kind, kUuid).text() : Puidv7("smp", kUuid).text();
  facts.kind = std::string(kind);
  facts.hostname = "ip-192-0-2-10";
  facts.fqdn = "ip-192-0-2-10.example.internal";
  facts.ip4 = "192.0.2.10";
  facts.ip6 = "2001:db8::10";
  return facts;
}

std::string SampleNonce() {
  return std::string(36, 'e') + "." + std::string(340, 'e') + "." + std::string(86, 'e');
}

}  // namespace nstance
