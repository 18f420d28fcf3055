#include "sim/world/agent_node.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "crypto/certificate.h"
#include "crypto/ed25519.h"
#include "ports/api/methods.h"

namespace nstance::sim {
namespace {

// What is done to a machine by its name is not done to the next one with its id.
std::string NameOn(const SimVm& vm) {
  const std::string name = "agent-" + vm.provider_id;
  return vm.users == 1 ? name : fmt::format("{}-{}", name, vm.users);
}

}  // namespace

AgentMachine::AgentMachine(
    const WorldParts& parts, const SimVm& vm,
    std::function<void(const AgentMachine&, std::string_view pem)> on_certificate)
    : parts_(parts),
      provider_id_(vm.provider_id),
      name_(NameOn(vm)),
      id_(vm.request.value().instance_id),
      shard_(ShardId::Parse(vm.shown.shard).value()),
      on_certificate_(std::move(on_certificate)) {
  // As the template of setting.cc writes it: the token, then the cluster's roots.
  const std::string& data = vm.request->user_data;
  const std::size_t end = data.find('\n');
  CHECK(end != std::string::npos, "user data without a second line");
  first_token_ = data.substr(0, end);
  identity_disk_.files["nonce.jwt"] = first_token_;
  identity_disk_.files["ca.crt"] = data.substr(end + 1);
  TellOfCertificates();
  host_.names = {.hostname = name_, .ipv4 = vm.shown.private_ipv4};
}

AgentMachine::AgentMachine(const AgentMachine& of, std::string name)
    : harmed(true),
      parts_(of.parts_),
      provider_id_(of.provider_id_),
      name_(std::move(name)),
      id_(of.id_),
      shard_(of.shard_),
      on_certificate_(of.on_certificate_) {
  identity_disk_.files = of.identity_disk_.files;
  received_disk_.files = of.received_disk_.files;
  TellOfCertificates();
  host_.names = {.hostname = of.host_.names.hostname, .ipv4 = "10.9.9.9"};
}

void AgentMachine::TellOfCertificates() {
  identity_disk_.on_replaced = [this](std::string_view name, std::string_view bytes) {
    if (name.ends_with(".crt") && name != "ca.crt") on_certificate_(*this, bytes);
  };
}

std::vector<std::string> AgentMachine::KeysOnDisk() const {
  std::vector<std::string> keys;
  for (const std::string_view name : {"identity.key", "next.key"}) {
    const auto file = identity_disk_.files.find(name);
    if (file == identity_disk_.files.end()) continue;
    const Result<crypto::PrivateKey> key = crypto::PrivateKey::FromPem(file->second);
    if (key.has_value()) keys.push_back(key->public_key().ToPem());
  }
  return keys;
}

std::optional<std::string> AgentMachine::SerialOnDisk() const {
  const auto file = identity_disk_.files.find("identity.crt");
  if (file == identity_disk_.files.end()) return std::nullopt;
  const Result<crypto::Certificate> certificate = crypto::Certificate::FromPem(file->second);
  if (!certificate.has_value()) return std::nullopt;
  return certificate->facts().serial.decimal();
}

void AgentMachine::Start() {
  if (up()) return;
  exit_code_.reset();
  identity_disk_.Revive();
  received_disk_.Revive();
  loop_ = std::make_unique<SimLoop>(parts_.scheduler, WorldStart() + wall_skew_);
  dialer_ = std::make_unique<SimRpcDialer>(
      parts_.network, *loop_,
      SimRpcDialer::Options{.process = name_,
                            .instead = [this](std::string_view path, RpcMessage message) {
                              return WithNotice(path, std::move(message));
                            }});
  random_ = std::make_unique<SeededRandom>(parts_.prng.Next());
  const std::string address = LeaderAddress(shard_);
  agent_ = std::make_unique<agent::Agent>(
      agent::Agent::Deps{.loop = *loop_,
                         .dialer = *dialer_,
                         .random = *random_,
                         .host = host_,
                         .identity = identity_,
                         .received = received_,
                         .log = log::Logger(parts_.log, name_)},
      agent::Settings{.registration = {.host = address, .port = kRegistrationPort},
                      .agent = {.host = address, .port = kAgentPort},
                      .report_interval = parts_.setting.report},
      [this](int code) { exit_code_ = code; });
  agent_->Start();
}

RpcMessage AgentMachine::WithNotice(std::string_view path, RpcMessage message) const {
  if (!announced_ || path != api::kSubmitHealthReport.path) return message;
  api::HealthReportRequest report = *message.As<api::HealthReportRequest>();
  report.termination_notice = {.action = "terminate", .deadline = announced_};
  return RpcMessage::Of(std::move(report));
}

void AgentMachine::DieAtChange(Disk disk, Death death) {
  SimAgentDisk& at = disk == Disk::kIdentity ? identity_disk_ : received_disk_;
  at.die_at = at.changes() + death.change;
  at.death = death.when;
  at.on_death = [this, told = std::move(death.told)] {
    parts_.network.Silence(name());
    loop_->Pause();
    told();
  };
}

void AgentMachine::ResetDisk() {
  was_reset_ = has_joined();
  if (!was_reset_) return;
  std::ranges::move(KeysOnDisk(), std::back_inserter(keys_before_reset_));
  std::erase_if(identity_disk_.files, [](const auto& file) {
    return file.first != "nonce.jwt" && file.first != "ca.crt";
  });
  identity_disk_.files["nonce.jwt"] = first_token_;
}

void AgentMachine::Spare() {
  identity_disk_.die_at.reset();
  received_disk_.die_at.reset();
}

void AgentMachine::Kill() {
  parts_.network.Unsilence(name());  // Its kernel closes the connections.
  agent_.reset();
  dialer_.reset();
  random_.reset();
  loop_.reset();
}

void AgentMachine::JumpWall(Duration length) {
  wall_skew_ = wall_skew_ + length;
  if (up()) loop_->JumpWall(length);
}

bool AgentMachine::serving() const {
  return up() && !loop_->paused() && agent_->NotReady().empty();
}

}  // namespace nstance::sim
