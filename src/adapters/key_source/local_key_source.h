// Key sources on this machine: an environment variable, or a file.
//
// The variable's value is used as it is. The file must be a regular file (not through a symbolic
// link), owned by this process's user or root, readable by nobody else, at most 4 KiB. Both are
// read when Load() is called, so a rotated file is seen by the next start.
#pragma once

#include <string>
#include <utility>

#include "ports/key_source.h"
#include "ports/loop.h"

namespace nstance {

class EnvironmentKeySource final : public KeySource {
 public:
  EnvironmentKeySource(Loop& loop, std::string variable)
      : loop_(loop), variable_(std::move(variable)) {}

  [[nodiscard]] Pending Load(Done done) override;
  [[nodiscard]] std::string Description() const override;

 private:
  Loop& loop_;
  std::string variable_;
};

class FileKeySource final : public KeySource {
 public:
  FileKeySource(Loop& loop, std::string path) : loop_(loop), path_(std::move(path)) {}

  [[nodiscard]] Pending Load(Done done) override;
  [[nodiscard]] std::string Description() const override;

 private:
  Loop& loop_;
  std::string path_;
};

}  // namespace nstance
