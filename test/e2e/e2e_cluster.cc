#include "test/e2e/e2e_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/core.h>

namespace nstance::test {
namespace {

namespace fs = std::filesystem;

// Not a secret: the key of a store that lives as long as the test.
constexpr const char* kEncryptionKey = "0123456789abcdef0123456789abcdef";

}  // namespace

E2eCluster::E2eCluster(Options options)
    : guard_(std::in_place, loop_, (dir_.path() / "instances").string()),
      options_(std::move(options)) {
  fs::create_directories(dir_.path() / "bucket" / "config");
  fs::create_directories(dir_.path() / "instances");
  std::vector<std::string> files;
  for (std::size_t i = 0; i < options_.servers; ++i) {
    files.push_back((dir_.path() / fmt::format("s{}/addresses.json", i)).string());
  }
  forwarder_ = std::make_unique<LeaderForwarder>(files);
  config_ = {.instances_root = (dir_.path() / "instances").string(),
             .agent_command = options_.agent_command,
             .tenants = options_.tenants,
             .groups = options_.groups,
             .registration_address = forwarder_->Address(LeaderForwarder::kRegistration),
             .operator_address = forwarder_->Address(LeaderForwarder::kOperator),
             .agent_address = forwarder_->Address(LeaderForwarder::kAgent),
             .server = options_.server_keys};
  static_cast<void>(
      dir_.Write(fmt::format("bucket/config/{}.jsonc", config_.shard), config_.ToText()));
  for (std::size_t i = 0; i < options_.servers; ++i) {
    servers_.push_back(std::make_unique<ServerProcess>(ServerProcess::Options{
        .program = options_.server_program,
        .id = fmt::format("s{}", i),
        .shard = config_.shard,
        .bucket = bucket(),
        .folder = (dir_.path() / fmt::format("s{}", i)).string(),
        .flags = options_.server_flags,
        .environment = {fmt::format("{}={}", ClusterConfig::kKeyVariable, kEncryptionKey)}}));
  }
}

E2eCluster::~E2eCluster() {
  servers_.clear();
  guard_.reset();
  if (const char* keep = std::getenv("NSTANCE_E2E_KEEP")) {  // NOLINT(concurrency-mt-unsafe)
    std::error_code error;
    fs::copy(dir_.path(), fs::path(keep) / dir_.path().filename(), fs::copy_options::recursive,
             error);
  }
}

std::unique_ptr<OperatorClient> E2eCluster::NewOperator() {
  return std::make_unique<OperatorClient>(
      OperatorClient::Options{.loop = loop_,
                              .bucket = bucket(),
                              .cluster = *ClusterId::Parse(config_.cluster),
                              .encryption_key = kEncryptionKey,
                              .registration_address = config_.registration_address,
                              .operator_address = config_.operator_address});
}

Status E2eCluster::Start() {
  for (const auto& server : servers_) RETURN_IF_ERROR(server->Start());
  return {};
}

std::optional<std::size_t> E2eCluster::WaitForLeader(Duration limit, std::int64_t after) {
  const auto leader = forwarder_->WaitForLeader(limit, after);
  if (!leader.has_value()) return std::nullopt;
  const auto found = std::ranges::find_if(
      servers_, [&](const auto& server) { return server->addresses_file() == leader->file; });
  epoch_ = leader->epoch;
  return static_cast<std::size_t>(found - servers_.begin());
}

std::string E2eCluster::instance_folder(const std::string& id) const {
  return (dir_.path() / "instances" / id).string();
}

std::vector<std::string> E2eCluster::instances() const {
  std::vector<std::string> ids;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(dir_.path() / "instances", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".") && fs::exists(entry.path() / "meta.json")) ids.push_back(name);
  }
  std::ranges::sort(ids);
  return ids;
}

std::string E2eCluster::Logs() const {
  std::string all;
  for (const auto& server : servers_) {
    all += fmt::format("--- {}\n{}\n", server->options().id, server->OutputTail());
  }
  return all;
}

}  // namespace nstance::test
