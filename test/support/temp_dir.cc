#include "test/support/temp_dir.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/check.h"

namespace nstance::test {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "nstance-test-XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr, "{}: error {}", pattern, errno);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(std::string_view name, std::string_view bytes) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  CHECK(out.good(), "{}", file.string());
  return file.string();
}

}  // namespace nstance::test
