#include "bench/transport/materials.h"

#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "adapters/secure_random/system_random.h"
#include "base/text.h"

namespace nstance::bench {
namespace {

constexpr Duration kLife = Duration::Hours(48);

crypto::PrivateKey NewKey() {
  SystemRandom random;
  return crypto::PrivateKey::FromSeed(random.Array<crypto::PrivateKey::kSeedSize>());
}

crypto::IssueTerms Terms(Timestamp now) {
  SystemRandom random;
  return {.serial = crypto::SerialNumber::FromRandom(random.Array<16>()),
          .issued_at = now,
          .life = kLife};
}

void WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path);
  out << text;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.good() && text.empty()) fmt::print(stderr, "cannot read {}\n", path.string());
  return text;
}

void WritePair(const std::filesystem::path& stem, const crypto::Certificate& certificate,
               const crypto::PrivateKey& key) {
  WriteFile(std::filesystem::path(stem).replace_extension(".pem"), certificate.ToPem());
  WriteFile(std::filesystem::path(stem).replace_extension(".key"), AsText(key.ToPem().Reveal()));
}

crypto::CertificateAuthority ReadAuthority(const std::filesystem::path& folder) {
  return Must(crypto::CertificateAuthority::Make(
      Must(crypto::Certificate::FromPem(ReadFile(folder / "ca.pem"))),
      Must(crypto::PrivateKey::FromPem(ReadFile(folder / "ca.key")))));
}

InstanceId InstanceOf(std::uint32_t number) {
  UuidBytes uuid{};
  uuid[6] = 0x70;
  uuid[8] = 0x80;
  for (std::size_t i = 0; i < 4; ++i) {
    uuid.at(12 + i) = static_cast<std::uint8_t>(number >> (24U - 8U * i));
  }
  return {"knc", uuid};
}

crypto::Certificate IssueAgent(const crypto::CertificateAuthority& authority, std::uint32_t number,
                               const crypto::PublicKey& key, Timestamp now) {
  return Must(authority.IssueClient(crypto::AgentSubject{.tenant = Must(TenantId::Parse("bench")),
                                                         .instance = InstanceOf(number)},
                                    key, Terms(now)));
}

}  // namespace

void WriteMaterials(const std::filesystem::path& folder, Timestamp now) {
  std::filesystem::create_directories(folder);
  const Timestamp issued = now - Duration::Hours(1);
  crypto::PrivateKey root_key = NewKey();
  const crypto::Certificate root =
      Must(crypto::IssueCa({.organization = {"Nstance Cluster bench"}}, root_key,
                           {.issued_at = issued, .life = Duration::Hours(1'000)}));
  WritePair(folder / "ca", root, root_key);
  const crypto::CertificateAuthority authority =
      Must(crypto::CertificateAuthority::Make(root, std::move(root_key)));
  const crypto::PrivateKey server_key = NewKey();
  WritePair(folder / "server",
            Must(authority.IssueServer({.hosts = {}}, server_key.public_key(), Terms(issued))),
            server_key);
  const crypto::PrivateKey agent_key = NewKey();
  WritePair(folder / "agent", IssueAgent(authority, 0, agent_key.public_key(), issued), agent_key);
}

RpcTls ReadMaterial(const std::filesystem::path& folder, const std::string& name) {
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain.push_back(Must(crypto::Certificate::FromPem(ReadFile(folder / (name + ".pem")))));
  material->key = std::make_shared<const crypto::PrivateKey>(
      Must(crypto::PrivateKey::FromPem(ReadFile(folder / (name + ".key")))));
  material->roots.push_back(Must(crypto::Certificate::FromPem(ReadFile(folder / "ca.pem"))));
  return material;
}

AgentIssuer::AgentIssuer(const std::filesystem::path& folder, Timestamp now)
    : authority_(ReadAuthority(folder)), now_(now) {}

RpcTls AgentIssuer::Issue(std::uint32_t number) const {
  auto key = std::make_shared<const crypto::PrivateKey>(NewKey());
  auto material = std::make_shared<RpcTlsMaterial>();
  material->chain.push_back(IssueAgent(authority_, number, key->public_key(), now_));
  material->key = std::move(key);
  material->roots.push_back(authority_.certificate());
  return material;
}

}  // namespace nstance::bench
