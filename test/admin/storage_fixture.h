// AdminSite: a simulated store and machine, and commands on them as a person types them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "admin/command_line.h"
#include "admin/storage/run_storage.h"
#include "admin/storage/store_commands.h"
#include "base/json.h"
#include "test/admin/storage_world.h"

namespace nstance::admin::test {

class AdminSite {
 public:
  explicit AdminSite(std::uint64_t seed = 1) : world(seed) {
    files["/usr/bin/nstance-agent"] = "program";
    files["/usr/bin/nstance-server"] = "program";
  }

  // Words are split at blanks; the storage's flags are added.
  Ending Admin(const std::string& line, const Life& life = {}) {
    std::vector<std::string> words;
    std::size_t at = 0;
    while (at < line.size()) {
      const std::size_t blank = std::min(line.find(' ', at), line.size());
      if (blank > at) words.push_back(line.substr(at, blank - at));
      at = blank + 1;
    }
    if (words.at(1) != "cost") {
      for (const char* word : {"--storage-provider", "file", "--storage-bucket", "/data/bucket"}) {
        words.emplace_back(word);
      }
    }
    const auto parsed =
        ParseCommandLine(words, [&](const std::string& name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        });
    if (!parsed) return parsed.error();
    AdminProcess process(world, files, variables, life);
    if (prepare) prepare(process);
    const auto& command = std::get<StorageCommand>(parsed->command);
    const auto* cost = std::get_if<StoreCost>(&command);
    const Ending ending = cost != nullptr ? Run(*cost, parsed->common)
                                          : RunOnBucket(command, parsed->common, process.deps());
    changes = process.life().changes;
    died = process.life().dead;
    notes = process.notes;
    return ending;
  }

  // Everything that a person or a program is shown.
  static std::string Shown(const Ending& ending) { return ending.out + ending.err; }

  static json::Value Json(const Ending& ending) {
    auto value = json::Parse(ending.out);
    EXPECT_TRUE(value.has_value()) << Shown(ending);
    return value.value_or(json::Value());
  }
  static std::string Text(const json::Value& value, std::string_view key) {
    const json::Value* member = value.Find(key);
    if (member == nullptr || member->if_string() == nullptr) return "(none)";
    return *member->if_string();
  }

  [[nodiscard]] std::optional<std::string> Object(const std::string& key) const {
    const nstance::Object* object = world.bucket.Find(*ObjectKey::Parse(key));
    return object == nullptr ? std::nullopt : std::optional(object->bytes);
  }
  void SetObject(const std::string& key, std::string bytes) {
    world.bucket.SetByHand(*ObjectKey::Parse(key), std::move(bytes));
  }
  void Erase(const std::string& key) { world.bucket.EraseByHand(*ObjectKey::Parse(key)); }
  // Names and bytes of everything.
  [[nodiscard]] std::map<std::string, std::string> Everything() const {
    std::map<std::string, std::string> all;
    for (const ObjectKey& key : world.bucket.Keys()) {
      all[key.text()] = world.bucket.Find(key)->bytes;
    }
    return all;
  }

  // A cluster as init makes it, with its key in a file.
  void MakeCluster(const std::string& more = "") {
    const Ending ending = Admin("cluster init " + more);
    ASSERT_EQ(ending.exit_code, 0) << Shown(ending);
  }

  World world;
  Files files;
  std::map<std::string, std::string> variables;
  std::function<void(AdminProcess&)> prepare;
  // Of the last command.
  int changes = 0;
  bool died = false;
  std::string notes;
};

class StorageTest : public testing::Test, public AdminSite {};

}  // namespace nstance::admin::test
