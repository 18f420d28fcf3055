// PosixMachine: ports/local_machine.h on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ports/local_machine.h"

namespace nstance {

class PosixMachine final : public LocalMachine {
 public:
  [[nodiscard]] Result<std::unique_ptr<AgentFiles>> OpenFolder(const std::string& path) override;
  [[nodiscard]] Status MakeFolder(const std::string& path) override;
  [[nodiscard]] Status CreateFile(const std::string& path, std::string_view bytes) override;
  [[nodiscard]] bool Exists(const std::string& path) override;
  [[nodiscard]] Result<std::string> ReadFile(const std::string& path,
                                             std::size_t max_bytes) override;
  [[nodiscard]] std::string AbsolutePath(const std::string& path) override;
  [[nodiscard]] std::string ProgramFolder() override;
  [[nodiscard]] std::string Architecture() override;
  [[nodiscard]] Result<std::vector<std::uint16_t>> FreePorts(std::size_t count) override;
};

}  // namespace nstance
