// Merged configurations drawn from a seed, and the same as the JSON text that a Go program reads.
#pragma once

#include <string>

#include "base/prng.h"
#include "core/instance_config/merge.h"
#include "test/base/random_json.h"
#include "test/core/instance_config/config_builder.h"

namespace nstance::test {

class RandomConfig final {
 public:
  explicit RandomConfig(std::uint64_t seed) : json_(seed) {}

  MergedInstanceConfig Next() {
    MergedInstanceConfig config;
    config.kind = json_.String();
    config.arch = prng().Chance(1, 2) ? config::Arch::kAmd64 : config::Arch::kArm64;
    config.instance_type = json_.String();
    if (prng().Chance(1, 2)) config.subnet_pool = PoolName("pool-1");
    for (std::uint64_t left = prng().Below(4); left > 0; --left) {
      config.vars[json_.String()] = json_.String();
    }
    for (std::uint64_t left = prng().Below(4); left > 0; --left) {
      config.files[json_.String()] = File();
    }
    const json::Value args = json_.Value(4);
    if (args.if_object() != nullptr) config.args = *args.if_object();
    if (prng().Chance(2, 3)) config.userdata = UserData();
    return config;
  }

  // The same, with the members of every object of free JSON in another order.
  MergedInstanceConfig Shuffled(const MergedInstanceConfig& config) {
    MergedInstanceConfig shuffled = config;
    shuffled.args = *json_.Shuffled(json::Value::Map(config.args)).if_object();
    for (auto& [name, file] : shuffled.files) {
      if (file.content) file.content = json_.Shuffled(*file.content);
    }
    return shuffled;
  }

  Prng& prng() { return json_.prng(); }

 private:
  config::File File() {
    config::File file;
    file.kind = static_cast<config::FileKind>(prng().Below(6));
    if (prng().Chance(1, 2)) file.source = json_.String();
    if (prng().Chance(2, 3)) file.content = json_.Value(3);
    if (prng().Chance(1, 3)) {
      file.key = config::FileKey{.source = json_.String(), .name = json_.String()};
    }
    return file;
  }

  config::UserData UserData() {
    config::UserData userdata;
    userdata.content = json_.String();
    if (prng().Chance(1, 2)) userdata.source = prng().Chance(1, 2) ? "inline" : "";
    if (prng().Chance(1, 2)) userdata.encoding = prng().Chance(1, 2) ? "plain" : "";
    if (prng().Chance(1, 3)) userdata.sha256 = json_.String();
    return userdata;
  }

  RandomJson json_;
};

}  // namespace nstance::test
