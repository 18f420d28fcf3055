#include "test/support/peers.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "base/text.h"
#include "test/support/process.h"

namespace nstance::test {
namespace {

constexpr int kGoMajor = 1;
constexpr int kGoMinor = 24;

struct GoVersion {
  int major = 0;
  int minor = 0;
};

// From "go1.26.8\n".
std::optional<GoVersion> ParseGoVersion(std::string_view text) {
  if (!text.starts_with("go")) return std::nullopt;
  GoVersion version;
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data() + 2, end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  if (std::from_chars(major.ptr + 1, end, version.minor).ec != std::errc()) return std::nullopt;
  return version;
}

// Only what is installed: neither a newer toolchain nor a module is fetched.
const std::vector<std::string>& GoEnvironment() {
  static const std::vector<std::string> environment = {
      "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0"};
  return environment;
}

}  // namespace

Result<std::string> FindGo() {
  Result<std::string> go = FindProgram("go");
  // Where the archive from go.dev is unpacked; PATH often lacks it outside of login shells.
  const std::string usual = "/usr/local/go/bin/go";
  if (!go && ::access(usual.c_str(), X_OK) == 0) go = usual;
  if (!go) return go;
  const Result<ProcessOutput> answer =
      RunProcess({.argv = {*go, "env", "GOVERSION"}, .environment = GoEnvironment()});
  if (!answer) return Fail(NotFound(answer.error().message));
  const std::optional<GoVersion> version = ParseGoVersion(answer->out);
  if (!version)
    return Fail(NotFound(fmt::format("{} tells no version: {}", *go, answer->ToString())));
  if (version->major != kGoMajor || version->minor < kGoMinor) {
    return Fail(NotFound(fmt::format("{} is of version {}.{}; {}.{} or later is needed", *go,
                                     version->major, version->minor, kGoMajor, kGoMinor)));
  }
  return go;
}

Result<std::string> BuildGoPeer(std::string_view name) {
  ASSIGN_OR_RETURN(const std::string go, FindGo());
  const std::filesystem::path folder = std::filesystem::path(NSTANCE_BINARY_DIR) / "peers";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Fail(FailedPrecondition(fmt::format("{}: {}", folder.string(), error.message())));
  const std::string program = (folder / name).string();
  // Built under a name of our own and then put in place at once, so that nobody runs half a
  // program.
  const std::string made = fmt::format("{}.{}", program, ::getpid());
  ASSIGN_OR_RETURN(
      const ProcessOutput output,
      RunProcess({.argv = {go, "build", "-trimpath", "-o", made, "."},
                  .deadline = Duration::Minutes(5),
                  .environment = GoEnvironment(),
                  .directory = fmt::format("{}/test/peers/{}", NSTANCE_SOURCE_DIR, name)}));
  if (output.exit_code != 0) {
    return Fail(FailedPrecondition(fmt::format("go build of {}: {}", name, output.ToString())));
  }
  std::filesystem::rename(made, program, error);
  if (error) return Fail(FailedPrecondition(fmt::format("{}: {}", program, error.message())));
  return program;
}

Result<std::string> BuildGoProgram(std::string_view module, std::string_view program) {
  ASSIGN_OR_RETURN(const ProcessOutput output,
                   RunProcess({.argv = {fmt::format("{}/tools/go_program", NSTANCE_SOURCE_DIR),
                                        std::string(module), std::string(program)},
                               .deadline = Duration::Minutes(10)}));
  constexpr int kCannotBeBuiltHere = 77;
  if (output.exit_code == kCannotBeBuiltHere) return Fail(NotFound(output.err));
  if (output.exit_code != 0) {
    return Fail(
        FailedPrecondition(fmt::format("{} of {}: {}", program, module, output.ToString())));
  }
  return output.out.substr(0, output.out.find('\n'));
}

}  // namespace nstance::test
