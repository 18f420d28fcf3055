// Configurations for tests: a small valid one, and edits of it written as "path = JSON".
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "core/config/load.h"

namespace nstance::config {

inline constexpr std::string_view kSmall = R"({
  "server": {
    "cluster_id": "example",
    "shard": "a",
    "provider": {"kind": "local"},
    "subnet_pools": {"main": ["s1"], "other": ["s2"]},
    "secrets": {"encryption_key": {"provider": "env", "source": "KEY"}}
  },
  "tenants": {"prod": {}},
  "templates": {
    "knd": {"kind": "knd", "arch": "amd64", "instance_type": "small", "subnet_pool": "main"}
  },
  "groups": {"default": {"workers": {"template": "knd", "size": 1}}}
})";

// The same with provider aws: what balancers, images and leader networks need.
inline constexpr std::string_view kAws = R"({
  "server": {
    "cluster_id": "example",
    "shard": "a",
    "provider": {"kind": "aws", "region": "eu", "zone": "eu-1"},
    "subnet_pools": {"main": ["s1"], "other": ["s2"]}
  },
  "tenants": {"prod": {}},
  "templates": {
    "knd": {"kind": "knd", "arch": "amd64", "instance_type": "small", "subnet_pool": "main"}
  },
  "groups": {"default": {"workers": {"template": "knd", "size": 1}}}
})";

// A path ("server/bind/health_addr", steps by slashes) and the JSON that is put there; empty
// removes.
using Edit = std::pair<std::string_view, std::string_view>;

inline void Apply(json::Value& root, const Edit& edit) {
  json::Value* at = &root;
  std::string_view path = edit.first;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view key = path.substr(0, slash);
    if (slash == std::string_view::npos) {
      if (edit.second.empty()) {
        at->Remove(key);
      } else {
        auto value = json::Parse(edit.second);
        ASSERT_TRUE(value.has_value()) << edit.second;
        at->Set(key, *std::move(value));
      }
      return;
    }
    if (at->Find(key) == nullptr) at->Set(key, json::Value::Map({}));
    at = at->Find(key);
    path.remove_prefix(slash + 1);
  }
}

inline std::string Edited(std::string_view base, const std::vector<Edit>& edits) {
  json::Value root = *json::Parse(base);
  for (const Edit& edit : edits) Apply(root, edit);
  return json::Write(root, {.indent = 2});
}

// "path: message" of every error, one per line.
inline std::string ErrorLines(const LoadResult& result) {
  std::string lines;
  for (const Problem& problem : result.errors) {
    if (!lines.empty()) lines += "\n";
    lines += problem.path + ": " + problem.message;
  }
  return lines;
}

}  // namespace nstance::config
