// LocalAgentFiles: ports/agent_files.h on a directory of this machine.
//
// A file is replaced by a temporary in the same directory: written, given its mode, synced and
// renamed, and the directory synced. The directory is held open, so that a path which is exchanged
// meanwhile leads nowhere else; links are followed neither for reading nor for writing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ports/agent_files.h"

namespace nstance {

class LocalAgentFiles final : public AgentFiles {
 public:
  // The directory must exist and be writable: kFailedPrecondition with the reason. Temporaries that
  // a crash left are removed. `mode` is that of every file written.
  [[nodiscard]] static Result<std::unique_ptr<LocalAgentFiles>> Open(std::string directory,
                                                                     unsigned mode);
  ~LocalAgentFiles() override;

  [[nodiscard]] std::string PathOf(std::string_view name) const override;
  [[nodiscard]] Result<std::optional<std::string>> Read(std::string_view name) override;
  [[nodiscard]] Status Replace(std::string_view name, std::string_view bytes) override;
  [[nodiscard]] Status Move(std::string_view from, std::string_view to) override;
  [[nodiscard]] Status Remove(std::string_view name) override;
  [[nodiscard]] Result<std::map<std::string, Timestamp>> List() override;

 private:
  LocalAgentFiles(std::string directory, int descriptor, unsigned mode)
      : directory_(std::move(directory)), descriptor_(descriptor), mode_(mode) {}
  [[nodiscard]] Status SyncDirectory() const;
  [[nodiscard]] Status WriteTemporary(const std::string& temporary, std::string_view bytes) const;
  void RemoveTemporaries() const;

  std::string directory_;
  int descriptor_;
  unsigned mode_;
};

}  // namespace nstance
