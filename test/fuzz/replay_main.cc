// The main of fuzz targets where libFuzzer is not: runs the target over every file of the folders
// given, in the order of their names. A crash is the failure; an empty folder is one, too.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

bool Replay(const std::filesystem::path& file) {
  // Named beforehand, so that the last line before a crash is the culprit.
  std::printf("%s\n", file.filename().c_str());
  std::fflush(stdout);
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad() || !in.is_open()) return false;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::set<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      if (entry.is_regular_file()) files.insert(entry.path());
    }
    if (error || files.empty()) {
      std::fprintf(stderr, "%s: no corpus there\n", argv[i]);
      return 1;
    }
    for (const std::filesystem::path& file : files) {
      if (!Replay(file)) {
        std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
        return 1;
      }
    }
  }
  return 0;
}
