// nstance-admin: the command line tool.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "admin/command_line.h"
#include "admin/config_commands.h"

namespace nstance::admin {
namespace {

Error ReadFailed(const std::string& path, int error_number) {
  const std::error_code code(error_number, std::generic_category());
  const std::string what = fmt::format("{}: {}", path, code.message());
  return error_number == ENOENT ? FailedPrecondition(what) : Unavailable(what);
}

// A regular file, a pipe, or standard input for "-"; never more than `max_bytes` of it.
Result<std::string> ReadWhole(const std::string& path, std::size_t max_bytes) {
  const int file = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail(ReadFailed(path, errno));
  std::string text;
  std::string chunk(std::size_t{64} * 1024, '\0');
  ssize_t got = 0;
  int error_number = 0;
  while (text.size() <= max_bytes) {
    got = ::read(file, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error_number = errno;
    if (got <= 0) break;
    text.append(chunk, 0, static_cast<std::size_t>(got));
  }
  if (file != STDIN_FILENO) (void)::close(file);
  if (got < 0) return Fail(ReadFailed(path, error_number));
  if (text.size() > max_bytes) {
    return Fail(ResourceExhausted(fmt::format("{} is larger than {} bytes", path, max_bytes)));
  }
  return text;
}

// False when not everything could be written.
bool Print(std::FILE* file, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

int Finish(const Ending& ending) {
  const bool printed = Print(stdout, ending.out) && Print(stderr, ending.err);
  return printed || ending.exit_code != kExitDone ? ending.exit_code : kExitError;
}

int Main(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const auto line = ParseCommandLine(words);
  if (!line) return Finish(line.error());
  return Finish(std::visit(
      [&](const auto& command) { return Run(command, line->common, ReadWhole); }, line->command));
}

}  // namespace
}  // namespace nstance::admin

int main(int argc, char** argv) {
  return nstance::admin::Main(std::span(argv, static_cast<std::size_t>(argc)));
}
