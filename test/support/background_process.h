// BackgroundProcess: a program that runs beside a test and ends with it.
//
// It is killed together with what it started when the object goes, and by the kernel when the
// test's process dies in any other way. Its output goes to a file.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "test/support/process.h"

namespace nstance::test {

class BackgroundProcess final {
 public:
  // Of `request`, argv, environment and directory count. A program without a slash is looked up in
  // PATH. Call it on the thread that lives as long as the test's process.
  [[nodiscard]] static Result<std::unique_ptr<BackgroundProcess>> Start(
      const ProcessRequest& request, const std::string& output_file);
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;
  ~BackgroundProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // False once it has ended by itself.
  [[nodiscard]] bool Running();
  // As shells tell it (128 + n when signal n ended it); empty while it runs.
  [[nodiscard]] std::optional<int> exit_code();
  // To the program and what it started: SIGSTOP, SIGCONT, SIGTERM, SIGKILL.
  void Signal(int number) const;
  // The end of what it wrote, for messages.
  [[nodiscard]] std::string OutputTail() const;

 private:
  BackgroundProcess(pid_t pid, std::string output_file)
      : pid_(pid), output_file_(std::move(output_file)) {}

  pid_t pid_;
  std::string output_file_;
  std::optional<int> exit_code_;
};

// A TCP port of 127.0.0.1 that was free a moment ago, for programs that do not choose one
// themselves.
[[nodiscard]] int FreePort();

}  // namespace nstance::test
