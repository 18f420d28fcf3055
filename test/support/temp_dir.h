// TempDir: a folder of its own for one test, removed with everything in it when the object goes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace nstance::test {

class TempDir final {
 public:
  // Aborts when the system's folder for temporary files cannot be written.
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Writes `bytes` to a file below the folder and returns its full path.
  [[nodiscard]] std::string Write(std::string_view name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace nstance::test
