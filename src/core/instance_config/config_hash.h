// The two hashes by which the server sees that instances differ from their configuration.
//
//   runtime   vars and files: what can be pushed to a running instance
//   infra     args, instance type, subnet pool, user data, kind, arch: what needs a new instance
//
// "sha256:" and 64 hex digits over compact JSON of the merged configuration before rendering, byte
// for byte as the Go implementation writes it (its agents keep and report these hashes):
//
//   {"vars":{"A":"1"},"files":{"node.env":{"kind":"env","template":{"X":"{{ .Vars.A }}"}}}}
//   {"args":{},"instance_type":"t3.medium","subnet_pool":"a","userdata":{"content":"#!/bin/sh"},
//    "kind":"wrk","arch":"amd64"}                                                 (on one line)
//
// Maps are sorted by bytes, all numbers are written as doubles. What a file leaves out is left out:
// `source`, `template` and `key` of files; `userdata` with its `source`, `encoding`, `sha256`.
// Neither the order of keys nor positions nor comments change a hash.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/config/config.h"
#include "core/instance_config/merge.h"

namespace nstance {

[[nodiscard]] std::string RuntimeConfigHash(const MergedInstanceConfig& config);
[[nodiscard]] std::string InfraConfigHash(const MergedInstanceConfig& config);

// Of an unclaimed member of a warm pool: the vars, and only the files of that list.
[[nodiscard]] std::string WarmConfigHash(const MergedInstanceConfig& config,
                                         const std::vector<std::string>& warm_files);

// What is hashed, for tests and for people who wonder why two hashes differ.
[[nodiscard]] std::string RuntimeConfigJson(const config::StringMap& vars,
                                            const std::map<std::string, config::File>& files);
[[nodiscard]] std::string InfraConfigJson(const MergedInstanceConfig& config);

}  // namespace nstance
