// RunProcess: runs one program to its end, without a shell, and collects what it wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace nstance::test {

struct ProcessRequest {
  // The program and its arguments. A program without a slash is looked up in PATH.
  std::vector<std::string> argv;
  // What the program finds on its standard input.
  std::string input = {};
  Duration deadline = Duration::Seconds(60);
  // "NAME=value", in front of (and so instead of) what this process has.
  std::vector<std::string> environment = {};
  // Where it runs; empty: where this process does.
  std::string directory = {};
};

struct ProcessOutput {
  // As shells tell it: 128 + n when signal n ended the program.
  int exit_code = 0;
  std::string out;
  std::string err;

  // "exit code 3: <standard error>", for messages.
  [[nodiscard]] std::string ToString() const;
};

// Guarantees, held by process_test:
//   - an exit code other than zero is an answer, not an error
//   - input and output may be of any size, in any order: nothing waits for a full pipe
//   - kNotFound when there is no such program; kDeadlineExceeded when it did not end in time, and
//     then it has been killed together with what it started
[[nodiscard]] Result<ProcessOutput> RunProcess(const ProcessRequest& request);

// The full path of a program in PATH, or kNotFound.
[[nodiscard]] Result<std::string> FindProgram(std::string_view name);

}  // namespace nstance::test
