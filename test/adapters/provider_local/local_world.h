// LocalWorld: a root folder in a folder of its own, a loop, local providers on it, and whatever
// runs there ended when the test is over.
//
// The request's user data counts its starts in a file and waits for a signal.
#pragma once

#include <signal.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "adapters/provider_local/local_provider.h"
#include "adapters/provider_local/processes.h"
#include "adapters/provider_local/records.h"
#include "adapters/real_loop/real_loop.h"
#include "base/puidv7.h"
#include "ports/provider.h"
#include "test/support/temp_dir.h"

namespace nstance::test {

class LocalWorld final {
 public:
  LocalWorld() { std::filesystem::create_directory(folder_.path() / "starts"); }
  ~LocalWorld() { EndAll(); }
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  [[nodiscard]] RealLoop& loop() { return loop_; }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path root() const { return folder_.path() / "instances"; }
  [[nodiscard]] std::filesystem::path Folder(const InstanceId& id) const {
    return root() / id.text();
  }
  [[nodiscard]] const TempDir& folder() const { return folder_; }

  [[nodiscard]] LocalProvider::Options Options() const {
    return {.local = {.root = root().string(), .kill_grace = Duration::Milliseconds(500)},
            .cluster = *ClusterId::Parse("prod"),
            .shard = *ShardId::Parse("a"),
            .keeper_command = {NSTANCE_LOCAL_KEEPER},
            .pool = {.threads = 4}};
  }
  [[nodiscard]] std::unique_ptr<LocalProvider> Open(
      std::function<void(std::string_view)> step = {}) {
    LocalProvider::Options options = Options();
    options.step = std::move(step);
    return Open(std::move(options));
  }
  [[nodiscard]] std::unique_ptr<LocalProvider> Open(LocalProvider::Options options) {
    auto provider = LocalProvider::Open(loop_, std::move(options));
    EXPECT_TRUE(provider) << provider.error().ToString();
    return provider ? *std::move(provider) : nullptr;
  }

  [[nodiscard]] ProviderCreate Request(const InstanceId& id) const {
    return {.instance_id = id,
            .tenant = DefaultTenant(),
            .group = "workers",
            .template_name = "small",
            .kind = "wrk",
            .instance_type = "local.small",
            .subnet = "local-1",
            .user_data = fmt::format("echo start >> {}/starts/{}\nexec sleep 600\n",
                                     folder_.path().string(), id.text()),
            .tags = {{"team", "blue"}},
            .created_at = Timestamp::FromUnix(1'760'000'000)};
  }
  // How often the user data of that instance has begun to run.
  [[nodiscard]] std::size_t Starts(const InstanceId& id) const {
    std::ifstream file(folder_.path() / "starts" / id.text());
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

  [[nodiscard]] std::optional<provider_local::Run> RunOf(const InstanceId& id) const {
    std::ifstream file(Folder(id) / "run.json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto run = provider_local::ParseRun(text);
    return run ? std::optional(*run) : std::nullopt;
  }
  [[nodiscard]] provider_local::Tree TreeOf(const InstanceId& id) const {
    const auto run = RunOf(id);
    auto tree =
        provider_local::FindTree(id.text(), run ? std::optional(run->keeper) : std::nullopt);
    EXPECT_TRUE(tree) << tree.error().ToString();
    return tree.value_or(provider_local::Tree{});
  }
  // What runs in the instance ends; the keeper sees to the rest.
  void EndVm(const InstanceId& id) const {
    for (const auto& process : TreeOf(id).members) {
      provider_local::SendSignal(process.name, SIGKILL);
    }
  }
  // Everything below the root ends, keepers too.
  void EndAll() const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(root(), error)) {
      const auto id = ParsePuidv7(entry.path().filename().string());
      if (!id) continue;
      if (const auto run = RunOf(*id)) provider_local::SendSignal(run->keeper, SIGKILL);
      for (int round = 0; round < 100; ++round) {
        const auto tree = TreeOf(*id);
        if (tree.members.empty()) break;
        for (const auto& process : tree.members) provider_local::SendSignal(process.name, SIGKILL);
      }
    }
  }

 private:
  TempDir folder_;
  RealLoop loop_;
};

}  // namespace nstance::test
